//! Cases of no elements, of zeros with a sign, and of numbers at the ends of their types.

use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;

use super::Case;
use super::Way::{Constant, Input, Open};
use super::cases::{of, one, shape};
use crate::common::proto::{float, int, node, string};

pub fn cases() -> Vec<Case> {
    [
        of_signs(),
        of_no_elements(),
        of_no_rows(),
        of_choices(),
        of_transforms(),
        of_padding(),
        of_indices(),
        of_zeros(),
        of_squares(),
        of_statistics(),
    ]
    .concat()
}

/// Two operators, one after the other.
fn then(
    operator: &'static str,
    nodes: [NodeProto; 2],
    tensors: Vec<(&'static str, super::Way, Tensor)>,
    y: Tensor,
) -> Case {
    Case { tensors, y: Some(y), ..of(operator, nodes.to_vec()) }
}

fn of_signs() -> Vec<Case> {
    let x = |x: f32| ("x", Input, tensor1(&[x]));
    // A zero's sign is that of its reciprocal.
    let inverse = |operator: &'static str, zero: f32, y: f32| {
        let nodes = [
            node(operator, &["x", "zero"], &["sum"], vec![]),
            node("Reciprocal", &["sum"], &["y"], vec![]),
        ];
        then(operator, nodes, vec![x(-0.0), ("zero", Constant, tensor1(&[zero]))], tensor1(&[y]))
    };
    let told = |operator: &'static str, odd: f64| {
        let nodes = [node(operator, &["x"], &["s"], vec![]), node("Not", &["s"], &["y"], vec![])];
        then(operator, nodes, vec![("x", Input, tensor1(&[odd, 1.0]))], tensor1(&[false, true]))
    };
    let root = || node("Sqrt", &["x"], &["r"], vec![]);
    let squared = |square: NodeProto, y: &[f32]| {
        let numbers = vec![("x", Input, tensor1(&[-1f32, 4.0]))];
        then("Sqrt", [root(), square], numbers, tensor1(y))
    };
    let sinh = [node("Sinh", &["x"], &["s"], vec![]), node("Sub", &["s", "c"], &["y"], vec![])];
    vec![
        then(
            "Sinh",
            sinh,
            vec![x(0.694_259_8), ("c", Constant, tensor1(&[0.75f32]))],
            tensor1(&[0.751_391_3f32 - 0.75]),
        ),
        // What is made of a DOUBLE is no DOUBLE.
        told("IsNaN", f64::NAN),
        told("IsInf", f64::NEG_INFINITY),
        inverse("Add", 0.0, f32::INFINITY),
        inverse("Sub", -0.0, f32::INFINITY),
        one(
            "PRelu",
            vec![x(f32::NEG_INFINITY), ("slope", Constant, tensor1(&[0f32]))],
            vec![],
            Some(tensor1(&[f32::NAN])),
        ),
        one(
            "Tile",
            vec![
                ("x", Input, tensor1(&["a".to_string(), "b".into()])),
                ("repeats", Constant, tensor1(&[2i64])),
            ],
            vec![],
            Some(tensor1(&["a".to_string(), "b".into(), "a".into(), "b".into()])),
        ),
        one(
            "Div",
            vec![x(1e-40), ("d", Input, tensor1(&[1e-40f32]))],
            vec![],
            Some(tensor1(&[1f32])),
        ),
        one(
            "Pow",
            vec![x(f32::NEG_INFINITY), ("half", Constant, tensor0(0.5f32))],
            vec![],
            Some(tensor1(&[f32::INFINITY])),
        ),
        squared(node("Mul", &["r", "r"], &["y"], vec![]), &[f32::NAN, 4.0]),
        squared(node("ReduceL2", &["r"], &["y"], vec![]), &[f32::NAN]),
        squared(node("ReduceSumSquare", &["r"], &["y"], vec![]), &[f32::NAN]),
    ]
}

