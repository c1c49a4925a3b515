//! Pass: which classes are converted. It changes nothing in the graph.
//!
//! All are that need not stay, save that nodes which only move elements, or only look at them, stay
//! as they are where that saves a cast: a `Transpose` between two nodes that are kept, an `ArgMax`
//! behind one.

use std::collections::HashSet;

use onnx_cast_graph::{Graph, NodeView, Origin, Use, ValueId};

use super::classes::Point;
use super::context::Context;
use crate::error::Result;
use crate::onnx::operators::behaviour::Behaviour;

/// Decides for each class of [`Context::classes`].
pub(super) fn decide(graph: &mut Graph, context: &mut Context) -> Result<()> {
    let all = context.classes.all();
    for class in &all {
        let stays = context.classes.get(*class).stays.is_some();
        context.classes.set(*class, !stays);
    }
    let is_free = |class: &&usize| {
        let class = context.classes.get(**class);
        class.stays.is_none() && !class.is_computed
    };
    let free: Vec<usize> = all.iter().filter(is_free).copied().collect();
    // First to stay wherever that needs no more casts, so that whole chains do; then back wherever
    // that needs no more.
    for class in &free {
        choose(graph, context, *class, false);
    }
    for class in free.iter().rev() {
        choose(graph, context, *class, true);
    }
    Ok(())
}

/// Has a class be converted or not, unless that needs more casts.
fn choose(graph: &Graph, context: &mut Context, class: usize, converts: bool) {
    if context.classes.get(class).converts == converts {
        return;
    }
    let values = values(graph, context, class);
    let before = casts(graph, context, &values);
    context.classes.set(class, converts);
    if casts(graph, context, &values) > before {
        context.classes.set(class, !converts);
    }
}

/// The values at the places of a class.
fn values(graph: &Graph, context: &Context, class: usize) -> HashSet<ValueId> {
    let points = context.classes.get(class).points.iter();
    let value = |point: &Point| match *point {
        Point::Made(value) => Some(value),
        Point::Taken(Use::Node(node, place)) => graph.node(node).input(place),
        Point::Taken(Use::Output(body, place)) => {
            graph.body(body).outputs().get(place).map(|output| output.value)
        }
    };
    points.filter_map(value).collect()
}

/// How many casts values need.
fn casts(graph: &Graph, context: &Context, values: &HashSet<ValueId>) -> usize {
    values.iter().filter(|value| needs_cast(graph, context, **value)).count()
}

fn needs_cast(graph: &Graph, context: &Context, value: ValueId) -> bool {
    if is_copied(graph, context, value) {
        return false;
    }
    let made = context.classes.converts(Point::Made(value)).unwrap_or(false);
    let mut taken = graph.value(value).uses().map(Point::Taken);
    taken.any(|point| context.classes.converts(point).is_some_and(|converts| converts != made))
}

/// Whether a value is a constant, of which each side may have one of its own.
pub(super) fn is_copied(graph: &Graph, context: &Context, value: ValueId) -> bool {
    match graph.value(value).origin() {
        Origin::Constant(_) => context.classes.find(Point::Made(value)).is_none(),
        Origin::Node(node, _) => {
            let node = graph.node(*node);
            node.is("Constant") && Behaviour::of(node).makes_attributes
        }
        _ => false,
    }
}
