//! A model's opset raised: where what its operators mean stays the same. What became an input that
//! was an attribute is made one.

use std::collections::HashSet;

use onnx_cast_graph::{Graph, NewNode, Node, NodeId, NodeView, Place, ValueId, value_attribute};
use tract_onnx::pb::{AttributeProto, ModelProto, OperatorSetIdProto, TensorProto};

use super::context::Context;
use super::data;
use crate::cast::element_type::ElementType;
use crate::error::{Cause, Error, Result};
use crate::onnx::declared_shapes::shape;
use crate::onnx::node::{attribute, int};
use crate::onnx::operators::attributes;
use crate::onnx::operators::schema::{self, Schema};

/// The attributes that have become inputs of INT64: the operator, since which opset, and the
/// input's place.
const MOVED: &[(&str, i64, &str, usize)] = &[
    ("ReduceL1", 18, "axes", 1),
    ("ReduceL2", 18, "axes", 1),
    ("ReduceLogSum", 18, "axes", 1),
    ("ReduceLogSumExp", 18, "axes", 1),
    ("ReduceMax", 18, "axes", 1),
    ("ReduceMean", 18, "axes", 1),
    ("ReduceMin", 18, "axes", 1),
    ("ReduceProd", 18, "axes", 1),
    ("ReduceSum", 13, "axes", 1),
    ("ReduceSumSquare", 18, "axes", 1),
    ("Pad", 11, "pads", 1),
    ("Slice", 10, "starts", 1),
    ("Slice", 10, "ends", 2),
    ("Slice", 10, "axes", 3),
    ("Split", 13, "split", 1),
    ("Squeeze", 13, "axes", 1),
    ("TopK", 10, "k", 1),
    ("Unsqueeze", 13, "axes", 1),
];

/// The same of those that have become inputs of one number, of the type of the first input.
const MOVED_NUMBERS: &[(&str, i64, &str, usize)] = &[
    ("Clip", 11, "min", 1),
    ("Clip", 11, "max", 2),
    ("Dropout", 12, "ratio", 1),
    ("Pad", 11, "value", 2),
];

/// The versions that mean something else though what they take looks the same.
const CHANGED: &[(&str, i64)] = &[
    ("BatchNormalization", 7),
    ("DFT", 20),
    ("Dropout", 7),
    ("GridSample", 20),
    ("GroupNormalization", 21),
    ("Resize", 11),
    ("RoiAlign", 16),
    ("Scan", 9),
    ("Scatter", 11),
    ("Upsample", 10),
];

/// The IR versions that came with opsets.
const IR_VERSIONS: &[(i64, i64)] =
    &[(9, 4), (10, 5), (11, 6), (12, 7), (15, 8), (19, 9), (21, 10), (23, 11), (24, 12), (25, 13)];

/// Has every node be of an opset that is not lower than the model's.
/// Fails when the opset is lower or not known, or an operator means something else in it.
pub(super) fn raise(graph: &mut Graph, context: &Context, to: i64) -> Result<()> {
    let newest = schema::versions("Cast").last().map_or(0, |newest| newest.since);
    let newest = newest.max(schema::versions("Constant").last().map_or(0, |found| found.since));
    if to < graph.opset || to > newest {
        let problem =
            format!("imports opset {}: it can be raised, to {newest} at most", graph.opset);
        return Err(Cause::Model { problem }.into());
    }
    for id in context.nodes(graph) {
        let node = graph.node(id);
        let is_call = context.function(node).is_some();
        if !node.is_onnx() || is_call || node.opset >= to {
            continue;
        }
        if let Some(problem) = change(graph, context, node, to) {
            return Err(refusal(node, to, &problem));
        }
        move_attributes(graph, context, id, to)?;
    }
    for id in context.nodes(graph) {
        let node = graph.node_mut(id);
        node.opset = node.opset.max(to);
    }
    graph.opset = to;
    Ok(())
}

