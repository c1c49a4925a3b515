//! Samples along the first axis of arrays: one axis more than the input has, or a multiple of its
//! declared first size.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;

use super::{Other, samples_in};
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::given::GivenTensors;
use crate::cli::message::counted;

/// The samples in what is given; `None` where it is one set of inputs.
/// Fails when arrays hold other numbers of samples, or not every input is given.
pub(in crate::cli::input) fn of(
    model: &Declared,
    given: &mut GivenTensors,
) -> TractResult<Option<Vec<Other>>> {
    let found = model.inputs.iter().zip(&given.tensors);
    let mut counts = found.filter_map(|(input, tensor)| {
        Some((input, samples_in(input, tensor.as_ref()?.shape())?.0))
    });
    let Some((first, count)) = counts.next() else { return Ok(None) };
    if let Some((other, differs)) = counts.find(|(_, other)| *other != count) {
        let (first, other) = (&first.name, &other.name);
        anyhow::bail!(
            "-i gives {} of `{first}`, and {differs} of `{other}`",
            counted(count, "sample")
        );
    }
    let tensors = model.inputs.iter().zip(std::mem::take(&mut given.tensors));
    let held = tensors.map(|(input, tensor)| {
        let (first, missing) = (&first.name, &input.name);
        tensor.with_context(|| {
            format!("-i gives {} of `{first}`, and none of `{missing}`", counted(count, "sample"))
        })
    });
    let held: Rc<Vec<Tensor>> = Rc::new(held.collect::<TractResult<_>>()?);
    let sample = |place: usize| {
        let held = held.clone();
        let read = move |model: &Declared| {
            let row = |(input, tensor): (&Input, &Tensor)| row(input, tensor, place);
            let tensors = model.inputs.iter().zip(held.iter()).map(row);
            Ok((tensors.collect::<TractResult<_>>()?, vec![]))
        };
        Other { name: format!("sample {place}"), read: Rc::new(read) }
    };
    Ok(Some((0..count).map(sample).collect()))
}

/// The part of an array that is a sample; the whole one where it holds no more.
fn row(input: &Input, tensor: &Tensor, place: usize) -> TractResult<Arc<Tensor>> {
    let Some((count, has_own_axis)) = samples_in(input, tensor.shape()) else {
        return Ok(Arc::new(tensor.clone()));
    };
    ensure!(place < count, "there is no sample {place}");
    let rows = tensor.shape().first().map_or(1, |first| first / count.max(1));
    let mut part = tensor.slice(0, place * rows, (place + 1) * rows)?;
    if has_own_axis {
        part.remove_axis(0)?;
    }
    Ok(Arc::new(part))
}
