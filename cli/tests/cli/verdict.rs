//! The verdict without a tolerance: what converters do is not broken, a fault is, at its node.

use serde_json::{Value, json};
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, SparseTensorProto, TensorProto};
use tract_onnx::prelude::tensor1;
use tract_onnx_cast::ElementType::{self, Float, Float16, Int8, Int32, Uint8};

use crate::common::proto::{Change, cast, float, graph, int, ints, model, node, string, value};
use crate::common::proto::{int64, raw, tensor};
use crate::program::{Folder, done, json, onnx_cast, refused, said, stdout};

/// Values from -1 to 1 that differ, in 16ths so that every type here holds them.
pub(crate) fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|place| ((place * 37 + seed * 11) % 31) as f32 / 16.0 - 0.9375).collect()
}

pub(crate) fn held(name: &str, ty: ElementType, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto { dims: dims.into(), ..tensor(name, ty, values) }
}

pub(crate) fn one(name: &str, ty: ElementType, value: f32) -> TensorProto {
    held(name, ty, &[], &[value])
}

/// Codes of 8 bits with a step of a 127th.
fn codes(values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| (x * 127.0).round()).collect()
}

/// A model of `x` that makes `y`, both FLOAT.
pub(crate) fn of(
    shape: &[i64],
    nodes: Vec<NodeProto>,
    made: &[i64],
    held: Vec<TensorProto>,
) -> ModelProto {
    let mut graph = graph(&[value("x", Float, shape)], &nodes, &[value("y", Float, made)]);
    graph.initializer = held;
    let mut model = model(17, graph);
    model
        .opset_import
        .push(tract_onnx::pb::OperatorSetIdProto { domain: "com.microsoft".into(), version: 1 });
    model
}

/// The verdict, and the first culprit's node and kind.
pub(crate) fn judged(reference: &ModelProto, converted: &ModelProto) -> (String, String, String) {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", reference), folder.message("b.onnx", converted));
    let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--json", "--sets", "1"])));
    let pair = &report["comparisons"][0];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let first = &pair["culprits"][0];
    (word(&pair["verdict"]), word(&first["node"]), word(&first["kind"]))
}

pub(crate) fn broken(node: &str, kind: &str) -> (String, String, String) {
    ("broken".into(), node.into(), kind.into())
}

pub(crate) fn verdict(reference: &ModelProto, converted: &ModelProto) -> String {
    judged(reference, converted).0
}

pub(crate) fn add(name: &str, inputs: &[&str], made: &str) -> NodeProto {
    node("Add", inputs, &[made], vec![]).named(name)
}

#[test]
fn a_square_weight_may_be_stored_transposed() {
    let weight = values(64, 1);
    let turned: Vec<f32> = (0..64).map(|place| weight[place % 8 * 8 + place / 8]).collect();
    let bias = held("b", Float, &[8], &values(8, 2));
    let reference = of(
        &[3, 8],
        vec![
            node("MatMul", &["x", "w"], &["p"], vec![]).named("product"),
            add("sum", &["p", "b"], "s"),
            node("Softplus", &["s"], &["y"], vec![]).named("last"),
        ],
        &[3, 8],
        vec![held("w", Float, &[8, 8], &weight), bias.clone()],
    );
    let converted = |last: &str| {
        of(
            &[3, 8],
            vec![
                node("Gemm", &["x", "w_t", "b"], &["s"], vec![int("transB", 1)]).named("fused"),
                node(last, &["s"], &["y"], vec![]).named("last"),
            ],
            &[3, 8],
            vec![held("w_t", Float, &[8, 8], &turned), bias.clone()],
        )
    };
    assert_ne!(verdict(&reference, &converted("Softplus")), "broken");
    assert_eq!(judged(&reference, &converted("Relu")), broken("last", "operator"));
}

