//! The sets of inputs that a model is audited, compared or recorded with.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use tract_onnx::prelude::*;

use super::cases::{self, Case};
use super::check;
use super::inputs::{self, InputArgs};
use super::message::at;
use super::model::Model;

/// Inputs for one run, and what to call them.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) tensors: Vec<Tensor>,
}

/// The folders among `-i` arguments, and what else there is.
fn split(args: &InputArgs) -> (Vec<PathBuf>, InputArgs) {
    let (folders, files): (Vec<_>, Vec<_>) =
        args.inputs.iter().cloned().partition(|argument| Path::new(argument).is_dir());
    (folders.into_iter().map(PathBuf::from).collect(), InputArgs { inputs: files, ..args.clone() })
}

/// The sets that `-i` gives: those of a folder, which may be several, or else one of files and random values.
///
/// # Errors
///
/// When files and folders are mixed, or a set is not what the model takes.
pub(super) fn gather(model: &Model, path: &Path, args: &InputArgs) -> TractResult<Vec<Set>> {
    let (folders, rest) = split(args);
    if folders.is_empty() {
        let tensors = inputs::gather(model, &rest)?;
        return Ok(vec![Set { name: format!("seed {}", args.seed), tensors }]);
    }
    ensure!(rest.inputs.is_empty(), "-i is given folders and files, but it is one or the other");
    let mut sets = vec![];
    for folder in folders {
        for case in cases::sets_in(&folder, path)? {
            sets.push(of_case(model, &case)?);
        }
    }
    Ok(sets)
}

/// The set that a test case holds.
pub(super) fn of_case(model: &Model, case: &Case) -> TractResult<Set> {
    let name = case.set.display().to_string();
    let tensors = at(&name, check::inputs_of(case, model))?;
    Ok(Set { name, tensors })
}
