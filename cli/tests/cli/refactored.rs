//! Conversions that compute the same in another way: other exports, factors that were folded in,
//! and axes that were moved.

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::ElementType::{self, Float, Float16, Int8};

use crate::common::proto::{Change, Sketch, cast, float, int, int64, ints, node};
use crate::verdict::{broken, held, judged, of, one, values, verdict};

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
            "Softmax" => vec![int("axis", -1)],
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

/// What one export of a model has otherwise than another one.
#[derive(Clone, Copy, PartialEq)]
enum Other {
    Nothing,
    /// A product by 1 before all others.
    Factor,
    /// The scale of the products is divided by.
    Quotient,
    /// It is a factor of the queries.
    Early,
    /// The values are made before the keys, and these before the queries.
    Order,
}

/// What is wrong in the second block of an export.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    Weight,
    Axis,
    Operand,
    Missing,
}

/// Two blocks of an attention and a Gelu, whose nodes, values and numbers are counted.
fn attended(ty: ElementType, other: Other, wrong: Wrong) -> ModelProto {
    let mut export = Export { names: Names::OfEach, nodes: vec![] };
    let (mut numbers, mut constants) = (0, vec![]);
    let mut x = String::from(if ty == Float { "x" } else { "half" });
    let mut number = |value| {
        let name = format!("f_{numbers}");
        numbers += 1;
        constants.push(one(&name, ty, value));
        name
    };
    if other == Other::Factor {
        x = export.add("Mul", &[&x, &number(1.0)]);
    }
    for block in 0..2 {
        let is_wrong = |kind| block == 1 && wrong == kind;
        let own = |name: &str| format!("{name}{block}");
        let names = if other == Other::Order { ["v", "k", "q"] } else { ["q", "k", "v"] };
        let mut made = names.map(|name| {
            let product = export.add("MatMul", &[&x, &own(&format!("w_{name}"))]);
            export.add("Add", &[&product, &own(&format!("b_{name}"))])
        });
        if other == Other::Order {
            made.reverse();
        }
        let [mut queries, keys, values] = made;
        if other == Other::Early {
            queries = export.add("Mul", &[&queries, &number(0.25)]);
        }
        let keys = if is_wrong(Wrong::Operand) { &values } else { &keys };
        let turned = export.add("Transpose", &[keys]);
        let mut products = export.add("MatMul", &[&queries, &turned]);
        products = match other {
            Other::Early => products,
            Other::Quotient => export.add("Div", &[&products, &number(4.0)]),
            _ => export.add("Mul", &[&products, &number(0.25)]),
        };
        let shares = export.add("Softmax", &[&products]);
        if let Some(softmax) = export.nodes.last_mut().filter(|_| is_wrong(Wrong::Axis)) {
            softmax.attribute = vec![int("axis", 0)];
        }
        let mut sum = export.add("MatMul", &[&shares, &values]);
        if !is_wrong(Wrong::Missing) {
            sum = export.add("Add", &[&sum, &own("c")]);
        }
        let bent = export.add("Div", &[&sum, &number(1.414)]);
        let bent = export.add("Erf", &[&bent]);
        let bent = export.add("Add", &[&bent, &number(1.0)]);
        let bent = export.add("Mul", &[&sum, &bent]);
        let bent = export.add("Mul", &[&bent, &number(0.5)]);
        x = export.add("Add", &[&x, &bent]);
    }
    for (place, name) in ["q", "k", "v"].iter().enumerate() {
        for block in 0..2 {
            let seed = 5 * block + place;
            let mut weight = values(64, seed);
            if block == 1 && *name == "k" && wrong == Wrong::Weight {
                weight.iter_mut().step_by(3).for_each(|x| *x = -*x);
            }
            constants.push(held(&format!("w_{name}{block}"), ty, &[8, 8], &weight));
            constants.push(held(&format!("b_{name}{block}"), ty, &[8], &values(8, seed + 11)));
        }
    }
    constants.extend([0, 1].map(|n| held(&format!("c{n}"), ty, &[8], &values(8, n + 30))));
    let mut nodes = export.nodes;
    if ty == Float {
        nodes.push(node("Tanh", &[&x], &["y"], vec![]).named("last"));
    } else {
        nodes.insert(0, cast("x", ty, "half"));
        nodes.push(node("Tanh", &[&x], &["bent"], vec![]).named("last"));
        nodes.push(cast("bent", Float, "y"));
    }
    of(&[8, 8], nodes, &[8, 8], constants)
}

/// The node that takes a constant.
fn taker(model: &ModelProto, constant: &str) -> String {
    let nodes = &model.graph.as_ref().expect("a graph").node;
    let taker = nodes.iter().find(|node| node.input.iter().any(|input| input == constant));
    taker.expect("a taker").name.clone()
}

#[test]
fn equal_names_of_another_export_may_stand_for_others() {
    let reference = attended(Float, Other::Nothing, Wrong::Nothing);
    for other in [Other::Factor, Other::Quotient, Other::Early, Other::Order] {
        for ty in [Float, Float16] {
            let converted = attended(ty, other, Wrong::Nothing);
            assert_ne!(verdict(&reference, &converted), "broken");
        }
    }
}

#[test]
fn a_fault_among_names_that_stand_for_others_is_named() {
    let reference = attended(Float, Other::Nothing, Wrong::Nothing);
    for other in [Other::Nothing, Other::Factor, Other::Quotient, Other::Order] {
        let faulty = |wrong| attended(Float16, other, wrong);
        let weight = faulty(Wrong::Weight);
        let found = judged(&reference, &weight);
        assert_eq!(found, broken(&taker(&weight, "w_k1"), "weight"));
        let found = judged(&reference, &faulty(Wrong::Axis));
        assert_eq!(found, broken("Softmax_2", "axis"));
        let found = judged(&reference, &faulty(Wrong::Operand));
        assert_eq!(found, broken("Transpose_2", "input"));
        assert_eq!(verdict(&reference, &faulty(Wrong::Missing)), "broken");
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