/// A convolution of FLOAT with a bias, and the same in FLOAT16 between casts.
#[test]
fn the_doubt_about_a_bias_is_no_doubt_about_the_product() {
    let (weight, bias) = (values(24, 1), [0.5, -0.75, 0.25, 1.0, -0.5, 0.125]);
    let conv = |x: &str, made: &str| node("Conv", &[x, "w", "b"], &[made], vec![]).named("conv");
    let weights =
        |ty, bias: &[f32]| vec![held("w", ty, &[6, 4, 1, 1], &weight), held("b", ty, &[6], bias)];
    let (shape, made) = ([1, 4, 3, 3], [1, 6, 3, 3]);
    let reference = of(&shape, vec![conv("x", "y")], &made, weights(Float, &bias));
    let converted = |bias: &[f32]| {
        let nodes = vec![cast("x", Float16, "h"), conv("h", "c"), cast("c", Float, "y")];
        of(&shape, nodes, &made, weights(Float16, bias))
    };
    assert_eq!(verdict(&reference, &converted(&bias)), "rounded");
    let turned = bias.map(|x| -x);
    assert_eq!(judged(&reference, &converted(&turned)).1, "conv");
    assert_eq!(verdict(&reference, &converted(&turned)), "broken");
}

/// The reference rounds an input to FLOAT16 for another output, and so may the conversion for this
/// one.
#[test]
fn the_doubt_about_a_factor_is_no_doubt_about_a_large_bias() {
    let (weight, bias): (_, Vec<f32>) = (values(96, 1), values(12, 2));
    let bias: Vec<f32> = bias.iter().map(|x| 1000.0 + x).collect();
    let with = |between: &[NodeProto], input: &str, beta: f32| {
        let product = node("Gemm", &[input, "w", "c"], &["g"], vec![float("beta", beta)]);
        let nodes = [&[cast("x", Float16, "z")], between, &[product.named("product")]].concat();
        let last = node("Relu", &["g"], &["y"], vec![]);
        let held = vec![held("w", Float, &[8, 12], &weight), held("c", Float, &[12], &bias)];
        let mut model = of(&[3, 8], [nodes, vec![last]].concat(), &[3, 12], held);
        let graph = model.graph.as_mut().expect("a graph");
        graph.output.push(value("z", Float16, &[3, 8]));
        model
    };
    let reference = with(&[], "x", 1.0);
    let copied = [node("Identity", &["x"], &["h"], vec![])];
    for (between, input) in [(&[][..], "x"), (&copied[..], "h")] {
        assert_eq!(verdict(&reference, &with(between, input, 1.0)), "same");
        let found = judged(&reference, &with(between, input, 0.9996));
        assert_eq!(found, broken("product", "attribute"), "of `{input}`");
    }
}

/// A normalisation is folded into the convolution before it, which keeps its names.
#[test]
fn a_value_that_keeps_its_name_where_a_node_is_folded_into_it_is_no_fault() {
    let (weight, scale) = (values(16, 1), [0.5, 2.0, 1.5, 0.25]);
    let four = |name: &str, values: &[f32]| held(name, Float, &[4], values);
    let relu = node("Relu", &["n"], &["r"], vec![]).named("relu");
    let last = node("Sigmoid", &["r"], &["y"], vec![]).named("last");
    let (shape, made) = ([1, 4, 3, 3], [1, 4, 3, 3]);
    let norm = ["c", "scale", "bias", "mean", "variance"];
    let reference = of(
        &shape,
        vec![
            node("Conv", &["x", "w"], &["c"], vec![]).named("conv"),
            node("BatchNormalization", &norm, &["n"], vec![float("epsilon", 0.0)]).named("norm"),
            relu.clone(),
            last.clone(),
        ],
        &made,
        vec![
            held("w", Float, &[4, 4, 1, 1], &weight),
            four("scale", &scale),
            four("bias", &[0.5, -0.5, 0.25, 0.0]),
            four("mean", &[0.0; 4]),
            four("variance", &[1.0; 4]),
        ],
    );
    let converted = |spoiled: f32| {
        let mut folded: Vec<f32> =
            weight.iter().enumerate().map(|(place, w)| w * scale[place / 4]).collect();
        folded[5] += spoiled;
        let mut relu = relu.clone();
        relu.input = vec!["c".into()];
        of(
            &shape,
            vec![
                node("Conv", &["x", "w_f", "b_f"], &["c"], vec![]).named("conv"),
                relu,
                last.clone(),
            ],
            &made,
            vec![held("w_f", Float, &[4, 4, 1, 1], &folded), four("b_f", &[0.5, -0.5, 0.25, 0.0])],
        )
    };
    assert_ne!(verdict(&reference, &converted(0.0)), "broken");
    assert_eq!(judged(&reference, &converted(0.5)).1, "conv");
}

