//! Legalisation: rewrites constructs that tract's loader mishandles, as docs/upstream.md tells, and
//! gives nodes the forms and defaults that its builders look for.
//!
//! - `alike`: nodes that make the same
//! - `lists`: lists of numbers that tract reads otherwise
//! - `outputs`: outputs with nodes of their own
//! - `scanned`: products that tract would run in each turn
//! - `tensors`: constants as tract holds them
//! - `transposed`: `ConvTranspose` with `auto_pad`
//! - `unsigned`: constants that tract reads as signed
//! - `zeros`: constants that differ in signs of zeros alone

pub(super) mod alike;
pub(super) mod lists;
pub(super) mod outputs;
pub(super) mod scanned;
pub(super) mod tensors;
mod transposed;
pub(super) mod unsigned;
mod zeros;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{
    BodyId, Graph, NewNode, NodeId, NodeView, Place, ValueId, attribute, float_attribute,
    ints_attribute, tensor_type_mut, value_attribute,
};
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::{AttributeProto, TensorProto, TypeProto};
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use super::facts::value_type::dims;
use crate::cast::element_type::ElementType;
use crate::onnx::cast_spec::Operator;
use crate::onnx::lowered::{DOMAIN, OperatorForm, PrivateCast};
use crate::onnx::operators::schema::schema;
use crate::passes::facts::fact::{Fact, FactOrigin};

/// Rewrites what tract cannot take as it stands, node by node. Before: an operator of ONNX's;
/// after: the same, in a form that tract's builder for it reads right.
pub(super) fn legalise(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let mut masks = HashMap::new();
    for body in graph.all_bodies(graph.main()) {
        // The opset by which tract builds the nodes of a body is that of the node around it.
        let built_by =
            graph.body(body).owner().map_or(graph.opset, |owner| graph.node(owner).opset);
        for id in graph.nodes_of(body) {
            name_unused_outputs(graph, id);
            drop_unread_inputs(graph, id);
            if graph.node(id).is("ConstantOfShape") {
                give_default_value(graph, id);
            }
            transposed::pads_of_auto_pad(graph, id);
            drop_pads(graph, id);
            give_lists_of_one(graph, id);
            give_numbers(graph, id);
            give_one_type(graph, context, id);
            pads_to_inputs(graph, context, id);
            give_mask_of_numbers(graph, context, id, &mut masks);
            give_one_default(graph, context, id);
            if Operator::of(graph.node(id)).is_none() {
                graph.drop_unwanted_outputs(id);
            }
            build_at_opset(graph, context, id, built_by);
        }
        zeros::keep_apart(graph, body, context.options)?;
        forget_declarations(graph, body);
    }
    Ok(())
}

