//! Conversions that compute the same in another way: other exports, factors that were folded in,
//! and axes that were moved.

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::ElementType::{Float, Int8};

use crate::common::proto::{Change, Sketch, float, int, int64, ints, node};
use crate::verdict::{held, judged, of, one, values, verdict};

/// How an exporter calls the nodes and their values.
#[derive(Clone, Copy)]
enum Names {
    /// `Add_7` makes `27`, where the first node's number is this one.
    Numbered(usize),
    /// `Add_1` makes `add_1`.
    OfEach,
}

/// Nodes that an exporter has named.
struct Export {
    names: Names,
    nodes: Vec<NodeProto>,
}

impl Export {
    fn add(&mut self, op: &str, inputs: &[&str]) -> String {
        let (number, made) = match self.names {
            Names::Numbered(first) => {
                let number = first + self.nodes.len();
                (number, (20 + number).to_string())
            }
            Names::OfEach => {
                let number = 1 + self.nodes.iter().filter(|node| node.op_type == op).count();
                (number, format!("{}_{number}", op.to_lowercase()))
            }
        };
        let attributes = match op {
            "ReduceMean" => vec![ints("axes", &[-1])],
            "LayerNormalization" => vec![float("epsilon", 1e-5)],
            _ => vec![],
        };
        self.nodes.push(node(op, inputs, &[&made], attributes).named(&format!("{op}_{number}")));
        made
    }
}

/// Two blocks of a normalisation, in one node or in nine, and two products, and what they are added
/// to.
fn exported(names: Names, is_fused: bool) -> ModelProto {
    let mut export = Export { names, nodes: vec![] };
    let (mut x, mut constants) = (String::from("x"), vec![]);
    for block in 0..2usize {
        let own = |name: &str| format!("{name}{block}");
        let [eps, scale, shift, w, b, v, c] =
            ["eps", "scale", "shift", "w", "b", "v", "c"].map(own);
        let normal = if is_fused {
            export.add("LayerNormalization", &[&x, &scale, &shift])
        } else {
            constants.push(one(&eps, Float, 1e-5));
            let middle = export.add("ReduceMean", &[&x]);
            let off = export.add("Sub", &[&x, &middle]);
            let squares = export.add("Mul", &[&off, &off]);
            let power = export.add("ReduceMean", &[&squares]);
            let power = export.add("Add", &[&power, &eps]);
            let size = export.add("Sqrt", &[&power]);
            let unit = export.add("Div", &[&off, &size]);
            let scaled = export.add("Mul", &[&unit, &scale]);
            export.add("Add", &[&scaled, &shift])
        };
        let product = export.add("MatMul", &[&normal, &w]);
        let sum = export.add("Add", &[&product, &b]);
        let relu = export.add("Relu", &[&sum]);
        let product = export.add("MatMul", &[&relu, &v]);
        let sum = export.add("Add", &[&product, &c]);
        x = export.add("Add", &[&sum, &x]);
        let row = |name: &str, seed| held(name, Float, &[8], &values(8, 7 * block + seed));
        constants.extend([row(&scale, 1), row(&shift, 2), row(&b, 3), row(&c, 4)]);
        let square = |name: &str, seed| held(name, Float, &[8, 8], &values(64, 7 * block + seed));
        constants.extend([square(&w, 5), square(&v, 6)]);
    }
    export.nodes.push(node("Tanh", &[&x], &["y"], vec![]).named("last"));
    let mut model = of(&[2, 8], export.nodes, &[2, 8], constants);
    model.opset_import[0].version = 17;
    model
}

#[test]
fn numbers_that_another_export_gives_tell_nothing() {
    let numbered = (0..4).map(Names::Numbered);
    for names in numbered.chain([Names::OfEach]) {
        let first = if matches!(names, Names::OfEach) { names } else { Names::Numbered(0) };
        let (apart, fused) = (exported(first, false), exported(names, true));
        for (reference, converted) in [(&apart, &fused), (&fused, &apart)] {
            assert_eq!(verdict(reference, converted), "rounded");
        }
        // A fault is told all the same.
        let mut spoiled = fused;
        let graph = spoiled.graph.as_mut().expect("a graph");
        let bias = graph.initializer.iter_mut().find(|held| held.name == "b1").expect("a bias");
        bias.raw_data[3] ^= 0x80;
        assert_eq!(verdict(&apart, &spoiled), "broken");
    }
}

