//! A FLOAT model as `quantize_static` makes it, or `MatMulNBitsQuantizer`, save some nodes:
//! activations pass a quantiser and come back, weights are what comes back of their codes.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::message_node;
use tract_onnx::pb::{FunctionProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::parameters::{Finder, ScaleParameters};
use super::plan::{Entry, EntryKind, QuantizationPlan};
use super::subject::FloatModel;
use crate::cli::verb::keep::simulated::{DOMAIN, function};

/// The function that quantises a value and brings it back. It has an opset of its own, so that a
/// model of any opset can have it.
const ROUND: &str = "Quantize";
/// The first opset whose quantisers have all the types.
const ROUND_SINCE: i64 = 21;

/// The model with a plan's tensors quantised. Fails when a weight cannot be read.
pub(super) fn written(
    subject: &FloatModel,
    plan: &QuantizationPlan,
    finder: &Finder,
) -> TractResult<ModelProto> {
    let mut proto = subject.proto.clone();
    let Some(graph) = &mut proto.graph else { return Ok(proto) };
    let mut rewrite =
        Rewrite { made: plan.renamed.iter().cloned().collect(), ..Rewrite::default() };
    for entry in &plan.entries {
        let Some(parameters) = finder.of(entry)? else { continue };
        match subject.weight_place(&entry.value) {
            Some(place) => {
                let held = simulated(subject, entry, &parameters)?;
                rewrite.weight(entry, held, graph.initializer.get_mut(place));
            }
            None => rewrite.quantizer(subject, &entry.value, &parameters)?,
        }
    }
    for (place, node) in graph.node.iter_mut().enumerate() {
        rewrite.apply(place, node);
    }
    let mut places = 0..;
    graph.node.retain(|_| places.next().is_some_and(|place| !plan.removed.contains(&place)));
    graph.node.append(&mut rewrite.nodes);
    graph.initializer.append(&mut rewrite.weights);
    graph.value_info.clear();
    proto.functions.push(rounding_function());
    Ok(proto)
}

/// What a weight becomes.
fn simulated(
    subject: &FloatModel,
    entry: &Entry,
    parameters: &ScaleParameters,
) -> TractResult<TensorProto> {
    let mut values = subject.values_of(&entry.value)?;
    if matches!(entry.how, EntryKind::Bias { beta: 0.0, .. }) {
        values = Tensor::zero::<f32>(values.shape())?;
    }
    let made = parameters.applied(&values)?;
    Ok(tensor_proto::write(&entry.value, ElementType::Float, &made)?)
}

/// What a model gets, and what its nodes take and make in the place of values.
#[derive(Default)]
struct Rewrite {
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
    /// What all take, and what the node at a place alone takes.
    taken: HashMap<String, String>,
    taken_by: HashMap<usize, Vec<(String, String)>>,
    /// What is made; that may go by another name in turn.
    made: HashMap<String, String>,
    /// The products that leave their factor of the bias out.
    bare: HashSet<usize>,
}

impl Rewrite {
    /// Puts a weight in the place of one.
    fn weight(&mut self, entry: &Entry, mut held: TensorProto, place: Option<&mut TensorProto>) {
        if entry.is_bias() {
            // ONNX Runtime leaves the factor out, and the bias as it is.
            self.bare.extend(&entry.by);
        }
        match entry.only {
            Some(only) => {
                held.name = format!("{}:quantised:{only}", entry.value);
                let renamed = (entry.value.clone(), held.name.clone());
                self.taken_by.entry(only).or_default().push(renamed);
            }
            None if entry.is_bias() => {
                place.into_iter().for_each(|weight| *weight = held.clone());
                return;
            }
            None => {
                held.name = format!("{}:quantised", entry.value);
                self.taken.insert(entry.value.clone(), held.name.clone());
            }
        }
        self.weights.push(held);
    }

    /// Quantises a value for whoever takes it.
    fn quantizer(
        &mut self,
        subject: &FloatModel,
        value: &str,
        parameters: &ScaleParameters,
    ) -> TractResult<()> {
        let (mut exact, mut quantised) = (value.to_owned(), format!("{value}:quantised"));
        if subject.outputs.contains(value) {
            (exact, quantised) = (format!("{value}:exact"), exact);
            self.made.insert(value.into(), exact.clone());
        } else {
            self.taken.insert(value.into(), quantised.clone());
        }
        let (scale, zero) = (format!("{value}:scale"), format!("{value}:zero"));
        let scalar = |tensor: Tensor| tensor.into_shape(&[]);
        let scales = scalar(tensor1(parameters.scales.get(..1).unwrap_or(&[1.0])))?;
        let zeros = scalar(parameters.zero_points()?.slice(0, 0, 1)?)?;
        self.weights.push(tensor_proto::write(&scale, ElementType::Float, &scales)?);
        self.weights.push(tensor_proto::write(&zero, parameters.ty, &zeros)?);
        let node = message_node(ROUND, &[&exact, &scale, &zero], &quantised);
        self.nodes.push(NodeProto { domain: DOMAIN.into(), ..node });
        Ok(())
    }

    /// Changes what the node at a place takes and makes.
    fn apply(&self, place: usize, node: &mut NodeProto) {
        let own = self.taken_by.get(&place).map_or(&[][..], |own| own);
        for input in &mut node.input {
            let of_own = own.iter().find(|(from, _)| from == input).map(|(_, to)| to);
            if let Some(to) = of_own.or_else(|| self.taken.get(input)) {
                input.clone_from(to);
            }
        }
        for output in &mut node.output {
            while let Some(to) = self.made.get(output) {
                output.clone_from(to);
            }
        }
        let factors = node.attribute.iter_mut().filter(|held| held.name == "beta");
        factors.filter(|_| self.bare.contains(&place)).for_each(|factor| factor.f = 1.0);
    }
}

fn rounding_function() -> FunctionProto {
    let node = |op: &str, x: &str, y: &str| message_node(op, &[x, "scale", "zero"], y);
    let nodes = vec![node("QuantizeLinear", "x", "codes"), node("DequantizeLinear", "codes", "y")];
    function(ROUND, &["x", "scale", "zero"], nodes, ROUND_SINCE)
}
