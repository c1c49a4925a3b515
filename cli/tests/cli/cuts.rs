//! Ranges of codes, where the reference cuts values off itself: what a Relu or a Clip leaves of
//! them is to be covered, and nothing else.

use serde_json::Value;
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::{Tensor, tensor1};
use tract_onnx_cast::ElementType::{self, Float, Int8, Int64, Uint8};

use crate::common::proto::{Change, cast, graph, int64, ints, model, node, string, value};
use crate::program::{Folder, json, onnx_cast, stdout};
use crate::verdict::{broken, coded, held, of, one, values};

const WIDTH: i64 = 8;

/// The verdict by this input, and the first culprit's node and kind.
fn judged_on(
    x: (ElementType, Tensor),
    reference: &ModelProto,
    converted: &ModelProto,
) -> (String, String, String) {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", reference), folder.message("b.onnx", converted));
    let input = format!("x={}", folder.tensor("x.pb", x.0, x.1));
    let report = json(&stdout(&onnx_cast(["compare", &a, &b, "-i", &input, "--json"])));
    let pair = &report["comparisons"][0];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let first = &pair["culprits"][0];
    (word(&pair["verdict"]), word(&first["node"]), word(&first["kind"]))
}

/// By values from -7.5 to 7.5.
fn judged(
    shape: &[i64],
    reference: &ModelProto,
    converted: &ModelProto,
) -> (String, String, String) {
    let count: i64 = shape.iter().product();
    let all: Vec<f32> = values(count as usize, 5).iter().map(|x| 8.0 * x).collect();
    let shape: Vec<usize> = shape.iter().map(|size| *size as usize).collect();
    judged_on((Float, tensor1(&all).into_shape(&shape).expect("as many")), reference, converted)
}

/// Where a Clip ends, and the largest value before it; the least one is -17.8.
const MOST: f32 = 3.0;
const LARGEST: f32 = 5.906_25;

const SHAPE: [i64; 2] = [16, WIDTH];

fn weights() -> Vec<TensorProto> {
    vec![
        held("w1", Float, &[WIDTH, WIDTH], &values(64, 1)),
        held("w2", Float, &[WIDTH, WIDTH], &values(64, 2)),
        one("least", Float, 0.0),
        one("most", Float, MOST),
        held("shift", Float, &[WIDTH], &[-6.0; WIDTH as usize]),
    ]
}

fn product(x: &str, weight: &str, made: &str) -> NodeProto {
    node("MatMul", &[x, weight], &[made], vec![]).named(made)
}

/// The first of two products, and what is added to it.
fn first(made: &str) -> [NodeProto; 2] {
    [product("x", "w1", "m"), node("Add", &["m", "shift"], &[made], vec![]).named("shifted")]
}

/// What is between two products: `c`, of `p`.
fn clip(x: &str) -> NodeProto {
    node("Clip", &[x, "least", "most"], &["c"], vec![]).named("between")
}

fn relu(x: &str) -> NodeProto {
    node("Relu", &[x], &["c"], vec![]).named("between")
}

fn tanh(x: &str) -> NodeProto {
    node("Tanh", &[x], &["c"], vec![]).named("between")
}

fn of_between(between: NodeProto) -> ModelProto {
    let nodes = first("p").into_iter().chain([between, product("c", "w2", "y")]).collect();
    of(&SHAPE, nodes, &SHAPE, weights())
}

/// As ONNX Runtime leaves out what is between, whose value the first product then makes.
fn left_out(scale: f32) -> ModelProto {
    let [quantise, dequantise] = coded("c", ["scale", "scale"]);
    let last = product("c_DequantizeLinear_Output", "w2", "y");
    let nodes = first("c").into_iter().chain([quantise, dequantise, last]).collect();
    let more = vec![one("scale", Float, scale), one("zero", Uint8, 0.0)];
    of(&SHAPE, nodes, &SHAPE, [weights(), more].concat())
}

/// As it does where codes are symmetric: what is between stays, if it does.
fn symmetric(scale: f32, between: Option<fn(&str) -> NodeProto>) -> ModelProto {
    let [quantise, dequantise] = coded("p", ["scale", "scale"]);
    let back = "p_DequantizeLinear_Output";
    let taken = if between.is_some() { "c" } else { back };
    let between = between.map(|between| between(back));
    let nodes = first("p").into_iter().chain([quantise, dequantise]);
    let nodes = nodes.chain(between).chain([product(taken, "w2", "y")]).collect();
    let more = vec![one("scale", Float, scale), one("zero", Int8, 0.0)];
    of(&SHAPE, nodes, &SHAPE, [weights(), more].concat())
}

