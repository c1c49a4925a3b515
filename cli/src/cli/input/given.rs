//! One tensor for each input of a model: what `-i` gives, and random values for the rest.

use std::path::Path;

use anyhow::{bail, ensure};
use tract_onnx::prelude::*;

use super::array::Array;
use super::declared::{Declared, Input};
use super::files::{self, Format};
use super::random::Generator;
use super::sizes;
use crate::cli::args::input::InputArgs;
use crate::cli::message::at;

/// A tensor for each of the model's inputs.
///
/// # Errors
///
/// When a given array is not what the model declares, names no input or an input twice, sizes
/// contradict each other, or an input has no known number of dimensions.
pub(crate) fn gather(model: &Declared, args: &InputArgs) -> TractResult<Vec<Tensor>> {
    let given = given(model, &args.inputs)?;
    let sizes = sizes::find(model, &args.sizes, &given)?;
    let mut generator = Generator::new(args.seed);
    let tensor = |(position, (input, given)): (usize, (&Input, Option<Tensor>))| match given {
        Some(tensor) => Ok(tensor),
        None => {
            let tensor = sizes::with_sizes(&input.shape, &sizes)
                .and_then(|shape| generator.tensor(position, input.ty, &shape));
            at(format!("input `{}`", input.name), tensor)
        }
    };
    model.inputs.iter().zip(given).enumerate().map(tensor).collect()
}

/// The tensors from the files, by the position of the input.
fn given(model: &Declared, arguments: &[String]) -> TractResult<Vec<Option<Tensor>>> {
    let mut given: Vec<Option<Tensor>> = model.inputs.iter().map(|_| None).collect();
    for argument in arguments {
        for (name, array) in at(format!("-i {argument}"), arrays(argument))? {
            let mut places = model.inputs.iter().zip(&mut given);
            let Some((input, place)) = places.find(|(input, _)| input.name == name) else {
                let names: Vec<&str> = model.inputs.iter().map(|i| i.name.as_str()).collect();
                bail!("-i {argument}: the model has no input `{name}`, but {names:?}");
            };
            let tensor = array.into_tensor(input.ty);
            let tensor = at(format!("input `{name}`"), tensor)?;
            ensure!(place.replace(tensor).is_none(), "input `{name}` is given twice");
        }
    }
    Ok(given)
}

/// The arrays that one `-i` gives, by the input's name.
fn arrays(argument: &str) -> TractResult<Vec<(String, Array)>> {
    let (name, file) = match argument.split_once('=') {
        Some((name, file)) => (Some(name), file),
        None => (None, argument),
    };
    ensure!(!file.contains('='), "more than one `=`");
    let path = Path::new(file);
    let array = match (Format::of(path), name) {
        (Some(Format::Npz), None) => return files::read_npz(path),
        (Some(Format::Npz), Some(name)) => {
            let mut arrays = files::read_npz(path)?;
            arrays.retain(|(array, _)| array == name);
            ensure!(!arrays.is_empty(), "there is no array `{name}`");
            return Ok(arrays);
        }
        (Some(Format::Npy | Format::TensorProto), None) => bail!("it should be NAME={file}"),
        (Some(Format::Npy), _) => files::read_npy(path)?,
        (Some(Format::TensorProto), _) => files::read_tensor_proto(path)?,
        (None, None) => bail!("it should be NAME=FILE, or the FILE.npz of several inputs"),
        (None, Some(_)) => bail!("the file should be a .pb, .npy or .npz"),
    };
    Ok(name.map(|name| (name.to_owned(), array)).into_iter().collect())
}