/// Has a model import the opset, and its functions.
pub(super) fn import(model: &mut ModelProto, to: i64) {
    let versions = IR_VERSIONS.iter().take_while(|(opset, _)| *opset <= to);
    let needed = versions.last().map_or(3, |(_, ir_version)| *ir_version);
    if model.ir_version < 4
        && needed >= 4
        && let Some(graph) = &mut model.graph
    {
        // Weights are no inputs any more, which anybody might give another value.
        let given: HashSet<&str> = graph.initializer.iter().map(|held| &*held.name).collect();
        graph.input.retain(|input| !given.contains(&*input.name));
    }
    model.ir_version = model.ir_version.max(needed);
    let functions = model.functions.iter_mut().map(|function| &mut function.opset_import);
    for imports in std::iter::once(&mut model.opset_import).chain(functions) {
        let is_default =
            |import: &&mut OperatorSetIdProto| onnx_cast_graph::is_default_domain(&import.domain);
        for import in imports.iter_mut().filter(is_default) {
            import.version = import.version.max(to);
        }
    }
}

fn refusal(node: &Node, to: i64, problem: &str) -> Error {
    let problem = format!("cannot be raised from opset {} to {to}: {problem}", node.opset);
    Error::of_node(node.label(), &*node.op_type, problem)
}

/// Why a node means something else at an opset; `None` where it means the same.
fn change(graph: &Graph, context: &Context, node: &Node, to: i64) -> Option<String> {
    let op = node.op_type();
    let versions = schema::versions(op);
    let old = schema::schema(op, node.opset)?;
    let mut passed = versions.iter().filter(|new| old.since < new.since && new.since <= to);
    let changed = passed.clone().find(|new| CHANGED.contains(&(op, new.since)));
    if let Some(new) = changed {
        return Some(format!("it means something else since {}", new.since));
    }
    let new = passed.next_back()?;
    if matches!(op, "Softmax" | "LogSoftmax" | "Hardmax") && old.since < 13 && new.since >= 13 {
        return axis_change(graph, node);
    }
    if op == "BatchNormalization" && new.since >= 14 && node.outputs().len() > 1 {
        return Some("its statistics are others since 14".into());
    }
    if op == "Split" && new.since >= 18 && !node.gives(1) && attribute(node, "split").is_none() {
        // `move_attributes` says how many parts.
        return None;
    }
    parameters_change(context, node, old, new).or_else(|| attributes_change(node, old, new))
}

/// A softmax was over all axes from one on, and is over that axis since opset 13.
fn axis_change(graph: &Graph, node: &Node) -> Option<String> {
    let axis = int(node, "axis").unwrap_or(1);
    let declared = node.input(0).and_then(|value| graph.value(value).declared.as_ref());
    let rank = shape(declared).map(|shape| shape.dim.len() as i64);
    let is_last = axis == -1 || rank.is_some_and(|rank| axis == rank - 1);
    (!is_last)
        .then(|| "it is over one axis alone since 13, and which is its last is not told".into())
}

/// What a node gives and wants, of its type or, where that is not known, of one of the old
/// version's types, that the new one does not have.
fn parameters_change(context: &Context, node: &Node, old: &Schema, new: &Schema) -> Option<String> {
    let is_lost = |value: Option<ValueId>, old_ty, new_ty| {
        let known = value.and_then(|value| context.types.get(value));
        let mut types = ElementType::ALL.iter().filter(|ty| known.is_none_or(|known| known == *ty));
        types.any(|ty| old.allows(old_ty, *ty) && !new.allows(new_ty, *ty))
    };
    for place in (0..node.input_places()).filter(|place| node.gives(*place)) {
        let lost = match (old.input(place), new.input(place)) {
            (Some(old), Some(new)) => is_lost(node.input(place), old.ty, new.ty),
            _ => true,
        };
        if lost {
            return Some(format!("input {place} is another since {}", new.since));
        }
    }
    for (place, made) in node.outputs().iter().enumerate().filter(|(_, output)| output.is_some()) {
        let lost = match (old.output(place), new.output(place)) {
            (Some(old), Some(new)) => is_lost(*made, old.ty, new.ty),
            _ => true,
        };
        if lost {
            return Some(format!("output {place} is another since {}", new.since));
        }
    }
    let mut needed = new.needed_inputs().filter(|place| !node.gives(*place));
    let missing = needed.find(|place| moved(node, new.since).all(|(.., to)| to != *place));
    missing.map(|place| format!("input {place} is needed since {}", new.since))
}

