//! Pairs of which the converted model is quantised.

use std::fs;

use tract_onnx::pb::TensorProto;
use tract_onnx_cast::ElementType::{self, Float, Int8, Uint8};

use super::{model, ops, reduced};
use crate::common::proto::{Sketch, bytes, tensor};
use crate::program::*;

/// Weights of a product as codes of a scale of 0.1, those of some rows left out.
fn codes(without: &[usize]) -> Vec<f32> {
    let code = |(row, column): (usize, usize)| {
        if without.contains(&row) { 0.0 } else { ((7 * row + 5 * column) % 11) as f32 - 5.0 }
    };
    (0..16).map(|place| code((place / 4, place % 4))).collect()
}

fn matrix(name: &str, ty: ElementType, values: &[f32]) -> TensorProto {
    TensorProto { dims: vec![4, 4], ..tensor(name, ty, values) }
}

fn scalar(name: &str, ty: ElementType, value: f32) -> TensorProto {
    TensorProto { dims: vec![], ..tensor(name, ty, &[value]) }
}

/// A product of a value, which is quantised before it, and these codes.
fn quantised(sketch: Sketch, value: &str, codes: &[f32]) -> Sketch {
    sketch
        .initializer(matrix("wq", Int8, codes))
        .initializer(scalar("ws", Float, 0.1))
        .node("DynamicQuantizeLinear", &[value], &["tq", "ts", "tz"], vec![])
        .node("MatMulInteger", &["tq", "wq", "tz"], &["i"], vec![])
        .cast("i", Float, "f")
        .node("Mul", &["ts", "ws"], &["s"], vec![])
        .node("Mul", &["f", "s"], &["p"], vec![])
}

