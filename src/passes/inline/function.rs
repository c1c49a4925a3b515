//! A function's definition: what it holds, and what a call of it may give.

use std::collections::HashSet;

use onnx_cast_graph::Node;
use prost::Message;
use tract_onnx::pb::{FunctionProto, NodeProto};

use crate::error::Error;
use crate::onnx::function_fields::FunctionParts;
use crate::onnx::node::{default_opset, refusal, subgraphs};

/// A function as a model defines it, and how much a call of it brings.
pub(super) struct ModelFunction<'a> {
    pub(super) proto: &'a FunctionProto,
    pub(super) parts: FunctionParts<'a>,
    pub(super) opset: i64,
    /// How many nodes it has, subgraphs included, how many names stand in them, and their bytes.
    pub(super) nodes: usize,
    pub(super) names: usize,
    pub(super) bytes: usize,
    /// The attributes that it has, and those that its nodes refer to.
    attributes: HashSet<&'a str>,
    referred: HashSet<&'a str>,
}

impl<'a> ModelFunction<'a> {
    pub(super) fn new(proto: &'a FunctionProto, model_opset: i64) -> ModelFunction<'a> {
        let parts = FunctionParts::of(proto);
        let opset = default_opset(&proto.opset_import).unwrap_or(model_opset);
        let value_info = parts.value_info.iter().map(Message::encoded_len).sum();
        let names = parts.value_info.len();
        let body = parts.body;
        let declared = proto.attribute.iter().map(String::as_str);
        let defaults = parts.defaults.iter().map(|default| default.name.as_str());
        let (attributes, referred) = (declared.chain(defaults).collect(), HashSet::new());
        let mut function = ModelFunction {
            proto,
            parts,
            opset,
            nodes: 0,
            names,
            bytes: value_info,
            attributes,
            referred,
        };
        for node in body {
            function.bytes = function.bytes.saturating_add(node.encoded_len());
            function.measure(node);
        }
        function
    }

    fn measure(&mut self, node: &'a NodeProto) {
        self.nodes += 1;
        self.names += node.input.len() + node.output.len() + 1;
        for attribute in &node.attribute {
            if !attribute.ref_attr_name.is_empty() {
                self.referred.insert(&attribute.ref_attr_name);
            }
            for graph in subgraphs(attribute) {
                let values = [&graph.input, &graph.output, &graph.value_info];
                self.names += values.iter().map(|values| values.len()).sum::<usize>();
                self.names += graph.initializer.len();
                graph.node.iter().for_each(|node| self.measure(node));
            }
        }
    }

    pub(super) fn has_attribute(&self, name: &str) -> bool {
        self.attributes.contains(name)
    }

    /// Whether a call gives and takes no more than the function has.
    pub(super) fn check_call(&self, node: &Node) -> Result<(), Error> {
        let name = self.proto.name();
        for (what, has, given) in [
            ("inputs", self.proto.input.len(), node.inputs().len()),
            ("outputs", self.proto.output.len(), node.outputs().len()),
        ] {
            if given > has {
                let problem = format!("has {given} {what}, function `{name}` has {has}");
                return Err(refusal(node, problem));
            }
        }
        let held = node.bodies().iter().map(|held| held.attribute.as_str());
        let mut given = node.attributes.iter().map(|own| own.name.as_str()).chain(held);
        let is_known = |given: &str| self.has_attribute(given) || self.referred.contains(given);
        match given.find(|given| !is_known(given)) {
            Some(unknown) => {
                let problem = format!("attribute `{unknown}` is none of function `{name}`");
                Err(refusal(node, problem))
            }
            None => Ok(()),
        }
    }
}