#[test]
fn a_range_covers_what_a_clip_leaves() {
    let reference = of_between(clip("p"));
    for (times, is_sound) in [(1.0, true), (1.3, false), (2.0, false), (4.0, false)] {
        let found = judged(&SHAPE, &reference, &left_out(MOST / 255.0 / times));
        let wanted = broken("c_QuantizeLinear", "scale");
        assert_eq!(found == wanted, !is_sound, "{times}: {found:?}");
        assert_eq!(found.0 == "rounded", is_sound, "{times}: {found:?}");
        let found = judged(&SHAPE, &reference, &symmetric(MOST / 127.0 / times, Some(clip)));
        let wanted = broken("p_QuantizeLinear", "scale");
        assert_eq!(found == wanted, !is_sound, "{times}: {found:?}");
        assert_eq!(found.0 == "rounded", is_sound, "{times}: {found:?}");
    }
}

#[test]
fn what_a_relu_makes_0_may_be_cut_off_before_it() {
    let reference = of_between(relu("p"));
    let fits = LARGEST / 127.0;
    let found = judged(&SHAPE, &reference, &symmetric(fits, Some(relu)));
    assert_eq!(found.0, "rounded", "{found:?}");
    let wrong = broken("p_QuantizeLinear", "scale");
    assert_eq!(judged(&SHAPE, &reference, &symmetric(fits / 2.0, Some(relu))), wrong);
    // Where there is no Relu, or the conversion has none, it is needed.
    let bare = of_between(tanh("p"));
    assert_eq!(judged(&SHAPE, &bare, &symmetric(fits, Some(tanh))), wrong);
    assert_eq!(judged(&SHAPE, &reference, &symmetric(fits, None)).0, "broken");
}

/// A Relu of the reference that something else goes past is none for what both take.
#[test]
fn a_relu_of_one_of_two_does_not_cut_for_the_other() {
    let sum = |x: &str, made: &str| node("Add", &[x, "c"], &[made], vec![]).named("sum");
    let nodes = |p: &str| vec![relu(p), sum(p, "s"), product("s", "w2", "y")];
    let first = first("p").to_vec();
    let reference = of(&SHAPE, [first.clone(), nodes("p")].concat(), &SHAPE, weights());
    let back = nodes("p_DequantizeLinear_Output");
    let quantised = [first, coded("p", ["scale", "scale"]).to_vec(), back].concat();
    let more = vec![one("scale", Float, LARGEST / 127.0), one("zero", Int8, 0.0)];
    let quantised = of(&SHAPE, quantised, &SHAPE, [weights(), more].concat());
    assert_eq!(judged(&SHAPE, &reference, &quantised).0, "broken");
}

/// An optimiser gives what a product takes two axes, and so what it makes has no partner.
#[test]
fn a_relu_may_be_left_out_in_another_shape() {
    let shape = [1, 16, WIDTH];
    let of_between = |between| {
        let nodes = first("p").into_iter().chain([between, product("c", "w2", "y")]).collect();
        of(&shape, nodes, &shape, weights())
    };
    let flat = |scale: f32| {
        let [quantise, dequantise] = coded("b", ["scale", "scale"]);
        let codes: Vec<f32> = values(64, 1).iter().map(|x| (x * 127.0).round()).collect();
        let nodes = vec![
            node("Reshape", &["x", "flat"], &["a"], vec![]).named("in"),
            node("QuantizeLinear", &["a", "of_a", "middle"], &["a_code"], vec![]).named("a_down"),
            node("DequantizeLinear", &["a_code", "of_a", "middle"], &["n"], vec![]).named("a_up"),
            node("DequantizeLinear", &["w1_code", "of_w1", "of_none"], &["w"], vec![])
                .named("w_up"),
            node("Gemm", &["n", "w", "shift"], &["b"], vec![]).named("b"),
            quantise,
            dequantise,
            product("b_DequantizeLinear_Output", "w2", "d"),
            node("Reshape", &["d", "whole"], &["y"], vec![]).named("out"),
        ];
        let more = vec![
            one("scale", Float, scale),
            one("zero", Uint8, 0.0),
            one("of_a", Float, 7.5 / 127.0),
            one("middle", Uint8, 128.0),
            held("w1_code", Int8, &[WIDTH, WIDTH], &codes),
            one("of_w1", Float, 1.0 / 127.0),
            one("of_none", Int8, 0.0),
            int64("flat", &[-1, WIDTH]),
            int64("whole", &shape),
        ];
        of(&shape, nodes, &shape, [weights(), more].concat())
    };
    let fits = LARGEST / 255.0;
    let reference = of_between(relu("p"));
    let found = judged(&shape, &reference, &flat(fits));
    assert_eq!(found.0, "rounded", "{found:?}");
    let narrow = judged(&shape, &reference, &flat(fits / 3.0));
    assert_eq!(narrow, broken("b_QuantizeLinear", "scale"));
    assert_eq!(judged(&shape, &of_between(tanh("p")), &flat(fits)).0, "broken");
}

