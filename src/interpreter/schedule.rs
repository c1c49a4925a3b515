//! Behind which node each value of a body is dropped.

use onnx_cast_graph::{BodyId, Graph, NodeId, Table, ValueId};

/// A node, and the values that nobody needs once it has run.
#[derive(Debug)]
pub(super) struct ScheduledNode {
    pub(super) node: NodeId,
    pub(super) last_uses: Vec<ValueId>,
}

/// The steps of each body, in topological order.
#[derive(Debug)]
pub(super) struct Schedules {
    steps: Table<BodyId, Vec<ScheduledNode>>,
}

impl Schedules {
    pub(super) fn of(graph: &Graph) -> Schedules {
        let mut steps = Table::default();
        for body in graph.all_bodies(graph.main()) {
            steps.insert(body, of_body(graph, body));
        }
        Schedules { steps }
    }

    pub(super) fn steps(&self, body: BodyId) -> &[ScheduledNode] {
        self.steps.get(body).map_or(&[], Vec::as_slice)
    }
}

/// A constant of an inner body stays, since the body may run again.
fn of_body(graph: &Graph, body: BodyId) -> Vec<ScheduledNode> {
    let mut steps: Vec<ScheduledNode> = graph
        .nodes_of(body)
        .into_iter()
        .map(|node| ScheduledNode { node, last_uses: vec![] })
        .collect();
    let is_main = body == graph.main();
    let mut seen: Table<ValueId, ()> = Table::default();
    for step in steps.iter_mut().rev() {
        let made = graph.node(step.node).outputs().iter().flatten().copied();
        for value in graph.needs(step.node).into_iter().chain(made) {
            let held = graph.value(value);
            let is_own = held.body() == body && !held.is_output();
            let is_dropped = is_own && (is_main || !held.is_constant());
            if is_dropped && seen.insert(value, ()).is_none() {
                step.last_uses.push(value);
            }
        }
    }
    steps
}
