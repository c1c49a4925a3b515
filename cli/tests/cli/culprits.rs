//! Faults that hide among the roundings of a conversion, and the node that is named first.

use serde_json::{Value, json};
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType::{
    self, BFloat16, Bool, Double, Float, Float16, Int8, Int32, Uint8,
};

use crate::common::proto::{Change, cast, float, graph_attribute, int, node, unshaped};
use crate::program::{Folder, json, said};
use crate::verdict::{add, broken, coded, held, judged, of, one, packed, values, verdict};

const ROWS: usize = 64;
const COLUMNS: usize = 24;

/// A product with a transposed weight, and its dynamic quantisation, whose weight stands the other
/// way round and whose scale is a number of times too large.
pub(crate) fn dynamic(times: f32, scaled: [&str; 2]) -> [ModelProto; 2] {
    let weight = values(ROWS * COLUMNS, 1);
    let turned = (0..ROWS * COLUMNS).map(|at| weight[at % COLUMNS * ROWS + at / COLUMNS]);
    let codes: Vec<f32> = turned.map(|w| (w * 127.0).round()).collect();
    let (shape, made) = ([6, ROWS as i64], [6, COLUMNS as i64]);
    let weights = vec![held("w", Float, &[COLUMNS as i64, ROWS as i64], &weight)];
    let last = node("Identity", &["p"], &["y"], vec![]).named("last");
    let product = node("Gemm", &["x", "w"], &["p"], vec![int("transB", 1)]).named("product");
    let reference = of(&shape, vec![product, last.clone()], &made, weights);
    let quantiser = node("DynamicQuantizeLinear", &["x"], &["q", "x_scale", "x_zero"], vec![]);
    let nodes = vec![
        quantiser.named("quantiser"),
        node("Mul", &["x_scale", "w_scale"], &["scale"], vec![]).named("scales"),
        node("MatMulInteger", &["q", "w_quantized", "x_zero", "zero"], &["i"], vec![])
            .named("integer"),
        cast("i", Float, "f"),
        node("Mul", &scaled, &["p"], vec![]).named("scaled"),
        last,
    ];
    let weights = vec![
        held("w_quantized", Int8, &[ROWS as i64, COLUMNS as i64], &codes),
        one("w_scale", Float, times / 127.0),
        one("zero", Int8, 0.0),
    ];
    [reference, of(&shape, nodes, &made, weights)]
}

#[test]
fn an_error_that_chance_does_not_explain_is_no_rounding_of_codes() {
    let scaled = ["f", "scale"];
    let [reference, sound] = dynamic(1.0, scaled);
    assert_eq!(verdict(&reference, &sound), "rounded");
    let [_, coarse] = dynamic(1.08, scaled);
    assert_eq!(verdict(&reference, &coarse), "broken");
}

/// A converter adds a Gemm's bias behind the product of codes.
#[test]
fn a_bias_that_stands_for_itself_is_no_added_node() {
    let [mut reference, mut coarse] = dynamic(1.3, ["f", "scale"]);
    let bias = || held("b", Float, &[COLUMNS as i64], &values(COLUMNS, 5));
    let graph = reference.graph.as_mut().expect("a graph");
    graph.node[0].input.push("b".into());
    graph.initializer.push(bias());
    let graph = coarse.graph.as_mut().expect("a graph");
    let last = graph.node.len() - 1;
    graph.node[last - 1].output = vec!["sum".into()];
    graph.node.insert(last, add("biased", &["sum", "b"], "p"));
    graph.initializer.push(bias());
    let (verdict, node, kind) = judged(&reference, &coarse);
    assert_eq!((verdict.as_str(), node != "biased"), ("broken", true), "{node}: {kind}");
}

#[test]
fn a_scale_of_a_product_that_multiplies_another_value_is_named() {
    let [reference, astray] = dynamic(1.0, ["scale", "scale"]);
    assert_eq!(judged(&reference, &astray).1, "scaled");
}

/// A model of `x`, 8 by 8, that makes `y` by nodes one behind the other.
pub(crate) fn chain(nodes: Vec<NodeProto>, held: Vec<TensorProto>) -> ModelProto {
    of(&[8, 8], nodes, &[8, 8], held)
}