/// tract uses declared shapes where they are stale too, and takes long to understand intricate
/// ones.
fn forget_declarations(graph: &mut Graph, body: BodyId) {
    for id in graph.nodes_of(body) {
        for value in graph.node(id).outputs().to_vec().into_iter().flatten() {
            graph.value_mut(value).declared = None;
        }
    }
    for value in graph.body(body).inputs().to_vec() {
        forget_intricate_dimensions(graph.value_mut(value).declared.as_mut());
    }
    for place in 0..graph.body(body).outputs().len() {
        if let Some(output) = graph.declared_output_mut(body, place) {
            forget_intricate_dimensions(output.r#type.as_mut());
        }
    }
}

/// Has a node be built by its own opset where tract would build it by another: in the place of a
/// model-local function's call, and a `Squeeze` without axes, which tract reads right by one opset
/// only.
fn build_at_opset(graph: &mut Graph, context: &mut PassContext, id: NodeId, built_by: i64) {
    const SQUEEZE_OF_ALL: i64 = 13;
    if !matches!(context.form(id), OperatorForm::Own | OperatorForm::ExactDivision) {
        return;
    }
    let node = graph.node(id);
    let is_squeeze_of_all =
        node.is("Squeeze") && node.opset < SQUEEZE_OF_ALL && attribute(node, "axes").is_none();
    let opset = if is_squeeze_of_all { SQUEEZE_OF_ALL } else { node.opset };
    if opset != built_by {
        context.lower(id, context.form(id).clone());
        if let Some(lowered) = context.lowered.get_mut(id) {
            lowered.opset = Some(opset);
        }
    }
}

/// Names the outputs that a node does not use but its operator always has: tract would count the
/// others from there.
fn name_unused_outputs(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    let schema = schema(&node.op_type, node.opset).filter(|_| node.is_onnx());
    let Some(first) = node.outputs().iter().flatten().next().copied() else { return };
    let is_there = |place: &usize| match (&*node.domain, &*node.op_type, schema) {
        ("ai.onnx.ml", "LinearClassifier" | "TreeEnsembleClassifier", _) => true,
        (.., Some(schema)) => schema.output(*place).is_some_and(|output| !output.is_optional()),
        _ => false,
    };
    let count = if node.domain == "ai.onnx.ml" { 2 } else { node.outputs().len() };
    let places: Vec<usize> = (0..count).filter(is_there).collect();
    for place in places {
        let name = format!("{DOMAIN}:unused{place}:{}", graph.value(first).name);
        graph.want_output(id, place, &name);
    }
}

/// Writes down the value that a `ConstantOfShape` has without the attribute, a FLOAT zero; tract's
/// is a DOUBLE.
fn give_default_value(graph: &mut Graph, id: NodeId) {
    if attribute(graph.node(id), "value").is_none() {
        let (data_type, raw_data) = (ElementType::Float as i32, vec![0; 4]);
        let t = TensorProto { data_type, dims: vec![1], raw_data, ..TensorProto::default() };
        graph.node_mut(id).attributes.push(value_attribute(t));
    }
}

/// Gives a `NonMaxSuppression` its numbers as lists of one, of which tract asks that they are none
/// of ONNX's scalars, and the limit that it has where none is given.
fn give_lists_of_one(graph: &mut Graph, id: NodeId) {
    const NUMBERS: std::ops::Range<usize> = 2..5;
    if !graph.node(id).is("NonMaxSuppression") {
        return;
    }
    if graph.node(id).input(NUMBERS.start).is_none() {
        let name = format!("{DOMAIN}:limit:{}", graph.node(id).label());
        let limit = NewNode::of("Constant", &[], name);
        let limit = limit.with(vec![ints_attribute("value_ints", vec![0])]);
        let limit = graph.add_value(Place::Before(id), limit);
        graph.set_input(id, NUMBERS.start, Some(limit));
    }
    for place in NUMBERS {
        let Some(number) = graph.node(id).input(place) else { continue };
        let name = |part: &str| format!("{DOMAIN}:{part}{place}:{}", graph.node(id).label());
        let (shape, list) = (name("one"), name("list"));
        let constant = NewNode::of("Constant", &[], shape);
        let constant = constant.with(vec![ints_attribute("value_ints", vec![1])]);
        let shape = graph.add_value(Place::Before(id), constant);
        let reshape = NewNode::of("Reshape", &[number, shape], list);
        let list = graph.add_value(Place::Before(id), reshape);
        graph.set_input(id, place, Some(list));
    }
}

/// Gives a `Pad`, a `Range` and a `CumSum` constants that are lists of one as numbers: tract
/// refuses the lists.
fn give_numbers(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    let places: &[usize] = match () {
        () if node.is("Pad") => &[2],
        () if node.is("Range") => &[0, 1, 2],
        () if node.is("CumSum") => &[1],
        () => return give_pairs(graph, id),
    };
    for &place in places {
        give_as(graph, id, place, &[]);
    }
}

/// Gives a `QLinearMatMul` each scale and its zero point as two numbers or as two lists: tract
/// takes no number beside a list.
fn give_pairs(graph: &mut Graph, id: NodeId) {
    if !graph.node(id).is("QLinearMatMul") {
        return;
    }
    for pair in [[1, 2], [4, 5], [6, 7]] {
        let is_list = |place: &usize| {
            let data =
                graph.node(id).input(*place).filter(|value| graph.constant(*value).is_none());
            data.and_then(|data| dims(graph, data)).is_some_and(|dims| dims == [Some(1)])
        };
        let wanted: &[i64] = if pair.iter().any(is_list) { &[1] } else { &[] };
        for place in pair {
            give_as(graph, id, place, wanted);
        }
    }
}

/// Gives a node a constant of one element as a number, or as a list.
fn give_as(graph: &mut Graph, id: NodeId, place: usize, wanted: &[i64]) {
    let value = graph.node(id).input(place);
    let given = value.and_then(|value| graph.constant(value));
    let Some(given) = given.filter(|given| matches!(given.dims[..], [] | [1])) else { return };
    if given.dims != wanted {
        let made = TensorProto { dims: wanted.into(), ..(**given).clone() };
        let made = graph.add_constant(graph.node(id).body(), made);
        graph.set_input(id, place, Some(made));
    }
}

/// Gives a `BatchNormalization` what it computes with in the type of its data, and a norm by the
/// root mean square, where it or its scale is DOUBLE alone, its data in a type that the operator
/// computes the mean in: tract takes no other.
fn give_one_type(graph: &mut Graph, context: &mut PassContext, id: NodeId) {
    let node = graph.node(id);
    let ty = |place: usize| node.input(place).and_then(|value| context.facts.ty(value));
    let is_rms = node.is("RMSNormalization");
    let (wanted, places) = match (ty(0), ty(1)) {
        (Some(ElementType::Double), Some(scale)) if is_rms && scale != ElementType::Double => {
            (ElementType::Float, 0..1)
        }
        (Some(_), Some(ElementType::Double)) if is_rms => (ElementType::Double, 0..1),
        (Some(data), _) if node.is("BatchNormalization") => (data, 1..node.inputs().len()),
        _ => return,
    };
    for place in places {
        let Some(value) = graph.node(id).input(place) else { continue };
        let ty = context.facts.ty(value);
        if ty.is_none_or(|ty| ty == wanted || ty.is_exotic()) {
            continue;
        }
        let name = format!("{DOMAIN}:one-type{place}:{}", graph.node(id).label());
        let cast = graph.add(Place::Before(id), NewNode::of("Cast", &[value], name));
        context.lower(cast, OperatorForm::Cast(PrivateCast::own(ty, wanted)));
        graph.set_input(id, place, graph.node(cast).output(0));
    }
}

/// Drops the `pads` beside an `auto_pad` that tells them, as onnx's evaluator and ONNX Runtime do;
/// tract takes them first.
fn drop_pads(graph: &mut Graph, id: NodeId) {
    let auto_pad = attribute(graph.node(id), "auto_pad").map(|given| given.s.as_slice());
    if matches!(auto_pad, Some(b"SAME_UPPER" | b"SAME_LOWER" | b"VALID")) {
        graph.node_mut(id).attributes.retain(|given| given.name != "pads");
    }
}

/// Gives a `Pad` of negative sizes, which tract does not take as an attribute, its sizes and its
/// value as later versions have them.
fn pads_to_inputs(graph: &mut Graph, context: &PassContext, id: NodeId) {
    const PADS_ARE_AN_INPUT: i64 = 11;
    let node = graph.node(id);
    let pads = attribute(node, "pads").map(|pads| pads.ints.clone()).unwrap_or_default();
    if !node.is("Pad") || node.opset >= PADS_ARE_AN_INPUT || pads.iter().all(|pad| *pad >= 0) {
        return;
    }
    let value = attribute(node, "value").map_or(0.0, |value| value.f);
    let ty = node.input(0).and_then(|data| context.facts.ty(data));
    let value = match ty {
        Some(ElementType::Float) => TensorProto { float_data: vec![value], ..Default::default() },
        Some(ElementType::Double) => {
            TensorProto { double_data: vec![value.into()], ..Default::default() }
        }
        Some(ElementType::Float16) => {
            let bits = i32::from(half::f16::from_f32(value).to_bits());
            TensorProto { int32_data: vec![bits], ..Default::default() }
        }
        _ => return,
    };
    let name = |part: &str| format!("{DOMAIN}:{part}:{}", node.label());
    let data_type = ty.map_or(0, |ty| ty as i32);
    let value = TensorProto { name: name("value"), data_type, ..value };
    let pads = TensorProto {
        name: name("pads"),
        data_type: ElementType::Int64 as i32,
        dims: vec![pads.len() as i64],
        int64_data: pads,
        ..TensorProto::default()
    };
    let body = node.body();
    for input in [pads, value] {
        let input = graph.add_constant(body, input);
        graph.push_input(id, Some(input));
    }
    let node = graph.node_mut(id);
    node.attributes.retain(|given| given.name == "mode");
    node.opset = PADS_ARE_AN_INPUT;
}

/// Gives a `CategoryMapper` the default of the type that it makes alone: tract tells by it what it
/// maps.
fn give_one_default(graph: &mut Graph, context: &PassContext, id: NodeId) {
    const DEFAULTS: [&str; 2] = ["default_int64", "default_string"];
    let node = graph.node(id);
    if (&*node.domain, &*node.op_type) != ("ai.onnx.ml", "CategoryMapper") {
        return;
    }
    let (wanted, r#type) = match node.input(0).and_then(|input| context.facts.ty(input)) {
        Some(ElementType::String) => (DEFAULTS[0], AttributeType::Int),
        Some(ElementType::Int64) => (DEFAULTS[1], AttributeType::String),
        _ => return,
    };
    let default = AttributeProto {
        name: wanted.into(),
        r#type: r#type as i32,
        i: -1,
        s: "_Unused".into(),
        ..AttributeProto::default()
    };
    let default = attribute(node, wanted).cloned().unwrap_or(default);
    let node = graph.node_mut(id);
    node.attributes.retain(|given| !DEFAULTS.contains(&given.name.as_str()));
    node.attributes.push(default);
}

/// tract counts the inputs of a `Conv`, one without a name too, and pads by a constant where there
/// is one, whatever `mode` is.
fn drop_unread_inputs(graph: &mut Graph, id: NodeId) {
    const VALUE: usize = 2;
    let node = graph.node(id);
    let mode = attribute(node, "mode").map(|mode| mode.s.as_slice());
    let is_unread = node.is("Pad") && mode.is_some_and(|mode| mode != b"constant");
    if is_unread && node.inputs().len() > VALUE {
        graph.set_input(id, VALUE, None);
    }
    let last = graph.node(id).inputs().iter().rposition(Option::is_some);
    graph.truncate_inputs(id, last.map_or(0, |last| last + 1));
}

/// Gives an `Attention` a mask of numbers where it has one of truths, which tract does not take:
/// minus infinity hides.
fn give_mask_of_numbers(
    graph: &mut Graph,
    context: &mut PassContext,
    id: NodeId,
    masks: &mut HashMap<(BodyId, ValueId), ValueId>,
) {
    const MASK: usize = 3;
    let node = graph.node(id);
    let Some(mask) = node.input(MASK).filter(|_| node.is("Attention")) else { return };
    if context.facts.ty(mask) != Some(ElementType::Bool) {
        return;
    }
    // The node computes on the type that its data has by now.
    let ty = node.input(0).and_then(|data| context.facts.ty(data)).unwrap_or(ElementType::Float);
    let body = node.body();
    let numbers = masks.get(&(body, mask)).copied().unwrap_or_else(|| {
        let name = |part: &str| format!("{DOMAIN}:{part}:{}", graph.value(mask).name);
        let (names, numbers) = ([name("seen"), name("hidden"), name("floats")], name("numbers"));
        let [seen, hidden, floats] = names;
        let mut constant = |name: String, value: f32| {
            let node = NewNode::of("Constant", &[], name);
            let node = node.with(vec![float_attribute("value_float", value)]);
            graph.add_value(Place::Before(id), node)
        };
        let seen = constant(seen, 0.0);
        let hidden = constant(hidden, f32::NEG_INFINITY);
        let floats = NewNode::of("Where", &[mask, seen, hidden], floats);
        let floats = graph.add_value(Place::Before(id), floats);
        let cast = graph.add(Place::Before(id), NewNode::of("Cast", &[floats], numbers));
        context.lower(cast, OperatorForm::Cast(PrivateCast::own(None, ty)));
        graph.node(cast).output(0).unwrap_or(floats)
    });
    masks.insert((body, mask), numbers);
    context.facts.insert(numbers, Fact { ty: Some(ty), origin: FactOrigin::Data });
    graph.set_input(id, MASK, Some(numbers));
}

/// Makes unknown what would take tract long to understand, or more stack than there is: its parser
/// of dimensions descends into every parenthesis, and its simplifier tries every combination of
/// nested terms.
pub(super) fn forget_intricate_dimensions(declared: Option<&mut TypeProto>) {
    const LENGTH: usize = 256;
    const OPERATORS: usize = 12;
    let Some(tensor) = tensor_type_mut(declared) else { return };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(DimValue::DimParam(text)) = &dim.value {
            let operators = text.bytes().filter(|byte| b"+-*/%(,".contains(byte)).count();
            if text.len() > LENGTH || operators > OPERATORS {
                dim.value = None;
            }
        }
    }
}

