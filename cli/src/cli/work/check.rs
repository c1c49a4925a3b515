//! The work of `onnx-cast test`, one case: the model's outputs for its inputs against the expected ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::model::{Model, Ran};
use super::request::{Kind, Request};
use crate::cli::input::array::Array;
use crate::cli::input::cases::Case;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::files;
use crate::cli::input::sets::Tensors;
use crate::cli::judge::expected::difference;
use crate::cli::judge::tolerance::Tolerance;
use crate::cli::message::{self, ErrorKind, about, at, single_line};
use crate::cli::tensor::NamedTensor;

/// A case to check.
#[derive(Serialize, Deserialize)]
pub(crate) struct CheckRequest {
    pub(crate) case: Case,
    /// Without it, outputs must be equal bit for bit.
    pub(crate) tolerance: Option<Tolerance>,
}

/// Whether the outputs are the expected ones.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checked {
    /// Why they are not.
    pub(crate) failure: Option<String>,
    pub(crate) note: Option<String>,
}

impl Request for CheckRequest {
    const KIND: Kind = Kind::Check;

    type Answer = Checked;

    fn answer(&self) -> TractResult<Checked> {
        let CheckRequest { case, tolerance } = self;
        let model = Model::open(&case.model)?;
        let (tensors, mut notes) = about(ErrorKind::Input, inputs_of(case, &model.takes))?;
        let expected = case.outputs()?;
        ensure!(!expected.is_empty(), "there is no output_*.pb to compare with");
        let Ran { outputs, note } = model.run(tensors)?;
        notes.extend(note);
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(Checked { failure: failure(&outputs, &expected, *tolerance)?, note })
    }

    fn model(&self) -> &Path {
        &self.case.model
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.case.set.clone()]
    }
}

/// The case's inputs, which are the model's by position, and notes on those that were cast.
///
/// # Errors
///
/// When there are not as many, or one is not of the input's type.
fn inputs_of(case: &Case, model: &Declared) -> TractResult<(Tensors, Vec<String>)> {
    let given = case.inputs()?;
    let (files, wanted) = (given.len(), model.inputs.len());
    ensure!(files == wanted, "the case has {files} input(s), the model takes {wanted}");
    let mut notes = vec![];
    let load = |(file, input): (&PathBuf, &Input)| {
        let fitting = files::read_tensor_proto(file)?.fitting(input.ty);
        let (tensor, held) = at(format!("input `{}`", input.name), fitting)?;
        notes.extend(held.map(|held| input.cast_from(held)));
        Ok(Arc::new(tensor))
    };
    let tensors = given.iter().zip(&model.inputs).map(load).collect::<TractResult<_>>()?;
    Ok((tensors, notes))
}

/// What distinguishes the outputs from those in the files.
fn failure(
    outputs: &[NamedTensor],
    expected: &[PathBuf],
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    let (made, wanted) = (outputs.len(), expected.len());
    if made != wanted {
        return Ok(Some(format!("the model has {made} output(s), expected {wanted}")));
    }
    for (output, file) in outputs.iter().zip(expected) {
        let want = files::read_tensor_proto(file)?;
        if let Some(difference) = differs(output, want, tolerance)? {
            return Ok(Some(format!("output `{}`: {difference}", single_line(&output.name))));
        }
    }
    Ok(None)
}

/// What distinguishes an output from the expected one; another type does too.
fn differs(
    output: &NamedTensor,
    want: Array,
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    match want.into_tensor(output.ty) {
        Ok(want) => difference(output.ty, &output.tensor, &want, tolerance),
        Err(error) => Ok(Some(message::one_line(&error))),
    }
}