fn of_no_elements() -> Vec<Case> {
    let none = || Tensor::zero::<f32>(&[0]).expect("no elements");
    let none_of = |rows: usize| Tensor::zero::<f32>(&[rows, 0]).expect("no elements");
    let open =
        |operator, attributes, y| one(operator, vec![("x", Open, none())], attributes, Some(y));
    let bound = |name, place: i64| (name, Constant, tensor1(&[place]));
    let sliced = [
        node("Slice", &["x", "start", "end", "axis"], &["part"], vec![]),
        node("Shape", &["part"], &["y"], vec![]),
    ];
    // The constant decides in the first operator, and is neutral in the second.
    let logic = |operator: &'static str| {
        let nodes = vec![
            node("Or", &["x", "c"], &["z"], vec![]),
            node("Unsqueeze", &["z", "axis"], &["u"], vec![]),
            node("And", &["u", "z"], &["y"], vec![]),
        ];
        let tensors = vec![
            ("x", Open, tensor1(&[true; 2])),
            ("c", Constant, tensor1(&[true])),
            ("axis", Constant, tensor1(&[0i64])),
        ];
        Case { tensors, y: Some(shape(&[1, 2], &[true; 2])), ..of(operator, nodes) }
    };
    // What zero absorbs is a constant, whose quotient is one element.
    let absorbed = vec![
        node("BitwiseAnd", &["x", "c"], &["z"], vec![]),
        node("Div", &["z", "d"], &["y"], vec![]),
    ];
    let divided = vec![
        ("x", Open, shape(&[3, 1], &[5i64; 3])),
        ("c", Constant, tensor1(&[0i64])),
        ("d", Input, tensor0(7i64)),
    ];
    let columns = ("x", Open, Tensor::zero::<f32>(&[2, 0]).expect("no elements"));
    let bounds = vec![columns, bound("start", 3), bound("end", -1), bound("axis", 0)];
    let joined = node("Concat", &["a", "b"], &["both"], vec![int("axis", 0)]);
    let in_two = node("Split", &["both", "sizes"], &["y", "rest"], vec![int("axis", 1)]);
    let split = [joined, in_two];
    let of_twos = |rows: usize| Tensor::zero::<f32>(&[rows, 2]).expect("zeros");
    let sizes = ("sizes", Constant, tensor1(&[0i64, 2]));
    let parts = vec![("a", Open, of_twos(4)), ("b", Constant, of_twos(1)), sizes];
    vec![
        one(
            "Concat",
            vec![("a", Open, none_of(4)), ("b", Constant, none_of(1))],
            vec![int("axis", 0)],
            Some(none_of(5)),
        ),
        one(
            "Einsum",
            vec![("x", Input, shape::<f32>(&[0, 2], &[]))],
            vec![string("equation", "ij->")],
            Some(tensor0(0f32)),
        ),
        one(
            "Flatten",
            vec![("x", Input, shape::<f32>(&[0, 2, 3], &[]))],
            vec![int("axis", 0)],
            Some(shape::<f32>(&[1, 0], &[])),
        ),
        open("Hardmax", vec![], none()),
        open("LpNormalization", vec![], none()),
        open("ReduceSum", vec![int("keepdims", 0)], tensor0(0f32)),
        then("Slice", sliced, bounds, tensor1(&[0i64, 0])),
        then("Split", split, parts, none_of(5)),
        logic("And"),
        logic("Or"),
        Case {
            tensors: divided,
            y: Some(shape(&[3, 1], &[0i64; 3])),
            ..of("BitwiseAnd", absorbed)
        },
    ]
}

/// What is made of rows and channels of no elements, and products of such.
fn of_no_rows() -> Vec<Case> {
    let none = || Tensor::zero::<f32>(&[0]).expect("no elements");
    let none_of = |rows: usize| Tensor::zero::<f32>(&[rows, 0]).expect("no elements");
    let normalised = |operator| {
        let tensors = vec![("x", Input, none_of(2)), ("s", Constant, none())];
        one(operator, tensors, vec![], Some(none_of(2)))
    };
    let pooled = |operator, y: f32| {
        let x = ("x", Input, shape::<f32>(&[1, 2, 0], &[]));
        one(operator, vec![x], vec![], Some(shape(&[1, 2, 1], &[y; 2])))
    };
    vec![
        normalised("LayerNormalization"),
        normalised("RMSNormalization"),
        normalised("SimplifiedLayerNormalization"),
        pooled("GlobalAveragePool", f32::NAN),
        pooled("GlobalMaxPool", f32::NEG_INFINITY),
        pooled("GlobalLpPool", 0.0),
        one(
            "MatMul",
            vec![
                ("x", Open, shape::<f32>(&[2, 0, 2], &[])),
                ("v", Constant, tensor1(&[1f32, 4.0])),
            ],
            vec![],
            Some(shape::<f32>(&[2, 0], &[])),
        ),
        one(
            "MatMul",
            vec![
                ("x", Open, shape(&[1, 1, 1], &[2f32])),
                ("w", Constant, shape(&[2, 1, 1], &[3f32, 5.0])),
            ],
            vec![],
            Some(shape(&[2, 1, 1], &[6f32, 10.0])),
        ),
    ]
}

