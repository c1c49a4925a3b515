//! Bodies of fewer nodes, where the node that has them stays: what makes something of the type and
//! shape of what it takes is left out, as long as the part shows what it did.

use onnx_cast_graph::{Graph, NodeId, NodeView, Origin, ValueId};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::CastOnnx;

use super::inside::RanBody;
use super::part::{Part, exported};
use super::side::SourceModel;
use super::trial::{Attempts, Runs};
use super::values::{Values, by_name, taken};

/// A node of a body: which of the nodes with bodies holds it, by which attribute, what it makes,
/// and its operator.
type SpareKey = ((usize, String), String, String);

/// Nodes that may be left out, with the place of the input that stands for what they make.
type Spares = Vec<(SpareKey, usize)>;

/// The part with as few nodes in its bodies as can be. Fails as [`Attempts::shown`] does.
pub(super) fn hollowed(
    mut part: Part,
    onnx: &CastOnnx,
    attempts: &mut Attempts,
) -> TractResult<Part> {
    // Bodies that cannot be looked into are left as they are.
    let Ok([of_model, of_reference]) = spares(&part, onnx) else { return Ok(part) };
    let is_common = |key: &SpareKey| {
        part.reference.is_none() || of_reference.iter().any(|(other, _)| other == key)
    };
    let keys = of_model.iter().map(|(key, _)| key).filter(|key| is_common(key));
    let all: Vec<SpareKey> = keys.cloned().collect();
    let mut pieces = if all.is_empty() { vec![] } else { vec![all] };
    while let Some(piece) = pieces.pop().filter(|_| attempts.left() > Runs::TO_SHRINK) {
        let fewer = without(&part, &piece, [&of_model, &of_reference], onnx)?;
        let shown = fewer.map_or(Ok(None), |fewer| attempts.shown(fewer))?;
        if let Some(shown) = shown {
            part = shown;
        } else if piece.len() > 1 {
            let (first, last) = piece.split_at(piece.len() / 2);
            pieces.extend([first.to_vec(), last.to_vec()]);
        }
    }
    Ok(part)
}

/// What may be left out of the model, and of the reference if there is one.
fn spares(part: &Part, onnx: &CastOnnx) -> TractResult<[Spares; 2]> {
    let given = by_name(part.inputs.clone());
    let of = |model: &ModelProto, given: &Values| -> TractResult<Spares> {
        let side = SourceModel::of(onnx.clone(), model.clone(), None)?;
        let bodies = side.bodies(given)?;
        Ok(bodies.iter().flat_map(|inside| spares_in(&side, inside)).collect())
    };
    let of_model = of(&part.model, &given)?;
    let reference = part.reference.as_ref().filter(|_| !of_model.is_empty());
    let of_reference = reference.map(|model| of(model, &taken(model, &given)?)).transpose()?;
    Ok([of_model, of_reference.unwrap_or_default()])
}

fn spares_in(side: &SourceModel, inside: &RanBody) -> Spares {
    let graph = &side.graph;
    // What is of the body itself: its nodes' and its inputs.
    let is_own = |value: ValueId| {
        let held = graph.value(value);
        held.body() == inside.body && !held.is_constant()
    };
    let is_alike = |made: ValueId, given: ValueId| {
        inside.times.iter().all(|time| {
            let both = time.get(side.name(made)).zip(time.get(side.name(given)));
            both.is_some_and(|(made, given)| {
                made.ty == given.ty && made.tensor.shape() == given.tensor.shape()
            })
        })
    };
    let spare = |id: NodeId| {
        let node = graph.node(id);
        let ([Some(made)], []) = (node.outputs(), node.bodies()) else { return None };
        let mut places = 0..node.input_places();
        let stands = |place: &usize| {
            node.input(*place).is_some_and(|given| is_own(given) && is_alike(*made, given))
        };
        Some((key(graph, &inside.place, id)?, places.find(stands)?))
    };
    graph.nodes_of(inside.body).into_iter().filter_map(spare).collect()
}

fn key(graph: &Graph, place: &(usize, String), id: NodeId) -> Option<SpareKey> {
    let node = graph.node(id);
    let made = graph.value(node.output(0)?).name.to_string();
    Some((place.clone(), made, node.op_type.clone()))
}

/// The part without these nodes, as far as they can go in both models; nothing where none can.
fn without(
    part: &Part,
    gone: &[SpareKey],
    [of_model, of_reference]: [&Spares; 2],
    onnx: &CastOnnx,
) -> TractResult<Option<Part>> {
    let (model, left_out) = fewer(&part.model, gone, of_model, onnx)?;
    let reference = part.reference.as_ref().map(|model| fewer(model, gone, of_reference, onnx));
    let reference = reference.transpose()?;
    let is_same = reference.as_ref().is_none_or(|(_, other)| *other == left_out);
    let reference = reference.map(|(reference, _)| reference);
    let fewer = Part { model, reference, outputs: vec![], ..part.clone() };
    Ok((is_same && !left_out.is_empty()).then_some(fewer))
}

/// The model without these nodes, and which they are: what a body returns it does not only take.
fn fewer(
    model: &ModelProto,
    gone: &[SpareKey],
    spares: &Spares,
    onnx: &CastOnnx,
) -> TractResult<(ModelProto, Vec<SpareKey>)> {
    let side = SourceModel::of(onnx.clone(), model.clone(), None)?;
    let mut graph = side.graph.clone();
    let mut left_out = vec![];
    let holders = side.holders();
    let bodies = holders.flat_map(|(place, node)| node.bodies().iter().map(move |b| (place, b)));
    for (place, held) in bodies {
        let place = (place, held.attribute.clone());
        for id in graph.nodes_of(held.body) {
            let Some(key) = key(&graph, &place, id).filter(|key| gone.contains(key)) else {
                continue;
            };
            let input = spares.iter().find(|(spare, _)| *spare == key).map(|(_, input)| *input);
            let given = input.and_then(|input| graph.node(id).input(input));
            let Some((made, given)) = graph.node(id).output(0).zip(given) else { continue };
            let is_taken = matches!(graph.value(given).origin(), Origin::Input);
            let is_end = is_taken || graph.value(given).is_output();
            if is_end && graph.value(made).is_output() {
                continue;
            }
            graph.replace_all_uses(made, given);
            if graph.remove(id) {
                left_out.push(key);
            }
        }
    }
    Ok((exported(graph, None)?, left_out))
}
