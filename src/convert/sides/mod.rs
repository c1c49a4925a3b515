//! Pass: which classes are converted. It changes nothing in the graph.
//!
//! All are that need not stay, save that nodes which only move elements, or only look at them, stay
//! as they are where that saves a cast: a `Transpose` between two nodes that are kept, an `ArgMax`
//! behind one. Of all such choices it is one with the fewest casts, and of these the one that
//! converts the most: a minimum cut between the classes that stay and those that are converted, in
//! which a value counts once, however many take it.
//!
//! - `cut`: the minimum cut; `normalisation`: what is one operator to ONNX Runtime

mod cut;
mod normalisation;

use onnx_cast_graph::{Graph, NodeView, Origin, ValueId};

use cut::Network;

use super::classes::Point;
use super::context::Context;
use super::keep::has_referred;
use crate::error::Result;

/// What stands for the class of a value that is made in none: it stays.
const NO_CLASS: usize = usize::MAX;

/// Decides for each class of [`Context::classes`].
pub(super) fn decide(graph: &mut Graph, context: &mut Context) -> Result<()> {
    normalisation::settle(graph, context);
    let mut network = Network::default();
    network.stays(NO_CLASS);
    for class in context.classes.all() {
        let held = context.classes.get(class);
        if held.stays.is_some() {
            network.stays(class);
        } else if held.is_computed {
            network.converts(class);
        }
    }
    for value in values(graph, context) {
        network.value(&classes(graph, context, value));
    }
    let staying = network.cut();
    for class in context.classes.all() {
        context.classes.set(class, !staying.contains(&class));
    }
    Ok(())
}

/// The values that may need a cast.
fn values(graph: &Graph, context: &Context) -> Vec<ValueId> {
    let bodies = context.bodies(graph);
    let given = bodies.iter().flat_map(|body| {
        let body = graph.body(*body);
        body.inputs().iter().chain(body.constants()).copied().collect::<Vec<_>>()
    });
    let nodes = context.nodes(graph);
    let made = nodes.iter().flat_map(|id| graph.node(*id).outputs().iter().flatten().copied());
    let mut values: Vec<ValueId> = given.chain(made).collect();
    values.retain(|value| !is_copied(graph, context, *value));
    values
}

/// The classes that meet in a value: it needs a cast unless all are converted, or none.
fn classes(graph: &Graph, context: &Context, value: ValueId) -> Vec<usize> {
    let made = context.classes.find(Point::Made(value)).unwrap_or(NO_CLASS);
    let uses = graph.value(value).uses().map(Point::Taken);
    let taken = uses.filter_map(|point| context.classes.find(point));
    let mut classes: Vec<usize> = taken.chain([made]).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Whether a value is a constant, of which each side may have one of its own.
pub(super) fn is_copied(graph: &Graph, context: &Context, value: ValueId) -> bool {
    match graph.value(value).origin() {
        Origin::Constant(_) => context.classes.find(Point::Made(value)).is_none(),
        Origin::Node(node, _) => {
            let node = graph.node(*node);
            node.is("Constant") && !has_referred(node)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::cast::element_type::ElementType::Float16;
    use crate::convert::Options;
    use crate::convert::tests::check;

    /// What moves elements on two ways behind one cast: each way alone would have it stand later.
    #[test]
    fn a_cast_of_the_model_does_for_all_behind_it_that_stay() {
        let model = "
            in x FLOAT16
            c = Cast<to=1>(x)
            t = Transpose(c)
            k = Exp(t)
            f = Flatten(c)
            out k FLOAT
            out f FLOAT";
        let expected = "
            c = Cast(x) to FLOAT
            t = Transpose(c)
            k = Exp(t)
            f = Flatten(c)
            out k FLOAT
            out f FLOAT";
        let options = Options { keep: vec!["k".into()], ..Options::new(Float16) };
        let converted = check(model, &options, expected);
        assert_eq!(converted.counts.added_casts, 0);
    }
}