/// Renames nodes that have another's name or that of a value they do not make: in ONNX these are
/// names of different kinds, in tract they are not.
pub(super) fn name_nodes_apart(graph: &mut Graph, _: &mut PassContext) -> TractResult<()> {
    for body in graph.all_bodies(graph.main()) {
        for (id, name) in clashes(graph, body) {
            graph.node_mut(id).name = name.into();
        }
    }
    Ok(())
}

/// The nodes of a body that need another name, with that name.
fn clashes(graph: &Graph, body: BodyId) -> Vec<(NodeId, String)> {
    let name = |value: &ValueId| -> &str { &graph.value(*value).name };
    let nodes = graph.nodes_of(body);
    let mut made: HashMap<&str, NodeId> = HashMap::new();
    for id in &nodes {
        made.extend(graph.node(*id).outputs().iter().flatten().map(|value| (name(value), *id)));
    }
    let given = graph.body(body).inputs().iter().chain(graph.body(body).constants()).map(name);
    // tract gives a body an input for each value that it takes from around it.
    let captured = if graph.body(body).owner().is_some() { graph.captures(body) } else { vec![] };
    let captured = captured.iter().map(name);
    let mut taken: HashSet<Cow<str>> = given.chain(captured).map(Cow::from).collect();
    let mut renamed = vec![];
    for (index, id) in nodes.iter().enumerate() {
        let node = graph.node(*id);
        let first = || node.outputs().iter().flatten().next().map_or("", name);
        let own = if node.name.is_empty() { first() } else { &node.name };
        let is_foreign = |name: &str| made.get(name).is_some_and(|maker| maker != id);
        // What stands before a `#` tract tries with all numbers, whenever it puts something in the
        // node's place.
        let mut unique =
            if own.contains('#') { own.replace('#', "~").into() } else { Cow::from(own) };
        while is_foreign(&unique) || !taken.insert(unique.clone()) {
            unique = format!("{unique}~{index}").into();
        }
        if unique != own {
            renamed.push((*id, unique.into_owned()));
        }
    }
    renamed
}

#[cfg(test)]
mod tests;