#[test]
fn what_a_missing_node_stood_before_is_named_and_not_the_cast_before_it() {
    let first = |made: &str| node("Abs", &["x"], &[made], vec![]).named("first");
    let last = |value: &str, made: &str| node("Tanh", &[value], &[made], vec![]).named("last");
    let relu = node("Sin", &["a"], &["r"], vec![]).named("left_out");
    let reference = chain(vec![first("a"), relu, last("r", "y")], vec![]);
    let narrow = cast("a", BFloat16, "a_narrow").named("narrow");
    let wide = cast("l", Float, "y").named("wide");
    let converted = chain(vec![first("a"), narrow, last("a_narrow", "l"), wide], vec![]);
    assert_eq!(judged(&reference, &converted), broken("last", "missing_node"));
}

/// A convolution with its normalisation, a Relu and another convolution.
fn normalised(is_folded: bool, has_relu: bool) -> ModelProto {
    let (weight, scale) = (values(64, 1), [0.5f32, 2.0, 1.5, 0.25, 3.0, 0.75, 1.25, 0.5]);
    let eight = |name: &str, values: &[f32]| held(name, Float, &[8], values);
    let at = |place: usize| if is_folded { scale[place / 8] } else { 1.0 };
    let folded: Vec<f32> = weight.iter().enumerate().map(|(at_, w)| w * at(at_)).collect();
    let norm = ["c", "scale", "bias", "mean", "variance"];
    let norm = node("BatchNormalization", &norm, &["n"], vec![float("epsilon", 0.0)]).named("norm");
    let before = if is_folded { "c" } else { "n" };
    let relu = node("Relu", &[before], &["r"], vec![]).named("relu");
    let taken = if has_relu { "r" } else { before };
    let mut nodes = vec![node("Conv", &["x", "w"], &["c"], vec![]).named("conv")];
    nodes.extend((!is_folded).then_some(norm));
    nodes.extend(has_relu.then_some(relu));
    nodes.push(node("Conv", &[taken, "v"], &["y"], vec![]).named("behind"));
    let weights = vec![
        held("w", Float, &[8, 8, 1, 1], &folded),
        held("v", Float, &[8, 8, 1, 1], &values(64, 2)),
        eight("scale", &scale),
        eight("bias", &[0.0; 8]),
        eight("mean", &[0.0; 8]),
        eight("variance", &[1.0; 8]),
    ];
    of(&[1, 8, 3, 3], nodes, &[1, 8, 3, 3], weights)
}

#[test]
fn behind_a_normalisation_that_was_folded_a_fault_is_named_where_it_is() {
    let reference = normalised(false, true);
    assert_ne!(verdict(&reference, &normalised(true, true)), "broken");
    assert_eq!(judged(&reference, &normalised(true, false)), broken("behind", "missing_node"));
}

/// A product between codes, whose bias and whose weight have scales of their own.
fn biased(times: f32, weight_times: f32) -> [ModelProto; 2] {
    let bias: Vec<f32> = values(8, 3).iter().map(|b| b / 4.0).collect();
    let inputs = |names: [&str; 3]| node("Gemm", &names, &["y"], vec![]).named("product");
    let weight = held("w", Float, &[8, 8], &values(64, 1));
    let reference =
        chain(vec![inputs(["x", "w", "b"])], vec![weight.clone(), held("b", Float, &[8], &bias)]);
    let [quantise, dequantise] = coded("x", ["scale", "scale"]);
    let scale = 1.0 / 16.0;
    let nodes = vec![
        quantise,
        dequantise,
        node("DequantizeLinear", &["w_codes", "w_scale", "none"], &["w"], vec![]).named("weight"),
        node("DequantizeLinear", &["b_codes", "b_scale", "no_bias"], &["b"], vec![]).named("bias"),
        inputs(["x_DequantizeLinear_Output", "w", "b"]),
    ];
    let codes = |values: Vec<f32>, scale: f32| -> Vec<f32> {
        values.into_iter().map(|x| (x / scale).round()).collect()
    };
    let held = vec![
        held("w_codes", Int8, &[8, 8], &codes(values(64, 1), 1.0 / 127.0)),
        held("b_codes", Int32, &[8], &codes(bias, scale / 127.0)),
        one("scale", Float, scale),
        one("zero", Uint8, 128.0),
        one("w_scale", Float, weight_times / 127.0),
        one("none", Int8, 0.0),
        one("b_scale", Float, times * scale / 127.0),
        one("no_bias", Int32, 0.0),
    ];
    [reference, chain(nodes, held)]
}

