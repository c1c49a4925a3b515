//! Casts in NNEF: every pair of types and every model that tract can write comes back with the same
//! bits.

use std::fs;
use std::sync::LazyLock;

use crate::common::cases::{root, tensors};
use crate::common::elements::{rules, samples, tensor_of_codes};
use test_tools::tempfile;
use tract_nnef::framework::Nnef;
use tract_nnef::internal::*;
use tract_onnx::prelude::{InferenceFact, InferenceModelExt, WithOnnx};
use tract_onnx_cast::interop::{OnnxCast, WithOnnxCast};
use tract_onnx_cast::{ElementType, Family, Rules, input_element_types, output_element_types};

/// One for all tests: making it takes longer than a small model's way there and back.
fn nnef() -> &'static Nnef {
    static NNEF: LazyLock<Nnef> = LazyLock::new(|| tract_nnef::nnef().with_onnx().with_onnx_cast());
    &NNEF
}

fn round_trip(model: &TypedModel) -> TractResult<TypedModel> {
    let bytes = nnef().write_to_tar(model, vec![])?;
    nnef().model_for_read(&mut &*bytes)
}

fn model(from: ElementType, to: ElementType, rules: Rules, len: usize) -> TypedModel {
    let mut model = TypedModel::default();
    let x = model.add_source("x", from.datum_type().fact([len])).unwrap();
    let op = OnnxCast::new("cast", from, to, rules);
    let y = model.wire_node("y", op, &[x]).unwrap();
    model.select_output_outlets(&y).unwrap();
    model
}

/// A few values of a type; numbers as texts for STRING.
fn values(ty: ElementType) -> Tensor {
    if ty.family() == Family::Text {
        return tensor1(&["0", "1", "1", "0"].map(String::from));
    }
    let codes: Vec<u64> = samples(ty, 100).into_iter().step_by(7).take(500).collect();
    tensor_of_codes(ty, &codes)
}

#[test]
fn every_pair_of_types_comes_back_with_the_same_bits() {
    for from in ElementType::ALL.iter().copied() {
        let input = values(from);
        for to in ElementType::ALL.iter().copied() {
            for rules in rules(to) {
                let model = model(from, to, rules, input.len());
                let back = round_trip(&model).unwrap_or_else(|e| panic!("{from} to {to}: {e:#}"));
                let run = |model: TypedModel| {
                    model.into_runnable().unwrap().run(tvec!(input.clone().into_tvalue())).unwrap()
                };
                let op = |model: &TypedModel| {
                    let node = model.node(model.outputs[0].node);
                    node.op_as::<OnnxCast>().expect("our op").clone()
                };
                assert_eq!(op(&model), op(&back));
                let (before, after) = (run(model), run(back));
                assert_eq!(before, after, "{from} to {to}, {rules:?}");
            }
        }
    }
}

/// What tract cannot write or read, for reasons of its own.
const NOT_IN_NNEF: &[(&str, &str)] = &[
    ("functions_in_branches", "IfThenElse: No serializer found"),
    ("if_casts_else", "IfThenElse: No serializer found"),
    ("if_casts_then", "IfThenElse: No serializer found"),
    ("if_float8_outer_else", "IfThenElse: No serializer found"),
    ("if_float8_outer_then", "IfThenElse: No serializer found"),
];

#[test]
fn models_come_back_with_the_same_bits() {
    let folder = root().join("models/whole");
    let mut wrong = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_string();
        let inputs = tensors(&folder.join("test_data_set_0"), "input");
        let mut model = tract_onnx_cast::onnx().model_for_path(folder.join("model.onnx")).unwrap();
        for (index, input) in inputs.iter().enumerate() {
            let fact = InferenceFact::dt_shape(input.tensor.datum_type(), input.tensor.shape());
            model.set_input_fact(index, fact).unwrap();
        }
        let model = model.into_typed().unwrap().into_decluttered().unwrap();
        let types = |model: &TypedModel| {
            (input_element_types(model).unwrap(), output_element_types(model).unwrap())
        };
        let run = |model: TypedModel| {
            let inputs = inputs.iter().map(|input| input.tensor.clone().into_tvalue()).collect();
            model.into_optimized()?.into_runnable()?.run(inputs)
        };
        let outcome = round_trip(&model).and_then(|back| {
            ensure!(types(&model) == types(&back), "types: {:?}", types(&back));
            ensure!(run(model)? == run(back)?, "other bits");
            Ok(())
        });
        let known = NOT_IN_NNEF.iter().find(|(model, _)| *model == name).map(|(_, reason)| *reason);
        match (outcome, known) {
            (Ok(()), None) => {}
            (Ok(()), Some(reason)) => wrong.push(format!("{name}: works; no more: {reason}")),
            (Err(error), Some(reason)) if format!("{error:#}").contains(reason) => {}
            (Err(error), _) => wrong.push(format!("{name}: {error:#}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The error of reading a graph whose cast has these arguments.
fn error_of(arguments: &str) -> String {
    error_of_op("tract_onnx_cast", arguments)
}

/// The error of reading a graph with a node of this operator that has these arguments.
fn error_of_op(op: &str, arguments: &str) -> String {
    let graph = format!(
        "version 1.0;\nextension tract_registry tract_core;\n\
         extension tract_registry tract_onnx_cast;\n\n\
         graph network(x) -> (y) {{\n\
         x = tract_core_external(shape = [3], datum_type = \"f32\");\n\
         y = {op}({arguments});\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.nnef"), graph).unwrap();
    match nnef().model_for_path(folder.path()) {
        Ok(_) => "read".into(),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn files_that_are_not_sound_are_refused_with_the_node() {
    assert_eq!(error_of("x, from = \"FLOAT\", to = \"INT4\""), "read");
    let cases = [
        ("x, from = \"FLOAT\", to = \"FLOAT9\"", "argument `to`: \"FLOAT9\" is no element type"),
        ("x, from = \"FLOAT\"", "to"),
        ("x, from = \"FLOAT\", to = \"INT4\", speed = 3", "has no argument `speed`"),
        ("x, from = \"FLOAT\", to = \"INT4\", round_mode = \"out\"", "\"out\" is no rounding"),
        ("x, from = \"BFLOAT16\", to = \"INT4\"", "its input is F32, and BFLOAT16 is held in U16"),
    ];
    for (arguments, problem) in cases {
        let error = error_of(arguments);
        assert!(error.contains("node `y` (tract_onnx_cast)"), "{arguments}: {error}");
        assert!(error.contains(problem), "{arguments}: {error}");
    }
}

/// Strings have no bits that could be those of a number.
#[test]
fn bits_of_strings_are_refused() {
    let error = |from: &str, to: &str| {
        error_of_op(
            "tract_onnx_cast_bit_cast",
            &format!("x, texts = [\"{from}\", \"{to}\"], dims = []"),
        )
    };
    assert_eq!(error("FLOAT", "INT32"), "read");
    assert!(error("FLOAT", "INT16").contains("FLOAT and INT16 are not as wide"));
    for (from, to) in [("STRING", "STRING"), ("FLOAT", "STRING"), ("STRING", "UINT64")] {
        let error = error(from, to);
        assert!(error.contains("STRING has no bits"), "{from} as {to}: {error}");
    }
}
