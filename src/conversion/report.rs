//! Pass: what stays as it is, for the report. It changes nothing in the graph.

use onnx_cast_graph::{Graph, NodeId, NodeView, Use};

use super::KeptNode;
use super::classes::Point;
use super::context::Context;
use crate::error::Result;
use crate::onnx::cast_spec::Operator;
use crate::onnx::operators::behaviour::Behaviour;

/// Fills [`Context::report`] with the nodes that take or make values of a type that is converted,
/// and of which nothing is.
pub(super) fn report(graph: &mut Graph, context: &mut Context) -> Result<()> {
    for id in context.nodes(graph) {
        let node = graph.node(id);
        // Constants and casts are what their users take.
        let follows = Behaviour::of(node).makes_attributes || Operator::of(node).is_some();
        if follows && !context.kept.contains(id) {
            continue;
        }
        let points = points(graph, id);
        let classes: Vec<usize> = points.filter_map(|point| context.classes.find(point)).collect();
        let converts = |class: &usize| context.classes.get(*class).converts;
        if classes.is_empty() || classes.iter().any(converts) {
            continue;
        }
        let fixed = classes.iter().find_map(|class| context.classes.get(*class).stays.clone());
        let why = context.kept.get(id).cloned().or(fixed);
        let kept = KeptNode {
            node: node.label().into(),
            op: node.op_type.clone(),
            graph: node.path.to_string(),
            why: why.unwrap_or_else(|| "between nodes that stay, where casts would be more".into()),
        };
        context.report.push(kept);
    }
    Ok(())
}

/// The places of a node.
fn points(graph: &Graph, id: NodeId) -> impl Iterator<Item = Point> + '_ {
    let node = graph.node(id);
    let taken = (0..node.input_places()).map(move |place| Point::Taken(Use::Node(id, place)));
    taken.chain(node.outputs().iter().flatten().map(|value| Point::Made(*value)))
}
