//! What is said of a model's casts without running it, and that probes leave constants what they
//! are.

use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Audit, FindingKind, Outcome};
use tract_onnx_cast::{ElementType, model_proto, onnx, tensor_proto};

use crate::common::proto::{self, cast, model, unshaped};

use ElementType::{
    BFloat16, Bool, Double, Float, Float4E2M1, Float8E5M2, Float16, Int8, Int32, Int64, Uint8,
};
use FindingKind::{
    Contradicted, FloatToInteger, Int64ToInt32, NarrowedBefore, NoOp, WidenedBefore,
};

const OPSET: i64 = 23;

fn node(op: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    proto::node(op, inputs, &[output], attribute)
}

/// What is found in a graph of these nodes, whose input is `x` and whose output `y`.
fn found(x: ElementType, nodes: Vec<NodeProto>, y: ElementType) -> Vec<(FindingKind, String)> {
    found_in(GraphProto {
        name: "g".into(),
        input: vec![unshaped("x", x)],
        node: nodes,
        output: vec![unshaped("y", y)],
        ..Default::default()
    })
}

fn found_in(graph: GraphProto) -> Vec<(FindingKind, String)> {
    let proto = model(OPSET, graph);
    let lenient = onnx().with_ignore_value_info(true).with_ignore_output_types(true);
    let survey = model_proto::survey(&lenient, proto, None).expect("a graph");
    assert!(survey.problems().is_empty(), "{:?}", survey.problems());
    let found = survey.findings().iter();
    found.map(|finding| (finding.kind, finding.text.clone())).collect()
}

fn kinds(x: ElementType, nodes: Vec<NodeProto>, y: ElementType) -> Vec<FindingKind> {
    found(x, nodes, y).into_iter().map(|(kind, _)| kind).collect()
}

/// What is said of two casts in a row.
fn chain(x: ElementType, middle: ElementType, y: ElementType) -> Option<(FindingKind, String)> {
    let found = found(x, vec![cast("x", middle, "m"), cast("m", y, "y")], y);
    found.into_iter().find(|(kind, _)| matches!(kind, WidenedBefore | NarrowedBefore))
}

#[test]
fn a_cast_that_does_nothing_is_found() {
    assert_eq!(kinds(Float, vec![cast("x", Float, "y")], Float), [NoOp]);
    let saturates = found(Float8E5M2, vec![cast("x", Float8E5M2, "y")], Float8E5M2);
    assert!(saturates[0].1.ends_with("only infinities change"), "{saturates:?}");
}

#[test]
fn chains_are_found_with_what_they_lose() {
    let cases = [
        ((Float, Double, Float), WidenedBefore, "nothing is lost, and neither cast is needed"),
        ((Int8, Int32, Int64), WidenedBefore, "nothing is lost, and one cast from INT8"),
        ((Float, Double, Float16), WidenedBefore, "what FLOAT16 cannot hold is lost, and one cast"),
        // Beyond 32 bits a DOUBLE becomes zero, an INT64 its low bits.
        ((Int32, Double, Int8), WidenedBefore, "what INT8 cannot hold is lost"),
        ((Float, Float16, Float), NarrowedBefore, "what FLOAT16 could not hold is lost"),
        ((Int64, Int8, Int64), NarrowedBefore, "what INT8 could not hold is lost"),
        // Neither holds the other.
        ((Float16, BFloat16, Float16), NarrowedBefore, "what BFLOAT16 could not hold is lost"),
        ((Float, Int32, Float), NarrowedBefore, "what INT32 could not hold is lost"),
    ];
    for ((x, middle, y), kind, words) in cases {
        let (got, text) = chain(x, middle, y).expect("a chain");
        assert_eq!(got, kind, "{x} {middle} {y}");
        assert!(text.contains(words), "{x} {middle} {y}: {text}");
    }
    // Every step narrows: there is nothing that could have been kept.
    assert_eq!(chain(Double, Float, Float16), None);
    // Infinities come back saturated.
    let (_, text) = chain(Float8E5M2, Float, Float8E5M2).expect("a chain");
    assert!(!text.contains("nothing is lost") && !text.contains("neither"), "{text}");
}

#[test]
fn a_chain_goes_through_operators_that_only_move_values() {
    let nodes = vec![
        cast("x", Float16, "a"),
        node("Identity", &["a"], "b", vec![]),
        node("Transpose", &["b"], "c", vec![]),
        cast("c", Float, "y"),
    ];
    assert_eq!(kinds(Float, nodes, Float), [NarrowedBefore]);
    let computed =
        vec![cast("x", Float16, "a"), node("Neg", &["a"], "b", vec![]), cast("b", Float, "y")];
    assert_eq!(kinds(Float, computed, Float), []);
}

