//! What a node asks for is computed, or refused by its name: attributes, their values and types,
//! inputs, versions and domains.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{CastOnnx, ElementType, OnnxTensor, model_proto, onnx};

use crate::common::doubled::Doubled;
use crate::common::proto::{
    float, graph, int, int64, ints, model, node, refusal, string, untyped, value,
};

use ElementType::{Bool, Double, Float, Int8, Int32, Int64, Uint8};

/// A model of one node of FLOAT inputs `x`, `a`, `b`, `c`, …, and one output.
fn one(opset: i64, node: NodeProto) -> ModelProto {
    let is_input = |name: &&String| !name.is_empty();
    let mut inputs: Vec<_> =
        node.input.iter().filter(is_input).map(|name| value(name, Float, &[2, 3])).collect();
    inputs.dedup();
    let outputs = [value("y", Float, &[2, 3])];
    model(opset, graph(&inputs, &[node], &outputs))
}

fn refused(opset: i64, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
    refusal(&one(opset, node(op, inputs, &["y"], attributes)))
}

/// Asserts that a node is refused with these words after its name.
fn assert_refused(
    opset: i64,
    op: &str,
    inputs: &[&str],
    attributes: Vec<AttributeProto>,
    want: &str,
) {
    let got = refused(opset, op, inputs, attributes);
    assert!(got.ends_with(want) && got.contains("_y`"), "{op}: {got}");
}

fn loads(opset: i64, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) {
    let model = one(opset, node(op, inputs, &["y"], attributes));
    if let Err(error) = onnx().model_for_proto_model(&model) {
        panic!("{op}: {error:#}");
    }
}

#[test]
fn an_attribute_that_the_version_does_not_have_is_refused() {
    for (opset, op, attribute, want) in [
        (
            21,
            "ReduceMean",
            ints("axes", &[1]),
            "attribute `axes` is none of ReduceMean's in version 18, the model imports 21",
        ),
        (
            13,
            "ReduceMean",
            int("noop_with_empty_axes", 0),
            "attribute `noop_with_empty_axes` is none of ReduceMean's in version 13, the model imports 13",
        ),
        (
            13,
            "Squeeze",
            ints("axes", &[0]),
            "attribute `axes` is none of Squeeze's in version 13, the model imports 13",
        ),
        (
            13,
            "Relu",
            float("alpha", 0.5),
            "attribute `alpha` is none of Relu's in version 13, the model imports 13",
        ),
        (
            22,
            "Clip",
            float("min", 0.0),
            "attribute `min` is none of Clip's in version 13, the model imports 22",
        ),
    ] {
        assert_refused(opset, op, &["x"], vec![attribute], want);
    }
    loads(17, "ReduceMean", &["x"], vec![ints("axes", &[1])]);
    loads(6, "Clip", &["x"], vec![float("min", 0.0)]);
}

