//! Smaller shapes: every axis of a size that a part's inputs and weights share is cut to one place,
//! or halved, as long as the part shows what it did.

use std::collections::BTreeMap;

use onnx_cast_graph::{tensor_type, tensor_type_mut};
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use super::part::{Part, for_graphs, for_tensors};
use super::trial::Attempts;
use super::values::{declared, read};
use crate::cli::tensor::{NamedTensor, elements};

/// The part with shapes as small as they can be. Fails as [`Attempts::shown`] does.
pub(super) fn shrunk(mut part: Part, attempts: &mut Attempts) -> TractResult<Part> {
    let mut done: Vec<usize> = vec![];
    while let Some(size) = sizes(&part).into_iter().find(|size| !done.contains(size)) {
        done.push(size);
        for (start, end) in ranges(size, &part) {
            if attempts.left() == 0 {
                return Ok(part);
            }
            let Ok(Some(smaller)) = cut(&part, size, start, end) else { continue };
            if let Some(shown) = attempts.shown(smaller)? {
                // What was halved may be halved again.
                done.retain(|done| *done == size || *done > end - start);
                part = shown;
                break;
            }
        }
    }
    Ok(part)
}

/// The places of an axis to try: one of its ends alone, or a half.
fn ranges(size: usize, part: &Part) -> Vec<(usize, usize)> {
    let half = size / 2;
    let first = worst_place(size, part).unwrap_or(0);
    let mut ranges = vec![(first, first + 1)];
    if size > 2 {
        ranges.push(if first < half { (0, half) } else { (half, size) });
    }
    if size > 3 {
        ranges.push(if first < half { (half, size) } else { (0, half) });
    }
    ranges
}

/// Where the largest value of the right output is, on the axis of that size.
fn worst_place(size: usize, part: &Part) -> Option<usize> {
    let output = part.outputs.first()?;
    let axis = output.tensor.shape().iter().position(|held| *held == size)?;
    let values = elements::<f64>(output.ty, &output.tensor).ok()?.into_iter().enumerate();
    let (place, _) = values.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let behind: usize = output.tensor.shape().iter().skip(axis + 1).product();
    Some(place / behind.max(1) % size)
}

/// The sizes of axes, those first that most elements would go with.
fn sizes(part: &Part) -> Vec<usize> {
    let mut elements: BTreeMap<usize, usize> = BTreeMap::new();
    let mut count = |shape: &[usize]| {
        let all: usize = shape.iter().product();
        for size in shape.iter().filter(|size| **size > 1) {
            *elements.entry(*size).or_default() += all;
        }
    };
    part.inputs.iter().for_each(|input| count(input.tensor.shape()));
    for graph in graphs(part) {
        for held in &graph.initializer {
            let shape: Vec<usize> =
                held.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
            count(&shape);
        }
    }
    let mut sizes: Vec<(usize, usize)> =
        elements.into_iter().map(|(size, elements)| (elements, size)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.into_iter().map(|(_, size)| size).collect()
}

fn graphs(part: &Part) -> impl Iterator<Item = &GraphProto> {
    part.reference.iter().chain([&part.model]).flat_map(|model| &model.graph)
}

/// The part with each axis of that size cut to some places; nothing if there is none.
fn cut(part: &Part, size: usize, start: usize, end: usize) -> TractResult<Option<Part>> {
    let mut smaller = part.clone();
    let mut is_cut = false;
    for input in &mut smaller.inputs {
        is_cut |= slice(input, size, start, end)?;
    }
    // They are made anew.
    smaller.outputs.clear();
    let inputs = smaller.inputs.clone();
    for model in smaller.reference.iter_mut().chain([&mut smaller.model]) {
        is_cut |= cut_model(model, &inputs, size, start, end)?;
    }
    Ok(is_cut.then_some(smaller))
}

fn cut_model(
    model: &mut ModelProto,
    inputs: &[NamedTensor],
    size: usize,
    start: usize,
    end: usize,
) -> TractResult<bool> {
    let Some(graph) = &mut model.graph else { return Ok(false) };
    let mut is_cut = false;
    for_tensors(graph, &mut |held: &mut TensorProto| {
        let mut tensor = read(held, None)?;
        let is_sliced = slice(&mut tensor, size, start, end)?;
        let is_told = tell(&mut tensor, size, end - start)?;
        if is_sliced || is_told {
            is_cut |= is_sliced;
            *held = tensor.to_proto()?;
        }
        Ok(())
    })?;
    let shapes = |info: &mut tract_onnx::pb::ValueInfoProto| {
        let Some(input) = inputs.iter().find(|input| input.name == info.name) else { return };
        let mut of_model = declared(input);
        // The reference may hold it in another type.
        if let (Some(held), Some(new)) = (element_type(info), element_type_mut(&mut of_model)) {
            *new = held;
        }
        *info = of_model;
    };
    for_graphs(graph, &mut |graph| {
        graph.value_info.clear();
        graph.input.iter_mut().chain(&mut graph.output).for_each(forget_sizes);
        Ok(())
    })?;
    graph.input.iter_mut().for_each(shapes);
    Ok(is_cut)
}

fn slice(tensor: &mut NamedTensor, size: usize, start: usize, end: usize) -> TractResult<bool> {
    let shape = tensor.tensor.shape().to_vec();
    let axes: Vec<usize> =
        (0..shape.len()).filter(|axis| shape.get(*axis) == Some(&size)).collect();
    for axis in &axes {
        tensor.tensor = tensor.tensor.slice(*axis, start, end)?;
    }
    Ok(!axes.is_empty())
}

/// Has a short list of whole numbers say the new size in the place of the old one.
fn tell(tensor: &mut NamedTensor, size: usize, new: usize) -> TractResult<bool> {
    const MOST: usize = 16;
    if tensor.ty != ElementType::Int64 || tensor.tensor.rank() > 1 || tensor.tensor.len() > MOST {
        return Ok(false);
    }
    let (size, new) = (i64::try_from(size)?, i64::try_from(new)?);
    let mut plain = tensor.tensor.try_as_plain_ram_mut()?;
    let told = plain.as_slice_mut::<i64>()?.iter_mut().filter(|value| **value == size);
    Ok(told.map(|value| *value = new).count() > 0)
}

fn element_type(info: &tract_onnx::pb::ValueInfoProto) -> Option<i32> {
    Some(tensor_type(info.r#type.as_ref())?.elem_type)
}

fn element_type_mut(info: &mut tract_onnx::pb::ValueInfoProto) -> Option<&mut i32> {
    Some(&mut tensor_type_mut(info.r#type.as_mut())?.elem_type)
}

/// What the sizes are of what bodies take and make, and a part returns, it says when it has run.
fn forget_sizes(info: &mut tract_onnx::pb::ValueInfoProto) {
    let shape = tensor_type_mut(info.r#type.as_mut()).and_then(|tensor| tensor.shape.as_mut());
    shape
        .into_iter()
        .flat_map(|shape| &mut shape.dim)
        .for_each(|size| *size = Dimension::default());
}