/// A convolution of one number and a Relu, which its codes' range stands for, enlarged.
fn enlarged(mode: Option<&str>) -> ModelProto {
    let resize = |x: &str, made: &str, mode: &str| {
        node("Resize", &[x, "", "times"], &[made], vec![string("mode", mode)]).named("resize")
    };
    let last = |x: &str| node("Neg", &[x], &["y"], vec![]).named("last");
    let Some(mode) = mode else {
        let nodes = vec![
            node("Conv", &["x", "w"], &["p"], vec![]).named("conv"),
            relu("p"),
            resize("c", "r", "linear"),
            last("r"),
        ];
        let weight = held("w", Float, &[1, 1, 1, 1], &[1.0]);
        let times = held("times", Float, &[4], &[1.0, 1.0, 2.0, 2.0]);
        return of(&[1, 1, 6, 6], nodes, &[1, 1, 12, 12], vec![weight, times]);
    };
    let taken = ["x_q", "sx", "zx", "w_q", "sw", "zw", "sy", "zy"];
    let nodes = vec![
        node("QuantizeLinear", &["x", "sx", "zx"], &["x_q"], vec![]).named("x_coded"),
        node("QLinearConv", &taken, &["p_quantized"], vec![]).named("conv_quant"),
        resize("p_quantized", "r_quantized", mode),
        node("DequantizeLinear", &["r_quantized", "sy", "zy"], &["r"], vec![]).named("back"),
        last("r"),
    ];
    let held = vec![
        one("sx", Float, 8.0 / 127.0),
        one("zx", Uint8, 128.0),
        held("w_q", Int8, &[1, 1, 1, 1], &[127.0]),
        one("sw", Float, 1.0 / 127.0),
        one("zw", Int8, 0.0),
        one("sy", Float, 7.5 / 255.0),
        one("zy", Uint8, 0.0),
        held("times", Float, &[4], &[1.0, 1.0, 2.0, 2.0]),
    ];
    of(&[1, 1, 6, 6], nodes, &[1, 1, 12, 12], held)
}

#[test]
fn what_codes_lack_behind_a_relu_explains_no_fault() {
    let (shape, reference) = ([1, 1, 6, 6], enlarged(None));
    let sound = judged(&shape, &reference, &enlarged(Some("linear")));
    assert_eq!(sound.0, "rounded", "{sound:?}");
    let wrong = judged(&shape, &reference, &enlarged(Some("nearest")));
    assert_eq!(wrong, broken("resize", "attribute"));
}

/// A few rows, one after the other those that are asked for, and a product.
fn looked_up(spoiled: Option<f32>) -> ModelProto {
    const ROWS: i64 = 5;
    const COLUMNS: i64 = 4;
    let (table, weight) = (values((ROWS * COLUMNS) as usize, 3), values(12, 4));
    let last = |x: &str| node("MatMul", &[x, "w"], &["y"], vec![]).named("product");
    let gather =
        |table: &str, made: &str| node("Gather", &[table, "x"], &[made], vec![]).named("rows");
    let weights = vec![held("w", Float, &[COLUMNS, 3], &weight)];
    let (nodes, more) = match spoiled {
        None => (
            vec![gather("table", "r"), last("r")],
            vec![held(
                "table",
                Float,
                &[ROWS, COLUMNS],
                &table.iter().map(|x| x * 0.97).collect::<Vec<_>>(),
            )],
        ),
        Some(spoiled) => {
            let mut codes: Vec<f32> =
                table.iter().map(|x| (x * 0.97 * 127.0).round() + 128.0).collect();
            codes[1] += spoiled;
            let back = ["r_quantized", "scale", "zero"];
            (
                vec![
                    gather("table_quantized", "r_quantized"),
                    node("DequantizeLinear", &back, &["r"], vec![]).named("back"),
                    last("r"),
                ],
                vec![
                    held("table_quantized", Uint8, &[ROWS, COLUMNS], &codes),
                    one("scale", Float, 1.0 / 127.0),
                    one("zero", Uint8, 128.0),
                ],
            )
        }
    };
    let mut graph = graph(&[value("x", Int64, &[3])], &nodes, &[value("y", Float, &[3, 3])]);
    graph.initializer = [weights, more].concat();
    model(17, graph)
}

/// Codes of a table that is as small as a list of sizes are half a step off all the same.
#[test]
fn the_codes_of_a_small_table_are_rounded() {
    let rows = || (Int64, tensor1(&[0i64, 4, 2]));
    let reference = looked_up(None);
    let sound = judged_on(rows(), &reference, &looked_up(Some(0.0)));
    assert_eq!(sound.0, "rounded", "{sound:?}");
    assert_eq!(judged_on(rows(), &reference, &looked_up(Some(20.0))).0, "broken");
}

