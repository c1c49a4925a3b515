//! The sets of inputs that a model is audited, compared or recorded with.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use tract_onnx::prelude::*;

use super::cases::{self, Case};
use super::files;
use super::inputs::{self, InputArgs};
use super::message::at;
use super::model::{Input, Model};

/// Inputs for one run, and what to call them.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) tensors: Vec<Tensor>,
    /// What to know about them.
    pub(super) notes: Vec<String>,
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
        return Ok(vec![Set { name: format!("seed {}", args.seed), tensors, notes: vec![] }]);
    }
    ensure!(rest.inputs.is_empty(), "-i is given folders and files, but it is one or the other");
    args.check_nothing_is_random("-i gives recorded ones")?;
    let mut sets = vec![];
    for folder in folders {
        for case in cases::sets_in(&folder, path)? {
            sets.push(of_case(model, &case)?);
        }
    }
    Ok(sets)
}

/// The set that a test case holds. Values of another numeric type than the model takes are cast: a conversion that has
/// changed the types of its inputs is run on the same data.
pub(super) fn of_case(model: &Model, case: &Case) -> TractResult<Set> {
    let name = case.set.display().to_string();
    let mut notes = vec![];
    let files = at(&name, case.inputs())?;
    let (given, wanted) = (files.len(), model.inputs.len());
    ensure!(given == wanted, "{name}: has {given} input(s), the model takes {wanted}");
    let load = |(file, input): (&PathBuf, &Input)| {
        let array = at(&name, files::read_tensor_proto(file))?;
        if let Some(other) = array.name.as_ref().filter(|other| **other != input.name) {
            // Names alone may be anybody's; with another type or shape the file is another model's.
            let (ty, shape) = array.kind();
            let (wanted, file) = (&input.name, file.display());
            ensure!(
                ty == input.ty && inputs::fits(&input.shape, shape),
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