/// A choice that turns out to be a constant when the model is simplified, behind which stands a
/// logic operator.
fn of_choices() -> Vec<Case> {
    let chosen = Case {
        tensors: vec![
            ("x", Open, tensor1(&[true, false])),
            ("no", Constant, tensor0(false)),
            ("is", Constant, tensor0(true)),
            ("shape", Constant, tensor1(&[-1i64, 1])),
        ],
        y: Some(shape(&[1, 2], &[false; 2])),
        ..of(
            "And",
            vec![
                node("Where", &["is", "no", "x"], &["w"], vec![]),
                node("Reshape", &["w", "shape"], &["column"], vec![]),
                node("Transpose", &["column"], &["row"], vec![]),
                node("And", &["row", "row"], &["y"], vec![]),
            ],
        )
    };
    vec![chosen]
}

fn of_transforms() -> Vec<Case> {
    let signal = |sizes: &[usize], numbers: &[f32]| ("x", Input, shape(sizes, numbers));
    let spectrum = [3f32, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0, 2.0];
    vec![
        one(
            "DFT",
            vec![signal(&[1, 2, 1], &[1.0, 2.0]), ("length", Constant, tensor0(4i64))],
            vec![],
            Some(shape(&[1, 4, 2], &spectrum)),
        ),
        // Along the last axis but one.
        one(
            "DFT",
            vec![signal(&[1, 1, 2, 1], &[1.0, 2.0])],
            vec![],
            Some(shape(&[1, 1, 2, 2], &[3f32, 0.0, -1.0, 0.0])),
        ),
    ]
}

fn of_padding() -> Vec<Case> {
    let padded = |mode: &str, x: &[f32], pads: [i64; 2], y: &[f32]| {
        let tensors = vec![("x", Open, tensor1(x)), ("pads", Constant, tensor1(&pads))];
        one("Pad", tensors, vec![string("mode", mode)], Some(tensor1(y)))
    };
    let empty = vec![
        ("x", Open, Tensor::zero::<f32>(&[0]).expect("no elements")),
        ("pads", Constant, tensor1(&[1i64, 0])),
    ];
    vec![
        padded("reflect", &[1.0, 2.0, 3.0], [4, 0], &[1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0]),
        padded("reflect", &[1.0], [2, 1], &[1.0; 4]),
        one(
            "Pad",
            vec![("x", Input, tensor1(&[1f32, 2.0])), ("pads", Constant, tensor1(&[0i64, 3]))],
            vec![string("mode", "reflect")],
            Some(tensor1(&[1f32, 2.0, 1.0, 2.0, 1.0])),
        ),
        one("Pad", empty, vec![string("mode", "edge")], None),
        padded("wrap", &[1.0, 2.0, 3.0], [4, 1], &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0]),
    ]
}

/// Indices that the axis does not have, and a slice of an axis that is shorter than it was taken
/// for.
fn of_indices() -> Vec<Case> {
    let x = || ("x", Open, tensor1(&[1f32, 2.0, 3.0, 4.0]));
    let outside = |index: i64| ("i", Input, tensor1(&[index]));
    let updates = ("u", Input, tensor1(&[9f32]));
    let short = ["s", "e", "a", "p"].into_iter().zip([-2i64, 3, -1, 2]);
    let short = short.map(|(name, bound)| (name, Constant, tensor1(&[bound])));
    let short = [("x", Open, tensor1(&[1f32, 2.0]))].into_iter().chain(short).collect();
    vec![
        one("Gather", vec![x(), outside(4)], vec![], None),
        one("GatherElements", vec![x(), outside(-5)], vec![], None),
        one("Scatter", vec![x(), outside(4), updates.clone()], vec![], None),
        one("ScatterElements", vec![x(), outside(4), updates], vec![], None),
        one("Slice", short, vec![], None),
    ]
}

