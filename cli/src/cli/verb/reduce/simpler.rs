//! Simpler values, constants in the place of weights, and fewer inputs, as long as the part shows
//! what it did.

use tract_onnx::pb::{GraphProto, TensorProto};
use tract_onnx::prelude::*;

use super::part::{Part, drop_unused, for_tensors, used};
use super::trial::Attempts;
use super::values::read;
use crate::cli::tensor::{NamedTensor, elements, of_numbers};

/// The part with fewer inputs, and with values as simple as they can be: whole numbers or else
/// powers of two, and everywhere the same in a tensor. Fails as [`Attempts::shown`] does.
pub(super) fn simpler(mut part: Part, attempts: &mut Attempts) -> TractResult<Part> {
    let mut shown = |part: Option<Part>| part.map_or(Ok(None), |part| attempts.shown(part));
    for place in (0..places(&part)).rev() {
        while let Some(fewer) = shown(without_last_input(&part, place))? {
            part = fewer;
        }
    }
    for simple in [whole, power] {
        if let Some(plain) = shown(changed(&part, &mut |x| each(x, simple))?)? {
            part = plain;
            break;
        }
    }
    Ok(shown(changed(&part, &mut alike)?)?.unwrap_or(part))
}

fn whole(values: f64) -> f64 {
    values.round()
}

fn power(value: f64) -> f64 {
    match value.abs().log2().round().exp2() {
        _ if value == 0.0 || !value.is_finite() => value,
        power => power.copysign(value),
    }
}

fn each(values: &mut [f64], simple: fn(f64) -> f64) {
    values.iter_mut().for_each(|value| *value = simple(*value));
}

/// Puts the largest value everywhere.
fn alike(values: &mut [f64]) {
    let largest = values.iter().copied().max_by(|x, y| x.abs().total_cmp(&y.abs()));
    values.fill(largest.unwrap_or_default());
}

/// The part with other floating-point numbers as inputs and weights; nothing if none is another
/// one.
fn changed(part: &Part, change: &mut dyn FnMut(&mut [f64])) -> TractResult<Option<Part>> {
    // The outputs are made anew.
    let mut other = Part { outputs: vec![], ..part.clone() };
    let mut is_other = false;
    for input in &mut other.inputs {
        is_other |= change_tensor(input, change)?;
    }
    let models = other.reference.iter_mut().chain([&mut other.model]);
    for graph in models.filter_map(|model| model.graph.as_mut()) {
        for_tensors(graph, &mut |held: &mut TensorProto| {
            let mut tensor = read(held, None)?;
            if change_tensor(&mut tensor, change)? {
                *held = tensor.to_proto()?;
                is_other = true;
            }
            Ok(())
        })?;
    }
    Ok(is_other.then_some(other))
}

fn change_tensor(
    tensor: &mut NamedTensor,
    change: &mut dyn FnMut(&mut [f64]),
) -> TractResult<bool> {
    if !tensor.ty.is_float() {
        return Ok(false);
    }
    let mut doubles = elements(tensor.ty, &tensor.tensor)?;
    change(&mut doubles);
    let made = of_numbers(tensor.ty, tensor.tensor.shape(), &doubles)?;
    let is_other = made.as_bytes() != tensor.tensor.as_bytes();
    tensor.tensor = made;
    Ok(is_other)
}

/// How many nodes there are from which an input may be left out: those of one model, of which a
/// command judges.
fn places(part: &Part) -> usize {
    let nodes = part.model.graph.as_ref().map_or(0, |graph| graph.node.len());
    if part.reference.is_none() { nodes } else { 0 }
}

/// The part without the last input of a node, if that is given and not the only one.
fn without_last_input(part: &Part, place: usize) -> Option<Part> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let graph = fewer.model.graph.as_mut()?;
    let is_given = |graph: &GraphProto, name: &str| {
        let held = graph.initializer.iter().any(|held| held.name == name);
        held || graph.input.iter().any(|input| input.name == name)
    };
    let node = graph.node.get(place)?;
    let last = node.input.last().filter(|_| node.input.len() > 1)?;
    if !last.is_empty() && !is_given(graph, last) {
        return None;
    }
    graph.node.get_mut(place)?.input.pop();
    drop_unused(&mut fewer.model);
    let used = used(&fewer.model);
    let graph = fewer.model.graph.as_mut()?;
    graph.input.retain(|input| used.contains(&input.name));
    fewer.inputs.retain(|input| used.contains(&input.name));
    Some(fewer)
}
