//! Casts at the ends of a part: a converter puts them there, and they are seldom what is wrong. One
//! that is blamed stays.

use onnx_cast_graph::{NodeView, has_bodies, int};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::tensor::NamedTensor;
use crate::cli::verb::reduce::part::Part;
use crate::cli::verb::reduce::trial::Attempts;
use crate::cli::verb::reduce::values::{are_alike, declared, saturated};

/// The part without Casts between numbers at its ends, as long as it shows what it did.
///
/// # Errors
///
/// As [`Attempts::shown`].
pub(super) fn without_casts(mut part: Part, attempts: &mut Attempts) -> TractResult<Part> {
    for fewer in [without_first, without_last] {
        let Some(fewer) = fewer(&part)? else { continue };
        if let Some(mut shown) = attempts.shown(fewer)? {
            let outputs = shown.outputs.iter().map(declared).collect();
            shown.model.graph.iter_mut().for_each(|graph| graph.output = Vec::clone(&outputs));
            (attempts.save)(&shown)?;
            part = shown;
        }
    }
    Ok(part)
}

/// The part that takes what the Casts of its inputs make; nothing if there is none.
fn without_first(part: &Part) -> TractResult<Option<Part>> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let mut is_fewer = false;
    for input in &mut fewer.inputs {
        if let Some(to) = drop_first(&mut fewer.model, input) {
            *input = saturated(input, to)?;
            is_fewer = true;
            take(&mut fewer.model, input);
        }
        let Some(reference) = &mut fewer.reference else { continue };
        if let Some(to) = drop_first(reference, input) {
            is_fewer = true;
            take(reference, &saturated(input, to)?);
        }
    }
    Ok(is_fewer.then_some(fewer))
}

/// Has the model take an input as this one is.
fn take(model: &mut ModelProto, input: &NamedTensor) {
    let inputs = model.graph.iter_mut().flat_map(|graph| &mut graph.input);
    inputs.filter(|held| held.name == input.name).for_each(|held| *held = declared(input));
}

/// Drops the Cast that alone takes an input; the type that it makes.
fn drop_first(model: &mut ModelProto, input: &NamedTensor) -> Option<ElementType> {
    let graph = model.graph.as_mut().filter(|graph| is_plain(graph))?;
    let takes = |node: &&NodeProto| node.input.contains(&input.name);
    let mut takers = graph.node.iter().filter(takes);
    let (node, None) = (takers.next()?, takers.next()) else { return None };
    let to = to(node).filter(|to| are_alike(*to, input.ty))?;
    let made = node.output.first()?.clone();
    if graph.output.iter().any(|output| output.name == made || output.name == input.name) {
        return None;
    }
    graph.node.retain(|node| node.output.first() != Some(&made));
    let inner = graph.node.iter_mut().flat_map(|node| &mut node.input);
    inner.filter(|name| **name == made).for_each(|name| name.clone_from(&input.name));
    Some(to)
}

/// The part without the Cast that makes its output; nothing if there is none.
fn without_last(part: &Part) -> TractResult<Option<Part>> {
    let mut fewer = Part { outputs: vec![], ..part.clone() };
    let is_number = part.outputs.iter().all(|output| are_alike(output.ty, ElementType::Float));
    Ok(drop_last(&mut fewer.model).filter(|()| is_number).map(|()| fewer))
}

fn drop_last(model: &mut ModelProto) -> Option<()> {
    let graph = model.graph.as_mut().filter(|graph| is_plain(graph))?;
    let [output] = &mut *graph.output else { return None };
    let makes = |node: &NodeProto| node.output.first() == Some(&output.name);
    let node = graph.node.iter().find(|node| makes(node))?;
    to(node).filter(|to| are_alike(*to, ElementType::Float))?;
    let from = node.input.first()?.clone();
    if graph.node.iter().any(|node| node.input.contains(&output.name))
        || !graph.node.iter().any(|node| node.output.contains(&from))
    {
        return None;
    }
    graph.node.retain(|node| !makes(node));
    output.r#type = None;
    for node in &mut graph.node {
        let names = node.input.iter_mut().chain(&mut node.output);
        names.filter(|name| **name == from).for_each(|name| name.clone_from(&output.name));
    }
    Some(())
}

/// Whether no node holds a body, which may take any value.
fn is_plain(graph: &GraphProto) -> bool {
    !graph.node.iter().any(has_bodies)
}

/// What a Cast makes.
fn to(node: &NodeProto) -> Option<ElementType> {
    let to = int(node, "to").filter(|_| node.is("Cast"))?;
    ElementType::from_id(i32::try_from(to).ok()?)
}