/// `tanh(s · relu(x · w + b))`, whose factor is a node, or in the weights.
fn scaled(is_folded: bool, spoiled: f32) -> ModelProto {
    const FACTOR: f32 = 0.35;
    let by = if is_folded { FACTOR } else { 1.0 };
    let times = |values: Vec<f32>| values.iter().map(|x| x * by).collect::<Vec<f32>>();
    let mut weight = times(values(64, 1));
    weight[9] += spoiled;
    let mut nodes = vec![
        node("MatMul", &["x", "w"], &["p"], vec![]).named("product"),
        node("Add", &["p", "b"], &["s"], vec![]).named("sum"),
        node("Relu", &["s"], &["r"], vec![]).named("relu"),
    ];
    let mut constants =
        vec![held("w", Float, &[8, 8], &weight), held("b", Float, &[8], &times(values(8, 2)))];
    if !is_folded {
        nodes.push(node("Mul", &["r", "factor"], &["m"], vec![]).named("scale"));
        constants.push(one("factor", Float, FACTOR));
    }
    let last = if is_folded { "r" } else { "m" };
    nodes.push(node("Tanh", &[last], &["y"], vec![]).named("last"));
    of(&[3, 8], nodes, &[3, 8], constants)
}

#[test]
fn a_factor_may_be_folded_into_what_several_nodes_take() {
    for is_folded in [false, true] {
        let reference = scaled(is_folded, 0.0);
        assert_eq!(verdict(&reference, &scaled(!is_folded, 0.0)), "rounded");
        assert_eq!(verdict(&reference, &scaled(!is_folded, 0.5)), "broken");
    }
}

/// A split of the last axis behind a transpose, or of the one before.
fn split(is_moved: bool, order: &[i64]) -> ModelProto {
    let turned = |x: &str, made: &str, name: &str| {
        node("Transpose", &[x], &[made], vec![ints("perm", order)]).named(name)
    };
    let split = |x: &str, axis| {
        node("Split", &[x, "sizes"], &["a", "b"], vec![int("axis", axis)]).named("split")
    };
    let nodes = if is_moved {
        vec![
            split("x", 1),
            turned("a", "t", "turned"),
            node("Sigmoid", &["t"], &["y"], vec![]).named("first"),
            node("Tanh", &["b"], &["z"], vec![]).named("last"),
        ]
    } else {
        vec![
            turned("x", "t", "turned"),
            split("t", 2),
            node("Sigmoid", &["a"], &["y"], vec![]).named("first"),
            turned("b", "bt", "back"),
            node("Tanh", &["bt"], &["z"], vec![]).named("last"),
        ]
    };
    let mut sketch =
        Sketch::new().input("x", Float, &[1, 5, 6]).initializer(int64("sizes", &[2, 3]));
    for node in nodes {
        sketch.0.node.push(node);
    }
    sketch.output("y", Float, &[1, 6, 2]).output("z", Float, &[1, 3, 6]).model()
}

#[test]
fn a_transpose_may_be_moved_past_a_node() {
    let reference = split(false, &[0, 2, 1]);
    assert_ne!(verdict(&reference, &split(true, &[0, 2, 1])), "broken");
    let mut other = split(true, &[0, 2, 1]);
    let graph = other.graph.as_mut().expect("a graph");
    graph.node[3].op_type = "Sin".into();
    assert_eq!(judged(&reference, &other).1, "last");
}

/// A bias whose codes are all 0 by the scale 1, as quantisers store what is all 0.
#[test]
fn a_bias_that_was_lost_before_it_was_quantised_is_told() {
    let product = node("MatMul", &["x", "w"], &["p"], vec![]).named("product");
    let sum = node("Add", &["p", "b"], &["y"], vec![]).named("sum");
    let weight = || held("w", Float, &[8, 8], &values(64, 1));
    let bias: Vec<f32> = values(8, 2).iter().map(|x| x / 4.0).collect();
    let model = |bias: &[f32], scale: f32| {
        let codes: Vec<f32> = bias.iter().map(|x| (x / scale).round()).collect();
        let constants = vec![
            weight(),
            held("c", Int8, &[8], &codes),
            one("s", Float, scale),
            one("z", Int8, 0.0),
        ];
        let coded = node("DequantizeLinear", &["c", "s", "z"], &["b"], vec![]).named("coded");
        of(&[3, 8], vec![coded, product.clone(), sum.clone()], &[3, 8], constants)
    };
    let nodes = vec![product.clone(), sum.clone()];
    let reference = of(&[3, 8], nodes, &[3, 8], vec![weight(), held("b", Float, &[8], &bias)]);
    assert_ne!(verdict(&reference, &model(&bias, 1.0 / 256.0)), "broken");
    assert_eq!(judged(&reference, &model(&[0.0; 8], 1.0)).0, "broken");
}