/// A converter quantises the input of a product before it.
#[test]
fn what_is_before_the_blamed_node_becomes_constants() {
    let weights: Vec<f32> = codes(&[]).iter().map(|code| code * 0.1).collect();
    let start = || Sketch::new().input("x", Float, &[3, 4]).node("Tanh", &["x"], &["t"], vec![]);
    let right = start().initializer(matrix("w", Float, &weights)).node(
        "MatMul",
        &["t", "w"],
        &["p"],
        vec![],
    );
    let wrong = quantised(start(), "t", &codes(&[1, 2]));
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        let whole = sketch.node("Neg", &["p"], &["y"], vec![]).output("y", Float, &[3, 4]);
        folder.write(name, bytes(&whole.model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["MatMulInteger", "Cast", "Mul"], "{report}");
    assert!(stdout(&onnx_cast(["test", &folder.text("case")])).contains("0 passed, 1 failed"));
    let readme = fs::read_to_string(folder.path("case/README.md")).expect("a page");
    assert!(readme.contains("What its nodes take of others is a constant"), "{readme}");
    let given = model(&folder, "model.onnx").graph.expect("a graph").input;
    assert_eq!(given, model(&folder, "reference.onnx").graph.expect("a graph").input);
}

/// A quantiser before the blamed node stays where it takes another value than the reference's
/// product.
#[test]
fn what_takes_another_input_becomes_no_constant() {
    let weights: Vec<f32> = codes(&[]).iter().map(|code| code * 0.1).collect();
    let start = || {
        let sketch =
            Sketch::new().input("x", Float, &[3, 4]).initializer(matrix("w", Float, &weights));
        let sketch = sketch.node("MatMul", &["x", "w"], &["m"], vec![]);
        sketch.node("Tanh", &["m"], &["t"], vec![])
    };
    let right = start().node("MatMul", &["t", "w"], &["p"], vec![]);
    let wrong = quantised(start(), "m", &codes(&[]));
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        let whole = sketch.node("Softmax", &["p"], &["y"], vec![]).output("y", Float, &[3, 4]);
        folder.write(name, bytes(&whole.model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    let left = model(&folder, "model.onnx");
    assert!(ops(&left).contains(&"DynamicQuantizeLinear"), "{report}");
}

/// A converter adds the bias of a product behind it, as the reference's operator does.
#[test]
fn what_both_models_add_is_left_out() {
    let codes = [5f32, -3.0, 2.0, 4.0, -1.0, 3.0, 5.0, -4.0];
    let weights = |ty, name: &str, values: &[f32]| TensorProto {
        dims: vec![2, 1, 2, 2],
        ..tensor(name, ty, values)
    };
    let bias = tensor("b", Float, &[0.3f32, -0.2]);
    let start = || {
        let sketch = Sketch::new().input("x", Float, &[1, 1, 4, 4]);
        sketch.node("Tanh", &["x"], &["t"], vec![])
    };
    let right = start()
        .initializer(weights(Float, "w", &codes.map(|code| code * 0.1)))
        .initializer(bias.clone())
        .node("Conv", &["t", "w", "b"], &["p"], vec![]);
    let wrong = start()
        .initializer(weights(Int8, "wq", &codes))
        .initializer(scalar("ws", Float, 0.13))
        .initializer(TensorProto { name: "c".into(), dims: vec![1, 2, 1, 1], ..bias })
        .node("DynamicQuantizeLinear", &["t"], &["tq", "ts", "tz"], vec![])
        .node("ConvInteger", &["tq", "wq", "tz"], &["i"], vec![])
        .cast("i", Float, "f")
        .node("Mul", &["ts", "ws"], &["s"], vec![])
        .node("Mul", &["f", "s"], &["m"], vec![])
        .node("Add", &["m", "c"], &["p"], vec![]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        let whole = sketch.node("Neg", &["p"], &["y"], vec![]).output("y", Float, &[1, 2, 3, 3]);
        folder.write(name, bytes(&whole.model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["ConvInteger", "Cast", "Mul"], "{report}");
    assert!(stdout(&onnx_cast(["test", &folder.text("case")])).contains("0 passed, 1 failed"));
}

/// Of operators that hand codes to each other only the wrong one is left, between two quantisers.
#[test]
fn parts_are_cut_where_there_are_codes_alone() {
    let weights: Vec<f32> = codes(&[]).iter().map(|code| code * 0.1).collect();
    let start = || Sketch::new().input("x", Float, &[3, 4]).node("Tanh", &["x"], &["t"], vec![]);
    let mut right = start().initializer(matrix("w", Float, &weights));
    let mut wrong = start()
        .initializer(matrix("w_quantized", Int8, &codes(&[])))
        .initializer(matrix("w_other", Int8, &codes(&[1, 2])))
        .initializer(scalar("ws", Float, 0.1))
        .initializer(scalar("wz", Int8, 0.0))
        .initializer(scalar("z", Uint8, 128.0))
        .initializer(scalar("ts", Float, 0.008))
        .node("QuantizeLinear", &["t", "ts", "z"], &["t_quantized"], vec![]);
    let scales = [("p1", 0.012), ("p2", 0.016), ("p3", 0.02), ("p4", 0.024)];
    let mut last = "t";
    for (made, scale) in scales {
        right = right.node("MatMul", &[last, "w"], &[made], vec![]);
        let [taken, codes] = [last, made].map(|name| format!("{name}_quantized"));
        let [of_taken, of_made] = [last, made].map(|name| format!("{name}s"));
        let weights = if made == "p2" { "w_other" } else { "w_quantized" };
        let given = [&*taken, &of_taken, "z", weights, "ws", "wz", &of_made, "z"];
        wrong = wrong.initializer(scalar(&of_made, Float, scale));
        wrong = wrong.node("QLinearMatMul", &given, &[&codes], vec![]);
        last = made;
    }
    wrong = wrong.node("DequantizeLinear", &["p4_quantized", "p4s", "z"], &["p4"], vec![]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        folder.write(name, bytes(&sketch.output("p4", Float, &[3, 4]).model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    let readme = fs::read_to_string(folder.path("case/README.md")).expect("a page");
    assert!(readme.contains("A quantiser at an end stands"), "{readme}");
    let model = model(&folder, "model.onnx");
    assert_eq!(ops(&model), ["QuantizeLinear", "QLinearMatMul", "DequantizeLinear"], "{report}");
    assert_eq!(model.graph.expect("a graph").node[1].output[0], "p2_quantized");
}