#[test]
fn a_bias_is_in_codes_of_the_scale_of_the_products() {
    let [reference, sound] = biased(1.0, 1.0);
    assert_eq!(verdict(&reference, &sound), "rounded");
    let [_, scaled] = biased(1.05, 1.0);
    assert_eq!(judged(&reference, &scaled), broken("bias", "scale"));
    // The bias is the reference's, and the weight is not.
    let [_, scaled] = biased(1.0, 1.4);
    assert_eq!(judged(&reference, &scaled), broken("weight", "weight"));
}

#[test]
fn of_what_takes_codes_back_the_one_that_others_contradict_is_named() {
    let nodes = |scale: &str| {
        let [quantise, dequantise] = coded("x", ["scale", "scale"]);
        let again = ["x_QuantizeLinear_Output", scale, "zero"];
        vec![
            quantise,
            dequantise,
            node("DequantizeLinear", &again, &["again"], vec![]).named("again"),
            node("Add", &["x_DequantizeLinear_Output", "again"], &["y"], vec![]).named("sum"),
        ]
    };
    let held = || {
        vec![
            one("scale", Float, 1.0 / 16.0),
            one("other", Float, 1.0 / 28.0),
            one("zero", Uint8, 128.0),
        ]
    };
    let sum = node("Add", &["x", "x"], &["y"], vec![]).named("sum");
    let reference = chain(vec![sum], vec![]);
    assert_ne!(verdict(&reference, &chain(nodes("scale"), held())), "broken");
    assert_eq!(judged(&reference, &chain(nodes("other"), held())).1, "again");
}

#[test]
fn values_that_kernels_may_flush_are_no_fault() {
    let far = one("far", Float, 45.0);
    let square = |nodes| of(&[64, 64], nodes, &[64, 64], vec![far.clone()]);
    let shift = || node("Mul", &["x", "far"], &["s"], vec![]);
    let along = |op: &str, made: &str| node(op, &["s"], &[made], vec![int("axis", 1)]);
    let reference = square(vec![shift(), along("Softmax", "y")]);
    let last = node("Exp", &["l"], &["y"], vec![]);
    let converted = square(vec![shift(), along("LogSoftmax", "l"), last]);
    assert_eq!(verdict(&reference, &converted), "rounded");
}

/// A reference in half precision loses what a conversion to FLOAT keeps.
#[test]
fn what_the_reference_s_own_type_rounds_is_no_fault() {
    let half = |ty: ElementType| {
        let (factor, mul) = (one("c", ty, 2f32.powi(-13)), |inputs: &[&str], made: &str| {
            node("Mul", inputs, &[made], vec![]).named(made)
        });
        let nodes = vec![
            cast("x", Float16, "h"),
            cast("h", ty, "i"),
            mul(&["i", "c"], "m"),
            mul(&["m", "m"], "s"),
            mul(&["i", "i"], "q"),
            add("t", &["s", "q"], "t"),
            cast("t", Float, "y"),
        ];
        of(&[64], nodes, &[64], vec![factor])
    };
    assert_eq!(verdict(&half(Float16), &half(Float)), "rounded");
}

fn compared(reference: &ModelProto, converted: &ModelProto) -> Value {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", reference), folder.message("b.onnx", converted));
    json(&said(1, &["compare", &a, &b, "--sets", "1", "--json"]))["comparisons"][0].clone()
}

#[test]
fn a_wrong_weight_that_several_nodes_take_is_one_finding() {
    let layers = |times: f32| {
        let product = |name: &str, x: &str, made: &str| {
            node("MatMul", &[x, "w"], &[made], vec![]).named(name)
        };
        let tanh = |x: &str, made: &str| node("Tanh", &[x], &[made], vec![]).named(made);
        let nodes = vec![
            product("first", "x", "p"),
            tanh("p", "t"),
            product("second", "t", "q"),
            tanh("q", "u"),
            product("third", "u", "y"),
        ];
        let weight: Vec<f32> = values(64, 1).iter().map(|w| w * times).collect();
        chain(nodes, vec![held("w", Float, &[8, 8], &weight)])
    };
    let report = compared(&layers(1.0), &layers(1.5));
    let culprits = report["culprits"].as_array().expect("culprits");
    assert_eq!((culprits.len(), &culprits[0]["node"]), (1, &json!("first")), "{report}");
    let text = culprits[0]["text"].as_str().expect("a text");
    assert!(
        text.contains("; `second`, `third` take it too; given the reference's inputs, it"),
        "{text}"
    );
    assert_eq!(report["weights"]["changed"].as_array().map(Vec::len), Some(1), "{report}");
}

