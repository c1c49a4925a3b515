//! Samples: many sets of inputs that `-i` gives at once, in the rows of arrays (`rows`), in the
//! lines of a file (`lines`) or in the files of a folder (`folder`).

mod folder;
mod lines;
mod rows;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tract_onnx::prelude::*;

use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::{self, Case};
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::given::{GivenTensors, NamedArrays, OtherFloats};
use crate::cli::input::sizes::fits;
use crate::cli::tensor::Tensors;
pub(super) use rows::of as rows;

/// A set of inputs among many, which is read when it is asked for.
pub(super) enum Sample {
    /// One in ONNX's own layout.
    Case(Case),
    Other(Other),
}

/// A sample in any other layout.
#[derive(Clone)]
pub(super) struct Other {
    pub(super) name: String,
    read: Rc<Read>,
}

/// Reads the tensors of a model's inputs, and says what is to be known of them.
type Read = dyn Fn(&Declared) -> TractResult<(Tensors, Vec<String>)>;

impl Other {
    /// A sample of the arrays that are read so.
    fn of_arrays(
        name: String,
        read: impl Fn(&Declared) -> TractResult<NamedArrays> + 'static,
    ) -> Other {
        let source = name.clone();
        let read = move |model: &Declared| {
            let mut given = GivenTensors::nothing(model, OtherFloats::Cast);
            given.take(model, &source, read(model)?)?;
            let GivenTensors { tensors, notes, .. } = given;
            let tensor = |(input, tensor): (&Input, Option<Tensor>)| {
                let tensor = tensor.with_context(|| format!("there is no `{}`", input.name))?;
                Ok(Arc::new(batched(input, tensor)?))
            };
            let tensors =
                model.inputs.iter().zip(tensors).map(tensor).collect::<TractResult<_>>()?;
            Ok((tensors, notes))
        };
        Other { name, read: Rc::new(read) }
    }

    /// Its tensors, and what to know about them.
    /// Fails when a file is not what the model takes, or an input is missing.
    pub(super) fn tensors(&self, model: &Declared) -> TractResult<(Tensors, Vec<String>)> {
        crate::cli::message::at(&self.name, (self.read)(model))
    }
}

/// A sample of a model that takes batches, if it is saved without the axis of the batch.
fn batched(input: &Input, mut tensor: Tensor) -> TractResult<Tensor> {
    let is_short = input.rank() == Some(tensor.rank() + 1);
    if is_short && !matches!(input.size(0), Some(2..)) {
        tensor.insert_axis(0)?;
    }
    Ok(tensor)
}

/// The samples that `-i` gives, those that are wanted of them; `None` where it gives at most one
/// set of inputs. Fails when samples are mixed with something else, or there are none where they
/// should be.
pub(super) fn of(
    model: &Declared,
    path: &Path,
    args: &InputArgs,
) -> TractResult<Option<Vec<Sample>>> {
    let is_folder = |argument: &&String| Path::new(argument).is_dir();
    let is_lines = |argument: &&String| lines::is_it(Path::new(argument));
    let is_named = |argument: &&String| folder::named(model, argument).is_some();
    let all = || args.inputs.iter();
    let mut samples = vec![];
    if all().any(|argument| is_folder(&argument)) {
        let because = "-i is given folders and files, but it is one or the other";
        ensure!(all().all(|argument| is_folder(&argument)), because);
        for argument in all() {
            samples.extend(folder::of(model, Path::new(argument), path)?);
        }
    } else if all().any(|argument| is_lines(&argument)) {
        let because = "-i is given a file of JSON lines and more, whose lines hold every input";
        ensure!(all().all(|argument| is_lines(&argument)), because);
        for argument in all() {
            samples.extend(lines::of(Path::new(argument))?);
        }
    } else if all().any(|argument| is_named(&argument)) {
        samples = folder::of_inputs(model, &args.inputs)?;
    } else {
        return Ok(None);
    }
    Ok(Some(args.chosen(samples)))
}

impl InputArgs {
    /// Those of all samples that `--shuffle` and `--limit` leave, in their order.
    pub(super) fn chosen<T>(&self, mut samples: Vec<T>) -> Vec<T> {
        if let Some(seed) = self.shuffle {
            let mut rng = StdRng::seed_from_u64(seed);
            for place in (1..samples.len()).rev() {
                samples.swap(place, rng.random_range(0..=place));
            }
        }
        samples.truncate(self.limit.unwrap_or(usize::MAX));
        samples
    }
}

/// A path's parts of letters and of digits, in the order of which 2 comes before 10.
fn natural(path: &Path) -> (Vec<(String, u128)>, PathBuf) {
    let (mut parts, mut text, mut digits) = (vec![], String::new(), String::new());
    for character in path.to_string_lossy().chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        if !digits.is_empty() {
            let number = std::mem::take(&mut digits).parse().unwrap_or(u128::MAX);
            parts.push((std::mem::take(&mut text), number));
        }
        text.push(character);
    }
    parts.push((text, digits.parse().unwrap_or(0)));
    (parts, path.to_path_buf())
}

/// The cases in a folder that have inputs.
fn cases_in(folder: &Path, model: &Path) -> TractResult<Vec<Case>> {
    let has_inputs = |case: &Case| case.inputs().map_or(true, |files| !files.is_empty());
    Ok(cases::sets_in(folder, model)?.into_iter().filter(has_inputs).collect())
}

/// Whether an array is more than one sample of an input, and how many.
fn samples_in(input: &Input, shape: &[usize]) -> Option<(usize, bool)> {
    let rank = input.rank().filter(|_| !fits(&input.shape, shape))?;
    let (first, rest) = shape.split_first()?;
    if rest.len() == rank {
        // One sample with an axis too many is more likely a mistake.
        return (*first != 1 && fits(&input.shape, rest)).then_some((*first, true));
    }
    let size = input.size(0).filter(|size| *size > 0 && first % size == 0 && first > size)?;
    let one: Vec<usize> = std::iter::once(size).chain(rest.iter().copied()).collect();
    fits(&input.shape, &one).then_some((first / size, false))
}
