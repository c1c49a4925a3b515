//! Backwards through a model: what is each value needed as?

use super::plan::{GraphPlan, Kind, NodePlan, Use, Value, ValueId};

/// Marks what the values of a model are needed as; its outputs are numbers.
pub(in crate::onnx) fn mark(plan: &mut GraphPlan, values: &mut [Value]) {
    for output in plan.outputs.iter().flatten() {
        need(values, *output, Use::Numbers);
    }
    graph(plan, values);
}

fn need(values: &mut [Value], id: ValueId, as_what: Use) {
    if let Some(value) = values.get_mut(id) {
        match as_what {
            Use::Symbols => value.as_symbols = true,
            Use::Numbers => value.as_numbers = true,
            Use::Either => {}
        }
    }
}

/// The nodes of a graph whose outputs are marked.
fn graph(plan: &mut GraphPlan, values: &mut [Value]) {
    for node in plan.nodes.iter_mut().rev() {
        let needed = |as_what: fn(&Value) -> bool| {
            node.outputs.iter().flatten().any(|id| values.get(*id).is_some_and(as_what))
        };
        let (as_symbols, as_numbers) =
            (needed(|value| value.as_symbols), needed(|value| value.as_numbers));
        let has_subgraphs = !node.subgraphs.is_empty();
        (node.is_symbolic, node.is_doubled) = match node.kind(values) {
            Kind::Numbers => (false, false),
            _ if has_subgraphs => (false, false),
            Kind::Dimensions => (true, false),
            Kind::Condition => (as_symbols, false),
            Kind::Expression => (as_symbols, as_symbols && as_numbers),
        };
        subgraphs(node, values);
        take(node, values, node.is_symbolic);
        if node.is_doubled {
            take(node, values, false);
        }
    }
}

/// Marks the inputs of a node that computes with symbols or with numbers.
fn take(node: &NodePlan, values: &mut [Value], is_symbolic: bool) {
    for (place, id) in node.inputs.iter().enumerate() {
        if let Some(id) = id {
            let as_what = node.takes(place, is_symbolic, values);
            need(values, *id, as_what);
        }
    }
}

/// The subgraphs of a node, and the values around it that they use. What both branches of an `If` can return as symbols they
/// do where it is needed as nothing else.
fn subgraphs(node: &mut NodePlan, values: &mut [Value]) {
    let is_symbolic = |id: &Option<ValueId>| {
        let joined = id.and_then(|id| values.get(id));
        joined.is_some_and(|value| value.is_symbolic() && value.as_symbols && !value.as_numbers)
    };
    let returns_symbols: Vec<bool> = node.outputs.iter().map(is_symbolic).collect();
    for plan in &mut node.subgraphs {
        plan.returns_symbols.clone_from(&returns_symbols);
        for (place, id) in plan.outputs.iter().enumerate() {
            let as_symbols = returns_symbols.get(place).copied().unwrap_or(false);
            if let Some(id) = id {
                need(values, *id, if as_symbols { Use::Symbols } else { Use::Numbers });
            }
        }
        graph(plan, values);
    }
}
