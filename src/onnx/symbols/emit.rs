//! Writes into the graphs what was found out: casts of dimensions to numbers, second nodes, and which of the two is used.

use std::collections::HashSet;

use tract_onnx::pb::{GraphProto, NodeProto};

use super::plan::{GraphPlan, Kind, NodePlan, Use, Value, ValueId};
use crate::error::Error;
use crate::onnx::annotation::{self, DOMAIN};
use crate::onnx::functions::inline::Calls;
use crate::onnx::node::{node_name, subgraphs};
use crate::onnx::operators::behaviour::Sizes;

/// Rewrites a graph and its subgraphs as planned. Second nodes are of the same calls as the first.
///
/// # Errors
///
/// When a value of the model has a name that this crate gives.
pub(in crate::onnx) fn write(
    graph: &mut GraphProto,
    plan: &GraphPlan,
    values: &mut [Value],
    calls: &mut Calls,
) -> Result<(), Error> {
    let mut taken = HashSet::new();
    collect_own_names(graph, &mut taken);
    Writer { values, calls, taken }.graph(graph, plan)
}

/// The names in a model that could be this crate's.
fn collect_own_names(graph: &GraphProto, names: &mut HashSet<String>) {
    let given = graph.input.iter().map(|input| &input.name);
    let given = given.chain(graph.initializer.iter().map(|tensor| &tensor.name));
    let made = graph.node.iter().flat_map(|node| node.output.iter().chain([&node.name]));
    names.extend(given.chain(made).filter(|name| name.starts_with(DOMAIN)).cloned());
    for inner in graph.node.iter().flat_map(|node| &node.attribute).flat_map(subgraphs) {
        collect_own_names(inner, names);
    }
}

struct Writer<'a> {
    values: &'a mut [Value],
    calls: &'a mut Calls,
    taken: HashSet<String>,
}

impl Writer<'_> {
    fn graph(&mut self, graph: &mut GraphProto, plan: &GraphPlan) -> Result<(), Error> {
        let mut added = vec![];
        for node_plan in &plan.nodes {
            let Some(node) = graph.node.get_mut(node_plan.index) else { continue };
            self.node(node, node_plan, &graph.name, &mut added)?;
        }
        for (place, (output, id)) in graph.output.iter_mut().zip(&plan.outputs).enumerate() {
            let as_symbols = plan.returns_symbols.get(place).copied().unwrap_or(false);
            let value = id.and_then(|id| self.values.get(id)).filter(|_| !as_symbols);
            if let Some(numbers) = value.and_then(|value| value.numbers.as_ref()) {
                output.name.clone_from(numbers);
            }
        }
        graph.node.extend(added);
        Ok(())
    }

    fn node(
        &mut self,
        node: &mut NodeProto,
        plan: &NodePlan,
        graph: &str,
        added: &mut Vec<NodeProto>,
    ) -> Result<(), Error> {
        if plan.is_doubled {
            let mut second = node.clone();
            second.name = format!("{DOMAIN}:{}", node_name(node));
            for (name, id) in second.output.iter_mut().zip(&plan.outputs) {
                if let Some(id) = id {
                    *name = self.name_numbers(*id, graph)?;
                }
            }
            self.rename_inputs(&mut second, plan, false);
            // A cast of INT64 to itself is not there twice.
            if plan.behaviour.sizes == Sizes::Casts
                && let ([input], [output]) = (&second.input[..], &second.output[..])
            {
                second = annotation::identity(input, output.clone());
            } else if let Some(call) = self.calls.get(&node.name).cloned() {
                self.calls.insert(second.name.clone(), call);
            }
            added.push(second);
        }
        if plan.kind(self.values) == Kind::Dimensions {
            for id in plan.outputs.iter().flatten() {
                let Some(value) = self.values.get(*id).filter(|value| value.as_numbers) else {
                    continue;
                };
                let name = value.name.clone();
                let numbers = self.name_numbers(*id, graph)?;
                added.push(annotation::to_numbers(&name, numbers));
            }
        }
        self.rename_inputs(node, plan, plan.is_symbolic);
        let inner = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        for (graph, plan) in inner.zip(&plan.subgraphs) {
            self.graph(graph, plan)?;
        }
        Ok(())
    }

    fn name_numbers(&mut self, id: ValueId, graph: &str) -> Result<String, Error> {
        let Some(value) = self.values.get_mut(id) else { return Ok(String::new()) };
        let numbers = format!("{DOMAIN}:{}", value.name);
        if self.taken.contains(&numbers) {
            let problem = format!("value `{numbers}` has a name that this crate gives");
            return Err(Error::graph(graph, problem));
        }
        value.numbers = Some(numbers.clone());
        Ok(numbers)
    }

    /// Has a node use its inputs' numbers where it computes with numbers.
    fn rename_inputs(&self, node: &mut NodeProto, plan: &NodePlan, is_symbolic: bool) {
        for (place, (name, id)) in node.input.iter_mut().zip(&plan.inputs).enumerate() {
            let value = id.and_then(|id| self.values.get(id));
            if let Some(numbers) = value.and_then(|value| value.numbers.as_ref())
                && plan.takes(place, is_symbolic, self.values) == Use::Numbers
            {
                name.clone_from(numbers);
            }
        }
    }
}
