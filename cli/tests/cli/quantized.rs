//! What the commands say of quantisers.

use serde_json::json;
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, audit::Outcome};

use crate::common::proto::{Change, graph, model, node, tensor, value};
use crate::program::{Folder, json, onnx_cast, stdout};

/// A model without a Cast has something to audit if it quantises: here a constant weight and an
/// activation.
#[test]
fn audit_counts_what_quantizers_do() {
    use ElementType::*;
    let folder = Folder::new();
    let nodes = [
        node("QuantizeLinear", &["x", "scale", "zero"], &["q"], vec![]).named("activation"),
        node("DequantizeLinear", &["q", "scale", "zero"], &["y"], vec![]).named("back"),
        node("QuantizeLinear", &["w", "scale", "zero"], &["v"], vec![]).named("weight"),
    ];
    let mut all = graph(
        &[value("x", Float, &[5])],
        &nodes,
        &[value("y", Float, &[5]), value("v", Uint8, &[2])],
    );
    all.initializer = vec![
        tensor("scale", Float, &[0.5]),
        tensor("zero", Uint8, &[128.0]),
        tensor("w", Float, &[1.0, -1000.0]),
    ];
    let path = folder.message("m.onnx", &model(21, all));
    let x = tensor1(&[1.0f32, 0.2, 0.3, 63.5, 64.0]);
    let input = format!("x={}", folder.tensor("x.pb", Float, x));
    let output = onnx_cast(["audit", &path, "-i", &input, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = json(&stdout(&output))["models"][0].clone();
    let row = |node: &str| {
        let rows = report["casts"].as_array().expect("casts");
        rows.iter().find(|row| row["node"] == node).cloned().unwrap_or_default()
    };
    let (activation, weight) = (row("activation"), row("weight"));
    assert_eq!(activation["op"], "QuantizeLinear");
    assert_eq!((&activation["from"], &activation["to"]), (&json!("FLOAT"), &json!("UINT8")));
    let counts = |row: &serde_json::Value| {
        [Outcome::Exact, Outcome::Rounded, Outcome::Flushed, Outcome::Saturated]
            .map(|outcome| row["outcomes"][outcome.name()].as_u64())
    };
    assert_eq!(counts(&activation), [Some(2), Some(1), Some(1), Some(1)], "{activation}");
    assert_eq!(activation["max_abs"], 0.5);
    assert_eq!(counts(&weight), [Some(1), Some(0), Some(0), Some(1)], "{weight}");
    assert_eq!((&weight["constant"], &weight["max_abs"]), (&json!(true), &json!(936.0)));
    // The worst is first: one value of two, and by far.
    assert_eq!(report["casts"][0]["node"], "weight");
    // Beyond a limit it fails.
    let limited = onnx_cast(["audit", &path, "-i", &input, "--allow", "saturated=0"]);
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    let text = stdout(&limited);
    assert!(text.contains("`activation`: saturated 1"), "{text}");
    // Codes have no last place that an error could be counted in.
    let row = text.lines().find(|line| line.starts_with("activation ")).expect("a row");
    assert!(row.split_whitespace().any(|cell| cell == "-"), "{row}");
}

/// `x`, 200 values from -3.98 to 4, through a quantiser of a scale, and a product behind it.
fn quantized(scale: f32, zero: f32) -> (ModelProto, ModelProto) {
    use ElementType::*;
    let product = |from: &str| node("MatMul", &[from, "w"], &["y"], vec![]).named("product");
    let round = [
        node("QuantizeLinear", &["x", "scale", "zero"], &["q"], vec![]).named("down"),
        node("DequantizeLinear", &["q", "scale", "zero"], &["d"], vec![]).named("up"),
        product("d"),
    ];
    let held = |nodes: &[NodeProto]| {
        let mut graph = graph(&[value("x", Float, &[50, 4])], nodes, &[value("y", Float, &[50])]);
        graph.initializer = vec![tensor("w", Float, &[1.0; 4])];
        graph
    };
    let mut converted = held(&round);
    let more = [tensor("scale", Float, &[scale]), tensor("zero", Uint8, &[zero])];
    converted.initializer.extend(more);
    (model(21, held(&[product("x")])), model(21, converted))
}

/// A scale that was calibrated on other data cuts values off, and is to blame for what comes of
/// them.
#[test]
fn a_scale_that_does_not_cover_the_values_is_the_culprit() {
    let folder = Folder::new();
    let values: Vec<f32> = (0..200).map(|place| (place as f32 - 99.0) / 25.0).collect();
    let x = tensor1(&values).into_shape(&[50, 4]).expect("a matrix");
    let input = format!("x={}", folder.tensor("x.pb", ElementType::Float, x));
    let judged = |scale, zero| {
        let (reference, converted) = quantized(scale, zero);
        let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &converted));
        let compared = onnx_cast(["compare", &a, &b, "-i", &input, "--cosine", "0.999", "--json"]);
        let audited = onnx_cast(["audit", &b, "--baseline", &a, "-i", &input, "--json"]);
        let pair = json(&stdout(&compared))["comparisons"][0].clone();
        (pair, json(&stdout(&audited))["models"][0].clone(), audited.status.code())
    };
    let (pair, audited, status) = judged(0.001, 128.0);
    assert_eq!(pair["largest_jump"]["culprit"]["node"], "down");
    assert_eq!(pair["casts"]["added"][0]["node"], "down");
    assert_eq!(status, Some(1));
    let exceeded = audited["exceeded"][0].as_str().expect("a sentence");
    assert!(exceeded.contains("its scale reaches 0.1280, the values 4"), "{exceeded}");
    // Half of the values at 0 is what a Relu does, and a few at the end are nothing.
    for (scale, zero) in [(0.016, 0.0), (0.0314, 128.0)] {
        let (_, audited, status) = judged(scale, zero);
        assert_eq!(status, Some(0), "{audited}");
    }
}

