//! What the commands say of quantisers.

use serde_json::json;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, audit::Outcome};

use crate::common::proto::{Change, graph, model, node, tensor, value};
use crate::program::{Folder, json, onnx_cast, stdout};

/// A model without a Cast has something to audit if it quantises: here a constant weight and an activation.
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
    // The worst is first.
    assert_eq!(report["casts"][0]["node"], "activation");
    // Beyond a limit it fails.
    let limited = onnx_cast(["audit", &path, "-i", &input, "--allow", "saturated=0"]);
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    assert!(stdout(&limited).contains("`activation`: saturated 1"), "{}", stdout(&limited));
}
