//! Adds a node where a graph's output has no producer of its own, or not of its declared type,
//! which tract needs. Before: an output is an input, a constant, a value of the body around it or a
//! symbolic INT64; after: it is what an `Identity`, or a cast to numbers, makes of that.

use onnx_cast_graph::{BodyId, Graph, NewNode, Origin, Place, Use};
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::lowered::{DOMAIN, OperatorForm, PrivateCast};
use crate::passes::context::PassContext;
use crate::passes::facts::value_type::{declared_type, either_exotic, is_tensor, set_carrier};

/// Gives the outputs of all bodies their carriers, and nodes of their own where tract needs them.
/// Fails when an output that no node makes is declared of another type, and one of the two is
/// exotic.
pub(in crate::passes) fn prepare(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for body in graph.all_bodies(graph.main()) {
        for place in 0..graph.body(body).outputs().len() {
            let prepared = output(graph, context, body, place);
            context.take(prepared, false)?;
        }
    }
    Ok(())
}

fn output(
    graph: &mut Graph,
    context: &mut PassContext,
    body: BodyId,
    place: usize,
) -> TractResult<()> {
    let Some(output) = graph.body(body).outputs().get(place) else { return Ok(()) };
    let value = output.value;
    let (name, path) = (graph.value(value).name.clone(), graph.body(body).path.clone());
    let declared = if context.options.ignore_output_types {
        None
    } else {
        let declared = output.declared.r#type.as_ref();
        is_tensor(declared, "output", &name, &path)?;
        declared_type(declared, "an output", &path)?
    };
    let made = graph.value(value);
    let made_here = made.body() == body && matches!(made.origin(), Origin::Node(..));
    let ty = context.facts.ty(value);
    if let (Some(declared), Some(ty)) = (declared, ty)
        && !made_here
        && declared != ty
        && either_exotic(declared, ty)
    {
        let problem = format!("output `{name}` is declared {declared}, but is {ty}");
        Err(Error::graph(&*path, problem))?;
    }
    let is_main = body == graph.main();
    let is_int64 = declared.or(ty) == Some(ElementType::Int64);
    let is_settled = name.starts_with(DOMAIN);
    let in_body = |used: &Use| match *used {
        Use::Node(node, _) => graph.node(node).body() == body,
        Use::Output(other, _) => other == body,
    };
    // Beside this output.
    let is_used_here = made.uses().filter(in_body).nth(1).is_some();
    if let Some(ty) = ty.filter(|ty| ty.is_exotic())
        && let Some(declared) = graph.declared_output_mut(body, place)
    {
        set_carrier(&mut declared.r#type, ty);
    }
    // tract computes shapes with symbolic integers; a model's INT64 output is made of numbers. It
    // finds an output only among the values of the graph itself, forgets what it knows of an input
    // that is one, and what it does to the outputs of a Scan's body it does to all that use the
    // value.
    let resolves = is_main && made_here && is_int64 && !is_settled;
    if !resolves && made_here && (is_main || !is_used_here) {
        return Ok(());
    }
    let op_type = if resolves { "Cast" } else { "Identity" };
    let own = format!("{DOMAIN}:output{place}:{name}");
    let node = graph.add(Place::Last(body), NewNode::of(op_type, &[value], own));
    if resolves {
        context.lower(node, OperatorForm::Cast(PrivateCast::to_numbers()));
    }
    if let Some(own) = graph.node(node).output(0) {
        if let Some(fact) = context.facts.get(value) {
            context.facts.insert(own, fact);
        }
        graph.set_output(body, place, own);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