#[test]
fn a_declaration_that_contradicts_a_cast_is_found() {
    let found = found_in(GraphProto {
        name: "g".into(),
        input: vec![unshaped("x", Float16)],
        node: vec![cast("x", Float, "h"), cast("h", Double, "y")],
        value_info: vec![unshaped("h", Float16)],
        output: vec![unshaped("y", Double)],
        ..Default::default()
    });
    assert_eq!(found[0].0, Contradicted);
    assert_eq!(found[0].1, "makes `h` FLOAT, but the model declares it FLOAT16");
    let of_output = found_in(GraphProto {
        name: "g".into(),
        input: vec![unshaped("x", Int32)],
        node: vec![cast("x", Float, "y")],
        output: vec![unshaped("y", Float16)],
        ..Default::default()
    });
    assert_eq!(of_output[0].0, Contradicted);
}

#[test]
fn integers_that_may_not_hold_a_value_are_found() {
    let single = |from, to| kinds(from, vec![cast("x", to, "y")], to);
    assert_eq!(single(Int64, Int32), [Int64ToInt32]);
    assert_eq!(single(Int32, Int64), []);
    assert_eq!(single(Float, Int64), [FloatToInteger]);
    assert_eq!(single(Float4E2M1, Uint8), [FloatToInteger]);
    // −6 to 6, without NaN and infinities.
    assert_eq!(single(Float4E2M1, Int8), []);
    assert_eq!(single(Float, Bool), []);
}

/// An operator that needs constants gets them from casts with probes as it does from casts without.
#[test]
fn probes_leave_constants_what_they_are() -> TractResult<()> {
    const CHANNELS: usize = 24;
    let constant = |name: &str, at: f32| {
        let values: Vec<f16> = (0..CHANNELS).map(|c| f16::from_f32(at + c as f32)).collect();
        tensor_proto::write(name, Float16, &tensor1(&values))
    };
    let names = ["scale", "bias", "mean", "variance"];
    let initializer =
        (1u8..).zip(names).map(|(at, name)| constant(&format!("{name}_half"), at.into()));
    let mut nodes: Vec<NodeProto> =
        names.iter().map(|name| cast(&format!("{name}_half"), Float, name)).collect();
    nodes.push(node(
        "BatchNormalization",
        &["x", "scale", "bias", "mean", "variance"],
        "y",
        vec![],
    ));
    let proto = model(
        OPSET,
        GraphProto {
            name: "g".into(),
            input: vec![unshaped("x", Float)],
            initializer: initializer.collect::<tract_onnx_cast::Result<_>>()?,
            node: nodes,
            output: vec![unshaped("y", Float)],
            ..Default::default()
        },
    );
    let input = Tensor::zero::<f32>(&[1, CHANNELS, 2])?;
    let run = |onnx: tract_onnx_cast::CastOnnx, audit: Option<&Audit>| -> TractResult<Tensor> {
        let mut model = model_proto::load(&onnx, proto.clone(), None)?
            .into_model()
            .with_input_fact(0, InferenceFact::dt_shape(DatumType::F32, input.shape()))?
            .into_typed()?;
        audit.map(|audit| audit.watch(&mut model)).transpose()?;
        let runnable = model.into_optimized()?.into_runnable()?;
        Ok(runnable.run(tvec!(input.clone().into_tvalue()))?.remove(0).into_tensor())
    };
    let audit = model_proto::survey(&onnx(), proto.clone(), None)?.audit();
    let plain = run(onnx(), None)?;
    assert_eq!(run(onnx().with_probes(true), Some(&audit))?, plain);
    let rows = audit.rows();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((row.runs, row.stats.count(Outcome::Exact)), (1, CHANNELS as u64));
    }
    Ok(())
}

/// A quantiser and a rounding before a cast are rows of the same audit, whatever the loader was
/// asked first.
#[test]
fn rows_and_probes_are_one_list() -> TractResult<()> {
    let scale = proto::tensor("scale", Float, &[0.5]);
    let quantize = node("QuantizeLinear", &["x", "scale"], "q", vec![]);
    let cast = node("Cast", &["x"], "y", vec![proto::int("to", Int32 as i64)]);
    let graph = GraphProto {
        name: "g".into(),
        input: vec![unshaped("x", Float)],
        initializer: vec![scale],
        node: vec![quantize, cast],
        output: vec![unshaped("q", Uint8), unshaped("y", Int32)],
        ..Default::default()
    };
    let loaded = model_proto::load(&onnx().with_probes(true), model(OPSET, graph), None)?;
    let audit = loaded.audit();
    let input = tensor1(&[1.0f32, 2.0, 3.0]);
    let mut model = loaded.into_model();
    model.set_input_fact(0, InferenceFact::dt_shape(DatumType::F32, input.shape()))?;
    let mut model = model.into_typed()?;
    audit.watch(&mut model)?;
    model.into_optimized()?.into_runnable()?.run(tvec!(input.into_tvalue()))?;
    let rows = audit.rows();
    let seen: Vec<_> = rows.iter().map(|row| (row.cast.op_type(), row.types, row.runs)).collect();
    let expected = [("QuantizeLinear", Some((Float, Uint8)), 1), ("Cast", Some((Float, Int32)), 1)];
    assert_eq!(seen, expected);
    Ok(())
}