/// Scales that are found anew in each run were never calibrated.
#[test]
fn only_what_was_calibrated_is_to_be_calibrated_again() {
    let [reference, coarse] = dynamic(1.5, ["f", "scale"]);
    let report = compared(&reference, &coarse);
    assert_eq!(report["culprits"][0]["kind"], "scale", "{report}");
    let next = report["next"].as_str().expect("a next step");
    assert!(next.starts_with("Fix `"), "{next}");
}

/// Of a sum in which most digits cancel, it is the reference that is off.
#[test]
fn what_the_references_own_rounding_puts_off_is_no_fault() {
    let before = || {
        vec![
            node("Mul", &["x", "few"], &["small"], vec![]).named("scaled"),
            add("moved", &["small", "four"], "u"),
        ]
    };
    let binary = |op: &str, x: &str, y: &str, made: &str| node(op, &[x, y], &[made], vec![]);
    let mut spelt = before();
    spelt.extend([
        binary("Div", "u", "root", "d"),
        node("Erf", &["d"], &["e"], vec![]),
        binary("Add", "e", "one", "s"),
        binary("Mul", "u", "s", "p"),
        binary("Mul", "p", "half", "g").named("last"),
        add("end", &["g", "x"], "y"),
    ]);
    let gelu = |x: &str| {
        let gelu = node("Gelu", &[x], &["g"], vec![]).named("gelu");
        let gelu = NodeProto { domain: "com.microsoft".into(), ..gelu };
        [before(), vec![gelu, add("end", &["g", "x"], "y")]].concat()
    };
    let constants = [
        ("few", 0.05),
        ("four", -4.5),
        ("root", std::f32::consts::SQRT_2),
        ("one", 1.0),
        ("half", 0.5),
    ];
    let held = || constants.iter().map(|(name, x)| one(name, Float, *x)).collect::<Vec<_>>();
    let reference = of(&[4, 64], spelt, &[4, 64], held());
    assert_eq!(verdict(&reference, &of(&[4, 64], gelu("u"), &[4, 64], held())), "rounded");
    let wrong = of(&[4, 64], gelu("small"), &[4, 64], held());
    assert_eq!(judged(&reference, &wrong).0, "broken");
}

/// An output is no other value of the reference, whichever it is equal to.
#[test]
fn a_last_node_that_is_missing_is_no_rounding() {
    let product = |made: &str| node("MatMul", &["x", "w"], &[made], vec![]).named("product");
    let weight = || vec![held("w", Float, &[8, 8], &values(64, 3))];
    let whole = vec![product("p"), add("residual", &["p", "x"], "y")];
    let whole = of(&[4, 8], whole, &[4, 8], weight());
    let short = of(&[4, 8], vec![product("y")], &[4, 8], weight());
    assert_eq!(judged(&whole, &short), broken("product", "missing_node"));
}

/// Inputs that nobody gave may lie beyond what a quantiser was calibrated for, and those that are
/// given may not.
#[test]
fn a_range_that_cuts_made_up_inputs_off_is_no_fault() {
    let tanh = |x: &str| node("Tanh", &[x], &["t"], vec![]).named("tanh");
    let last = || add("last", &["t", "x"], "y");
    // The range of what takes an input itself is what it holds.
    let neg = || node("Neg", &["x"], &["n"], vec![]).named("neg");
    let reference = of(&[4, 16], vec![neg(), tanh("n"), last()], &[4, 16], vec![]);
    let [quantise, dequantise] = coded("n", ["scale", "scale"]);
    let held = vec![one("scale", Float, 1.0 / 255.0), one("zero", Uint8, 128.0)];
    let nodes = vec![neg(), quantise, dequantise, tanh("n_DequantizeLinear_Output"), last()];
    let quantised = of(&[4, 16], nodes, &[4, 16], held);
    assert_eq!(judged(&reference, &quantised).0, "imprecise");
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &quantised));
    let given = folder.text("sets");
    said(0, &["compare", &a, &a, "--sets", "1", "--keep-inputs", &given]);
    assert!(said(1, &["compare", &a, &b, "-i", &given]).contains("cuts off"));
}