/// `QuantizeLinear` and `DequantizeLinear` of a value, by a scale each.
pub(crate) fn coded(value: &str, scales: [&str; 2]) -> [NodeProto; 2] {
    let codes = format!("{value}_QuantizeLinear_Output");
    let made = format!("{value}_DequantizeLinear_Output");
    let name = |op: &str| format!("{value}_{op}");
    [
        node("QuantizeLinear", &[value, scales[0], "zero"], &[&codes], vec![])
            .named(&name("QuantizeLinear")),
        node("DequantizeLinear", &[&codes, scales[1], "zero"], &[&made], vec![])
            .named(&name("DequantizeLinear")),
    ]
}

/// Two products with a Relu between, which the quantised model leaves to the range of the codes.
pub(crate) fn relu_between() -> ModelProto {
    of(
        &[4, 8],
        vec![
            node("MatMul", &["x", "w1"], &["p"], vec![]).named("first"),
            node("Relu", &["p"], &["r"], vec![]).named("relu"),
            node("MatMul", &["r", "w2"], &["y"], vec![]).named("second"),
        ],
        &[4, 8],
        vec![
            held("w1", Float, &[8, 8], &values(64, 1)),
            held("w2", Float, &[8, 8], &values(64, 2)),
        ],
    )
}

pub(crate) fn relu_in_codes(scales: [&str; 2], first: &[&str]) -> ModelProto {
    let [quantise, dequantise] = coded("r", scales);
    of(
        &[4, 8],
        vec![
            node("MatMul", first, &["r"], vec![]).named("first"),
            quantise,
            dequantise,
            node("MatMul", &["r_DequantizeLinear_Output", "w2"], &["y"], vec![]).named("second"),
        ],
        &[4, 8],
        vec![
            held("w1", Float, &[8, 8], &values(64, 1)),
            held("w2", Float, &[8, 8], &values(64, 2)),
            held("w3", Float, &[8, 8], &values(64, 3)),
            one("fits", Float, 1.0 / 64.0),
            one("wide", Float, 1.0 / 16.0),
            one("zero", Uint8, 0.0),
        ],
    )
}

#[test]
fn a_relu_may_be_left_to_the_range_of_the_codes() {
    let converted = relu_in_codes(["fits", "fits"], &["x", "w1"]);
    assert_ne!(verdict(&relu_between(), &converted), "broken");
    // Without a Relu in the reference, a range that starts at 0 cuts values off.
    let mut bare = relu_between();
    if let Some(graph) = &mut bare.graph {
        graph.node[1] = node("Identity", &["p"], &["r"], vec![]).named("relu");
    }
    assert_eq!(judged(&bare, &converted).0, "broken");
}

#[test]
fn of_two_scales_that_differ_the_one_is_named_that_does_not_fit_the_values() {
    let of = |scales| judged(&relu_between(), &relu_in_codes(scales, &["x", "w1"]));
    assert_eq!(of(["fits", "wide"]), broken("r_DequantizeLinear", "zero_point"));
    assert_eq!(of(["wide", "fits"]), broken("r_QuantizeLinear", "zero_point"));
}

#[test]
fn a_product_before_codes_is_named_and_not_the_quantiser_behind_it() {
    let converted = relu_in_codes(["fits", "fits"], &["x", "w3"]);
    assert_eq!(judged(&relu_between(), &converted).1, "first");
}

