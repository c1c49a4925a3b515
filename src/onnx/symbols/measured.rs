//! An `Expand` to dimensions that are data, of which nothing but the shape is used.
//!
//! tract would take the shape that the model declares for it, and not run the `Expand`, which would find out that the
//! declaration is wrong. There, shapes are measured when the model runs.

use std::collections::HashSet;

use tract_onnx::pb::GraphProto;

use super::plan::{GraphPlan, NodePlan, Value, ValueId};
use crate::onnx::annotation;
use crate::onnx::operators::behaviour::Sizes;

/// Has such shapes be measured at run time. The values whose declared shapes nothing is to be concluded from are returned.
pub(in crate::onnx) fn measure_expansions(
    graph: &mut GraphProto,
    plan: &GraphPlan,
    values: &[Value],
) -> HashSet<String> {
    let used = used_values(plan);
    let is_used = |node: &NodePlan| node.outputs.iter().flatten().any(|id| used.contains(id));
    let mut unused: HashSet<ValueId> = HashSet::new();
    let mut names = HashSet::new();
    for node_plan in &plan.nodes {
        let Some(node) = graph.node.get_mut(node_plan.index) else { continue };
        let follows = node_plan.inputs.iter().flatten().any(|id| unused.contains(id));
        if is_used(node_plan) {
            if follows && node_plan.behaviour.sizes == Sizes::Measures {
                annotation::measure_at_run(node);
            }
        } else if follows || (node.op_type == "Expand" && expands_to_data(node_plan, values)) {
            unused.extend(node_plan.outputs.iter().flatten());
            names.extend(node.output.iter().cloned());
        }
        let inner = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        for (graph, plan) in inner.zip(&node_plan.subgraphs) {
            names.extend(measure_expansions(graph, plan, values));
        }
    }
    names
}

fn expands_to_data(node: &NodePlan, values: &[Value]) -> bool {
    let target = node.inputs.get(1).copied().flatten().and_then(|id| values.get(id));
    target.is_some_and(|target| !target.is_constant && !target.is_symbolic())
}

/// The values of a graph whose elements are used on the way to its outputs.
fn used_values(plan: &GraphPlan) -> HashSet<ValueId> {
    let mut used: HashSet<ValueId> = plan.outputs.iter().flatten().copied().collect();
    for node in plan.nodes.iter().rev() {
        let is_used = node.outputs.iter().flatten().any(|id| used.contains(id));
        if is_used && node.behaviour.sizes != Sizes::Measures {
            used.extend(node.inputs.iter().flatten());
        }
        node.subgraphs.iter().for_each(|plan| use_all(plan, &mut used));
    }
    used
}

/// Whatever a subgraph takes from around it.
fn use_all(plan: &GraphPlan, used: &mut HashSet<ValueId>) {
    used.extend(plan.outputs.iter().flatten());
    for node in &plan.nodes {
        used.extend(node.inputs.iter().flatten());
        node.subgraphs.iter().for_each(|plan| use_all(plan, used));
    }
}
