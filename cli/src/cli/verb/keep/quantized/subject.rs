//! A FLOAT model as a quantiser reads it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Context;
use onnx_cast_graph::{default_opset, word};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use super::calibration::Span;

/// A FLOAT model, and what its values are.
pub(super) struct FloatModel<'a> {
    pub(super) proto: ModelProto,
    pub(super) folder: Option<&'a Path>,
    /// The main graph's FLOAT values that no initializer holds, and what they reach.
    pub(super) spans: HashMap<String, Span>,
    /// The FLOAT initializers, by their places.
    weights: HashMap<String, usize>,
    pub(super) outputs: HashSet<String>,
    inputs: HashSet<String>,
    /// How often the main graph's nodes use a value.
    uses: HashMap<String, usize>,
    pub(super) opset: i64,
}

impl<'a> FloatModel<'a> {
    /// A model of which is known what its values reach.
    pub(super) fn new(
        proto: ModelProto,
        folder: Option<&'a Path>,
        spans: HashMap<String, Span>,
    ) -> FloatModel<'a> {
        let empty = GraphProto::default();
        let graph = proto.graph.as_ref().unwrap_or(&empty);
        let is_float = |tensor: &TensorProto| tensor.data_type == ElementType::Float as i32;
        let weights = graph.initializer.iter().enumerate().filter(|(_, tensor)| is_float(tensor));
        let weights = weights.map(|(place, tensor)| (tensor.name.clone(), place)).collect();
        let mut uses: HashMap<String, usize> = HashMap::new();
        for input in graph.node.iter().flat_map(|node| &node.input) {
            *uses.entry(input.clone()).or_default() += 1;
        }
        let names = |values: &[tract_onnx::pb::ValueInfoProto]| {
            values.iter().map(|value| value.name.clone()).collect()
        };
        let (inputs, outputs) = (names(&graph.input), names(&graph.output));
        let opset = default_opset(&proto.opset_import).unwrap_or(1);
        FloatModel { folder, spans, weights, outputs, inputs, uses, opset, proto }
    }

    /// The nodes of the main graph.
    pub(super) fn nodes(&self) -> &[NodeProto] {
        self.proto.graph.as_ref().map_or(&[], |graph| &graph.node)
    }

    /// The place of a FLOAT initializer.
    pub(super) fn weight_place(&self, name: &str) -> Option<usize> {
        self.weights.get(name).copied()
    }

    /// A FLOAT initializer.
    pub(super) fn weight(&self, name: &str) -> Option<&TensorProto> {
        self.proto.graph.as_ref()?.initializer.get(self.weight_place(name)?)
    }

    /// The elements of a FLOAT initializer. Fails when there is none, or it cannot be read.
    pub(super) fn values_of(&self, name: &str) -> TractResult<Tensor> {
        let weight = self.weight(name).with_context(|| format!("there is no weight `{name}`"))?;
        Ok(tensor_proto::read(weight, self.folder)?.1)
    }

    /// Whether a value is FLOAT.
    pub(super) fn is_float(&self, name: &str) -> bool {
        self.spans.contains_key(name) || self.weights.contains_key(name)
    }

    /// Whether a value is inside the graph, and only one place takes it.
    pub(super) fn is_passed_on(&self, name: &str) -> bool {
        let is_end = self.outputs.contains(name) || self.inputs.contains(name);
        !is_end && self.is_used_once(name)
    }

    /// Whether one place of the main graph's nodes takes a value.
    pub(super) fn is_used_once(&self, name: &str) -> bool {
        self.uses.get(name) == Some(&1)
    }

    /// Whether a `Pad` adds only what a range has anyway: zeros, or values of its input.
    pub(super) fn pads_within(&self, node: &NodeProto) -> bool {
        if word(node, "mode").is_some_and(|mode| mode != b"constant") {
            return true;
        }
        let Some(name) = node.input.get(2).filter(|name| !name.is_empty()) else { return true };
        self.values_of(name).is_ok_and(|added| added.is_zero().unwrap_or(false))
    }
}