/// `x` through a convolution of one number, a Relu and a product; and as quantisers have it:
/// without the Relu, which the range of the codes behind it stands for, and with a bias in 32 bits.
fn fused() -> (ModelProto, ModelProto) {
    use ElementType::*;
    let coded = |from: &str, to: &str, scale: &str, zero: &str| {
        let code = format!("{to}_code");
        [
            node("QuantizeLinear", &[from, scale, zero], &[&code], vec![])
                .named(&format!("{to}/q")),
            node("DequantizeLinear", &[&code, scale, zero], &[to], vec![]),
        ]
    };
    let conv =
        |x: &str, bias: &str, y: &str| node("Conv", &[x, "w", bias], &[y], vec![]).named("conv");
    let product = |x: &str| node("MatMul", &[x, "v"], &["y"], vec![]).named("product");
    let plain =
        [conv("x", "bias", "c"), node("Relu", &["c"], &["r"], vec![]).named("relu"), product("r")];
    let bias = node("DequantizeLinear", &["bias_code", "bias_scale"], &["bias"], vec![]);
    let quantised = [
        &coded("x", "x_back", "x_scale", "x_zero")[..],
        &[bias, conv("x_back", "bias", "r")],
        &coded("r", "r_back", "r_scale", "r_zero"),
        &[product("r_back")],
    ];
    let held = |nodes: &[NodeProto]| {
        let (x, y) = (value("x", Float, &[1, 1, 20, 10]), value("y", Float, &[1, 2, 20, 1]));
        let mut graph = graph(&[x], nodes, &[y]);
        let mut weight = tensor("w", Float, &[1.0, -0.5]);
        weight.dims = vec![2, 1, 1, 1];
        let mut product = tensor("v", Float, &[0.125; 10]);
        product.dims = vec![10, 1];
        graph.initializer = vec![weight, product];
        graph
    };
    let (mut reference, mut converted) = (held(&plain), held(&quantised.concat()));
    // The nearest number of the bias's scale is half a step off.
    reference.initializer.push(tensor("bias", Float, &[0.250_003, 1.5]));
    converted.initializer.extend([
        tensor("bias_code", Int32, &[25_000.0, 150_000.0]),
        tensor("bias_scale", Float, &[1e-5]),
        tensor("x_scale", Float, &[8.0 / 255.0]),
        tensor("x_zero", Uint8, &[128.0]),
        tensor("r_scale", Float, &[4.5 / 255.0]),
        tensor("r_zero", Uint8, &[0.0]),
    ]);
    (model(21, reference), model(21, converted))
}

/// What is negative before the codes of a fused Relu is no difference, and the rounding of a bias
/// no changed weight.
#[test]
fn what_the_range_of_codes_stands_for_is_no_difference() {
    let folder = Folder::new();
    let (reference, converted) = fused();
    let (a, b) = (folder.message("a.onnx", &reference), folder.message("b.onnx", &converted));
    let values: Vec<f32> = (0..200).map(|place| (place as f32 - 99.0) / 25.0).collect();
    let x = tensor1(&values).into_shape(&[1, 1, 20, 10]).expect("an image");
    let input = format!("x={}", folder.tensor("x.pb", ElementType::Float, x));
    let output = onnx_cast(["compare", &a, &b, "-i", &input, "--rtol", "1e-6", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let pair = json(&stdout(&output))["comparisons"][0].clone();
    assert_eq!(pair["verdict"], "rounded", "{pair}");
    for place in ["first_difference", "largest_jump"] {
        assert_ne!(pair[place]["tensor"]["name"], "r", "{pair}");
    }
    assert_eq!(pair["weights"]["changed"], json!([]));
}
