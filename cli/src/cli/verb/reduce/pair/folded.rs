//! Constants in the place of nodes that are not to blame, where nothing smaller is left: a
//! converter may spread over many nodes what is one value of the reference, so that no value before
//! the blamed node belongs to one there.

use std::collections::HashSet;
use std::sync::Arc;

use onnx_cast_graph::{Given, Graph, NodeId, NodeView, Origin, Use, ValueId, all_graphs};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::CastOnnx;

use super::matched::take;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::reduce::part::{Part, exported};
use crate::cli::verb::reduce::side::SourceModel;
use crate::cli::verb::reduce::values::by_name;
use crate::cli::work::codes::MOVERS;

/// Which nodes may become constants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Folds {
    /// Those that take constants alone.
    Fixed,
    /// Those too that only hold what is given in another form. What computes may be wrong itself,
    /// where the blame is.
    Quantizers,
}

/// The part with constants in the place of what the blamed nodes, and those behind them, take of
/// others; nothing if there are no others. It makes the same of the inputs that it has, and would
/// not of other ones. Fails when the part cannot be run, or a tensor not be written.
pub(super) fn folded(
    part: &Part,
    blamed: &[String],
    folds: Folds,
    onnx: &CastOnnx,
) -> TractResult<Option<Part>> {
    let side = SourceModel::of(onnx.clone(), part.model.clone(), None)?;
    let (graph, nodes, fixed) = (&side.graph, side.nodes(), side.fixed());
    let maker = |value: &ValueId| graph.maker(*value);
    let is_blamed = |id: NodeId| blamed.iter().any(|name| name == graph.node(id).label());
    let astray = astray(part);
    let mut stay: HashSet<NodeId> = HashSet::new();
    for id in &nodes {
        let node = graph.node(*id);
        // Its weights' codes are the blamed node's own.
        let is_of_weight = &*node.op_type == "DequantizeLinear"
            && graph.needs(*id).iter().all(|value| graph.value(*value).is_constant());
        let is_taken = |used: Use| match used {
            Use::Node(taker, _) => is_blamed(taker),
            Use::Output(..) => false,
        };
        let made = node.output(0).filter(|_| is_of_weight);
        let is_own = made.is_some_and(|made| graph.value(made).uses().any(is_taken));
        if is_own
            || is_blamed(*id)
            || graph.needs(*id).iter().any(|value| astray.contains(side.name(*value)))
            || graph.needs(*id).iter().filter_map(maker).any(|id| stay.contains(&id))
        {
            stay.insert(*id);
        }
    }
    if stay.is_empty() {
        return Ok(None);
    }
    let is_fixed = |id: &NodeId| graph.node(*id).output(0).is_some_and(|made| fixed.contains(made));
    let mut gone: HashSet<NodeId> = HashSet::new();
    for id in nodes.iter().filter(|id| !stay.contains(id)) {
        let is_whole = graph.needs(*id).iter().filter_map(maker).all(|id| gone.contains(&id));
        if is_whole && (is_fixed(id) || folds == Folds::Quantizers && only_quantises(graph, *id)) {
            gone.insert(*id);
        }
    }
    let is_folded = |id: &NodeId| gone.contains(id);
    let (values, ran) = side.record(&by_name(part.inputs.clone()));
    ran?;
    let mut given: Vec<(ValueId, Given)> = vec![];
    let mut seen = HashSet::new();
    for value in nodes.iter().filter(|id| !is_folded(id)).flat_map(|id| graph.needs(*id)) {
        let is_other = maker(&value).is_some_and(|id| is_folded(&id)) && seen.insert(value);
        if let Some(tensor) = values.get(side.name(value)).filter(|_| is_other) {
            given.push((value, Given::Constant(Arc::new(tensor.to_proto()?))));
        }
    }
    if given.is_empty() {
        return Ok(None);
    }
    let outputs = graph.body(graph.main()).outputs();
    let wanted = outputs.iter().map(|output| (output.value, output.declared.clone())).collect();
    let mut model = exported(graph.part(given, wanted).0, None)?;
    take(&mut model, &part.inputs);
    let folded = "What its nodes take of others is a constant, as it is of these inputs. ";
    let added = if part.added.contains(folded) {
        part.added.clone()
    } else {
        format!("{}{folded}", part.added)
    };
    Ok(Some(Part { model, added, ..part.clone() }))
}

/// The inputs that the model takes and the reference does not, where it is the other way round with
/// another one: a node that takes such a one may take the wrong one.
fn astray(part: &Part) -> HashSet<&str> {
    let takes = |model: &ModelProto, input: &NamedTensor| {
        let graphs = model.graph.iter().flat_map(all_graphs);
        let mut nodes = graphs.flat_map(|graph| &graph.node);
        nodes.any(|node| node.input.contains(&input.name))
    };
    let Some(reference) = &part.reference else { return HashSet::new() };
    let of_one = |one: &ModelProto, other: &ModelProto| {
        let inputs = part.inputs.iter().filter(|input| takes(one, input) && !takes(other, input));
        inputs.map(|input| &*input.name).collect::<HashSet<_>>()
    };
    let is_left_out = !of_one(reference, &part.model).is_empty();
    if is_left_out { of_one(&part.model, reference) } else { HashSet::new() }
}

/// Whether a node makes the same values in another form: codes, their scale, or another shape.
fn only_quantises(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let is_scale = |value: &ValueId| match graph.value(*value).origin() {
        Origin::Node(maker, place) => {
            *place > 0 && &*graph.node(*maker).op_type == "DynamicQuantizeLinear"
        }
        _ => graph.value(*value).is_constant(),
    };
    match &*node.op_type {
        "Cast" | "DequantizeLinear" | "DynamicQuantizeLinear" | "QuantizeLinear" => true,
        "Mul" => graph.needs(id).iter().all(is_scale),
        "Gather" | "MaxPool" => false,
        op => MOVERS.contains(&op),
    }
}
