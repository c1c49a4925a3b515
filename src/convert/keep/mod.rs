//! Pass: the nodes that stay as they are as a whole, each with the reason. It changes nothing in
//! the graph.
//!
//! - `exact`: what computes shapes and angles; `products`: what scales integer products

mod exact;
mod products;

use std::collections::HashMap;

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, Table, Use, ValueId};

use super::classes::Point;
use super::context::Context;
use super::data;
use super::sequences;
use crate::error::{Cause, Result};
use crate::onnx::node::attribute;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse};
use crate::onnx::operators::foreign;
use crate::onnx::operators::schema::{self, Schema};
use crate::onnx::operators::types::depends_on_call;

/// Fills [`Context::kept`].
/// Fails when the model has no node of a name that is to be kept, or a weight cannot be read.
pub(super) fn keep(graph: &mut Graph, context: &mut Context) -> Result<()> {
    named(graph, context)?;
    for id in context.nodes(graph) {
        if let Some(why) = by_operator(graph.node(id), context) {
            context.keep(id, why);
        }
    }
    exact::keep(graph, context);
    products::keep(graph, context);
    weights(graph, context)
}

/// The nodes that the user wants to keep.
fn named(graph: &Graph, context: &mut Context) -> Result<()> {
    let options = context.options;
    let nodes = context.nodes(graph);
    let mut by_name: HashMap<&str, Vec<NodeId>> = HashMap::new();
    for id in nodes.iter().filter(|_| !options.keep.is_empty()) {
        by_name.entry(graph.node(*id).label()).or_default().push(*id);
    }
    for name in &options.keep {
        let mut found = false;
        for id in by_name.get(name.as_str()).into_iter().flatten() {
            context.keep(*id, "as asked for");
            let bodies = graph.node(*id).bodies().iter().map(|held| held.body);
            for inner in bodies.flat_map(|body| graph.all_nodes(body)) {
                context.keep(inner, format!("`{name}` is kept, as asked for"));
            }
            found = true;
        }
        if !found {
            let problem = format!("has no node `{name}` to keep");
            return Err(Cause::Model { problem }.into());
        }
    }
    for op in &options.keep_ops {
        let mut found = false;
        for id in nodes.iter().filter(|id| graph.node(**id).op_type == *op) {
            context.keep(*id, format!("every {op}, as asked for"));
            found = true;
        }
        if !found {
            let problem = format!("has no {op} to keep");
            return Err(Cause::Model { problem }.into());
        }
    }
    Ok(())
}

/// Why a node stays whatever its values are.
fn by_operator(node: &Node, context: &Context) -> Option<String> {
    if context.function(node).is_some() {
        return None;
    }
    if depends_on_call(node) {
        return Some("an attribute of the function decides on its type".into());
    }
    if Behaviour::of(node).makes_attributes && has_referred(node) {
        return Some("what it makes is an attribute of the function".into());
    }
    let op = &node.op_type;
    let schema = schema::schema(op, node.opset).filter(|_| node.is_onnx());
    let Some(schema) = schema else {
        if foreign::takes(node, context.to()) {
            return None;
        }
        let domain = if node.domain.is_empty() { "ONNX" } else { &node.domain };
        return Some(format!("which types it takes is not known of {domain}"));
    };
    if has_sequences(node, schema) && !sequences::moves(node) {
        return Some("it makes or takes a sequence".into());
    }
    match op.as_str() {
        "BitCast" => Some("what it reads is the bits of a type".into()),
        "OptionalGetElement" => Some("it takes what may be no tensor".into()),
        "Range" => Some("the numbers of a range would not be exact".into()),
        "Bernoulli" | "Multinomial" | "RandomNormal" | "RandomNormalLike" | "RandomUniform"
        | "RandomUniformLike" => Some("its random numbers would be others".into()),
        "BlackmanWindow" | "EyeLike" | "HammingWindow" | "HannWindow" | "MelWeightMatrix" => {
            Some("what makes it is not in every runtime in another type".into())
        }
        "AffineGrid" | "MeanVarianceNormalization" => {
            Some("ONNX Runtime does not compute it in another type".into())
        }
        "ScatterElements" | "ScatterND"
            if Behaviour::of(node).elements(node) == ElementUse::Computed =>
        {
            Some("ONNX Runtime does not reduce by it in another type".into())
        }
        _ => None,
    }
}

/// Whether the value of an attribute of a node is that of the function's.
pub(super) fn has_referred(node: &Node) -> bool {
    node.attributes.iter().any(|attribute| !attribute.ref_attr_name.is_empty())
}

/// Whether a node has values that are no tensors, whatever the node.
fn has_sequences(node: &Node, schema: &Schema) -> bool {
    let inputs = (0..node.input_places()).filter_map(|place| schema.input(place));
    let outputs = (0..node.output_places()).filter_map(|place| schema.output(place));
    inputs.chain(outputs).any(|parameter| schema.is_sequence(parameter.ty))
}

/// The nodes with a weight that does not fit.
fn weights(graph: &Graph, context: &mut Context) -> Result<()> {
    let mut unfit: Table<ValueId, String> = Table::default();
    for body in context.bodies(graph) {
        for value in graph.body(body).constants() {
            let Some(tensor) = graph.constant(*value) else { continue };
            if context.source(*value).is_none() || graph.value(*value).uses().len() == 0 {
                continue;
            }
            if let Some(why) = data::misfit(tensor, context.folder, context.to())? {
                unfit.insert(*value, format!("of `{}`, {why}", graph.value(*value).name));
            }
        }
    }
    for id in context.nodes(graph) {
        let node = graph.node(id);
        let behaviour = Behaviour::of(node);
        let output = node.output(0);
        if behaviour.makes_attributes {
            let held = attribute(node, "value").and_then(|attribute| attribute.t.as_ref());
            let misfit = match (held, output.filter(|output| context.source(*output).is_some())) {
                (Some(tensor), Some(_)) => data::misfit(tensor, context.folder, context.to())?,
                (None, Some(_)) => {
                    let tensor = super::attributes::constant(node);
                    match tensor {
                        Some(tensor) => data::misfit(&tensor, None, context.to())?,
                        None => None,
                    }
                }
                _ => None,
            };
            if let (Some(why), Some(output)) = (misfit, output) {
                unfit.insert(output, format!("of `{}`, {why}", graph.value(output).name));
            }
            continue;
        }
        // What only has another shape is the same weight.
        let passes_on = behaviour.only_rearranges || node.is("Expand");
        let first = node.input(0).filter(|_| passes_on);
        if let (Some(why), Some(output)) = (first.and_then(|x| unfit.get(x).cloned()), output) {
            unfit.insert(output, why);
        }
    }
    let all: Vec<(ValueId, String)> =
        unfit.iter().map(|(value, why)| (value, why.clone())).collect();
    for (value, why) in all {
        if context.is_default(graph, value) {
            context.fixed.push((Point::Made(value), why.clone()));
        }
        for used in graph.value(value).uses() {
            match used {
                Use::Node(node, _) => context.keep(node, why.clone()),
                // What a body returns has no node of its own.
                Use::Output(..) => context.fixed.push((Point::Taken(used), why.clone())),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
