//! Nodes with axes, directions and equations that their operators do not take: tract would compute something, or never end.

use tract_onnx::pb::type_proto;
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, TypeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, onnx};

use crate::common::proto::{
    cast, graph, graph_attribute, int, int64, ints, model, node, raw, string, unshaped, value,
};

use ElementType::{Float, Float16};

fn of(nodes: &[NodeProto], shape: &[i64]) -> ModelProto {
    let mut graph = graph(&[value("x", Float, shape)], nodes, &[unshaped("y", Float)]);
    graph.initializer = vec![
        raw("w", Float as i32, &[2], &[0; 8]),
        int64("d", &[3]),
        int64("k", &[3]),
        raw("scales", Float as i32, &[1], &[0; 4]),
    ];
    model(21, graph)
}

#[track_caller]
fn refusal(model: &ModelProto) -> String {
    let optimised = onnx().model_for_proto_model(model).and_then(|model| model.into_optimized());
    format!("{:#}", optimised.expect_err("it should be refused"))
}

#[test]
fn axes_that_there_are_not_are_refused() {
    let one = |operator: &str, inputs: &[&str], attributes: Vec<AttributeProto>| {
        let outputs = if operator == "TopK" { &["y", "i"][..] } else { &["y"] };
        of(&[node(operator, inputs, outputs, attributes)], &[2])
    };
    for (model, refused) in [
        (one("LayerNormalization", &["x", "w"], vec![int("axis", -100)]), "`axis` -100, where"),
        (one("LayerNormalization", &["x", "w"], vec![int("axis", 100)]), "`axis` 100, where"),
        (
            one("OneHot", &["d", "k", "w"], vec![int("axis", -100)]),
            "`axis` -100, where it takes -2 to 1",
        ),
        (
            one("LogSoftmax", &["x"], vec![int("axis", 100)]),
            "`axis` 100, where it takes -1 to 0 of rank 1",
        ),
        (one("Einsum", &["x", "w"], vec![string("equation", "1,2->3")]), "`1` names no axis"),
        (one("Einsum", &["x"], vec![string("equation", "a->b")]), "no operand with the axis b"),
        (one("TopK", &["x", "k"], vec![]), "input K 3, where it takes 0 to 2"),
        (
            one("Transpose", &["x"], vec![ints("perm", &[0, 0])]),
            "`perm` of 2 numbers, where it takes 1",
        ),
    ] {
        let message = refusal(&model);
        assert!(message.contains(refused), "{message}");
        assert!(message.contains("the model imports 21"), "{message}");
    }
}

#[test]
fn a_direction_that_there_is_not_is_refused() {
    let body =
        graph(&[value("i", Float, &[])], &[cast("i", Float16, "o")], &[value("o", Float16, &[])]);
    let scan = |direction| {
        let directions = ints("scan_input_directions", &[direction]);
        let attributes =
            vec![graph_attribute("body", body.clone()), int("num_scan_inputs", 1), directions];
        let nodes = [node("Scan", &["x"], &["h"], attributes), cast("h", Float, "y")];
        of(&nodes, &[2])
    };
    onnx().model_for_proto_model(&scan(1)).expect("a sound model");
    let message = refusal(&scan(i64::MAX));
    assert!(
        message.contains("has attribute `scan_input_directions` 9223372036854775807"),
        "{message}"
    );
}

/// A declaration of anything else leaves nothing in tract's messages.
#[test]
fn an_output_that_is_no_tensor_is_refused() {
    let mut model = of(&[node("Neg", &["x"], &["y"], vec![])], &[2]);
    onnx().model_for_proto_model(&model).expect("a sound model");
    let output = &mut model.graph.as_mut().expect("a graph").output[0];
    assert!(matches!(
        output.r#type.as_ref().and_then(|ty| ty.value.as_ref()),
        Some(type_proto::Value::TensorType(_))
    ));
    output.r#type = Some(TypeProto::default());
    assert!(refusal(&model).contains("output `y` is not declared as a tensor"));
}

/// A sequence, say: tract would say that it has no type.
#[test]
fn an_input_that_is_no_tensor_is_refused() {
    let mut model = of(&[node("Neg", &["x"], &["y"], vec![])], &[2]);
    model.graph.as_mut().expect("a graph").input[0].r#type = Some(TypeProto::default());
    assert!(refusal(&model).contains("input `x` is not declared as a tensor"));
}