/// Squares of DOUBLE that no FLOAT is as large as, and sums of which FLOAT loses digits on the way.
fn of_squares() -> Vec<Case> {
    let large = 2f64.powi(70);
    let one_number = |name, number: f64| (name, Constant, tensor1(&[number]));
    let one_float = |name, number: f32| (name, Constant, tensor1(&[number]));
    let x = ("x", Input, shape(&[1, 1, 2], &[large, -large]));
    let mean = [
        node("Mul", &["x", "x"], &["s"], vec![]),
        node("ReduceMean", &["s"], &["y"], vec![int("keepdims", 0)]),
    ];
    vec![
        one(
            "InstanceNormalization",
            vec![x.clone(), one_number("scale", 1.0), one_number("bias", 0.0)],
            vec![],
            Some(shape(&[1, 1, 2], &[1f64, -1.0])),
        ),
        then("ReduceMean", mean, vec![x], tensor0(large * large)),
        one(
            "GroupNormalization",
            vec![
                ("x", Input, shape(&[1, 1, 4096], &[1_000_002f32, 1_000_004.0].repeat(2048))),
                one_float("scale", 1.0),
                one_float("bias", 0.0),
            ],
            vec![int("num_groups", 1), float("epsilon", 0.0)],
            Some(shape(&[1, 1, 4096], &[-1f32, 1.0].repeat(2048))),
        ),
    ]
}

/// Constants that differ in signs of zeros alone.
fn of_zeros() -> Vec<Case> {
    let quotients = |zeros: [&'static str; 2]| {
        let quotient = |(zero, made): (&&str, &str)| node("Div", &["x", *zero], &[made], vec![]);
        zeros.iter().zip(["a", "b"]).map(quotient).collect::<Vec<_>>()
    };
    let joined = || node("Concat", &["a", "b"], &["y"], vec![int("axis", 0)]);
    let (x, zero) = (("x", Input, tensor1(&[1f32])), ("z", Constant, tensor1(&[0f32])));
    let y = Some(tensor1(&[f32::INFINITY, f32::NEG_INFINITY]));
    let given = [quotients(["z", "n"]), vec![joined()]].concat();
    let made = [vec![node("Neg", &["z"], &["n"], vec![])], given.clone()].concat();
    let both = vec![x.clone(), zero.clone(), ("n", Constant, tensor1(&[-0f32]))];
    vec![
        Case { tensors: both, y: y.clone(), ..of("Div", given) },
        Case { tensors: vec![x, zero], y, ..of("Div", made) },
    ]
}

/// A scale of 0, and statistics that are data; windows without room, and an axis without elements.
fn of_statistics() -> Vec<Case> {
    let batch = |way, x: f32, scale: f32, y: f32| {
        let param = |name, number: f32| (name, way, tensor1(&[number]));
        let params = [param("scale", scale), param("bias", 1.0), param("mean", 2.0)];
        let tensors = [("x", Input, shape(&[1, 1], &[x]))].into_iter().chain(params);
        one(
            "BatchNormalization",
            tensors.chain([param("variance", 4.0)]).collect(),
            vec![float("epsilon", 0.0)],
            Some(shape(&[1, 1], &[y])),
        )
    };
    let narrow = |width: usize| ("w", Constant, shape(&[1, 1, width], &vec![1f32; width]));
    let row = || ("x", Input, shape(&[1, 1, 2], &[1f32, 2.0]));
    let rows = ("x", Input, Tensor::zero::<i32>(&[0, 2]).expect("a tensor"));
    vec![
        batch(Constant, f32::NAN, 0.0, f32::NAN),
        batch(Input, 6.0, 3.0, 7.0),
        one("Conv", vec![row(), narrow(4)], vec![], None),
        one("ArgMax", vec![rows], vec![int("axis", 0)], None),
    ]
}