#[test]
fn an_attribute_of_another_type_given_twice_or_missing_is_refused() {
    let want = "attribute `alpha` is of type INT, and Elu's is of type FLOAT, the model imports 22";
    assert_refused(22, "Elu", &["x"], vec![int("alpha", 1)], want);
    let untyped = AttributeProto { r#type: AttributeType::Undefined as i32, ..float("mean", 1.0) };
    let want = "attribute `mean` is of type UNDEFINED, and RandomNormal's is of type FLOAT, the model imports 22";
    assert_refused(22, "RandomNormal", &[], vec![ints("shape", &[2, 3]), untyped], want);
    let twice = vec![float("alpha", 1.0), float("alpha", 2.0)];
    let want = "attribute `alpha` is given twice, the model imports 22";
    assert_refused(22, "Elu", &["x"], twice, want);
    let want = "attribute `blocksize` is missing, the model imports 13";
    assert_refused(13, "DepthToSpace", &["x"], vec![], want);
}

#[test]
fn a_value_that_is_not_computed_is_refused() {
    for (opset, op, inputs, attribute, want) in [
        (
            15,
            "BatchNormalization",
            &["x", "a", "b", "c", "d"][..],
            int("training_mode", 2),
            "attribute `training_mode` is 2, and computed is only 0 or 1, the model imports 15",
        ),
        (
            22,
            "Gelu",
            &["x"],
            string("approximate", "sigmoid"),
            "attribute `approximate` is \"sigmoid\", and computed is only none or tanh, the model imports 22",
        ),
        (
            21,
            "GroupNormalization",
            &["x", "a", "b"],
            int("stash_type", 10),
            "attribute `stash_type` is 10, and computed is only 1, the model imports 21",
        ),
        (
            23,
            "RMSNormalization",
            &["x", "a"],
            int("stash_type", 11),
            "attribute `stash_type` is 11, and computed is only 1, the model imports 23",
        ),
        (
            11,
            "BitShift",
            &["x", "a"],
            string("direction", "left"),
            "attribute `direction` is \"left\", and computed is only LEFT or RIGHT, the model imports 11",
        ),
        (
            13,
            "CumSum",
            &["x", "a"],
            int("reverse", 2),
            "attribute `reverse` is 2, and computed is only 0 or 1, the model imports 13",
        ),
        (
            19,
            "Pad",
            &["x", "a"],
            string("mode", "symmetric"),
            "attribute `mode` is \"symmetric\", and computed is only constant or edge or reflect or wrap, the model imports 19",
        ),
        (
            18,
            "Split",
            &["x"],
            int("num_outputs", 2),
            "attribute `num_outputs` is 2, and the number of outputs 1, the model imports 18",
        ),
        (
            17,
            "com.microsoft.RotaryEmbedding",
            &["x", "a", "b", "c"],
            float("scale", 2.0),
            "attribute `scale` is 2, and computed is only 1.0, the model imports 17",
        ),
    ] {
        let mut attributes = vec![attribute];
        if op == "GroupNormalization" {
            attributes.push(int("num_groups", 1));
        }
        assert_refused(opset, op, inputs, attributes, want);
    }
}

#[test]
fn defaults_and_what_has_no_effect_are_fine() {
    loads(23, "RMSNormalization", &["x", "a"], vec![int("stash_type", 1), int("axis", -1)]);
    loads(22, "Gelu", &["x"], vec![string("approximate", "none")]);
    loads(5, "Relu", &["x"], vec![ints("consumed_inputs", &[0])]);
    loads(11, "Dropout", &["x"], vec![float("ratio", 0.25)]);
    let training = vec![int("training_mode", 0), float("momentum", 0.1)];
    loads(15, "BatchNormalization", &["x", "a", "b", "c", "d"], training);
}

#[test]
fn an_axis_of_old_broadcasting_must_be_what_is_done() {
    let broadcast = |axis| vec![int("broadcast", 1), int("axis", axis)];
    loads(6, "Add", &["x", "a"], broadcast(0));
    let want = "attribute `axis` is 1, and shapes are aligned by their last dimensions, the model imports 6";
    assert_refused(6, "Add", &["x", "a"], broadcast(1), want);
}

#[test]
fn inputs_and_versions_that_are_not_computed_are_refused() {
    for (opset, op, inputs, want) in [
        (
            13,
            "ReduceMean",
            &["x", "a"][..],
            "has an input 1, and ReduceMean none in version 13, the model imports 13",
        ),
        (13, "MatMul", &["x"], "lacks input 1, which it needs, the model imports 13"),
        (13, "MatMul", &["x", ""], "lacks input 1, which it needs, the model imports 13"),
        (
            8,
            "Scan",
            &["x", "a"],
            "is of version 8, and computed from version 9 on, the model imports 8",
        ),
    ] {
        assert_refused(opset, op, inputs, vec![], want);
    }
    let inputs = ["x", "", "", "", "", "", "", "", "a"];
    let want = "has an input 8, which is not computed, the model imports 17";
    assert_refused(
        17,
        "com.microsoft.MultiHeadAttention",
        &inputs,
        vec![int("num_heads", 2)],
        want,
    );
    let gemm = node("com.microsoft.QGemm", &["x", "s", "z", "x", "s", "z", "c"], &["y"], vec![]);
    let inputs = [
        value("x", Uint8, &[2, 2]),
        value("s", Float, &[]),
        value("z", Uint8, &[]),
        value("c", Uint8, &[2]),
    ];
    let gemm = refusal(&model(17, graph(&inputs, &[gemm], &[value("y", Float, &[2, 2])])));
    let want = "node `QGemm_y` (QGemm): has an input 6 of type UINT8, which is not computed, the model imports 17";
    assert_eq!(gemm, want);
}

/// A model of one node of inputs of these types, in a plan and node by node.
fn refused_of(opset: i64, op: &str, types: &[ElementType]) -> [String; 2] {
    let names = &["x", "a", "b"][..types.len()];
    let inputs: Vec<_> =
        names.iter().zip(types).map(|(name, ty)| value(name, *ty, &[2, 3])).collect();
    let graph = graph(&inputs, &[node(op, names, &["y"], vec![])], &[untyped("y")]);
    let model = model(opset, graph);
    let given = types.iter().map(|ty| {
        OnnxTensor::new(*ty, Tensor::zero_dt(ty.datum_type(), &[2, 3]).unwrap()).unwrap()
    });
    let walked = Interpreter::of_proto(onnx(), model.clone(), None).unwrap();
    [refusal(&model), walked.run(given.collect()).unwrap_err().to_string()]
}

#[test]
fn types_that_the_version_does_not_have_are_refused() {
    for (opset, op, types, want) in [
        (13, "Relu", &[Int32][..], "input 0 of type INT32 needs opset 14"),
        (11, "Max", &[Int64, Int64], "input 0 of type INT64 needs opset 12"),
        (13, "Add", &[Bool, Bool], "input 0 of type BOOL is no type of it in version 13"),
        (13, "MatMul", &[Int8, Int8], "input 0 of type INT8 is no type of it in version 13"),
        (13, "Gather", &[Float, Float], "input 1 of type FLOAT is no type of it in version 13"),
        (13, "Add", &[Float, Double], "mixes FLOAT and DOUBLE, where it takes one type"),
        (13, "Where", &[Bool, Int32, Int64], "mixes INT32 and INT64, where it takes one type"),
        (19, "Gelu", &[Float], "needs opset 20"),
    ] {
        for got in refused_of(opset, op, types) {
            assert!(got.ends_with(&format!("{want}, the model imports {opset}")), "{op}: {got}");
        }
    }
    for opset in [0, -1] {
        let model = one(opset, node("Relu", &["x"], &["y"], vec![]));
        let want = format!("the model imports opset {opset}, and the first is 1");
        assert_eq!(refusal(&model), want);
    }
    // ONNX Runtime's optimiser writes this one whatever the model imports.
    loads(11, "LayerNormalization", &["x", "a"], vec![]);
}

#[test]
fn a_domain_or_an_operator_that_nothing_here_computes_is_refused() {
    for (op, want) in [
        (
            "com.example.Relu",
            "node `Relu_y` (Relu): is of domain `com.example`, of which nothing here computes an operator",
        ),
        (
            "com.ms.internal.nhwc.Conv",
            "node `Conv_y` (Conv): is of domain `com.ms.internal.nhwc`, of which nothing here computes an operator",
        ),
        (
            "com.example.Cast",
            "node `Cast_y` (Cast): is of domain `com.example`, of which nothing here computes an operator",
        ),
        (
            "com.microsoft.DecoderAttention",
            "node `DecoderAttention_y` (DecoderAttention): is an operator of domain `com.microsoft` that nothing here computes",
        ),
        (
            "com.microsoft.Relu",
            "node `Relu_y` (Relu): is an operator of domain `com.microsoft` that nothing here computes",
        ),
        (
            "ai.onnx.ml.Relu",
            "node `Relu_y` (Relu): is an operator of domain `ai.onnx.ml` that nothing here computes",
        ),
        (
            "Normalizer",
            "node `Normalizer_y` (Normalizer): is an operator that nothing here computes, the model imports 21",
        ),
        (
            "ImageDecoder",
            "node `ImageDecoder_y` (ImageDecoder): is an operator that nothing here computes, the model imports 21",
        ),
    ] {
        assert_eq!(refused(21, op, &["x"], vec![]), want);
    }
    loads(21, "ai.onnx.Relu", &["x"], vec![]);
}

#[test]
fn operators_that_the_user_has_registered_may_ask_for_anything() {
    let mut plain = tract_onnx::onnx();
    plain.op_register.insert("Mine", |_, _| Ok((expand(Doubled), vec![])));
    plain.op_register.insert("Relu", |_, _| Ok((expand(Doubled), vec![])));
    let onnx = CastOnnx::from(plain).with_probes(true).with_small_weights(true);
    for op in ["com.example.Mine", "Mine", "com.example.Relu", "Relu", "com.microsoft.Relu"] {
        let attributes = vec![float("anything", 0.5), string("else", "it likes")];
        let model = one(21, node(op, &["x"], &["y"], attributes));
        let plan = onnx.model_for_proto_model(&model).unwrap().into_optimized().unwrap();
        let x = Tensor::from_shape(&[2, 3], &[-1f32; 6]).unwrap().into_tvalue();
        let y = plan.into_runnable().unwrap().run(tvec!(x)).unwrap();
        assert_eq!(y[0].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap(), [-2f32; 6], "{op}");
    }
}

#[test]
fn a_default_that_tract_has_otherwise_is_written_down() {
    let norm = node("com.microsoft.SkipLayerNormalization", &["x", "x", "g"], &["y"], vec![]);
    let inputs = [value("x", Float, &[1, 1, 2]), value("g", Float, &[2])];
    let model = model(17, graph(&inputs, &[norm], &[value("y", Float, &[1, 1, 2])]));
    let plan = onnx().model_for_proto_model(&model).unwrap().into_optimized().unwrap();
    let x = Tensor::from_shape(&[1, 1, 2], &[-0.001f32, 0.001]).unwrap().into_tvalue();
    let inputs = tvec!(x, tensor1(&[1f32, 1.0]).into_tvalue());
    let y = plan.into_runnable().unwrap().run(inputs).unwrap();
    let y = y[0].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec();
    assert!((y[1] - 1.0).abs() < 1e-4, "{y:?}");
}

#[test]
fn signed_integers_are_shifted_by_any_number_of_bits() {
    for (direction, want) in [("LEFT", [-16i8, 0, 0]), ("RIGHT", [-4, -1, -1])] {
        let attributes = vec![string("direction", direction)];
        let shift = node("BitShift", &["x", "s"], &["y"], attributes);
        let shifts = [value("x", Int8, &[3]), value("s", Int8, &[3])];
        let model = model(28, graph(&shifts, &[shift], &[value("y", Int8, &[3])]));
        let plan = onnx().model_for_proto_model(&model).unwrap().into_optimized().unwrap();
        let inputs = tvec!(tensor1(&[-8i8; 3]).into_tvalue(), tensor1(&[1i8, 8, -1]).into_tvalue());
        let y = plan.into_runnable().unwrap().run(inputs).unwrap();
        assert_eq!(*y[0], tensor1(&want), "{direction}");
    }
}

/// A survey goes on behind a node that is refused, and tells of it.
#[test]
fn a_survey_tells_of_all_that_is_refused() {
    let nodes = [
        node("Relu", &["x"], &["r"], vec![float("alpha", 0.5)]),
        node("com.example.Relu", &["r"], &["s"], vec![]),
        node("Expand", &["s", "shape"], &["y"], vec![]),
    ];
    let mut graph = graph(&[value("x", Float, &[2])], &nodes, &[value("y", Float, &[2])]);
    graph.initializer.push(int64("shape", &[2]));
    let survey = model_proto::survey(&onnx(), model(21, graph), None).unwrap();
    let problems: Vec<String> = survey.problems().iter().map(|p| p.error().to_string()).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("`alpha`") && problems[1].contains("`com.example`"));
}