/// `QLinearMatMul` with the scale of its weight.
fn linear(scale: f32) -> ModelProto {
    let codes: Vec<f32> = values(64, 1).iter().map(|x| x * 64.0).collect();
    let inputs = ["x_q", "sx", "zx", "w_q", "sw", "zw", "sy", "zy"];
    of(
        &[4, 8],
        vec![
            node("QuantizeLinear", &["x", "sx", "zx"], &["x_q"], vec![]).named("x_coded"),
            node("QLinearMatMul", &inputs, &["p_quantized"], vec![]).named("product_quant"),
            node("DequantizeLinear", &["p_quantized", "sy", "zy"], &["p"], vec![]).named("back"),
            node("Tanh", &["p"], &["y"], vec![]).named("last"),
        ],
        &[4, 8],
        vec![
            one("sx", Float, 1.0 / 32.0),
            one("zx", Uint8, 128.0),
            held("w_q", Int8, &[8, 8], &codes),
            one("sw", Float, scale),
            one("zw", Int8, 0.0),
            one("sy", Float, 1.0 / 8.0),
            one("zy", Uint8, 128.0),
        ],
    )
}

#[test]
fn operators_on_codes_are_looked_into() {
    let reference = of(
        &[4, 8],
        vec![
            node("MatMul", &["x", "w"], &["p"], vec![]).named("product"),
            node("Tanh", &["p"], &["y"], vec![]).named("last"),
        ],
        &[4, 8],
        vec![held("w", Float, &[8, 8], &values(64, 1))],
    );
    assert_ne!(verdict(&reference, &linear(1.0 / 64.0)), "broken");
    assert_eq!(judged(&reference, &linear(1.0 / 44.0)), broken("product_quant", "weight"));
    // The codes may have the weight's name.
    let named = |scale| renamed(linear(scale), "w_q", "w");
    assert_ne!(verdict(&reference, &named(1.0 / 64.0)), "broken");
    assert_eq!(judged(&reference, &named(1.0 / 44.0)).0, "broken");
}

/// The model with another name for a constant.
fn renamed(mut model: ModelProto, from: &str, to: &str) -> ModelProto {
    let graph = model.graph.as_mut().expect("a graph");
    let names = graph.initializer.iter_mut().map(|held| &mut held.name);
    let names = names.chain(graph.node.iter_mut().flat_map(|node| &mut node.input));
    names.filter(|name| *name == from).for_each(|name| *name = to.into());
    model
}

/// `MatMulNBits` of 4 bits in blocks of 16: of 16 rows, 8 columns.
pub(crate) fn packed(is_swapped: bool) -> [ModelProto; 2] {
    let code = |place: usize| (place * 7 + place / 16 * 3) % 16;
    let weight: Vec<f32> =
        (0..128).map(|place| (code(place % 8 * 16 + place / 8) as f32 - 8.0) / 8.0).collect();
    let bytes = (0..64).map(|byte| {
        let (low, high) = (code(2 * byte) as u8, code(2 * byte + 1) as u8);
        if is_swapped { low << 4 | high } else { high << 4 | low }
    });
    let bytes: Vec<u8> = bytes.collect();
    let sizes = [("K", 16), ("N", 8), ("bits", 4), ("block_size", 16)];
    let sizes: Vec<AttributeProto> = sizes.iter().map(|(name, i)| int(name, *i)).collect();
    let reference = of(
        &[3, 16],
        vec![
            node("MatMul", &["x", "w"], &["p"], vec![]).named("product"),
            node("Tanh", &["p"], &["y"], vec![]).named("last"),
        ],
        &[3, 8],
        vec![held("w", Float, &[16, 8], &weight)],
    );
    let converted = of(
        &[3, 16],
        vec![
            node("com.microsoft.MatMulNBits", &["x", "w_Q4", "s"], &["p"], sizes).named("p_Q4"),
            node("Tanh", &["p"], &["y"], vec![]).named("last"),
        ],
        &[3, 8],
        vec![raw("w_Q4", Uint8 as i32, &[8, 1, 8], &bytes), held("s", Float, &[8], &[0.125; 8])],
    );
    [reference, converted]
}

