//! Shapes that are data: what tract does not do, or not as the data asks for.
//!
//! Before: `ConstantOfShape(s)` of a shape that is data; after: `Expand` of the constant's element,
//! which our operator takes. Before: `Shape` of an `Expand` to data of which nothing else is used;
//! after: the same, measured when the model runs.

use std::collections::HashSet;

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, NodeView, Origin, Use, ValueId, attribute};
use tract_onnx::pb::{TensorProto, ValueInfoProto};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use super::legalise::forget_intricate_dimensions;
use super::symbols::forward;
use super::symbols::plan::SymbolPlan;
use crate::cast::element_type::ElementType;
use crate::onnx::declared_shapes::{is_empty, is_open, leaves_open, shape};
use crate::onnx::lowered::{DOMAIN, OperatorForm};
use crate::onnx::operators::behaviour::{Behaviour, Sizes};

/// Rewrites what makes or measures shapes that are data.
pub(super) fn rewrite(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let mut plan = forward::plan(graph, context)?;
    if expand_constants(graph, &plan) {
        plan = forward::plan(graph, context)?;
    }
    let inputs = graph.body(graph.main()).inputs().iter();
    let leaves_open =
        inputs.map(|value| graph.value(*value)).any(|input| leaves_open(input.declared.as_ref()));
    let mut unused = Unused { plan: &plan, leaves_open, values: HashSet::new() };
    let measured = unused.body(graph, graph.main(), true);
    context.measured = unused.values;
    if measured.is_empty() {
        context.size_plan = Some(plan);
        return Ok(());
    }
    for (id, counts) in measured {
        context.lower(id, OperatorForm::Measured { counts });
    }
    // What was a shape of symbols is data where it is measured.
    plan = forward::plan(graph, context)?;
    expand_constants(graph, &plan);
    Ok(())
}

