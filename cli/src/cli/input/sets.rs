//! The sets of inputs that a model is audited, compared or recorded with.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use tract_onnx::prelude::*;

use super::cases::{self, Case};
use super::declared::{Declared, Input};
use super::{files, given, sizes};
use crate::cli::args::input::InputArgs;
use crate::cli::message::at;

/// Inputs for one run, and what to call them.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    /// What to know about them.
    pub(crate) notes: Vec<String>,
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
pub(crate) fn gather(model: &Declared, path: &Path, args: &InputArgs) -> TractResult<Vec<Set>> {
    let (folders, rest) = split(args);
    if folders.is_empty() {
        let tensors = given::gather(model, &rest)?;
        return Ok(vec![Set { name: format!("seed {}", args.seed), tensors, notes: vec![] }]);
    }
    ensure!(rest.inputs.is_empty(), "-i is given folders and files, but it is one or the other");
    args.check_nothing_is_random("-i gives recorded ones")?;
    let mut sets = vec![];
    for folder in folders {
        sets.extend(of_cases(model, &cases::sets_in(&folder, path)?)?);
    }
    Ok(sets)
}

/// The sets that test cases hold.
///
/// # Errors
///
/// As [`of_case`].
pub(crate) fn of_cases(model: &Declared, cases: &[Case]) -> TractResult<Vec<Set>> {
    cases.iter().map(|case| of_case(model, case)).collect()
}

/// The set that a test case holds. Values of another numeric type than the model takes are cast: a conversion that has
/// changed the types of its inputs is run on the same data.
///
/// # Errors
///
/// When the model takes another number of inputs, or a file cannot be one of them.
pub(crate) fn of_case(model: &Declared, case: &Case) -> TractResult<Set> {
    let name = case.set.display().to_string();
    let mut notes = vec![];
    let files = at(&name, case.inputs())?;
    let (given, wanted) = (files.len(), model.inputs.len());
    ensure!(given == wanted, "{name}: has {given} input(s), the model takes {wanted}");
    let load = |(file, input): (&PathBuf, &Input)| {
        let array = at(&name, files::read_tensor_proto(file))?;
        if let Some(other) = array.name.as_ref().filter(|other| **other != input.name) {
            // Converters rename inputs, so another name alone proves nothing; with another type or shape as well the file
            // was made for another model.
            let (ty, shape) = (array.ty, array.tensor.shape());
            let (wanted, file) = (&input.name, file.display());
            ensure!(
                ty == input.ty && sizes::fits(&input.shape, shape),
                "{file}: holds `{other}`, {ty} of shape {shape:?}; the model takes `{wanted}`, {} of shape [{:?}]",
                input.ty,
                input.shape
            );
            notes.push(format!("{file} holds `{other}`, which is taken for `{wanted}`"));
        }
        let (tensor, note) = at(format!("input `{}`", input.name), array.cast_to(input.ty))?;
        notes.extend(note.map(|held| {
            let Input { name: input, ty, .. } = input;
            format!(
                "input `{input}` is {held} in {name}, the model takes {ty}: its values are cast"
            )
        }));
        Ok(tensor)
    };
    let tensors = files.iter().zip(&model.inputs).map(load).collect::<TractResult<_>>()?;
    Ok(Set { name, tensors, notes })
}