#[test]
fn weights_of_blocks_in_few_bits_are_held_against_the_references() {
    let [reference, converted] = packed(false);
    assert_ne!(verdict(&reference, &converted), "broken");
    let [_, swapped] = packed(true);
    assert_eq!(judged(&reference, &swapped).1, "p_Q4");
    // Before opset 13 a `DequantizeLinear` has one scale.
    let early = |mut model: ModelProto| {
        model.opset_import[0].version = 11;
        model
    };
    let [of_early, of_sound, of_swapped] =
        [&reference, &converted, &swapped].map(|model| early(model.clone()));
    assert_ne!(verdict(&of_early, &of_sound), "broken");
    assert_eq!(judged(&of_early, &of_swapped).1, "p_Q4");
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &converted));
    let report = json(&stdout(&onnx_cast(["audit", &b, "--baseline", &a, "--json"])));
    let weights = &report["models"][0]["weights"];
    assert_eq!(weights["compared"], 1, "{report}");
    // The scales are no weights of their own.
    assert_eq!(weights["unpaired_converted"], json!([]), "{report}");
    let message = folder.message("c.onnx", &swapped);
    said(1, &["audit", &message, "--baseline", &a]);
    // The codes may have the weight's name, unless they stay for another node.
    let mut named = renamed(swapped, "w_Q4", "w");
    let paired_by = |model: &ModelProto| {
        let message = folder.message("d.onnx", model);
        let report = json(&said(1, &["compare", &a, &message, "--json"]));
        report["comparisons"][0]["weights"]["changed"][0]["paired_by"].clone()
    };
    assert_eq!(judged(&reference, &named).1, "p_Q4");
    assert_eq!(paired_by(&named), "name");
    let graph = named.graph.as_mut().expect("a graph");
    graph.value_info.push(value("w", Uint8, &[8, 1, 8]));
    assert_eq!(judged(&reference, &named).1, "p_Q4");
    let graph = named.graph.as_mut().expect("a graph");
    graph.node.push(node("Shape", &["w"], &["shape"], vec![]));
    assert_ne!(paired_by(&named), "name");
    // A sparse constant may have the weight's name.
    let [_, mut beside] = packed(true);
    let values = raw("w", Float as i32, &[1], &1f32.to_le_bytes());
    let indices = Some(int64("", &[2]));
    let sparse = SparseTensorProto { values: Some(values), indices, dims: vec![8] };
    beside.graph.as_mut().expect("a graph").sparse_initializer.push(sparse);
    assert_eq!(judged(&reference, &beside).1, "p_Q4");
    // Of more columns than the codes can be there is nothing to be made.
    let [_, mut wide] = packed(false);
    let graph = wide.graph.as_mut().expect("a graph");
    let columns = graph.node[0].attribute.iter_mut().find(|held| held.name == "N");
    columns.expect("columns").i = 1 << 40;
    let message = folder.message("wide.onnx", &wide);
    let why = refused(&["compare", &a, &message]);
    assert!(why.contains("attribute `N` is no size"), "{why}");
}

/// Scales of a Resize are no values that rounding moves.
#[test]
fn a_node_that_is_missing_before_a_resize_is_broken() {
    let resize = |x: &str, made: &str| {
        node(
            "Resize",
            &[x, "", "sizes"],
            &[made],
            vec![
                string("mode", "nearest"),
                string("nearest_mode", "floor"),
                string("coordinate_transformation_mode", "asymmetric"),
            ],
        )
        .named("resize")
    };
    let scales = vec![held("sizes", Float, &[4], &[1.0, 1.0, 2.0, 2.0])];
    let relu = node("Relu", &["x"], &["r"], vec![]).named("relu");
    let (shape, made) = ([1, 2, 4, 4], [1, 2, 8, 8]);
    let last = |x: &str| node("Tanh", &[x], &["y"], vec![]).named("last");
    let nodes = vec![relu, resize("r", "z"), last("z")];
    let reference = of(&shape, nodes, &made, scales.clone());
    let nodes = vec![cast("x", Float16, "h"), cast("h", Float, "f"), resize("f", "z"), last("z")];
    let converted = of(&shape, nodes, &made, scales);
    assert_eq!(judged(&reference, &converted).0, "broken");
}