/// Where the values that a product takes have a mean of 0, the outputs hardly tell a wrong zero
/// point.
#[test]
fn the_zero_point_of_a_quantised_weight_is_held_against_its_values() {
    let [reference, sound] = dynamic(1.0, ["f", "scale"]);
    assert_eq!(verdict(&reference, &sound), "rounded");
    let [_, mut wrong] = dynamic(1.0, ["f", "scale"]);
    let graph = wrong.graph.as_mut().expect("a graph");
    *graph.initializer.last_mut().expect("the zero point") = one("zero", Int8, 3.0);
    let report = compared(&reference, &wrong);
    assert_eq!(report["verdict"], "broken", "{report}");
}

/// Of an output that is one number nobody can tell what chance explains.
#[test]
fn the_scale_of_a_quantised_weight_is_held_against_its_values() {
    let narrow = |times: f32| {
        dynamic(times, ["f", "scale"]).map(|mut model| {
            let graph = model.graph.as_mut().expect("a graph");
            let last = node("ReduceMean", &["p"], &["y"], vec![int("keepdims", 1)]).named("last");
            *graph.node.last_mut().expect("a node") = last;
            graph.output = vec![unshaped("y", Float)];
            model
        })
    };
    let [reference, sound] = narrow(1.0);
    assert_eq!(verdict(&reference, &sound), "rounded");
    let [reference, wrong] = narrow(1.06);
    let report = compared(&reference, &wrong);
    let culprit = &report["culprits"][0];
    assert_eq!((&culprit["node"], &culprit["kind"]), (&json!("integer"), &json!("weight")));
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &wrong));
    said(1, &["compare", &a, &b, "--weights-only"]);
}

/// Weights of 4 bits leave so much doubt that a bias is within it.
#[test]
fn a_bias_that_is_missing_behind_coarse_weights_is_told() {
    let [mut reference, mut converted] = packed(false);
    for (model, made) in [(&mut reference, "p"), (&mut converted, "y")] {
        let graph = model.graph.as_mut().expect("a graph");
        graph.node.truncate(1);
        graph.node[0].output = vec![made.into()];
    }
    let graph = reference.graph.as_mut().expect("a graph");
    graph.node.push(add("sum", &["p", "b"], "y"));
    let bias: Vec<f32> = values(8, 7).iter().map(|x| x * 0.5).collect();
    graph.initializer.push(held("b", Float, &[8], &bias));
    assert_eq!(judged(&reference, &converted), broken("p_Q4", "missing_node"));
}

/// A tie falls one way where both models are given the same numbers.
#[test]
fn a_comparison_that_is_another_is_no_rounding() {
    let compared = |op: &str| {
        let nodes = vec![
            node("Round", &["x"], &["r"], vec![]).named("round"),
            node(op, &["r", "one"], &["b"], vec![]),
            cast("b", Float, "y"),
        ];
        of(&[4, 64], nodes, &[4, 64], vec![one("one", Float, 1.0)])
    };
    assert_eq!(judged(&compared("Less"), &compared("LessOrEqual")).0, "broken");
}

/// Of a sum that cancels, DOUBLE has digits that FLOAT has not, on whichever side it is.
#[test]
fn what_double_has_of_more_digits_is_rounding() {
    let (rows, columns) = (256, 16);
    let weight: Vec<f32> = values(rows * columns, 5).iter().map(|w| w * 0.1).collect();
    let weight = |ty| held("w", ty, &[rows as i64, columns as i64], &weight);
    let (shape, made) = ([8, rows as i64], [8, columns as i64]);
    let product = |x: &str, y: &str| node("MatMul", &[x, "w"], &[y], vec![]).named("product");
    let tanh = node("Tanh", &["f"], &["y"], vec![]).named("tanh");
    let float = of(&shape, vec![product("x", "f"), tanh.clone()], &made, vec![weight(Float)]);
    let nodes = vec![cast("x", Double, "d"), product("d", "p"), cast("p", Float, "f"), tanh];
    let double = of(&shape, nodes, &made, vec![weight(Double)]);
    for (a, b) in [(&float, &double), (&double, &float)] {
        assert_eq!(verdict(a, b), "rounded");
    }
}

