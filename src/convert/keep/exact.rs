//! The nodes that compute shapes or angles: from integers and constants alone, for inputs that
//! decide on shapes and for sines and cosines. FLOAT16 has the integers to 2048, BFLOAT16 to 256.

use onnx_cast_graph::{Graph, Node, NodeView, Table, ValueId};

use crate::convert::context::Context;
use crate::onnx::node::attribute;
use crate::onnx::operators::behaviour::{Behaviour, ElementUse, InputPlaces};

const SHAPE: &str = "it computes a shape";
const ANGLE: &str = "it computes an angle from integers";

/// Keeps them.
pub(super) fn keep(graph: &Graph, context: &mut Context) {
    let measured = measured(graph, context);
    let is_source = |context: &Context, value: &ValueId| {
        context.source(*value).is_some() && measured.contains(*value)
    };
    let mut wanted: Table<ValueId, &str> = Table::default();
    for id in context.nodes(graph).iter().rev() {
        let node = graph.node(*id);
        // What only looks at a shape needs no exact elements.
        let is_measure = Behaviour::of(node).elements(node) == ElementUse::Measured;
        let mut made = node.outputs().iter().flatten().filter(|_| !is_measure);
        let why = made.find_map(|value| wanted.get(*value).copied());
        for (place, value) in node.inputs().iter().enumerate() {
            let Some(value) = value else { continue };
            let is_exact = context.is_integer(*value) || measured.contains(*value);
            if let Some(why) = needs_exact(node, place).or(why).filter(|_| is_exact) {
                wanted.insert(*value, why);
            }
        }
        let makes = node.outputs().iter().flatten().any(|value| is_source(context, value));
        let takes = node.inputs().iter().flatten().any(|value| is_source(context, value));
        let angle = takes.then(|| needs_exact(node, 0)).flatten().filter(|why| *why == ANGLE);
        if let Some(why) = why.or(angle).filter(|_| makes || takes) {
            context.keep(*id, why);
        }
    }
}

/// What is computed from integers and constants, though of no type without fractions. What learned
/// weights have a part in is not.
fn measured(graph: &Graph, context: &Context) -> Table<ValueId, ()> {
    let mut measured: Table<ValueId, ()> = Table::default();
    for id in context.nodes(graph) {
        let node = graph.node(id);
        let is_whole = node.bodies().is_empty() && context.function(node).is_none();
        if !is_whole || Behaviour::of(node).is_undetermined {
            continue;
        }
        let is_measured = |value: &ValueId| match is_matrix(graph, context, *value) {
            Some(is_matrix) => !is_matrix,
            None => context.is_integer(*value) || measured.contains(*value),
        };
        if node.inputs().iter().flatten().all(is_measured) {
            for value in node.outputs().iter().flatten() {
                measured.insert(*value, ());
            }
        }
    }
    measured
}

/// Whether a constant with fractions has more than one dimension that is not 1; `None` for what is
/// no constant.
fn is_matrix(graph: &Graph, context: &Context, value: ValueId) -> Option<bool> {
    let is_large = |dims: &[i64]| dims.iter().filter(|size| **size != 1).count() > 1;
    let is_matrix = match graph.maker(value).map(|id| graph.node(id)) {
        None => is_large(&graph.constant(value)?.dims),
        Some(node) if node.is("Constant") => {
            let held = attribute(node, "value").and_then(|attribute| attribute.t.as_ref());
            held.is_some_and(|tensor| is_large(&tensor.dims))
        }
        Some(_) => return None,
    };
    Some(is_matrix && !context.is_integer(value))
}

/// Why what a node takes at a place has to be exact.
fn needs_exact(node: &Node, place: usize) -> Option<&'static str> {
    if node.is_onnx() && matches!(node.op_type(), "Sin" | "Cos") {
        return Some(ANGLE);
    }
    decides_on_shape(node, place).then_some(SHAPE)
}

/// Whether an input decides on the shape of the node's output.
fn decides_on_shape(node: &Node, place: usize) -> bool {
    match (node.op_type(), place) {
        _ if !node.is_onnx() => false,
        ("If", _) => false,
        ("Resize" | "Upsample", 1..) | ("OneHot" | "TopK", 1) => true,
        _ => match Behaviour::of(node).shapes {
            InputPlaces::All => true,
            inputs @ InputPlaces::Only(_) => inputs.contains(place),
        },
    }
}
