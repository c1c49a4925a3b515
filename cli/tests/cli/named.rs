//! The node that is named first, where something beside it looks as wrong.

use tract_onnx_cast::ElementType::{Float, Float16, Int8, Int32, Uint8};

use crate::common::proto::{Change, cast, float, int, ints, node};
use crate::culprits::{chain, dynamic};
use crate::verdict::{add, broken, coded, held, judged, one, values, verdict};

/// A weight of FLOAT16 has few digits where it is small.
#[test]
fn a_node_that_was_added_is_named_and_not_the_weight_behind_it() {
    let mut weight = values(64, 1);
    weight.iter_mut().step_by(5).for_each(|w| *w *= 1e-5);
    let product = |x: &str| node("MatMul", &[x, "w"], &["p"], vec![]).named("product");
    let relu = |x: &str| node("Relu", &[x], &["r"], vec![]).named("relu");
    let last = |made: &str| node("Tanh", &["p"], &[made], vec![]).named("last");
    let weights = |ty| vec![held("w", ty, &[8, 8], &weight)];
    let reference = chain(vec![relu("x"), product("r"), last("y")], weights(Float));
    let added = node("Neg", &["r"], &["n"], vec![]).named("added");
    let nodes = vec![cast("x", Float16, "h"), relu("h"), added, product("n")];
    let nodes = [nodes, vec![last("t"), cast("t", Float, "y")]].concat();
    assert_eq!(judged(&reference, &chain(nodes, weights(Float16))), broken("added", "added_node"));
}

/// A sum that was folded into a bias, of which the reference has no weight.
#[test]
fn of_a_product_the_bias_is_named_whose_scale_is_another() {
    let (first, second) = (values(8, 3), values(8, 5));
    let weight = || held("w", Float, &[8, 8], &values(64, 1));
    let eight = |name: &str, values: &[f32]| held(name, Float, &[8], values);
    let nodes = vec![
        node("MatMul", &["x", "w"], &["m"], vec![]).named("product"),
        add("bias", &["m", "b"], "p"),
        add("sum", &["p", "c"], "y"),
    ];
    let reference = chain(nodes, vec![weight(), eight("b", &first), eight("c", &second)]);
    let (scale, step) = (1.0 / 16.0, 1.0 / 127.0);
    let converted = |times: f32| {
        let [quantise, dequantise] = coded("x", ["scale", "scale"]);
        let weight = ["w_codes", "w_scale", "none"];
        let bias = ["b_codes", "b_scale", "no_bias"];
        let inputs = ["x_DequantizeLinear_Output", "w", "both"];
        let nodes = vec![
            quantise,
            dequantise,
            node("DequantizeLinear", &weight, &["w"], vec![]).named("weight"),
            node("DequantizeLinear", &bias, &["both"], vec![]).named("folded"),
            node("Gemm", &inputs, &["y"], vec![]).named("product"),
        ];
        let codes = |values: &[f32], scale: f32| -> Vec<f32> {
            values.iter().map(|x| (x / scale).round()).collect()
        };
        let both: Vec<f32> = first.iter().zip(&second).map(|(x, y)| x + y).collect();
        let held = vec![
            held("w_codes", Int8, &[8, 8], &codes(&values(64, 1), step)),
            held("b_codes", Int32, &[8], &codes(&both, scale * step)),
            one("scale", Float, scale),
            one("zero", Uint8, 128.0),
            one("w_scale", Float, step),
            one("none", Int8, 0.0),
            one("b_scale", Float, times * scale * step),
            one("no_bias", Int32, 0.0),
        ];
        chain(nodes, held)
    };
    assert_eq!(verdict(&reference, &converted(1.0)), "rounded");
    assert_eq!(judged(&reference, &converted(2.5)), broken("folded", "scale"));
}

/// One of two alike was not taken in by what is before the codes, as the other is still there.
#[test]
fn a_node_before_codes_that_the_next_repeats_was_added() {
    let first = |x: &str| node("MatMul", &[x, "w"], &["n"], vec![]).named("first");
    let tanh = |name: &str, x: &str, made: &str| node("Tanh", &[x], &[made], vec![]).named(name);
    let last = || add("last", &["t", "t"], "y");
    let weight = || held("w", Float, &[8, 8], &values(64, 1));
    let reference = chain(vec![first("x"), tanh("second", "n", "t"), last()], vec![weight()]);
    let [quantise_first, dequantise_first] = coded("x", ["coarse", "coarse"]);
    let [mut quantise, dequantise] = coded("n", ["scale", "scale"]);
    quantise.input[0] = "again".into();
    let nodes = vec![
        quantise_first,
        dequantise_first,
        first("x_DequantizeLinear_Output"),
        tanh("added", "n", "again"),
        quantise,
        dequantise,
        tanh("second", "n_DequantizeLinear_Output", "t"),
        last(),
    ];
    let scale = |name: &str, scale| one(name, Float, scale);
    let held =
        vec![scale("coarse", 0.04), scale("scale", 0.01), one("zero", Uint8, 128.0), weight()];
    assert_eq!(judged(&reference, &chain(nodes, held)), broken("added", "added_node"));
}

