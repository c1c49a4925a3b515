//! The sets of inputs that a model is audited, compared or recorded with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use tract_onnx::prelude::*;

use super::cases::{self, Case};
use super::declared::{Declared, Input};
use super::given::{self, Gathered, OtherFloats};
use super::{files, sizes};
use crate::cli::args::input::InputArgs;
use crate::cli::message::{ErrorKind, about, at};

/// Inputs for one run, and what to call them.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) tensors: Vec<Tensor>,
    /// What to know about them.
    pub(crate) notes: Vec<String>,
    /// Where their values are from.
    pub(crate) origin: Origin,
}

/// Where the values of a set are from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// Files have all of them.
    Given,
    /// Those of these inputs are random, and start from this seed.
    Random { inputs: Vec<String>, seed: u64 },
}

/// How many sets of random inputs there are where nobody says: one alone finds too little, and those of a large model take
/// long.
const RANDOM_SETS: u64 = 3;
/// A model whose file has more bytes is large.
const LARGE: u64 = 64 << 20;

fn random_sets(path: &Path, args: &InputArgs) -> u64 {
    let is_large = fs::metadata(path).is_ok_and(|metadata| metadata.len() > LARGE);
    args.sets.unwrap_or(if is_large { 1 } else { RANDOM_SETS })
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
    about(ErrorKind::Input, gathered(model, path, args))
}

fn gathered(model: &Declared, path: &Path, args: &InputArgs) -> TractResult<Vec<Set>> {
    let (folders, rest) = split(args);
    if folders.is_empty() {
        let first = of_seed(model, &rest)?;
        return match first.origin {
            Origin::Given => {
                let has_effect = args.sets.is_some_and(|sets| sets > 1);
                ensure!(!has_effect, "--sets is for random inputs: this model has none");
                Ok(vec![first])
            }
            Origin::Random { .. } => {
                let more = (1..random_sets(path, args)).map(|offset| {
                    let seed = args.seed.wrapping_add(offset);
                    of_seed(model, &InputArgs { seed, ..rest.clone() })
                });
                std::iter::once(Ok(first)).chain(more).collect()
            }
        };
    }
    ensure!(rest.inputs.is_empty(), "-i is given folders and files, but it is one or the other");
    args.check_nothing_is_random("-i gives recorded ones")?;
    let mut sets = vec![];
    for folder in folders {
        sets.extend(of_cases(model, &cases::sets_in(&folder, path)?)?);
    }
    Ok(sets)
}

/// The set of files and of random values of one seed.
fn of_seed(model: &Declared, args: &InputArgs) -> TractResult<Set> {
    let Gathered { tensors, random, notes } = given::gather(model, args, OtherFloats::Cast)?;
    let (name, origin) = match random.is_empty() {
        true => ("what is given".into(), Origin::Given),
        false => {
            let name = format!("seed {}", args.seed);
            (name, Origin::Random { inputs: random, seed: args.seed })
        }
    };
    Ok(Set { name, tensors, notes, origin })
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
    about(ErrorKind::Input, read_case(model, case))
}

fn read_case(model: &Declared, case: &Case) -> TractResult<Set> {
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
    Ok(Set { name, tensors, notes, origin: Origin::Given })
}
