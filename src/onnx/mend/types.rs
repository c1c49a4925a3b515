//! Element types of values, as far as declarations, tensors and schemas tell them.

use std::collections::HashMap;

use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, NodeProto, TypeProto, ValueInfoProto};

use crate::cast::element_type::ElementType;
use crate::onnx::node::is_default_domain;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::foreign;
use crate::onnx::operators::types::{constant_type, learned, output_types};

/// The types of some values of a graph and of those around it.
pub(super) struct Known<'a> {
    /// What is known around the graph.
    pub(super) outer: &'a dyn Fn(&str) -> Option<ElementType>,
    pub(super) types: HashMap<String, ElementType>,
}

impl Known<'_> {
    pub(super) fn get(&self, name: &str) -> Option<ElementType> {
        let own = self.types.get(name).copied();
        own.or_else(|| (self.outer)(name))
    }
}

/// The element type that is declared of a tensor.
pub(super) fn declared(value: &ValueInfoProto) -> Option<ElementType> {
    match &value.r#type {
        Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) => {
            ElementType::from_id(tensor.elem_type)
        }
        _ => None,
    }
}

/// The types of a graph's constants: its initializers, and what its nodes hold.
pub(super) fn constants(graph: &GraphProto) -> HashMap<String, ElementType> {
    let initializers = graph.initializer.iter();
    let initializers = initializers
        .filter_map(|tensor| Some((tensor.name.clone(), ElementType::from_id(tensor.data_type)?)));
    let made = graph.node.iter().filter(|node| Behaviour::of(node).makes_attributes);
    let made = made.filter_map(|node| Some((node.output.first()?.clone(), held(node)?)));
    initializers.chain(made).collect()
}

/// The type of what a node holds among its attributes.
fn held(node: &NodeProto) -> Option<ElementType> {
    let mut tensors = node.attribute.iter().filter_map(|attribute| attribute.t.as_ref());
    match tensors.next() {
        Some(tensor) => ElementType::from_id(tensor.data_type),
        None => constant_type(node),
    }
}

/// The types of the outputs of a node without subgraphs, from those of its inputs.
pub(super) fn made(
    node: &NodeProto,
    opset: i64,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    let refers = node.attribute.iter().any(|attribute| !attribute.ref_attr_name.is_empty());
    if refers {
        return vec![None; node.output.len()];
    }
    if Behaviour::of(node).makes_attributes {
        return vec![held(node)];
    }
    if is_default_domain(&node.domain) {
        return output_types(node, opset, inputs);
    }
    if node.domain == "ai.onnx.ml" {
        return learned(&node.op_type);
    }
    foreign::output_types(node, inputs)
}
