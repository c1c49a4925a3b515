//! One test case: the model's outputs for its inputs against the expected ones.

use std::path::PathBuf;

use anyhow::ensure;
use tract_onnx::prelude::*;

use super::cases::Case;
use super::compare::{self, Tolerance};
use super::files;
use super::message::{self, at, single_line};
use super::model::{Input, Model, Output};
use super::request::Answer;

/// Runs the case.
///
/// # Errors
///
/// When the model or its data cannot be used.
pub(super) fn check(case: &Case, tolerance: Option<Tolerance>) -> TractResult<Answer> {
    let model = Model::open(&case.model)?;
    let tensors = inputs_of(case, &model)?;

    let expected = case.outputs()?;
    ensure!(!expected.is_empty(), "there is no output_*.pb to compare with");
    let outputs = model.run(tensors)?;
    if outputs.len() != expected.len() {
        let (made, wanted) = (outputs.len(), expected.len());
        return Ok(Answer::Failed(format!("the model has {made} output(s), expected {wanted}")));
    }
    for (output, file) in outputs.iter().zip(&expected) {
        let want = files::read_tensor_proto(file)?;
        if let Some(difference) = differs(output, want, tolerance)? {
            let name = single_line(&output.name);
            return Ok(Answer::Failed(format!("output `{name}`: {difference}")));
        }
    }
    Ok(Answer::Passed)
}

/// The case's inputs, which are the model's by position.
///
/// # Errors
///
/// When there are not as many, or one is not of the input's type.
pub(super) fn inputs_of(case: &Case, model: &Model) -> TractResult<Vec<Tensor>> {
    let given = case.inputs()?;
    let (files, wanted) = (given.len(), model.inputs.len());
    ensure!(files == wanted, "the case has {files} input(s), the model takes {wanted}");
    let load = |(file, input): (&PathBuf, &Input)| {
        let tensor = files::read_tensor_proto(file)?.into_tensor(input.ty);
        at(format!("input `{}`", input.name), tensor)
    };
    given.iter().zip(&model.inputs).map(load).collect()
}

fn differs(
    output: &Output,
    want: files::Array,
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    match want.into_tensor(output.ty) {
        Ok(want) => compare::difference(output.ty, &output.tensor, &want, tolerance),
        Err(error) => Ok(Some(message::one_line(&error))),
    }
}
