//! Element types of values, as far as declarations, tensors and schemas tell them.

use std::collections::HashMap;

use tract_onnx::pb::{GraphProto, NodeProto, ValueInfoProto};

use crate::cast::element_type::ElementType;
use crate::onnx::declared_shapes::element_type;
use crate::onnx::operators::behaviour::Behaviour;
use crate::onnx::operators::types::{held_type, of_any_domain};

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
    element_type(value.r#type.as_ref())
}

/// The types of a graph's constants: its initializers, and what its nodes hold.
pub(super) fn constants(graph: &GraphProto) -> HashMap<String, ElementType> {
    let initializers = graph.initializer.iter();
    let initializers = initializers
        .filter_map(|tensor| Some((tensor.name.clone(), ElementType::from_id(tensor.data_type)?)));
    let made = graph.node.iter().filter(|node| Behaviour::of(node).makes_attributes);
    let made = made.filter_map(|node| Some((node.output.first()?.clone(), held_type(node)?)));
    initializers.chain(made).collect()
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
        return vec![held_type(node)];
    }
    of_any_domain(node, opset, inputs)
}
