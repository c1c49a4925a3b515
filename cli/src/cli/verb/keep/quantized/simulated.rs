//! A FLOAT model as `quantize_static` makes it, or `MatMulNBitsQuantizer`, save some nodes:
//! activations pass a quantiser and come back, weights are what comes back of their codes.

use tract_onnx::pb::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::parameters::{Finder, Parameters};
use super::plan::{Entry, How, Plan};
use super::subject::Subject;

/// The function that quantises a value and brings it back, and its domain. A function has an opset
/// of its own, so that a model of any opset can have it.
const ROUND: &str = "Quantize";
const DOMAIN: &str = "onnx-cast.keep";
/// The first opset whose quantisers have all the types.
const ROUND_SINCE: i64 = 21;

/// The model with a plan's tensors quantised.
///
/// # Errors
///
/// When a weight cannot be read.
pub(super) fn written(subject: &Subject, plan: &Plan, finder: &Finder) -> TractResult<ModelProto> {
    let mut proto = subject.proto.clone();
    let Some(graph) = &mut proto.graph else { return Ok(proto) };
    for (from, to) in &plan.renamed {
        rename(graph.node.iter_mut().flat_map(|node| &mut node.output), from, to);
    }
    let mut added = Added::default();
    // What one node alone gets comes first: all others get what is left.
    let (alone, all): (Vec<&Entry>, Vec<&Entry>) =
        plan.entries.iter().partition(|entry| entry.only.is_some());
    for entry in alone.into_iter().chain(all) {
        let Some(parameters) = finder.of(entry)? else { continue };
        if subject.weight(&entry.value).is_some() {
            let held = held(subject, entry, &parameters)?;
            put_weight(graph, entry, held);
        } else {
            added.quantiser(graph, subject, entry, &parameters)?;
        }
    }
    graph.initializer.append(&mut added.weights);
    let mut place = 0;
    graph.node.retain(|_| {
        place += 1;
        !plan.removed.contains(&(place - 1))
    });
    graph.node.append(&mut added.nodes);
    graph.value_info.clear();
    proto.functions.push(rounding_function());
    Ok(proto)
}

/// What a weight becomes.
fn held(subject: &Subject, entry: &Entry, parameters: &Parameters) -> TractResult<TensorProto> {
    let mut values = subject.values_of(&entry.value)?;
    if matches!(entry.how, How::Bias { beta: 0.0, .. }) {
        values = Tensor::zero::<f32>(values.shape())?;
    }
    let made = parameters.applied(&values)?;
    Ok(tensor_proto::write(&entry.value, ElementType::Float, &made)?)
}

/// Puts a weight in the place of another one.
fn put_weight(graph: &mut GraphProto, entry: &Entry, mut held: TensorProto) {
    if let How::Bias { .. } = entry.how {
        for (place, node) in graph.node.iter_mut().enumerate() {
            if !entry.by.contains(&place) {
                continue;
            }
            // ONNX Runtime leaves the factor out, and the bias as it is.
            for attribute in node.attribute.iter_mut().filter(|held| held.name == "beta") {
                attribute.f = 1.0;
            }
        }
        if entry.only.is_none() {
            let mut weights = graph.initializer.iter_mut();
            if let Some(weight) = weights.find(|weight| weight.name == entry.value) {
                *weight = held;
            }
            return;
        }
    }
    held.name = match entry.only {
        Some(place) => format!("{}:quantised:{place}", entry.value),
        None => format!("{}:quantised", entry.value),
    };
    let takes = |(place, _): &(usize, &mut NodeProto)| entry.only.is_none_or(|only| only == *place);
    let takers = graph.node.iter_mut().enumerate().filter(takes);
    rename(takers.flat_map(|(_, node)| &mut node.input), &entry.value, &held.name);
    graph.initializer.push(held);
}

fn rename<'a>(names: impl Iterator<Item = &'a mut String>, from: &str, to: &str) {
    for name in names.filter(|name| *name == from) {
        to.clone_into(name);
    }
}

/// Nodes and weights that a model gets.
#[derive(Default)]
struct Added {
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
}

impl Added {
    /// Quantises a value for whoever takes it.
    fn quantiser(
        &mut self,
        graph: &mut GraphProto,
        subject: &Subject,
        entry: &Entry,
        parameters: &Parameters,
    ) -> TractResult<()> {
        let value = &entry.value;
        let (exact, quantised) = if subject.outputs.contains(value) {
            let exact = format!("{value}:exact");
            rename(graph.node.iter_mut().flat_map(|node| &mut node.output), value, &exact);
            (exact, value.clone())
        } else {
            let quantised = format!("{value}:quantised");
            rename(graph.node.iter_mut().flat_map(|node| &mut node.input), value, &quantised);
            (value.clone(), quantised)
        };
        let (scale, zero) = (format!("{value}:scale"), format!("{value}:zero"));
        let scalar = |tensor: Tensor| tensor.into_shape(&[]);
        let scales = scalar(tensor1(parameters.scales.get(..1).unwrap_or(&[1.0])))?;
        let zeros = scalar(parameters.zero_points()?.slice(0, 0, 1)?)?;
        self.weights.push(tensor_proto::write(&scale, ElementType::Float, &scales)?);
        self.weights.push(tensor_proto::write(&zero, parameters.ty, &zeros)?);
        self.nodes.push(NodeProto {
            name: format!("{value}:quantise"),
            op_type: ROUND.into(),
            domain: DOMAIN.into(),
            input: vec![exact, scale, zero],
            output: vec![quantised],
            ..NodeProto::default()
        });
        Ok(())
    }
}

fn rounding_function() -> FunctionProto {
    let node = |op_type: &str, x: &str, y: &str| NodeProto {
        name: y.into(),
        op_type: op_type.into(),
        input: vec![x.into(), "scale".into(), "zero".into()],
        output: vec![y.into()],
        ..NodeProto::default()
    };
    FunctionProto {
        name: Some(ROUND.into()),
        domain: Some(DOMAIN.into()),
        input: vec!["x".into(), "scale".into(), "zero".into()],
        output: vec!["y".into()],
        node: vec![node("QuantizeLinear", "x", "codes"), node("DequantizeLinear", "codes", "y")],
        opset_import: vec![OperatorSetIdProto { version: ROUND_SINCE, ..Default::default() }],
        ..FunctionProto::default()
    }
}
