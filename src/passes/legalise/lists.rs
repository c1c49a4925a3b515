//! Lists of numbers: one of no numbers stands for the attribute left out, and an axis that a
//! reduction has twice is reduced once, both as in ONNX Runtime, which refuses a window's empty
//! lists. tract takes `axes` of none for no axis and looks for the first of other lists, and it
//! counts axes to tell the rank of what it makes. Beside them the mask of `Dropout`, whose type is
//! another one in old versions.

use onnx_cast_graph::{Graph, NewNode, Node, NodeId, NodeView, Place, attribute};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, TensorProto};
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error};
use crate::onnx::lowered::DOMAIN;
use crate::onnx::node::node_name;
use crate::passes::context::PassContext;
use crate::passes::facts::value_type::dims;
use crate::tensor::proto;

/// What slides over its input, in ONNX's domain and in ONNX Runtime's.
const WINDOWS: &[&str] = &[
    "AveragePool",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "DeformConv",
    "FusedConv",
    "LpPool",
    "MaxPool",
    "MaxUnpool",
    "NhwcFusedConv",
    "NhwcMaxPool",
    "QLinearAveragePool",
    "QLinearConv",
];

/// Leaves out empty lists and axes that are there twice. Fails at a window of no sizes, which
/// nothing else tells.
pub(in crate::passes) fn shorten(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for id in graph.all_nodes(graph.main()) {
        mask_of_numbers(graph, id);
        squeeze_all(graph, id);
        let sized = has_sizes(graph.node(id));
        context.take(sized.map_err(Into::into), false)?;
        let names = optional(graph.node(id));
        if names.iter().any(|name| is_empty(graph.node(id), name)) {
            leave_out(graph, id, names);
        }
        if graph.node(id).is_onnx() && graph.node(id).op_type.starts_with("Reduce") {
            reduce_once(graph, context, id);
        }
    }
    Ok(())
}

/// The lists of a node that say nothing where they are empty.
fn optional(node: &Node) -> &'static [&'static str] {
    const AXES_OF_SUM_ARE_AN_INPUT: i64 = 13;
    const AXES_ARE_AN_INPUT: i64 = 18;
    if WINDOWS.contains(&&*node.op_type) {
        return &["dilations", "output_padding", "output_shape", "pads", "strides"];
    }
    if !node.is_onnx() {
        return &[];
    }
    let is_before = match &*node.op_type {
        "Squeeze" | "ReduceSum" => node.opset < AXES_OF_SUM_ARE_AN_INPUT,
        reduction if reduction.starts_with("Reduce") => node.opset < AXES_ARE_AN_INPUT,
        "Resize" => true,
        _ => false,
    };
    if is_before { &["axes"] } else { &[] }
}

fn is_empty(node: &Node, name: &str) -> bool {
    let is_empty =
        |list: &AttributeProto| list.r#type == AttributeType::Ints as i32 && list.ints.is_empty();
    attribute(node, name).is_some_and(is_empty)
}

fn leave_out(graph: &mut Graph, id: NodeId, names: &[&str]) {
    let empty = |name: &&&str| is_empty(graph.node(id), name);
    let empty: Vec<&str> = names.iter().filter(empty).copied().collect();
    graph.node_mut(id).attributes.retain(|given| !empty.contains(&given.name.as_str()));
}

/// Leaves out the axes of a `Squeeze` where they are a constant of none.
fn squeeze_all(graph: &mut Graph, id: NodeId) {
    let axes = graph.node(id).input(1).and_then(|axes| graph.constant(axes));
    if graph.node(id).is("Squeeze") && axes.is_some_and(|axes| axes.dims == [0]) {
        graph.truncate_inputs(id, 1);
    }
}

/// Makes the mask of a `Dropout` before version 10 one of numbers, as its type is that of the data
/// there; tract's is BOOL in all versions.
fn mask_of_numbers(graph: &mut Graph, id: NodeId) {
    const MASK_IS_BOOL: i64 = 10;
    const CASTS_LIKE: i64 = 15;
    let node = graph.node(id);
    let (Some(data), Some(mask)) = (node.input(0), node.output(1)) else { return };
    if !node.is("Dropout") || node.opset >= MASK_IS_BOOL {
        return;
    }
    let name = format!("{DOMAIN}:mask:{}", graph.value(mask).name);
    let Some(made) = graph.take_output(mask, &name) else { return };
    let cast = graph.add(Place::After(id), NewNode::making("CastLike", &[made, data], mask));
    graph.node_mut(cast).opset = CASTS_LIKE;
    graph.node_mut(id).opset = MASK_IS_BOOL;
}

/// ONNX Runtime refuses an empty `kernel_shape` too: it is no shape of a weight.
fn has_sizes(node: &Node) -> Result<(), Error> {
    let name = "kernel_shape";
    if !WINDOWS.contains(&&*node.op_type) || !is_empty(node, name) {
        return Ok(());
    }
    let (attribute, opset) = (name.into(), node.opset);
    let problem = "has no sizes".into();
    Err(Cause::Attribute { node: node_name(node), attribute, problem, opset }.into())
}

/// Leaves out axes of a reduction that it has before, in the attribute or in a constant.
fn reduce_once(graph: &mut Graph, context: &PassContext, id: NodeId) {
    let node = graph.node(id);
    let rank = node.input(0).and_then(|data| Some(dims(graph, data)?.len() as i64));
    let body = node.body();
    if let Some(given) = attribute(node, "axes") {
        let axes = once(&given.ints, rank);
        if axes.len() < given.ints.len() {
            let attributes = graph.node_mut(id).attributes.iter_mut();
            attributes
                .filter(|given| given.name == "axes")
                .for_each(|given| given.ints = axes.clone());
        }
        return;
    }
    let constant = node.input(1).and_then(|axes| graph.constant(axes));
    let Some(constant) = constant.filter(|held| held.data_type == ElementType::Int64 as i32) else {
        return;
    };
    let options = context.options;
    // What cannot be read is told where constants are.
    let Ok((_, read)) = proto::read_with(constant, options.folder, options.resolver) else {
        return;
    };
    let Ok(given) =
        read.to_plain_array_view::<i64>().map(|view| view.iter().copied().collect::<Vec<_>>())
    else {
        return;
    };
    let axes = once(&given, rank);
    if axes.len() < given.len() {
        let (data_type, dims) = (ElementType::Int64 as i32, vec![axes.len() as i64]);
        let name = constant.name.clone();
        let made =
            TensorProto { name, data_type, dims, int64_data: axes, ..TensorProto::default() };
        let made = graph.add_constant(body, made);
        graph.set_input(id, 1, Some(made));
    }
}

/// Axes without those that are there before, counted from either end where the rank is known.
fn once(axes: &[i64], rank: Option<i64>) -> Vec<i64> {
    let front = |axis: i64| if axis < 0 { axis.saturating_add(rank.unwrap_or(0)) } else { axis };
    let mut found: Vec<i64> = vec![];
    for axis in axes {
        if !found.iter().any(|other| front(*other) == front(*axis)) {
            found.push(*axis);
        }
    }
    found
}