/// A converter adds the bias of a product behind that of codes.
#[test]
fn a_bias_that_is_missing_behind_a_product_of_codes_is_told_at_what_takes_it() {
    let [mut reference, mut short] = dynamic(1.0, ["f", "scale"]);
    for model in [&mut reference, &mut short] {
        let graph = model.graph.as_mut().expect("a graph");
        graph.node.last_mut().expect("a node").op_type = "Relu".into();
    }
    let graph = reference.graph.as_mut().expect("a graph");
    graph.node[0].input.push("b".into());
    graph.node[0].output[0] = "whole".into();
    graph.node[1].input[0] = "whole".into();
    graph.initializer.push(held("b", Float, &[24], &values(24, 5)));
    assert_eq!(judged(&reference, &short), broken("last", "missing_node"));
}

/// What several nodes were fused into is held against none of them.
#[test]
fn of_a_product_and_what_is_fused_before_it_the_latter_is_named() {
    let weights = || {
        let eight = |name: &str, x: f32| held(name, Float, &[8], &[x; 8]);
        let scalars = [("two", 2.0), ("epsilon", 1e-5)].map(|(name, x)| one(name, Float, x));
        let weight = held("w", Float, &[8, 8], &values(64, 1));
        [scalars.into(), vec![weight, eight("scale", 1.5), eight("bias", 0.25)]].concat()
    };
    let mean = |x: &str, y: &str| node("ReduceMean", &[x], &[y], vec![ints("axes", &[-1])]);
    let binary = |op: &str, x: &str, y: &str, made: &str| node(op, &[x, y], &[made], vec![]);
    let product = |x: &str| binary("MatMul", x, "w", "q").named("product");
    let nodes = vec![
        mean("x", "m"),
        binary("Sub", "x", "m", "d"),
        binary("Pow", "d", "two", "p"),
        mean("p", "v"),
        binary("Add", "v", "epsilon", "e"),
        node("Sqrt", &["e"], &["s"], vec![]),
        binary("Div", "d", "s", "n"),
        binary("Mul", "n", "scale", "f"),
        binary("Add", "f", "bias", "l"),
        node("Transpose", &["l"], &["t"], vec![]),
        product("t"),
        node("Softplus", &["q"], &["y"], vec![]).named("last"),
    ];
    let reference = chain(nodes, weights());
    let fused = |epsilon: f32| {
        let how = vec![int("axis", -1), float("epsilon", epsilon)];
        let norm = node("LayerNormalization", &["x", "scale", "bias"], &["other"], how);
        let turned = node("Transpose", &["other"], &["back"], vec![]);
        let product = node("Gemm", &["back", "w"], &["r"], vec![]).named("one");
        let last = node("Softplus", &["r"], &["y"], vec![]).named("last");
        chain(vec![norm.named("norm"), turned, product, last], weights())
    };
    assert_eq!(verdict(&reference, &fused(1e-5)), "rounded");
    assert_eq!(judged(&reference, &fused(0.5)).1, "norm");
}

/// A range that was calibrated on more than these values is wider than they are, and none is
/// narrower.
#[test]
fn of_two_scales_that_differ_the_one_is_named_that_does_not_cover_the_values() {
    let first = || node("Sin", &["x"], &["n"], vec![]).named("first");
    let last = |x: &str| node("Exp", &[x], &["y"], vec![]).named("last");
    let reference = chain(vec![first(), last("n")], vec![]);
    let converted = |scales| {
        let [quantise, dequantise] = coded("n", scales);
        let held = vec![
            one("room", Float, 1.25 / 128.0),
            one("short", Float, 0.87 / 128.0),
            one("zero", Uint8, 128.0),
        ];
        chain(vec![first(), quantise, dequantise, last("n_DequantizeLinear_Output")], held)
    };
    assert_eq!(judged(&reference, &converted(["room", "short"])).1, "n_DequantizeLinear");
    assert_eq!(judged(&reference, &converted(["short", "room"])).1, "n_QuantizeLinear");
}

/// What is behind an operator that only picks codes has their scale.
#[test]
fn of_codes_that_were_moved_the_scale_that_differs_is_named() {
    let last = |x: &str| node("Exp", &[x], &["y"], vec![]).named("last");
    let turned = |x: &str, y: &str| node("Transpose", &[x], &[y], vec![]).named("turned");
    let first = || node("Sin", &["x"], &["n"], vec![]).named("first");
    let reference = chain(vec![first(), turned("n", "t"), last("t")], vec![]);
    let converted = |scales| {
        let [quantise, mut dequantise] = coded("n", scales);
        dequantise.input[0] = "codes".into();
        let turned = turned("n_QuantizeLinear_Output", "codes");
        let held = vec![
            one("fits", Float, 1.0 / 128.0),
            one("wide", Float, 1.5 / 128.0),
            one("zero", Uint8, 128.0),
        ];
        let nodes = vec![first(), quantise, turned, dequantise, last("n_DequantizeLinear_Output")];
        chain(nodes, held)
    };
    assert_eq!(judged(&reference, &converted(["fits", "fits"])).0, "rounded");
    assert_eq!(
        judged(&reference, &converted(["fits", "wide"])),
        broken("n_DequantizeLinear", "zero_point")
    );
    assert_eq!(
        judged(&reference, &converted(["wide", "fits"])),
        broken("n_QuantizeLinear", "zero_point")
    );
}
