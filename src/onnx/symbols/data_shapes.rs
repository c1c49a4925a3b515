//! Shapes that are data: what tract does not do, or not as the data asks for.

use std::collections::HashSet;

use tract_onnx::pb::{GraphProto, NodeProto, TensorProto};

use super::plan::{GraphPlan, NodePlan, Value, ValueId};
use crate::cast::element_type::ElementType;
use crate::onnx::annotation::{self, DOMAIN};
use crate::onnx::declared_shapes::is_empty;
use crate::onnx::node::{attribute, is_default_domain};
use crate::onnx::operators::behaviour::Sizes;

/// Makes an `Expand` of each `ConstantOfShape` whose shape is data: tract has none, but our `Expand` takes such shapes. Tells
/// whether there was one.
pub(in crate::onnx) fn expand_constants(
    graph: &mut GraphProto,
    plan: &GraphPlan,
    values: &[Value],
) -> bool {
    let mut is_changed = false;
    for node_plan in &plan.nodes {
        let Some(node) = graph.node.get_mut(node_plan.index) else { continue };
        if node.op_type == "ConstantOfShape"
            && is_default_domain(&node.domain)
            && is_data(node_plan, 0, values)
            && let ([shape], [output]) = (&node.input[..], &node.output[..])
            && let Some(value) = constant(node)
        {
            let name = format!("{DOMAIN}:value:{output}");
            let input = vec![name.clone(), shape.clone()];
            graph.initializer.push(TensorProto { name, ..value });
            *node = NodeProto {
                op_type: "Expand".into(),
                input,
                attribute: vec![],
                ..std::mem::take(node)
            };
            is_changed = true;
        }
        let inner = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        for (graph, plan) in inner.zip(&node_plan.subgraphs) {
            is_changed |= expand_constants(graph, plan, values);
        }
    }
    is_changed
}

/// The element that a `ConstantOfShape` repeats, as a scalar.
fn constant(node: &NodeProto) -> Option<TensorProto> {
    let zero = || TensorProto {
        data_type: ElementType::Float as i32,
        raw_data: vec![0; 4],
        ..TensorProto::default()
    };
    let value = match attribute(node, "value") {
        Some(attribute) => attribute.t.clone()?,
        None => zero(),
    };
    let is_single = value.dims.iter().all(|dim| *dim == 1);
    is_single.then_some(TensorProto { dims: vec![], ..value })
}

/// Measures, when the model runs, the shape of an `Expand` to dimensions that are data where nothing else of it is used, or only
/// by what has no elements: tract would take what the model declares, and not run the `Expand`, which would find out that the
/// declaration is wrong. Likewise of a
/// `Slice` in a graph whose inputs leave sizes open: it is typed as if its ends were within the axis. The values whose declared
/// shapes nothing is to be concluded from are returned.
pub(in crate::onnx) fn measure_unused(
    graph: &mut GraphProto,
    plan: &GraphPlan,
    values: &[Value],
    leaves_open: bool,
) -> HashSet<String> {
    let (mut unused, mut names) = (HashSet::new(), HashSet::new());
    measure_unused_in(graph, plan, values, leaves_open, &mut unused, &mut names);
    names
}

/// As [`measure_unused`], given what is unused of the graphs around.
fn measure_unused_in(
    graph: &mut GraphProto,
    plan: &GraphPlan,
    values: &[Value],
    leaves_open: bool,
    unused: &mut HashSet<ValueId>,
    names: &mut HashSet<String>,
) {
    let empty = empty_values(graph);
    let used = used_values(graph, plan, &empty);
    let is_used = |node: &NodePlan| node.outputs.iter().flatten().any(|id| used.contains(id));
    for node_plan in &plan.nodes {
        let Some(node) = graph.node.get_mut(node_plan.index) else { continue };
        let follows = node_plan.inputs.iter().flatten().any(|id| unused.contains(id));
        let is_expand = node.op_type == "Expand" && is_data(node_plan, 1, values);
        let is_empty = node.output.iter().any(|name| empty.contains(name));
        if is_used(node_plan) && !(is_expand && is_empty) {
            if follows && node_plan.behaviour.sizes == Sizes::Measures {
                annotation::measure_at_run(node);
            }
        } else if follows || is_expand || (node.op_type == "Slice" && leaves_open) {
            unused.extend(node_plan.outputs.iter().flatten());
            names.extend(node.output.iter().cloned());
        }
        let inner = node
            .attribute
            .iter_mut()
            .flat_map(|attribute| attribute.g.iter_mut().chain(&mut attribute.graphs));
        for (graph, plan) in inner.zip(&node_plan.subgraphs) {
            measure_unused_in(graph, plan, values, leaves_open, unused, names);
        }
    }
}

/// Operators that may make elements of none.
const MAKES_ELEMENTS: [&str; 7] =
    ["Concat", "ConstantOfShape", "OneHot", "Pad", "Shape", "Size", "TensorScatter"];

/// The values of a graph that have no elements, as far as declarations and initializers tell. It may be told of others that
/// come from one: then shapes are measured that need not be.
fn empty_values(graph: &GraphProto) -> HashSet<String> {
    let declared = graph.input.iter().chain(&graph.value_info).chain(&graph.output);
    let declared = declared.filter(|value| is_empty(value)).map(|value| &value.name);
    let initializers = graph.initializer.iter().filter(|tensor| tensor.dims.contains(&0));
    let mut empty: HashSet<String> =
        declared.chain(initializers.map(|tensor| &tensor.name)).cloned().collect();
    for node in &graph.node {
        let makes = MAKES_ELEMENTS.contains(&&*node.op_type) || node.op_type.starts_with("Reduce");
        // Of others than these, an input after the first may be empty because it is not given.
        let inputs = match node.op_type.as_str() {
            "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Pow" | "Gather" => node.input.len(),
            _ => 1,
        };
        if !makes && node.input.iter().take(inputs).any(|name| empty.contains(name)) {
            empty.extend(node.output.iter().cloned());
        }
    }
    empty
}

/// Whether the input of a node at a place is data, so that it is known only when the model runs.
fn is_data(node: &NodePlan, place: usize, values: &[Value]) -> bool {
    let value = node.inputs.get(place).copied().flatten().and_then(|id| values.get(id));
    value.is_some_and(|value| !value.is_constant && !value.is_symbolic())
}

/// The values of a graph whose elements are used on the way to its outputs.
fn used_values(graph: &GraphProto, plan: &GraphPlan, empty: &HashSet<String>) -> HashSet<ValueId> {
    let mut used: HashSet<ValueId> = plan.outputs.iter().flatten().copied().collect();
    for node in plan.nodes.iter().rev() {
        let is_used = node.outputs.iter().flatten().any(|id| used.contains(id));
        let Some(own) = graph.node.get(node.index) else { continue };
        let is_empty = own.output.iter().any(|name| empty.contains(name));
        if is_used && !is_empty && node.behaviour.sizes != Sizes::Measures {
            used.extend(node.inputs.iter().flatten());
        }
        // What a subgraph uses is told by its own outputs.
        let inner = own.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs));
        for (graph, plan) in inner.zip(&node.subgraphs) {
            used.extend(used_values(graph, plan, &empty_values(graph)));
        }
    }
    used
}