/// A convolution that is quantised as it runs, whose bias ONNX Runtime adds behind it, and a mean
/// of all its places.
fn biased(sum: Option<&str>) -> ModelProto {
    let (weight, bias) = (values(72, 6), [0.75, -0.5, 0.625, -1.0]);
    let last = node("GlobalAveragePool", &["c"], &["y"], vec![]).named("mean");
    let pads = || vec![ints("pads", &[1, 1, 1, 1])];
    let (nodes, held) = match sum {
        None => (
            vec![node("Conv", &["x", "w", "b"], &["c"], pads()).named("conv"), last],
            vec![held("w", Float, &[4, 2, 3, 3], &weight), held("b", Float, &[4], &bias)],
        ),
        Some(sum) => (
            vec![
                node("DynamicQuantizeLinear", &["x"], &["q", "x_scale", "x_zero"], vec![])
                    .named("quantiser"),
                node("Mul", &["x_scale", "w_scale"], &["scale"], vec![]).named("scales"),
                node("ConvInteger", &["q", "w_quantized", "x_zero", "zero"], &["i"], pads())
                    .named("integer"),
                cast("i", Float, "f"),
                node("Mul", &["f", "scale"], &["s"], vec![]).named("scaled"),
                node(sum, &["s", "b_row"], &["c"], vec![]).named("c_bias_add"),
                last,
            ],
            vec![
                held(
                    "w_quantized",
                    Int8,
                    &[4, 2, 3, 3],
                    &weight.iter().map(|x| (x * 127.0).round()).collect::<Vec<_>>(),
                ),
                one("w_scale", Float, 1.0 / 127.0),
                one("zero", Int8, 0.0),
                held("b_row", Float, &[1, 4, 1, 1], &bias),
            ],
        ),
    };
    of(&[1, 2, 10, 10], nodes, &[1, 4, 1, 1], held)
}

#[test]
fn what_adds_a_bias_behind_codes_makes_the_value_of_the_product() {
    let (shape, reference) = ([1, 2, 10, 10], biased(None));
    let sound = judged(&shape, &reference, &biased(Some("Add")));
    assert_eq!(sound.0, "rounded", "{sound:?}");
    assert_eq!(judged(&shape, &reference, &biased(Some("Sub"))).1, "c_bias_add");
}

/// A Gemm that is quantised as it runs, whose bias ONNX Runtime adds behind it, and a
/// Softmax, which hides what its codes may be off.
#[test]
fn what_adds_the_bias_of_a_gemm_makes_its_value() {
    const ROWS: i64 = 16;
    const COLUMNS: i64 = 5;
    let weight = values((ROWS * COLUMNS) as usize, 6);
    let (bias, shape, made) = ([0.5, -0.25, 0.125, 0.375, -0.5], [1, ROWS], [1, COLUMNS]);
    let last = node("Softmax", &["g"], &["y"], vec![]).named("last");
    let gemm = node("Gemm", &["x", "w", "b"], &["g"], vec![]).named("gemm");
    let held_a =
        vec![held("w", Float, &[ROWS, COLUMNS], &weight), held("b", Float, &[COLUMNS], &bias)];
    let reference = of(&shape, vec![gemm, last.clone()], &made, held_a);
    let quantised = |bias: &[f32]| {
        let codes: Vec<f32> = weight.iter().map(|x| (x * 64.0).round()).collect();
        let nodes = vec![
            node("DynamicQuantizeLinear", &["x"], &["q", "x_scale", "x_zero"], vec![])
                .named("quantiser"),
            node("Mul", &["x_scale", "w_scale"], &["scale"], vec![]).named("scales"),
            node("MatMulInteger", &["q", "w_quantized", "x_zero", "zero"], &["i"], vec![])
                .named("gemm_MatMul_quant"),
            cast("i", Float, "f"),
            node("Mul", &["f", "scale"], &["s"], vec![]).named("scaled"),
            node("Add", &["s", "b"], &["g"], vec![]).named("gemm_Add"),
            last.clone(),
        ];
        let more = vec![
            held("w_quantized", Int8, &[ROWS, COLUMNS], &codes),
            one("w_scale", Float, 1.0 / 64.0),
            one("zero", Int8, 0.0),
            held("b", Float, &[COLUMNS], bias),
        ];
        of(&shape, nodes, &made, more)
    };
    let x = || {
        let all: Vec<f32> = values(ROWS as usize, 5).iter().map(|x| 0.5 * x).collect();
        (Float, tensor1(&all).into_shape(&[1, ROWS as usize]).expect("a row"))
    };
    let sound = judged_on(x(), &reference, &quantised(&bias));
    assert_eq!(sound.0, "rounded", "{sound:?}");
    let mut turned = bias;
    turned.rotate_right(1);
    let found = judged_on(x(), &reference, &quantised(&turned));
    assert_eq!((&*found.0, &*found.1), ("broken", "gemm_Add"));
}