/// The attributes of a node that are inputs at an opset.
fn moved(node: &Node, to: i64) -> impl Iterator<Item = (&'static str, usize)> + '_ {
    MOVED.iter().chain(MOVED_NUMBERS).filter_map(move |(op, since, name, place)| {
        let is_moved = node.is(op) && node.opset < *since && *since <= to;
        (is_moved && attribute(node, name).is_some()).then_some((*name, *place))
    })
}

/// What a node's attributes say, or their defaults, that the new version's would not.
fn attributes_change(node: &Node, old: &Schema, new: &Schema) -> Option<String> {
    let op = node.op_type();
    let before = attributes::version("", op, old.since)?;
    let after = attributes::version("", op, new.since)?;
    for given in &node.attributes {
        let is_moved = moved(node, new.since).any(|(name, _)| name == given.name);
        if is_moved && !given.ref_attr_name.is_empty() {
            return Some(format!("`{}` is an input since {}", given.name, new.since));
        }
        if !is_moved && after.attribute(&given.name).is_none() {
            return Some(format!("it has no attribute `{}` since {}", given.name, new.since));
        }
    }
    let has_body = |name: &str| node.bodies().iter().any(|held| held.attribute == name);
    let is_given = |name: &str| attribute(node, name).is_some() || has_body(name);
    let other = before.attributes.iter().find(|known| {
        let default = after.attribute(known.name).map(|new| new.default);
        !is_given(known.name) && default.is_some_and(|default| default != known.default)
    });
    if let Some(known) = other {
        return Some(format!("`{}` is another by default since {}", known.name, new.since));
    }
    let missing = after.attributes.iter().find(|new| new.is_required && !is_given(new.name));
    missing.map(|missing| format!("`{}` is needed since {}", missing.name, new.since))
}

/// Makes inputs of attributes that have become some. Fails when the type of a number is not known.
fn move_attributes(graph: &mut Graph, context: &Context, id: NodeId, to: i64) -> Result<()> {
    let node = graph.node(id);
    let parts = node.outputs().len() as i64;
    let is_even = !node.gives(1) && attribute(node, "split").is_none();
    if node.is("Split") && to >= 18 && node.opset < 18 && is_even {
        let number = onnx_cast_graph::int_attribute("num_outputs", parts);
        graph.node_mut(id).attributes.push(number);
        return Ok(());
    }
    let moved: Vec<(&str, usize)> = moved(node, to).collect();
    for (name, place) in moved {
        let node = graph.node_mut(id);
        let Some(at) = node.attributes.iter().position(|given| given.name == name) else {
            continue;
        };
        let given = node.attributes.remove(at);
        let node = graph.node(id);
        let is_number = MOVED_NUMBERS.iter().any(|(op, _, moved, _)| node.is(op) && name == *moved);
        // What Clip has by default is no limit, which narrower types may not have.
        if node.is("Clip") && given.f.abs() == f32::MAX {
            continue;
        }
        let tensor = if !is_number {
            integers(given, name)
        } else {
            let first = node.input(0).and_then(|value| context.types.get(value).copied());
            let unknown = || refusal(node, to, "the type of what it takes is not known");
            number(given.f, first.ok_or_else(unknown)?)?
        };
        let output = format!("{}_{name}", node.label());
        let constant = NewNode::of("Constant", &[], output).with(vec![value_attribute(tensor)]);
        let constant = graph.add_value(Place::Before(id), constant);
        graph.set_input(id, place, Some(constant));
    }
    Ok(())
}

fn integers(given: AttributeProto, name: &str) -> TensorProto {
    let numbers = if given.ints.is_empty() && name == "k" { vec![given.i] } else { given.ints };
    TensorProto {
        data_type: ElementType::Int64 as i32,
        dims: vec![numbers.len() as i64],
        int64_data: numbers,
        ..TensorProto::default()
    }
}

fn number(number: f32, ty: ElementType) -> Result<TensorProto> {
    let (data_type, float_data) = (ElementType::Float as i32, vec![number]);
    data::recast(TensorProto { data_type, float_data, ..TensorProto::default() }, ty)
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::{float_attribute, ints_attribute};
    use prost::Message;
    use tract_onnx::pb::ModelProto;

    use crate::cast::element_type::ElementType::Float16;
    use crate::convert::tests::{printed, written};
    use crate::convert::{Options, convert};
    use crate::passes::testing::{lines, read};

    fn at(opset: i64, text: &str) -> Vec<u8> {
        let mut model = read(text);
        model.opset_import[0].version = opset;
        model.encode_to_vec()
    }

    fn raised(from: i64, to: i64, text: &str) -> Result<ModelProto, String> {
        let options = Options { opset: Some(to), ..Options::new(Float16) };
        let file = at(from, text);
        convert(&file, None, &options).map_err(|error| error.to_string())?;
        Ok(written(&file, &options).0)
    }

    #[test]
    fn attributes_become_inputs() {
        let text = "in x FLOAT\na = TopK<k=3>(x)\nb = Shape(a)\nout b INT64";
        let model = raised(9, 21, text).expect("a model");
        assert_eq!((model.opset_import[0].version, model.ir_version), (21, 10));
        let graph = model.graph.expect("a graph");
        let expected = "
            x_FLOAT16 = Cast(x) to FLOAT16
            a_k = Constant() of INT64
            a = TopK(x_FLOAT16, a_k)
            b = Shape(a)
            out b INT64";
        assert_eq!(printed(&graph), lines(expected));
        let text = "in x FLOAT\na, b = Split(x)\nc = Add(a, b)\nout c FLOAT";
        let graph = raised(13, 18, text).expect("a model").graph.expect("a graph");
        let split = graph.node.iter().find(|node| node.op_type == "Split").expect("a node");
        assert_eq!(split.attribute.last().map(|a| (&*a.name, a.i)), Some(("num_outputs", 2)));
    }

    #[test]
    fn numbers_among_attributes_become_inputs_of_the_type_beside_them() {
        let text = "in x FLOAT16\nb = Clip(x)\nc = Pad<value=0>(b)\nout c FLOAT16";
        let mut model = read(text);
        model.opset_import[0].version = 7;
        let nodes = &mut model.graph.as_mut().expect("a graph").node;
        nodes[0].attribute = vec![float_attribute("min", 0.5), float_attribute("max", f32::MAX)];
        nodes[1].attribute =
            vec![ints_attribute("pads", vec![1, 1]), float_attribute("value", 2.0)];
        let options = Options { opset: Some(22), ..Options::new(Float16) };
        let graph = written(&model.encode_to_vec(), &options).0.graph.expect("a graph");
        let expected = "
            b_min = Constant() of FLOAT16
            b = Clip(x, b_min)
            c_pads = Constant() of INT64
            c_value = Constant() of FLOAT16
            c = Pad(b, c_pads, c_value)
            out c FLOAT16";
        assert_eq!(printed(&graph), lines(expected));
        let held = graph.node[0].attribute[0].t.as_ref().expect("a tensor");
        assert_eq!((held.dims.len(), &*held.raw_data), (0, &0x3800u16.to_le_bytes()[..]));
    }

    #[test]
    fn what_means_something_else_is_refused_by_name() {
        for (from, to, text, expected) in [
            (12, 13, "in x FLOAT\ny = Softmax(x)\nout y FLOAT", "which is its last is not told"),
            (10, 13, "in x FLOAT\nin s FLOAT\ny = Resize(x, s)\nout y FLOAT", "since 11"),
            (9, 11, "in x FLOAT\nin s FLOAT\ny = Upsample(x, s)\nout y FLOAT", "since 10"),
            (17, 13, "in x FLOAT\ny = Neg(x)\nout y FLOAT", "imports opset 17: it can be raised"),
            (17, 99, "in x FLOAT\ny = Neg(x)\nout y FLOAT", "imports opset 17: it can be raised"),
        ] {
            let error = raised(from, to, text).expect_err("a refusal");
            assert!(error.contains(expected), "{error}");
        }
        let text = "in x FLOAT\ny = Softmax<axis=-1>(x)\nout y FLOAT";
        assert!(raised(12, 13, text).is_ok());
    }
}
