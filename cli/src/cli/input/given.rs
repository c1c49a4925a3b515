//! What `-i` gives in files: an array for each of some inputs.

use std::path::Path;

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;

use crate::cli::input::array::Array;
use crate::cli::input::declared::Declared;
use crate::cli::input::files::{self, Format};
use crate::cli::message::{at, names};

/// What becomes of floating-point values of another type than the input's.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OtherFloats {
    Refused,
    Cast,
}

/// Arrays with the names that a file has for them; those that nobody wants are not read.
pub(super) type NamedArrays = Vec<(String, Option<Array>)>;

/// The tensors that are given, by the position of the input, and what to know about them.
pub(crate) struct GivenTensors {
    pub(super) tensors: Vec<Option<Tensor>>,
    pub(super) notes: Vec<String>,
    others: OtherFloats,
}

impl GivenTensors {
    /// Nothing yet.
    pub(super) fn nothing(model: &Declared, others: OtherFloats) -> GivenTensors {
        GivenTensors { tensors: model.inputs.iter().map(|_| None).collect(), notes: vec![], others }
    }

    /// Of `NAME=FILE` and `FILE.npz`.
    /// Fails when an array is not what the model declares, or names no input or an input twice.
    pub(crate) fn read(
        model: &Declared,
        arguments: &[String],
        others: OtherFloats,
    ) -> TractResult<GivenTensors> {
        let mut given = GivenTensors::nothing(model, others);
        for argument in arguments {
            let arrays = at(format!("-i {argument}"), arrays(argument, model))?;
            given.take(model, &format!("-i {argument}"), arrays)?;
        }
        Ok(given)
    }

    /// Takes further arrays from somewhere. Fails as [`GivenTensors::read`] does.
    pub(super) fn take(
        &mut self,
        model: &Declared,
        source: &str,
        arrays: NamedArrays,
    ) -> TractResult<()> {
        // An archive may hold more than one model's inputs, but not none of them.
        let is_archive = arrays.iter().any(|(name, _)| model.input(name).is_some());
        for (name, array) in arrays {
            let mut places = model.inputs.iter().zip(&mut self.tensors);
            let place = places.find(|(input, _)| input.name == name);
            let (Some((input, place)), Some(array)) = (place, array) else {
                if is_archive {
                    let unused = "is no input of the model, and not used";
                    self.notes.push(format!("{source}: `{name}` {unused}"));
                    continue;
                }
                let inputs = names(model.inputs.iter().map(|input| input.name.as_str()));
                bail!("{source}: the model has no input `{name}`; its inputs: {inputs}");
            };
            let fitting = match self.others {
                OtherFloats::Cast => array.fitting(input.ty),
                OtherFloats::Refused => array.into_tensor(input.ty).map(|tensor| (tensor, None)),
            };
            let (tensor, held) = at(format!("input `{name}`"), fitting)?;
            self.notes.extend(held.map(|held| input.cast_from(held)));
            ensure!(place.replace(tensor).is_none(), "input `{name}` is given twice");
        }
        Ok(())
    }
}

/// The arrays that one `-i` gives, by the input's name; without their values those of an archive
/// that are no inputs. A single tensor may be that of the only input without naming it.
fn arrays(argument: &str, model: &Declared) -> TractResult<NamedArrays> {
    let is_input = |name: &str| model.input(name).is_some();
    let (mut name, file) = split(argument, &is_input)?;
    let path = Path::new(file);
    let format = Format::of(path);
    if let ([input], Some(Format::Npy | Format::TensorProto)) = (&model.inputs[..], format) {
        name = name.or(Some(&input.name));
    }
    let array = match (format, name) {
        (Some(Format::Npz), None) => return files::read_npz(path, is_input),
        (Some(Format::Npz), Some(name)) => {
            let mut arrays = files::read_npz(path, |array| array == name)?;
            let held = names(arrays.iter().map(|(array, _)| array.as_str()));
            arrays.retain(|(array, _)| array == name);
            ensure!(!arrays.is_empty(), "there is no array `{name}`; its arrays: {held}");
            return Ok(arrays);
        }
        (Some(Format::Npy | Format::TensorProto), None) => bail!("it should be NAME={file}"),
        (Some(Format::Npy | Format::TensorProto), Some(_)) => files::read_array(path)?,
        (None, None) => bail!("it should be NAME=FILE, or the FILE.npz of several inputs"),
        (None, Some(_)) => bail!("the file should be a .pb, .npy or .npz"),
    };
    Ok(name.map(|name| (name.to_owned(), Some(array))).into_iter().collect())
}

/// The name and the file that one `-i` gives. Both may hold a `=`: the name is that of an input
/// then, and the file there.
fn split<'a>(
    argument: &'a str,
    is_input: &impl Fn(&str) -> bool,
) -> TractResult<(Option<&'a str>, &'a str)> {
    let at = |(place, sign): (usize, &str)| {
        let (name, rest) = argument.split_at(place);
        rest.strip_prefix(sign).map(|file| (name, file))
    };
    let splits = || argument.match_indices('=').filter_map(at);
    let mut named: Vec<_> = splits().filter(|(name, _)| is_input(name)).collect();
    if named.len() > 1 {
        named.retain(|(_, file)| Path::new(file).exists());
    }
    match named[..] {
        [(name, file)] => Ok((Some(name), file)),
        [(one, _), (other, _), ..] => bail!("it may be about input `{one}` or `{other}`"),
        [] => {
            ensure!(splits().nth(1).is_none(), "more than one `=`, and no input before any");
            let first = splits().next();
            Ok((first.map(|(name, _)| name), first.map_or(argument, |(_, file)| file)))
        }
    }
}