/// What is sound keeps the limits that are suggested for it, and a fault does not.
#[test]
fn a_tolerance_that_is_suggested_tells_a_fault_from_rounding() {
    let layers = |ty, middle: &str, names: [&str; 2]| {
        let nodes = vec![
            cast("x", ty, "h"),
            node("MatMul", &["h", "w"], &[names[0]], vec![]).named("product"),
            node(middle, &[names[0]], &[names[1]], vec![]).named("bend"),
            cast(names[1], Float, "y"),
        ];
        of(&[4, 8], nodes, &[4, 8], vec![held("w", ty, &[8, 8], &values(64, 1))])
    };
    let folder = Folder::new();
    let a = folder.message("a.onnx", &layers(Float, "Tanh", ["p", "t"]));
    let b = folder.message("b.onnx", &layers(Float16, "Tanh", ["p", "t"]));
    let text = done(&["compare", &a, &b, "--suggest-tolerance", "--sets", "1"]);
    assert!(text.contains("b.tolerance.toml"), "{text}");
    let file = folder.text("b.tolerance.toml");
    done(&["compare", &a, &b, "--sets", "2", "--seed", "5"]);
    let c = folder.message("c.onnx", &layers(Float16, "Sigmoid", ["p", "t"]));
    said(1, &["compare", &a, &c, "--tolerance", &file, "--sets", "1"]);
    let text = said(1, &["compare", &a, &c, "--suggest-tolerance", "--sets", "1"]);
    assert!(text.contains("no tolerance is suggested: the verdict is broken"), "{text}");
    assert!(!folder.path("c.tolerance.toml").exists());
}

/// A bias of 32 bits is off by half a step of the two scales, however many elements it has.
#[test]
fn a_long_bias_in_codes_is_rounded() {
    let bias: Vec<f32> = values(80, 3).iter().map(|x| x / 3.0).collect();
    let codes: Vec<f32> = bias.iter().map(|x| (x * 256.0).round()).collect();
    let product = node("MatMul", &["x", "w"], &["p"], vec![]).named("product");
    let weight = held("w", Float, &[4, 80], &values(320, 1));
    let reference = of(
        &[2, 4],
        vec![product.clone(), add("sum", &["p", "b"], "y")],
        &[2, 80],
        vec![weight.clone(), held("b", Float, &[80], &bias)],
    );
    let converted = of(
        &[2, 4],
        vec![
            node("DequantizeLinear", &["b_quantized", "s"], &["b"], vec![]).named("b_back"),
            product,
            add("sum", &["p", "b"], "y"),
        ],
        &[2, 80],
        vec![weight, held("b_quantized", Int32, &[80], &codes), one("s", Float, 1.0 / 256.0)],
    );
    assert_eq!(verdict(&reference, &converted), "rounded");
}

#[test]
fn an_operand_that_is_another_behind_a_cast_is_told_at_the_cast() {
    let reference = of(
        &[4, 8],
        vec![
            node("Tanh", &["x"], &["t"], vec![]).named("tanh"),
            node("Sigmoid", &["t"], &["s"], vec![]).named("sigmoid"),
            node("MatMul", &["s", "w"], &["y"], vec![]).named("product"),
        ],
        &[4, 8],
        vec![held("w", Float, &[8, 8], &values(64, 1))],
    );
    let converted = of(
        &[4, 8],
        vec![
            node("Tanh", &["x"], &["t"], vec![]).named("tanh"),
            node("Sigmoid", &["t"], &["s"], vec![]).named("sigmoid"),
            cast("t", Float16, "h").named("down"),
            node("MatMul", &["h", "w"], &["p"], vec![]).named("product"),
            cast("p", Float, "y").named("up"),
        ],
        &[4, 8],
        vec![held("w", Float16, &[8, 8], &values(64, 1))],
    );
    assert_eq!(judged(&reference, &converted), broken("down", "input"));
}

