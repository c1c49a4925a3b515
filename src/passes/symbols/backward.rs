//! Backwards through a model: what is each value needed as?

use onnx_cast_graph::{BodyId, Graph, NodeId, ValueId};

use super::plan::{NodePlan, SymbolPlan, TakenAs, ValueKind, ValuePlan};

/// Marks what the values of a model are needed as; its outputs are numbers.
pub(super) fn mark(graph: &Graph, plan: &mut SymbolPlan) {
    for output in graph.body(graph.main()).outputs() {
        need(plan, output.value, TakenAs::Numbers);
    }
    body(graph, plan, graph.main());
}

fn need(plan: &mut SymbolPlan, value: ValueId, taken_as: TakenAs) {
    if let Some(held) = plan.values.get_mut(value) {
        match taken_as {
            TakenAs::Symbols => held.as_symbols = true,
            TakenAs::Numbers => held.as_numbers = true,
            TakenAs::Either => {}
        }
    }
}

/// The nodes of a body whose outputs are marked.
fn body(graph: &Graph, plan: &mut SymbolPlan, id: BodyId) {
    for id in graph.nodes_of(id).into_iter().rev() {
        let node = graph.node(id);
        let needed = |plan: &SymbolPlan, taken_as: fn(&ValuePlan) -> bool| {
            node.outputs().iter().any(|value| plan.value(*value).is_some_and(taken_as))
        };
        let as_symbols = needed(plan, |held| held.as_symbols);
        let as_numbers = needed(plan, |held| held.as_numbers);
        let (is_symbolic, is_doubled) = match plan.kind(graph, id) {
            ValueKind::Numbers => (false, false),
            _ if !node.bodies().is_empty() => (false, false),
            ValueKind::Dimensions => (true, false),
            ValueKind::Condition => (as_symbols, false),
            ValueKind::Expression => (as_symbols, as_symbols && as_numbers),
        };
        plan.nodes.insert(id, NodePlan { is_doubled, is_symbolic });
        branches(graph, plan, id);
        take(graph, plan, id, is_symbolic);
        if is_doubled {
            take(graph, plan, id, false);
        }
    }
}

/// Marks the inputs of a node that computes with symbols or with numbers.
fn take(graph: &Graph, plan: &mut SymbolPlan, id: NodeId, is_symbolic: bool) {
    for (place, value) in graph.node(id).inputs().iter().enumerate() {
        if let Some(value) = value {
            let taken_as = plan.takes(graph, id, place, is_symbolic);
            need(plan, *value, taken_as);
        }
    }
}

/// The bodies of a node, and the values around it that they use. What both branches of an `If` can
/// return as symbols they do where it is needed as nothing else.
fn branches(graph: &Graph, plan: &mut SymbolPlan, id: NodeId) {
    let node = graph.node(id);
    let is_symbolic = |value: &Option<ValueId>| {
        let joined = plan.value(*value);
        joined.is_some_and(|held| held.is_symbolic() && held.as_symbols && !held.as_numbers)
    };
    let returns_symbols: Vec<bool> = node.outputs().iter().map(is_symbolic).collect();
    for held in node.bodies() {
        for (place, output) in graph.body(held.body).outputs().iter().enumerate() {
            let as_symbols = returns_symbols.get(place).copied().unwrap_or(false);
            let taken_as = if as_symbols { TakenAs::Symbols } else { TakenAs::Numbers };
            need(plan, output.value, taken_as);
        }
        plan.returns_symbols.insert(held.body, returns_symbols.clone());
        body(graph, plan, held.body);
    }
}
