//! A minimal case for each operator that is put right.

use std::f64::consts::PI;

use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use super::Case;
use super::Way::{self, Constant, Input, Open};
use crate::common::proto::{
    float, graph, graph_attribute, int, ints, node, shaped, string, unshaped,
};

pub fn cases() -> Vec<Case> {
    let mut cases = of_two_operands();
    cases.extend(of_one_operand());
    cases.extend(of_places());
    cases.extend(products());
    cases.extend(of_bodies());
    cases.extend(of_codes());
    cases.extend(layers());
    cases.extend(of_one_number());
    cases.extend(of_axes());
    cases.extend(of_windows());
    cases.push(of_trees());
    cases.push(of_what_is_before());
    cases.extend(of_rows());
    cases
}

pub fn of(operator: &'static str, nodes: Vec<NodeProto>) -> Case {
    Case { operator, nodes, tensors: vec![], y: None }
}

/// One node, of the tensors in order.
pub fn one(
    operator: &'static str,
    tensors: Vec<(&'static str, Way, Tensor)>,
    attributes: Vec<tract_onnx::pb::AttributeProto>,
    y: Option<Tensor>,
) -> Case {
    let mut names: Vec<&str> = tensors.iter().map(|(name, ..)| *name).collect();
    if operator == "Resize" {
        names.insert(1, "");
    }
    let name = match operator {
        "MatMulNBits" => "com.microsoft.MatMulNBits",
        "MultiHeadAttention" => "com.microsoft.MultiHeadAttention",
        other => other,
    };
    Case { tensors, y, ..of(operator, vec![node(name, &names, &["y"], attributes)]) }
}

pub fn shape<T: Datum>(shape: &[usize], values: &[T]) -> Tensor {
    tensor1(values).into_shape(shape).expect("as many elements")
}

fn of_two_operands() -> Vec<Case> {
    let doubles = |operator, x: f64, c: f64, y: f64| {
        let tensors = vec![("x", Input, tensor1(&[x])), ("c", Constant, tensor1(&[c]))];
        one(operator, tensors, vec![], Some(tensor1(&[y])))
    };
    let two = |operator, a: Tensor, b: Tensor, y: Tensor| {
        one(operator, vec![("a", Input, a), ("b", Constant, b)], vec![], Some(y))
    };
    let square = node("Mul", &["x", "x"], &["y"], vec![]);
    let x = vec![("x", Input, tensor1(&[32767i32]))];
    vec![
        doubles("Add", 1e-60, 1e-60, 1e-60 + 1e-60),
        doubles("Sub", 3e-60, 1e-60, 3e-60 - 1e-60),
        doubles("Div", 1e70, 1e60, 1e70 / 1e60),
        Case { tensors: x, y: Some(tensor1(&[1_073_676_289i32])), ..of("Mul", vec![square]) },
        two("Pow", tensor1(&[46341i32]), tensor1(&[2i32]), tensor1(&[-2_147_479_015i32])),
        one(
            "Mod",
            vec![("seven", Constant, tensor0(7i64)), ("x", Input, tensor1(&[2i64, 4]))],
            vec![],
            Some(tensor1(&[1i64, 3])),
        ),
        one(
            "BitShift",
            vec![("x", Input, tensor1(&[1u32])), ("bits", Input, tensor1(&[32u32]))],
            vec![string("direction", "LEFT")],
            Some(tensor1(&[0u32])),
        ),
        two("Equal", tensor1(&[true]), tensor1(&[true]), tensor1(&[true])),
        two(
            "MatMul",
            shape(&[1, 1], &[1i64 << 60]),
            shape(&[1, 1], &[3i64]),
            shape(&[1, 1], &[3i64 << 60]),
        ),
        one(
            "Einsum",
            vec![("a", Input, tensor1(&[1i64 << 60])), ("b", Input, tensor1(&[3i64]))],
            vec![string("equation", "i,i->i")],
            Some(tensor1(&[3i64 << 60])),
        ),
        two("Gemm", shape(&[1, 1], &[5i64]), shape(&[1, 1], &[3i64]), shape(&[1, 1], &[15i64])),
    ]
}

fn of_one_operand() -> Vec<Case> {
    let x = |tensor: Tensor| vec![("x", Input, tensor)];
    let square = || shape(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
    let reduced = |operator, y: u32| {
        one(operator, x(tensor1(&[3u32, 4])), vec![int("keepdims", 0)], Some(tensor0(y)))
    };
    let extreme = |operator, x: f32| {
        let tensors = vec![("x", Input, tensor1(&[x, x]))];
        one(operator, tensors, vec![int("keepdims", 0)], Some(tensor0(x)))
    };
    let nothing = |operator| {
        let none = || Tensor::zero::<f32>(&[2, 0]).expect("no elements");
        one(operator, x(none()), vec![], Some(none()))
    };
    vec![
        one("ArgMax", x(square()), vec![int("axis", 2)], None),
        one("ArgMin", x(square()), vec![int("axis", 2)], None),
        one(
            "Celu",
            x(tensor1(&[-2f32])),
            vec![float("alpha", 2.0)],
            Some(tensor1(&[-1.264_241_1f32])),
        ),
        one("IsInf", x(tensor1(&[f64::INFINITY, 1.0])), vec![], Some(tensor1(&[true, false]))),
        one("IsNaN", x(tensor1(&[f64::NAN, 1.0])), vec![], Some(tensor1(&[true, false]))),
        reduced("ReduceL1", 7),
        reduced("ReduceL2", 5),
        reduced("ReduceLogSum", 1),
        reduced("ReduceLogSumExp", 4),
        reduced("ReduceMean", 3),
        reduced("ReduceProd", 12),
        reduced("ReduceSum", 7),
        reduced("ReduceSumSquare", 25),
        extreme("ReduceMax", f32::NEG_INFINITY),
        extreme("ReduceMin", f32::INFINITY),
        nothing("Hardmax"),
        nothing("LpNormalization"),
    ]
}

fn of_places() -> Vec<Case> {
    let four = || ("x", Input, tensor1(&[1f32, 2.0, 3.0, 4.0]));
    let last = || ("i", Constant, shape(&[1, 1], &[-1i64]));
    let one_hot = vec![
        ("i", Input, tensor1(&[3i64])),
        ("d", Constant, tensor0(3i64)),
        ("v", Constant, tensor1(&[0f32, 1.0])),
    ];
    let boxes = vec![
        ("boxes", Input, shape(&[1, 1, 4], &[0f32, 0.0, 1.0, 1.0])),
        ("scores", Input, shape(&[1, 1, 1], &[0.5f32])),
        ("limit", Constant, tensor1(&[0i64])),
    ];
    let range = vec![
        ("start", Constant, tensor0(5i64)),
        ("limit", Constant, tensor0(1i64 << 33)),
        ("delta", Constant, tensor0(1i64 << 33)),
    ];
    let slice = vec![
        ("x", Input, tensor1(&[0f32, 1.0, 2.0, 3.0, 4.0, 5.0])),
        ("s", Constant, tensor1(&[4i64])),
        ("e", Constant, tensor1(&[2i64])),
    ];
    let rotated = vec![
        ("x", Input, shape(&[1, 1, 1, 2], &[1f32, 2.0])),
        ("cosines", Constant, shape(&[2, 1], &[1f32, 1.0])),
        ("sines", Constant, shape(&[2, 1], &[0f32, 0.0])),
        ("places", Input, shape(&[1, 1], &[2i64])),
    ];
    let expanded = vec![("x", Input, tensor1(&[1f32])), ("a", Input, tensor1(&[2i64, 2]))];
    let like = |operator| {
        let drawn = node(operator, &["x"], &["r"], vec![]);
        let nodes = vec![drawn, node("Mul", &["r", "zero"], &["y"], vec![])];
        let tensors = vec![four(), ("zero", Input, tensor1(&[0f32]))];
        Case { tensors, y: Some(tensor1(&[0f32; 4])), ..of(operator, nodes) }
    };
    vec![
        one("GatherND", vec![four(), last()], vec![], Some(tensor1(&[4f32]))),
        one("RotaryEmbedding", rotated, vec![], None),
        one(
            "ScatterND",
            vec![four(), last(), ("u", Input, tensor1(&[9f32]))],
            vec![],
            Some(tensor1(&[1f32, 2.0, 3.0, 9.0])),
        ),
        Case {
            tensors: vec![
                four(),
                ("i", Constant, tensor1(&[0i64])),
                ("u", Input, tensor1(&[f32::NAN])),
            ],
            y: Some(tensor1(&[true, false, false, false])),
            ..of(
                "ScatterElements",
                vec![
                    node(
                        "ScatterElements",
                        &["x", "i", "u"],
                        &["s"],
                        vec![string("reduction", "max")],
                    ),
                    node("IsNaN", &["s"], &["y"], vec![]),
                ],
            )
        },
        like("RandomNormalLike"),
        like("RandomUniformLike"),
        one(
            "Pad",
            vec![four(), ("pads", Constant, tensor1(&[-1i64, 0]))],
            vec![],
            Some(tensor1(&[2f32, 3.0, 4.0])),
        ),
        one("OneHot", one_hot, vec![], Some(shape(&[1, 3], &[0f32; 3]))),
        one("NonMaxSuppression", boxes, vec![], Some(shape::<i64>(&[0, 3], &[]))),
        one("Range", range, vec![], Some(tensor1(&[5i64]))),
        one("Slice", slice, vec![], Some(shape::<f32>(&[0], &[]))),
        one("Squeeze", vec![("x", Open, shape(&[1, 3], &[1f32; 3]))], vec![], None),
        one("Expand", expanded, vec![], Some(shape(&[2, 2], &[1f32; 4]))),
    ]
}

/// A product with an expansion of a row.
fn products() -> Vec<Case> {
    let expanded = |operator, nodes: Vec<NodeProto>, tensors: Vec<_>, y| {
        let expand = node("Expand", &["z", "shape"], &["x"], vec![]);
        Case { tensors, y: Some(y), ..of(operator, [vec![expand], nodes].concat()) }
    };
    let row = |ones: Tensor| ("z", Input, ones);
    let to = |sizes: &[i64]| ("shape", Constant, tensor1(sizes));
    let unit = |name: &'static str| (name, Constant, tensor0(1f32));
    let zero = |name: &'static str| (name, Constant, tensor0(0u8));
    let w = || ("w", Constant, shape(&[2, 2], &[1u8, 2, 3, 4]));
    let kernel = || ("w", Constant, shape(&[1, 2, 1], &[1u8, 2]));
    let units = || [unit("s"), zero("o")];
    let quantized: &[&str] = &["x", "s", "o", "w", "s", "o", "s", "o"];
    vec![
        expanded(
            "MatMulInteger",
            vec![node("MatMulInteger", &["x", "w"], &["y"], vec![])],
            vec![row(shape(&[1, 1], &[5u8])), to(&[1, 2]), w()],
            shape(&[1, 2], &[20i32, 30]),
        ),
        expanded(
            "QLinearMatMul",
            vec![node("QLinearMatMul", quantized, &["y"], vec![])],
            [vec![row(shape(&[1, 1], &[5u8])), to(&[1, 2]), w()], units().to_vec()].concat(),
            shape(&[1, 2], &[20u8, 30]),
        ),
        expanded(
            "Conv",
            vec![node("Conv", &["x", "w"], &["y"], vec![])],
            vec![
                row(shape(&[1, 1, 2], &[1f32, 2.0])),
                to(&[1, 2, 2]),
                ("w", Constant, shape(&[1, 2, 1], &[1f32, 10.0])),
            ],
            shape(&[1, 1, 2], &[11f32, 22.0]),
        ),
        expanded(
            "ConvInteger",
            vec![node("ConvInteger", &["x", "w"], &["y"], vec![])],
            vec![row(shape(&[1, 1, 2], &[1u8, 2])), to(&[1, 2, 2]), kernel()],
            shape(&[1, 1, 2], &[3i32, 6]),
        ),
        expanded(
            "QLinearConv",
            vec![node("QLinearConv", quantized, &["y"], vec![])],
            [vec![row(shape(&[1, 1, 2], &[1u8, 2])), to(&[1, 2, 2]), kernel()], units().to_vec()]
                .concat(),
            shape(&[1, 1, 2], &[3u8, 6]),
        ),
    ]
}

fn of_bodies() -> Vec<Case> {
    let branch = |node: NodeProto| graph(&[], &[node], &[unshaped("q", ElementType::Float)]);
    let branches = vec![
        graph_attribute("then_branch", branch(node("Identity", &["one"], &["q"], vec![]))),
        graph_attribute("else_branch", branch(node("Identity", &["x"], &["q"], vec![]))),
    ];
    let chosen = node("If", &["c"], &["chosen"], branches);
    let cast = node("Cast", &["chosen"], &["y"], vec![int("to", ElementType::Int32 as i64)]);
    let choice = vec![
        ("c", Input, tensor0(false)),
        ("x", Input, tensor1(&[5f32])),
        ("one", Constant, tensor1(&[1f32])),
    ];
    let scalar = |name| shaped(name, ElementType::Int64, vec![]);
    let body = graph(
        &[scalar("state"), scalar("element")],
        &[
            node("Add", &["state", "element"], &["sum"], vec![]),
            node("Identity", &["zero"], &["constant"], vec![]),
        ],
        &[scalar("sum"), scalar("constant")],
    );
    let attributes = vec![int("num_scan_inputs", 1), graph_attribute("body", body)];
    let scan = node("Scan", &["first", "x"], &["last", "y"], attributes);
    let scanned = vec![
        ("x", Input, tensor1(&[1i64, 2, 3])),
        ("first", Constant, tensor0(0i64)),
        ("zero", Constant, tensor0(7i64)),
    ];
    let decided = vec![
        node("Shape", &["x"], &["n"], vec![]),
        node("Greater", &["n", "one"], &["g"], vec![]),
        node("Where", &["g", "a", "b"], &["y"], vec![]),
    ];
    let sides = vec![
        ("x", Open, tensor1(&[0f32])),
        ("one", Constant, tensor1(&[1i64])),
        ("a", Input, tensor1(&[1f32])),
        ("b", Input, tensor1(&[2f32])),
    ];
    vec![
        Case { tensors: choice, y: Some(tensor1(&[5i32])), ..of("If", vec![chosen, cast]) },
        Case { tensors: scanned, y: Some(tensor1(&[7i64; 3])), ..of("Scan", vec![scan]) },
        Case { tensors: sides, y: Some(tensor1(&[2f32])), ..of("Greater", decided) },
    ]
}

fn of_one_number() -> Vec<Case> {
    let number = |operator, x: f32, y: f64| {
        one(operator, vec![("x", Input, tensor1(&[x]))], vec![], Some(tensor1(&[y as f32])))
    };
    let double = |operator, x: f64, y: f64| {
        one(operator, vec![("x", Input, tensor1(&[x]))], vec![], Some(tensor1(&[y])))
    };
    // NaN stays NaN.
    let nan = |operator, names: &[&str]| {
        let nodes = vec![
            node(operator, names, &["number"], vec![]),
            node("IsNaN", &["number"], &["y"], vec![]),
        ];
        let mut tensors = vec![("x", Input, tensor1(&[f32::NAN]))];
        if names.len() > 1 {
            tensors.push(("c", Constant, tensor0(2f32)));
        }
        Case { tensors, y: Some(tensor1(&[true])), ..of(operator, nodes) }
    };
    vec![
        number("Acosh", 3e38, 3e38f64.acosh()),
        number("Asinh", 3e38, 3e38f64.asinh()),
        number("Softplus", 90.0, 90.0),
        number("Elu", -1e-6, (-1e-6f64).exp_m1()),
        number("Erf", 1e-5, 1.128_379_167e-5),
        number("Mish", -30.0, -30.0 * (-30f64).exp().ln_1p().tanh()),
        number("Selu", -1e-6, 1.758_099_340_8 * (-1e-6f64).exp_m1()),
        number("Sigmoid", -30.0, 1.0 / (1.0 + 30f64.exp())),
        double("Gelu", 0.0, 0.0),
        double("HardSwish", 3.0, 3.0),
        double("LeakyRelu", 3.0, 3.0),
        double("Round", 0.5, 0.0),
        nan("Clip", &["x", "", "c"]),
        nan("HardSigmoid", &["x"]),
        nan("Max", &["x", "c"]),
        nan("Min", &["x", "c"]),
        nan("Relu", &["x"]),
        nan("Tanh", &["x"]),
        one(
            "Swish",
            vec![("x", Input, tensor1(&[1f32]))],
            vec![float("alpha", 2.0)],
            Some(tensor1(&[1.0 / (1.0 + (-2f32).exp())])),
        ),
    ]
}

/// Of the last element that there is not, nothing comes before.
fn of_what_is_before() -> Case {
    let nodes = vec![
        node("Slice", &["x", "start", "end"], &["last"], vec![]),
        node("CumSum", &["last", "axis"], &["y"], vec![int("exclusive", 1)]),
    ];
    let tensors = vec![
        ("x", Open, Tensor::zero::<i64>(&[0]).expect("no elements")),
        ("start", Constant, tensor1(&[-1i64])),
        ("end", Constant, tensor1(&[i64::MAX])),
        ("axis", Constant, tensor0(0i64)),
    ];
    Case { tensors, ..of("CumSum", nodes) }
}

fn of_windows() -> Vec<Case> {
    let row = |x: &[f32]| vec![("x", Input, shape(&[1, 1, x.len()], x))];
    let least = Some(shape(&[1, 1, 1], &[f32::NEG_INFINITY]));
    // The second element of five.
    let window = |operator, second: f64| {
        let double = vec![int("output_datatype", ElementType::Double as i64)];
        let made =
            NodeProto { output: vec!["window".into()], ..node(operator, &["n"], &["y"], double) };
        let nodes = vec![made, node("Gather", &["window", "place"], &["y"], vec![])];
        let tensors = vec![
            ("x", Input, tensor0(0f32)),
            ("n", Constant, tensor0(5i64)),
            ("place", Constant, tensor0(1i64)),
        ];
        Case { tensors, y: Some(tensor0(second)), ..of(operator, nodes) }
    };
    vec![
        one("MaxPool", row(&[f32::NEG_INFINITY; 2]), vec![ints("kernel_shape", &[2])], least),
        one("AveragePool", row(&[1.0, 2.0]), vec![ints("kernel_shape", &[3])], None),
        one(
            "ConvTranspose",
            [row(&[1.0, 1.0]), vec![("w", Constant, shape(&[1, 1, 3], &[1f32, 2.0, 3.0]))]]
                .concat(),
            vec![ints("output_shape", &[3])],
            Some(shape(&[1, 1, 3], &[3f32, 5.0, 3.0])),
        ),
        one(
            "Resize",
            [row(&[1.0, 2.0]), vec![("s", Constant, tensor1(&[1f32, 1.0, 0.6]))]].concat(),
            vec![
                string("mode", "cubic"),
                string("coordinate_transformation_mode", "pytorch_half_pixel"),
            ],
            Some(shape(&[1, 1, 1], &[1f32])),
        ),
        one(
            "Resize",
            vec![("x", Input, tensor1(&[16_777_217i32, 3])), ("s", Constant, tensor1(&[1.5f32]))],
            vec![],
            Some(tensor1(&[16_777_217i32, 16_777_217, 3])),
        ),
        window("HannWindow", 0.5 - 0.5 * (0.4 * PI).cos()),
        window("HammingWindow", 25.0 / 46.0 - 21.0 / 46.0 * (0.4 * PI).cos()),
        window("BlackmanWindow", (0.42 + 0.08 * (0.8 * PI).cos()) - 0.5 * (0.4 * PI).cos()),
        // The peak is 1, of which FLOAT leaves less.
        one(
            "BlackmanWindow",
            vec![("x", Constant, tensor0(4i64))],
            vec![int("output_datatype", ElementType::Int32 as i64)],
            Some(tensor1(&[0i32, 0, 1, 0])),
        ),
    ]
}

fn of_axes() -> Vec<Case> {
    let apart = || tensor1(&[0f32, -200.0]);
    let powers = shape(&[1, 1, 4], &[1f32, -2.0, 2.0, 4.0]);
    let operands =
        vec![("x", Input, tensor1(&[1f32, 3.0])), ("c", Input, shape(&[2, 2], &[1f32; 4]))];
    let heads = || shape(&[1, 1, 1, 2], &[1f32, 2.0]);
    let hidden = vec![
        ("q", Input, heads()),
        ("k", Input, heads()),
        ("v", Input, heads()),
        ("mask", Input, shape(&[1, 1], &[false])),
    ];
    let steps = |name, values: &[f32; 4]| (name, Input, shape(&[1, 2, 2], values));
    let looks_back =
        vec![steps("q", &[0.0; 4]), steps("k", &[0.0; 4]), steps("v", &[1.0, 2.0, 3.0, 4.0])];
    let block = || (0..8).map(|x| x as f32).collect::<Vec<_>>();
    vec![
        one("Attention", hidden, vec![], Some(shape(&[1, 1, 1, 2], &[0f32; 2]))),
        one(
            "MultiHeadAttention",
            looks_back,
            vec![int("num_heads", 1), int("unidirectional", 1)],
            Some(shape(&[1, 2, 2], &[1f32, 2.0, 2.0, 3.0])),
        ),
        one("LogSoftmax", vec![("x", Input, apart())], vec![], Some(apart())),
        Case {
            tensors: vec![
                ("x", Input, tensor1(&[1f32, f32::NAN, 3.0, f32::NAN, 2.0])),
                ("k", Constant, tensor1(&[4i64])),
            ],
            y: Some(tensor1(&[1i64, 3, 2, 4])),
            ..of("TopK", vec![node("TopK", &["x", "k"], &["values", "y"], vec![])])
        },
        one("GlobalLpPool", vec![("x", Input, powers)], vec![], Some(shape(&[1, 1, 1], &[5f32]))),
        one("Mean", operands, vec![], Some(shape(&[2, 2], &[1f32, 2.0, 1.0, 2.0]))),
        one(
            "SpaceToDepth",
            vec![("x", Input, shape(&[1, 2, 2, 2], &block()))],
            vec![int("blocksize", 2), string("mode", "CRD")],
            Some(shape(&[1, 8, 1, 1], &block())),
        ),
    ]
}

/// A layer of one unit, from the last step to the first.
fn layers() -> Vec<Case> {
    let layer = |operator, gates: usize, y: f32| {
        let weights = |name| (name, Constant, shape(&[1, gates, 1], &vec![1f32; gates]));
        let tensors =
            vec![("x", Input, shape(&[2, 1, 1], &[1f32, 0.0])), weights("w"), weights("r")];
        let attributes = vec![string("direction", "reverse"), int("hidden_size", 1)];
        let node = node(operator, &["x", "w", "r"], &["", "y"], attributes);
        Case { tensors, y: Some(shape(&[1, 1, 1], &[y])), ..of(operator, vec![node]) }
    };
    let sigmoid = 1.0 / (1.0 + (-1f32).exp());
    let cell = sigmoid * 1f32.tanh();
    vec![
        layer("RNN", 1, 1f32.tanh()),
        layer("GRU", 3, (1.0 - sigmoid) * 1f32.tanh()),
        layer("LSTM", 4, sigmoid * cell.tanh()),
    ]
}

fn of_codes() -> Vec<Case> {
    let weights = vec![
        ("x", Input, shape(&[1, 32], &[1f32; 32])),
        ("b", Constant, shape(&[1, 1, 16], &[0x99u8; 16])),
        ("scales", Constant, tensor1(&[0.1f32])),
    ];
    let sizes = vec![int("K", 32), int("N", 1), int("bits", 4), int("block_size", 32)];
    let product = shape(&[1, 1], &[3.2f32]);
    vec![one("MatMulNBits", weights, sizes, Some(product))]
}

fn floats(name: &str, values: &[f32]) -> tract_onnx::pb::AttributeProto {
    tract_onnx::pb::AttributeProto { floats: values.into(), r#type: 6, ..int(name, 0) }
}

fn of_rows() -> Vec<Case> {
    let names = tract_onnx::pb::AttributeProto {
        strings: ["no", "yes"].map(|name| name.as_bytes().to_vec()).into(),
        r#type: 8,
        ..int("classlabels_strings", 0)
    };
    let rows = || floats("coefficients", &[1.0, -1.0]);
    let attributes = vec![rows(), floats("intercepts", &[0.0]), names];
    let lines = node("ai.onnx.ml.LinearClassifier", &["x"], &["y", "scores"], attributes);
    let tensors = vec![("x", Input, shape(&[1, 2], &[3f32, 1.0]))];
    let y = Some(tensor1(&["yes".to_string()]));
    let classifier = Case { tensors, y, ..of("LinearClassifier", vec![lines]) };
    let line = node("ai.onnx.ml.LinearRegressor", &["x"], &["y"], vec![rows()]);
    let tensors = vec![("x", Input, shape(&[1, 1], &[3f32]))];
    vec![classifier, Case { tensors, ..of("LinearRegressor", vec![line]) }]
}

fn of_trees() -> Case {
    let modes = tract_onnx::pb::AttributeProto {
        strings: ["BRANCH_LEQ", "LEAF", "LEAF"].map(|mode| mode.as_bytes().to_vec()).into(),
        r#type: 8,
        ..int("nodes_modes", 0)
    };
    let attributes = vec![
        modes,
        ints("nodes_treeids", &[0; 3]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0; 3]),
        floats("nodes_values", &[0.5, 0.0, 0.0]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("class_treeids", &[0, 0]),
        ints("class_nodeids", &[1, 2]),
        ints("class_ids", &[0, 0]),
        floats("class_weights", &[0.25, 0.75]),
        ints("classlabels_int64s", &[4, 5]),
    ];
    let trees = node("ai.onnx.ml.TreeEnsembleClassifier", &["x"], &["y", "scores"], attributes);
    let tensors = vec![("x", Input, shape(&[2, 1], &[0f32, 1.0]))];
    Case { tensors, y: Some(tensor1(&[4i64, 5])), ..of("TreeEnsembleClassifier", vec![trees]) }
}
