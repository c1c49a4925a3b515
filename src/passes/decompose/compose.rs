//! Operators as compositions of others, which `compositions.txt` has as text. Before:
//! `com.microsoft::SkipLayerNormalization`; after: `Add`, `LayerNormalization`.

use std::collections::HashSet;

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, Splice};
use tract_onnx::prelude::TractResult;

use super::made_types::of;
use super::read::Composition;
use super::writer::{Call, KnownInput, WrittenBody, is_meant, write};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::lowered::{OperatorForm, PrivateCast};
use crate::onnx::node::refusal;
use crate::passes::context::PassContext;
use crate::passes::diagnostics::Diagnostics;
use crate::passes::facts::types;
use crate::passes::facts::value_type::dims;
use crate::passes::step;

/// The version of ONNX by which compositions are written.
const OPSET: i64 = 25;

/// How deep compositions are made of others.
const DEPTH: usize = 8;

/// Writes out the nodes of all bodies for which there is a composition. A node that the program's
/// user has an operator for stays. Fails when a node asks for what its composition refuses, or a
/// type or rank is unknown on which it depends.
pub(in crate::passes) fn compose(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let registered = context.options.registered;
    let mut done: HashSet<NodeId> = HashSet::new();
    for _ in 0..DEPTH {
        let nodes = graph.all_nodes(graph.main()).into_iter();
        let call = |id: NodeId| Some((id, of(graph.node(id), registered)?));
        let calls: Vec<_> = nodes.filter_map(call).filter(|(id, _)| done.insert(*id)).collect();
        if calls.is_empty() {
            return Ok(());
        }
        // What stands for an operator depends on types. What is wrong with them is told when the
        // pass `types` runs on what this one has made.
        let diagnostics = Diagnostics::Collect(vec![]);
        let mut trial = PassContext::new(context.options, context.limits, diagnostics);
        trial.lowered.clone_from(&context.lowered);
        types::infer(graph, &mut trial)?;
        let is_meant = |(id, composition): &(NodeId, &Composition)| {
            let node = graph.node(*id);
            let made = || trial.facts.ty(node.output(0)?);
            let is_typed = composition.only.is_empty()
                || made().is_some_and(|ty| composition.only.contains(&ty));
            let types = trial.facts.types(node);
            is_typed && is_meant(&Call { node, given: &known(graph, node, &types) }, composition)
        };
        let calls: Vec<_> = calls.into_iter().filter(is_meant).collect();
        for (id, composition) in calls {
            let types = trial.facts.types(graph.node(id));
            let composed = put(graph, context, id, composition, &types);
            context.take(composed.map_err(Into::into), false)?;
        }
    }
    Ok(())
}

/// What is known of the inputs of a node.
fn known<'a>(
    graph: &'a Graph,
    node: &'a Node,
    types: &'a [Option<ElementType>],
) -> impl Fn(usize) -> KnownInput + 'a {
    |place| KnownInput {
        ty: types.get(place).copied().flatten(),
        dims: node.input(place).and_then(|value| dims(graph, value)),
    }
}

fn put(
    graph: &mut Graph,
    context: &mut PassContext,
    id: NodeId,
    composition: &Composition,
    types: &[Option<ElementType>],
) -> Result<(), Error> {
    let node = &graph.node(id).clone();
    let given = known(graph, node, types);
    let WrittenBody { body, casts } = write(&Call { node, given: &given }, composition)?;
    drop(given);
    let local = if node.label().is_empty() { node.op_type.as_str() } else { node.label() };
    let numbered = (0..).map(|number: usize| match number {
        0 => format!("{local}/"),
        number => format!("{local}~{number}/"),
    });
    let free = numbered.into_iter().find(|prefix| graph.is_free_prefix(prefix));
    let prefix = free.unwrap_or_default();
    graph.new_name(&prefix);
    let path = format!("{}/{}", node.path, step(local, &node.op_type)).into();
    let (added, problems) =
        graph.splice(id, body, Splice { prefix, path, opset: OPSET, step: &step });
    for id in added {
        if let Some((from, to)) = casts.get(graph.node(id).local_name()) {
            context.lower(id, OperatorForm::Cast(PrivateCast::own(*from, *to)));
        }
    }
    match problems.into_iter().next() {
        Some(problem) => Err(refusal(node, problem.text)),
        None => Ok(()),
    }
}