/// The main graph's values of which a shape is declared, if one may be needed: an input leaves
/// sizes open, or an `Expand` may.
pub(super) fn declared(graph: &Graph, context: &PassContext) -> Vec<ValueInfoProto> {
    let main = graph.body(graph.main());
    let is_open = |value: &ValueId| is_open(graph.value(*value).declared.as_ref());
    let nodes = graph.nodes_of(graph.main());
    let expands = |id: &NodeId| graph.node(*id).op_type == "Expand";
    if !main.inputs().iter().any(is_open) && !nodes.iter().any(expands) {
        return vec![];
    }
    let made = nodes.iter().flat_map(|id| graph.node(*id).outputs()).flatten();
    let made = made.map(|value| (*value, graph.value(*value).declared.as_ref()));
    let outputs = main.outputs().iter();
    let outputs = outputs.map(|output| (output.value, output.declared.r#type.as_ref()));
    let known = made.chain(outputs).filter(|(value, declared)| {
        shape(*declared).is_some() && !context.measured.contains(value)
    });
    let info = |(value, declared): (ValueId, Option<&_>)| {
        let name = graph.value(value).name.to_string();
        let mut r#type = declared.cloned();
        forget_intricate_dimensions(r#type.as_mut());
        ValueInfoProto { name, r#type, ..ValueInfoProto::default() }
    };
    known.map(info).collect()
}

/// Makes an `Expand` of each `ConstantOfShape` whose shape is data: tract has none, but our
/// `Expand` takes such shapes. Tells whether there was one.
fn expand_constants(graph: &mut Graph, plan: &SymbolPlan) -> bool {
    let mut is_changed = false;
    for id in graph.all_nodes(graph.main()) {
        let node = graph.node(id);
        if !node.is("ConstantOfShape") || node.inputs().len() != 1 || !is_data(graph, plan, id, 0) {
            continue;
        }
        let (Some(shape), Some(output)) = (node.input(0), node.output(0)) else { continue };
        let Some(value) = constant(node) else { continue };
        let name = format!("{DOMAIN}:value:{}", graph.value(output).name);
        let body = node.body();
        let value = graph.add_constant(body, TensorProto { name, ..value });
        graph.set_input(id, 0, Some(value));
        graph.push_input(id, Some(shape));
        let node = graph.node_mut(id);
        node.op_type = "Expand".into();
        node.attributes.clear();
        is_changed = true;
    }
    is_changed
}

/// The element that a `ConstantOfShape` repeats, as a scalar.
fn constant(node: &impl NodeView) -> Option<TensorProto> {
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

/// Whether the input of a node at a place is data, so that it is known only when the model runs.
fn is_data(graph: &Graph, plan: &SymbolPlan, id: NodeId, place: usize) -> bool {
    let held = plan.value(graph.node(id).input(place));
    held.is_some_and(|held| !held.is_constant && !held.is_symbolic())
}

/// An `Expand` to dimensions that are data of which nothing is used but its shape, or that is only
/// used by what has no elements: tract would take what the model declares, and not run the
/// `Expand`, which would find out that the declaration is wrong. Likewise a `Slice` in a graph
/// whose inputs leave sizes open: it is typed as if its ends were within the axis; and a `Squeeze`
/// without axes: as if no open size were 1. Of a `NonZero` it would not know the size at all. What
/// measures such a value does so when the model runs.
struct Unused<'a> {
    plan: &'a SymbolPlan,
    /// Whether the inputs of the model leave sizes open.
    leaves_open: bool,
    /// The values from whose declared shapes nothing is to be concluded.
    values: HashSet<ValueId>,
}

impl Unused<'_> {
    /// Whether tract takes a shape for what it would find out to be another when the model runs.
    fn is_guessed(&self, graph: &Graph, node: &Node) -> bool {
        match node.op_type.as_str() {
            "NonMaxSuppression" | "NonZero" => true,
            "Slice" => self.leaves_open,
            "Squeeze" if attribute(node, "axes").is_none() && node.input(1).is_none() => {
                let input = node.input(0).map(|value| graph.value(value).declared.as_ref());
                self.leaves_open || input.is_some_and(leaves_open)
            }
            _ => false,
        }
    }

    /// The nodes of a body that are to measure when the model runs, and whether each counts
    /// elements. `is_run` says whether the elements of the body's outputs are used.
    fn body(&mut self, graph: &Graph, body: BodyId, is_run: bool) -> Vec<(NodeId, bool)> {
        let empty = empty_values(graph, body);
        let used = used_values(graph, body, &empty, is_run);
        let mut measured = vec![];
        for id in graph.nodes_of(body) {
            let node = graph.node(id);
            let outputs = || node.outputs().iter().flatten();
            let is_used = outputs().any(|value| used.contains(value));
            let mut returned = vec![];
            for held in node.bodies() {
                measured.extend(self.body(graph, held.body, is_used));
                returned.extend(graph.body(held.body).outputs().iter().map(|output| output.value));
            }
            let mut taken = node.inputs().iter().flatten().chain(&returned);
            let follows = taken.any(|value| self.values.contains(value));
            let is_expand = node.op_type == "Expand" && is_data(graph, self.plan, id, 1);
            let is_empty = outputs().any(|value| empty.contains(value));
            let measures = follows && Behaviour::of(node).sizes == Sizes::Measures;
            if is_used && !(is_expand && is_empty) {
                if measures {
                    measured.push((id, node.op_type == "Size"));
                }
            } else if follows || is_expand || self.is_guessed(graph, node) {
                if measures && fills(graph, node) {
                    measured.push((id, node.op_type == "Size"));
                }
                self.values.extend(outputs());
            }
        }
        measured
    }
}

/// Whether a `ConstantOfShape` takes what a node makes as its shape, as it may where that is data.
fn fills(graph: &Graph, node: &Node) -> bool {
    let mut uses = node.outputs().iter().flatten().flat_map(|value| graph.value(*value).uses());
    uses.any(|place| match place {
        Use::Node(user, _) => graph.node(user).is("ConstantOfShape"),
        Use::Output(..) => false,
    })
}

/// Operators that may make elements of none.
const MAKES_ELEMENTS: [&str; 7] =
    ["Concat", "ConstantOfShape", "OneHot", "Pad", "Shape", "Size", "TensorScatter"];

/// The values of a body that have no elements, as far as declarations and constants tell. It may be
/// told of others that come from one: then shapes are measured that need not be.
fn empty_values(graph: &Graph, body: BodyId) -> HashSet<ValueId> {
    let nodes = graph.nodes_of(body);
    let held = graph.body(body);
    let made = nodes.iter().flat_map(|id| graph.node(*id).outputs()).flatten();
    let is_declared = |value: &&ValueId| is_empty(graph.value(**value).declared.as_ref());
    let is_constant = |value: &&ValueId| match graph.value(**value).origin() {
        Origin::Constant(tensor) => tensor.dims.contains(&0),
        _ => false,
    };
    let returned = held.outputs().iter().filter(|o| is_empty(o.declared.r#type.as_ref()));
    let mut empty: HashSet<ValueId> = held
        .inputs()
        .iter()
        .chain(made)
        .filter(is_declared)
        .chain(held.constants().iter().filter(is_constant))
        .copied()
        .chain(returned.map(|output| output.value))
        .collect();
    for id in nodes {
        let node = graph.node(id);
        let op = node.op_type.as_str();
        let makes = MAKES_ELEMENTS.contains(&op) || op.starts_with("Reduce");
        // Of others than these, an input after the first may be empty because it is not given.
        let inputs = match op {
            "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Pow" | "Gather" => node.inputs().len(),
            _ => 1,
        };
        let mut inputs = node.inputs().iter().take(inputs).flatten();
        if !makes && inputs.any(|value| empty.contains(value)) {
            empty.extend(node.outputs().iter().flatten());
        }
    }
    empty
}

/// The values whose elements are used on the way to the outputs of a body, if it is run.
fn used_values(
    graph: &Graph,
    body: BodyId,
    empty: &HashSet<ValueId>,
    is_run: bool,
) -> HashSet<ValueId> {
    let returned = graph.body(body).outputs().iter().map(|output| output.value);
    let mut used: HashSet<ValueId> = returned.filter(|_| is_run).collect();
    for id in graph.nodes_of(body).into_iter().rev() {
        let node = graph.node(id);
        let outputs = || node.outputs().iter().flatten();
        let is_used = outputs().any(|value| used.contains(value));
        let is_empty = outputs().any(|value| empty.contains(value));
        if is_used && !is_empty && Behaviour::of(node).sizes != Sizes::Measures {
            // Of what a value is cast like, only the type is asked for.
            let count = if node.is("CastLike") { 1 } else { node.inputs().len() };
            used.extend(node.inputs().iter().take(count).flatten());
        }
        // What a body uses is told by its own outputs.
        for held in node.bodies() {
            let empty = empty_values(graph, held.body);
            used.extend(used_values(graph, held.body, &empty, is_used));
        }
    }
    used
}