#[test]
fn an_attribute_that_is_there_on_one_side_alone_is_told_where_it_is_no_default() {
    let sum = |with: Vec<AttributeProto>| {
        let nodes = vec![node("CumSum", &["x", "axis"], &["y"], with).named("sum")];
        let axis = TensorProto { dims: vec![], ..int64("axis", &[1]) };
        of(&[3, 5], nodes, &[3, 5], vec![axis])
    };
    let found = judged(&sum(vec![]), &sum(vec![int("reverse", 1)]));
    assert_eq!(found, broken("sum", "attribute"));
    let turned = |perm: &[i64]| {
        let nodes = vec![node("Transpose", &["x"], &["y"], vec![ints("perm", perm)]).named("t")];
        of(&[4, 4], nodes, &[4, 4], vec![])
    };
    assert_eq!(judged(&turned(&[1, 0]), &turned(&[0, 1])), broken("t", "attribute"));
}

/// A mean of many numbers moves by less than as many roundings that all go one way.
#[test]
fn a_mean_that_leaves_out_a_tenth_of_many_numbers_is_broken() {
    let (shape, made) = ([1, 2, 224, 256], [1, 2, 1, 1]);
    let mean = |x: &str| node("GlobalAveragePool", &[x], &["y"], vec![]).named("mean");
    let ends = || vec![int64("start", &[0]), int64("end", &[200]), int64("axis", &[2])];
    let cut = node("Slice", &["x", "start", "end", "axis"], &["c"], vec![]).named("cut");
    let reference = of(&shape, vec![mean("x")], &made, ends());
    let converted = of(&shape, vec![cut, mean("c")], &made, ends());
    assert_eq!(verdict(&reference, &converted), "broken");
}

#[test]
fn without_a_verdict_a_tolerance_judges_alone() {
    let leaking = |alpha| {
        let nodes = vec![node("LeakyRelu", &["x"], &["y"], vec![float("alpha", alpha)])];
        of(&[16], nodes, &[16], vec![])
    };
    let folder = Folder::new();
    let a = folder.message("a.onnx", &leaking(0.25));
    let b = folder.message("b.onnx", &leaking(0.24));
    let compare = |status, more: &[&str]| {
        let words = [&["compare", &a, &b, "--json", "--sets", "1"], more].concat();
        json(&said(status, &words))["comparisons"][0].clone()
    };
    let judged = compare(0, &["--rtol", "0.1"]);
    assert_eq!(
        (&judged["verdict"], judged["culprits"][0]["kind"].as_str()),
        (&json!("broken"), Some("attribute"))
    );
    for (status, tolerance) in [(0, "0.1"), (1, "0.01")] {
        let judged = compare(status, &["--rtol", tolerance, "--no-verdict"]);
        assert_eq!((&judged["verdict"], &judged["culprits"]), (&json!(null), &json!([])));
        assert_eq!((&judged["errors_inside"], &judged["band_seeds"]), (&json!([]), &json!([])));
        let next = judged["next"].as_str().unwrap_or_default();
        assert_eq!(next.contains("without --no-verdict"), status == 1, "{next}");
    }
    let why = refused(&["compare", &a, &b, "--no-verdict"]);
    assert!(why.contains("--no-verdict leaves a tolerance to judge by"), "{why}");
    for option in [&["--samples", "1"][..], &["--suggest-tolerance"], &["--weights-only"]] {
        let why = refused(&[&["compare", &a, &b, "--rtol", "1", "--no-verdict"], option].concat());
        assert!(why.contains("--no-verdict") && why.contains(option[0]), "{why}");
    }
}

