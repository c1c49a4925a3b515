//! Nodes with axes, directions and equations that their operators do not take: tract would compute
//! something, or never end.

use tract_onnx::pb::type_proto;
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto, TypeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{
    cast, graph, graph_attribute, int, int64, ints, model, node, raw, shaped, string, symbol,
    unshaped, value,
};

use ElementType::{Float, Float16, Int64, Uint8};

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

/// A base that is stretched to more elements than it has, by an exponent that changes nothing.
#[test]
fn a_constant_that_does_not_fit_is_refused() {
    let mut graph = graph(
        &[value("x", Float, &[3])],
        &[node("Pow", &["x", "ones"], &["y"], vec![])],
        &[unshaped("y", Float)],
    );
    let ones = 1f32.to_le_bytes().repeat(2);
    graph.initializer.push(raw("ones", Float as i32, &[2], &ones));
    let message = refusal(&model(13, graph));
    assert!(message.contains("has inputs of shapes that do not fit"), "{message}");
}

/// Before opset 11.
#[test]
fn an_axis_of_flatten_from_the_end_is_refused() {
    let flatten = |opset| {
        let flatten = node("Flatten", &["x"], &["y"], vec![int("axis", -1)]);
        model(opset, graph(&[value("x", Float, &[2, 3])], &[flatten], &[unshaped("y", Float)]))
    };
    onnx().model_for_proto_model(&flatten(11)).unwrap().into_optimized().expect("a sound model");
    let message = refusal(&flatten(9));
    let refused = "`axis` -1, where it takes 0 and more, the model imports 9";
    assert!(message.contains(refused), "{message}");
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

/// The type and the shape of an operand.
type Operand = (ElementType, &'static [usize]);

/// The opset, the operator, its outputs and operands, and what is said of it.
type Row = (i64, &'static str, &'static [&'static str], &'static [Operand], &'static str);

/// In a plan of fixed sizes, and node by node, where sizes are told by the values alone.
#[test]
fn sizes_that_do_not_fit_one_another_are_refused() {
    const X: Operand = (Float, &[6, 2]);
    const HEADS: Operand = (Float, &[1, 2, 3, 4]);
    let rows: [Row; 20] = [
        (21, "Split", &["y", "z", "u"], &[X, (Int64, &[3])], "parts of [0, 0, 0] of an axis of 6"),
        (13, "Split", &["y", "z", "u", "v"], &[X], "an axis of 6 for 4 equal parts"),
        (
            21,
            "ScatterND",
            &["y"],
            &[X, (Int64, &[2, 1]), (Float, &[3, 2])],
            "updates of shape [3, 2], not [2, 2]",
        ),
        (
            21,
            "ScatterND",
            &["y"],
            &[X, (Int64, &[2, 2]), (Float, &[2, 1])],
            "updates of shape [2, 1], not [2]",
        ),
        (
            23,
            "Attention",
            &["y"],
            &[HEADS, (Float, &[1, 2, 5, 4]), (Float, &[1, 2, 4, 4])],
            "5 keys and 4 values",
        ),
        (
            23,
            "Attention",
            &["y"],
            &[HEADS, (Float, &[1, 2, 5, 4]), (Float, &[1, 2, 6, 4])],
            "5 keys and 6 values",
        ),
        (
            23,
            "RotaryEmbedding",
            &["y"],
            &[HEADS, (Float, &[1, 3, 1]), (Float, &[1, 3, 1])],
            "cosines of shape [1, 3, 1], not [1, 3, 2], for 4 elements",
        ),
        (
            23,
            "RotaryEmbedding",
            &["y"],
            &[HEADS, (Float, &[1, 3, 2]), (Float, &[1, 3, 3])],
            "sines of shape [1, 3, 3], not [1, 3, 2], for 4 elements",
        ),
        (
            23,
            "RotaryEmbedding",
            &["y"],
            &[(Float, &[2, 2, 3, 4]), (Float, &[1, 3, 2]), (Float, &[1, 3, 2])],
            "cosines of shape [1, 3, 2], not [2, 3, 2]",
        ),
        (
            23,
            "RotaryEmbedding",
            &["y"],
            &[(Float, &[2, 3, 8]), (Float, &[6, 4]), (Float, &[6, 4]), (Int64, &[1, 3])],
            "positions of shape [1, 3], not [2, 3], the model imports 23",
        ),
        (
            23,
            "Attention",
            &["y"],
            &[HEADS, (Float, &[1, 2, 5, 4]), (Float, &[1, 2, 5, 4]), (Float, &[3, 4])],
            "a mask for 4 of 5 keys, the model imports 23",
        ),
        (
            13,
            "DequantizeLinear",
            &["y"],
            &[(Uint8, &[2, 3]), (Float, &[3]), (Uint8, &[1])],
            "a zero point of shape [1] does not fit a scale of shape [3] (opset 13)",
        ),
        (
            13,
            "Pow",
            &["y"],
            &[(Float, &[4, 3, 1]), (Float, &[2, 0])],
            "inputs of shapes that do not fit",
        ),
        (13, "Add", &["y"], &[(Float, &[3]), (Float, &[2])], "inputs of shapes that do not fit"),
        (13, "Split", &["y", "z", "u", "v"], &[X, (Int64, &[3])], "of [0, 0, 0] for 4 outputs"),
        (
            13,
            "Clip",
            &["y"],
            &[X, (Float, &[2])],
            "an input 1 of shape [2], where it takes a number",
        ),
        (21, "Trilu", &["y"], &[(Float, &[3])], "an input 0 of rank 1, where it takes 2 and more"),
        (
            13,
            "MatMul",
            &["y"],
            &[(Float, &[]), X],
            "an input 0 of rank 0, where it takes 1 and more",
        ),
        (
            13,
            "NegativeLogLikelihoodLoss",
            &["y"],
            &[X, (Int64, &[5])],
            "a `target` of other sizes than its input, the model imports 13",
        ),
        (
            13,
            "SoftmaxCrossEntropyLoss",
            &["y"],
            &[X, (Int64, &[5])],
            "`labels` of other sizes than its `scores`, the model imports 13",
        ),
    ];
    for (opset, operator, outputs, operands, refused) in rows {
        let names = &["a", "b", "c", "d"][..operands.len()];
        let heads = (operator == "RotaryEmbedding").then(|| int("num_heads", 2));
        let nodes = [node(operator, names, outputs, heads.into_iter().collect())];
        let made: Vec<_> = outputs.iter().map(|output| unshaped(output, Float)).collect();
        let zeros: Vec<(ElementType, Tensor)> = operands
            .iter()
            .map(|(ty, shape)| (*ty, Tensor::zero_dt(ty.datum_type(), shape).unwrap()))
            .collect();
        let fixed: Vec<_> = names
            .iter()
            .zip(operands)
            .map(|(name, (ty, shape))| {
                let shape: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
                value(name, *ty, &shape)
            })
            .collect();
        let open: Vec<_> = names
            .iter()
            .zip(operands)
            .map(|(name, (ty, shape))| {
                let sizes = (0..shape.len()).map(|axis| symbol(&format!("{name}{axis}")));
                shaped(name, *ty, sizes.collect())
            })
            .collect();
        // What a Split takes for sizes is compared where it is known.
        let mut plan = graph(&fixed, &nodes, &made);
        if operator == "Split" && operands.len() == 2 {
            plan.input.pop();
            plan.initializer.push(int64("b", &[0, 0, 0]));
        }
        let message = refusal(&model(opset, plan));
        assert!(message.contains(refused), "{operator}: {message}");
        let walked = model(opset, graph(&open, &nodes, &made));
        let walked = Interpreter::of_proto(onnx(), walked, None).unwrap();
        let given = zeros.into_iter().map(|(ty, tensor)| OnnxTensor::new(ty, tensor).unwrap());
        let message = format!("{:#}", walked.run(given.collect()).unwrap_err());
        assert!(message.contains(refused), "{operator} node by node: {message}");
    }
}
