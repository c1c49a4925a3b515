//! Behind which node each value is dropped, those of bodies and those that bodies take from around
//! them among them.
//!
//! What a body makes goes with the body. A value from around that nobody needs behind a node with
//! bodies goes inside them, behind its last use in the body that runs. A body that runs again needs
//! the same of around it each time, and its constants, which are read again then: of a loop of sums
//! that took a tenth more time, and a third of the memory. The smallest stay, as many as are
//! [`KEPT`] together, until no body takes them any more.

use std::collections::BTreeSet;

use onnx_cast_graph::{BodyId, Graph, NodeId, NodeView, Table, Use, ValueId};

use crate::cast::element_type::ElementType;

/// As many bytes of constants stay from one run of a body to the next.
const KEPT: u64 = 64 << 20;

/// A node, and the values that nobody needs once it has run.
#[derive(Debug)]
pub(super) struct ScheduledNode {
    pub(super) node: NodeId,
    pub(super) last_uses: Vec<ValueId>,
}

/// What runs in a body, and what goes.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The nodes, in topological order.
    pub(super) steps: Vec<ScheduledNode>,
    /// What the body is given, and no node takes.
    pub(super) unused: Vec<ValueId>,
    /// What the body hands over, of which nothing is needed here then.
    pub(super) handed: Vec<ValueId>,
}

/// The schedules of all bodies.
#[derive(Debug)]
pub(super) struct Schedules {
    bodies: Table<BodyId, Schedule>,
}

impl Schedules {
    pub(super) fn of(graph: &Graph) -> Schedules {
        let mut scheduler = Scheduler { graph, bodies: Table::default() };
        scheduler.body(graph.main(), &Values::new(), None);
        Schedules { bodies: scheduler.bodies }
    }

    pub(super) fn of_body(&self, body: BodyId) -> Option<&Schedule> {
        self.bodies.get(body)
    }
}

/// Some of a model's values.
type Values = BTreeSet<ValueId>;

struct Scheduler<'a> {
    graph: &'a Graph,
    bodies: Table<BodyId, Schedule>,
}

impl Scheduler<'_> {
    /// Schedules a body and those in it. Of the values from around it nobody needs some behind it;
    /// where it runs again, some constants stay.
    fn body(&mut self, body: BodyId, around: &Values, kept: Option<&Values>) {
        let graph = self.graph;
        let is_own = |value: ValueId| {
            let stays =
                graph.value(value).is_constant() && kept.is_some_and(|x| x.contains(&value));
            graph.value(value).body() == body && !stays
        };
        let outputs = graph.body(body).outputs().iter().map(|output| output.value);
        let (mut seen, mut handed) = (Values::new(), vec![]);
        for output in outputs.filter(|value| is_own(*value)) {
            if seen.insert(output) {
                handed.push(output);
            }
        }
        let mut steps = vec![];
        for node in graph.nodes_of(body).into_iter().rev() {
            let made = graph.node(node).outputs().iter().flatten().copied();
            let used = graph.needs(node).into_iter().chain(made);
            let goes = |value: &ValueId| is_own(*value) || around.contains(value);
            let mut last_uses: Vec<ValueId> =
                used.filter(goes).filter(|value| seen.insert(*value)).collect();
            self.bodies_of(node, &mut last_uses, kept);
            steps.push(ScheduledNode { node, last_uses });
        }
        steps.reverse();
        let inputs = graph.body(body).inputs().iter().copied();
        let is_unused = |value: &ValueId| !graph.value(*value).is_constant() && seen.insert(*value);
        let unused = inputs.filter(is_unused).collect();
        self.bodies.insert(body, Schedule { steps, unused, handed });
    }

    /// Schedules the bodies of a node, behind which some values are not needed; those that stay
    /// until then are added.
    fn bodies_of(&mut self, id: NodeId, last_uses: &mut Vec<ValueId>, kept: Option<&Values>) {
        let node = self.graph.node(id);
        if node.bodies().is_empty() {
            return;
        }
        let repeats = !node.is("If");
        let own = if kept.is_none() && repeats { Some(self.kept(id, last_uses)) } else { None };
        let kept = kept.or(own.as_ref());
        let goes = |value: &ValueId, body: BodyId| {
            let held = self.graph.value(*value);
            let is_given = node.inputs().contains(&Some(*value));
            let is_returned = || {
                let mut outputs = held.uses().rev().map_while(|used| match used {
                    Use::Output(body, _) => Some(body),
                    Use::Node(..) => None,
                });
                outputs.any(|returning| returning == body)
            };
            let stays = match kept {
                Some(kept) => !held.is_constant() || kept.contains(value),
                None => false,
            };
            !is_given && !stays && !is_returned()
        };
        let bodies = node.bodies().iter().map(|held| held.body);
        let around: Vec<(BodyId, Values)> = bodies
            .map(|body| (body, last_uses.iter().copied().filter(|it| goes(it, body)).collect()))
            .collect();
        for (body, around) in around {
            self.body(body, &around, kept);
        }
        if let Some(own) = own {
            let known: Values = last_uses.iter().copied().collect();
            last_uses.extend(own.difference(&known));
        }
    }

    /// The constants that stay while a node runs its bodies again and again: of those that they
    /// hold, and those that nobody needs behind the node.
    fn kept(&self, id: NodeId, last_uses: &[ValueId]) -> Values {
        let graph = self.graph;
        let bodies = graph.node(id).bodies().iter().flat_map(|held| graph.all_bodies(held.body));
        let held = bodies.flat_map(|body| graph.body(body).constants().iter().copied());
        let constants: Values = held.chain(last_uses.iter().copied()).collect();
        let sized = |value: ValueId| Some((bytes(graph, value)?, value));
        let mut constants: Vec<(u64, ValueId)> = constants.into_iter().filter_map(sized).collect();
        constants.sort_unstable();
        let mut sum = 0u64;
        let stays = |(bytes, value)| {
            sum = sum.saturating_add(bytes);
            (sum <= KEPT).then_some(value)
        };
        constants.into_iter().map_while(stays).collect()
    }
}

/// The size of a constant as the file has it; `None` for any other value.
fn bytes(graph: &Graph, value: ValueId) -> Option<u64> {
    let tensor = graph.constant(value)?;
    let bits = ElementType::from_id(tensor.data_type).map_or(8, |ty| ty.bits().into());
    let dims = tensor.dims.iter().map(|dim| u64::try_from(*dim).unwrap_or(0));
    Some(dims.fold(bits, u64::saturating_mul).div_ceil(8))
}

#[cfg(test)]
mod tests;