#[test]
fn what_is_infinite_hides_no_fault_and_is_none() {
    let folder = Folder::new();
    // A factor that is missing, beside a mask of one element.
    let masked = |mask: f32| {
        let mut added = values(256, 3);
        added[7] = mask;
        vec![
            held("w", Float, &[32, 32], &values(1024, 1)),
            held("c", Float, &[8, 32], &added),
            one("by", Float, 1.1),
        ]
    };
    let quantized = |mask| {
        let w = held("w8", Int8, &[32, 32], &codes(&values(1024, 1)));
        [masked(mask), vec![w, one("s", Float, 1.0 / 127.0)]].concat()
    };
    for mask in [-1.0, f32::NEG_INFINITY, -1e9] {
        let a = vec![
            node("MatMul", &["x", "w"], &["m"], vec![]).named("mm"),
            node("Mul", &["m", "by"], &["scaled"], vec![]).named("mul"),
            add("add", &["scaled", "c"], "y"),
        ];
        let b = vec![
            node("DynamicQuantizeLinear", &["x"], &["x8", "sx", "zx"], vec![]).named("quantize"),
            node("MatMulInteger", &["x8", "w8", "zx"], &["i"], vec![]).named("integer"),
            cast("i", Float, "f").named("cast"),
            node("Mul", &["sx", "s"], &["both"], vec![]).named("scales"),
            node("Mul", &["f", "both"], &["d"], vec![]).named("dequantize"),
            add("add_again", &["d", "c"], "y"),
        ];
        let (a, b) =
            (of(&[8, 32], a, &[8, 32], masked(mask)), of(&[8, 32], b, &[8, 32], quantized(mask)));
        assert_eq!(verdict(&a, &b), "broken", "{mask}");
    }
    // An infinity times a code that became 0.
    let w = [0.001, 1.0, 0.5, -1.0];
    let a = of(
        &[1, 2],
        vec![node("MatMul", &["x", "w"], &["y"], vec![]).named("mm")],
        &[1, 2],
        vec![held("w", Float, &[2, 2], &w)],
    );
    let codes = held("w8", Int8, &[2, 2], &codes(&w));
    let b = vec![
        node("DequantizeLinear", &["w8", "s"], &["w"], vec![]).named("dequantize"),
        node("MatMul", &["x", "w"], &["y"], vec![]).named("mm"),
    ];
    let b = of(&[1, 2], b, &[1, 2], vec![codes, one("s", Float, 1.0 / 127.0)]);
    let (a, b) = (folder.message("a.onnx", &a), folder.message("b.onnx", &b));
    let x = folder.tensor(
        "x.pb",
        Float,
        tensor1(&[f32::INFINITY, 1.0]).into_shape(&[1, 2]).expect("a row"),
    );
    let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--json", "-i", &format!("x={x}")])));
    assert_eq!(report["comparisons"][0]["verdict"], "imprecise", "{report}");
}

/// Many nodes side by side hide no more than one of them does.
#[test]
fn many_outputs_of_few_nodes_each_are_rounded() {
    let reductions = ["Max", "Min", "Mean", "Sum", "L1", "L2", "LogSumExp", "SumSquare"];
    let wide = |is_half: bool| {
        let mut nodes = if is_half { vec![cast("x", Float16, "h")] } else { vec![] };
        for kind in reductions {
            let (op, made) = (format!("Reduce{kind}"), format!("{kind}_half"));
            if is_half {
                nodes.push(node(&op, &["h"], &[&made], vec![int("keepdims", 0)]));
                nodes.push(cast(&made, Float, kind));
            } else {
                nodes.push(node(&op, &["x"], &[kind], vec![int("keepdims", 0)]));
            }
        }
        let outputs = reductions.map(|kind| value(kind, Float, &[]));
        model(17, graph(&[value("x", Float, &[5, 7])], &nodes, &outputs))
    };
    assert_eq!(verdict(&wide(false), &wide(true)), "rounded");
}