/// Where a size is computed of rounded values, a shape tells no fault.
#[test]
fn a_size_that_rounding_makes_another_is_imprecise() {
    let sized = |ty| {
        let nodes = vec![
            cast("x", ty, "n"),
            node("Mul", &["n", "factor"], &["m"], vec![]).named("scaled"),
            node("ReduceSum", &["m"], &["s"], vec![int("keepdims", 0)]).named("sum"),
            node("Abs", &["s"], &["a"], vec![]).named("size"),
            cast("a", Float, "whole"),
            node("Ceil", &["whole"], &["c"], vec![]).named("ceil"),
            node("Range", &["zero", "c", "step"], &["y"], vec![]).named("range"),
        ];
        let held =
            vec![one("factor", ty, 300.0), one("zero", Float, 0.0), one("step", Float, 0.25)];
        let mut model = of(&[4, 8], nodes, &[1], held);
        model.graph.as_mut().expect("a graph").output = vec![unshaped("y", Float)];
        model
    };
    let (reference, narrow) = (sized(Float), sized(BFloat16));
    assert_eq!(judged(&reference, &narrow).0, "imprecise");
}

/// The codes of a product in a body are constants of the graph around it.
#[test]
fn weights_of_blocks_that_a_body_captures_are_held_against_the_references() {
    let inside = |mut model: ModelProto| {
        let graph = model.graph.as_mut().expect("a graph");
        let mut nodes = std::mem::take(&mut graph.node);
        nodes[1].output = vec!["z".into()];
        let body = crate::common::proto::graph(&[], &nodes, &[unshaped("z", Float)]);
        let branches = ["then_branch", "else_branch"];
        let branches = branches.map(|name| graph_attribute(name, body.clone()));
        graph.node = vec![node("If", &["condition"], &["y"], branches.into()).named("if")];
        graph.initializer.push(one("condition", Bool, 1.0));
        // Off by less than half a step.
        if let Some(weight) = graph.initializer.iter_mut().find(|held| held.name == "w") {
            let values = weight.raw_data.chunks_exact(4).enumerate().map(|(place, x)| {
                let x = f32::from_le_bytes(x.try_into().expect("four bytes"));
                x + (place % 7) as f32 * 0.01 - 0.03
            });
            *weight = held("w", Float, &[16, 8], &values.collect::<Vec<f32>>());
        }
        model
    };
    let [reference, converted] = packed(false).map(inside);
    assert_eq!(verdict(&reference, &converted), "rounded");
    let [_, swapped] = packed(true).map(inside);
    assert_eq!(judged(&reference, &swapped).0, "broken");
}

/// Paddle's converter calls nodes `p2o.MatMul.1`, as if they were parts of one.
#[test]
fn a_name_that_ends_with_an_operator_and_a_number_is_whole() {
    let of = |times: f32| {
        let product = |inputs: [&str; 2], made: &str, name: &str| {
            node("MatMul", &inputs, &[made], vec![]).named(name)
        };
        let nodes = vec![
            product(["x", "v"], "p", "p2o.MatMul.1"),
            node("Tanh", &["p"], &["t"], vec![]).named("p2o.Tanh.0"),
            product(["t", "w"], "y", "p2o.MatMul.2"),
        ];
        let weight = |name: &str, seed: usize| {
            let values = values(64, seed).into_iter().enumerate();
            let values = values.map(|(at, x)| if at == 9 { times * (x + 2.0) } else { x });
            held(name, Float, &[8, 8], &values.collect::<Vec<f32>>())
        };
        chain(nodes, vec![weight("v", 1), weight("w", 2)])
    };
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", &of(1.0)), folder.message("b.onnx", &of(3.0)));
    let report = json(&said(1, &["compare", &a, &b, "--json", "--sets", "1"]));
    let culprits = report["comparisons"][0]["culprits"].as_array().expect("culprits");
    let named: Vec<&Value> = culprits.iter().map(|culprit| &culprit["node"]).collect();
    assert_eq!(named, [&json!("p2o.MatMul.1"), &json!("p2o.MatMul.2")], "{report}");
}
