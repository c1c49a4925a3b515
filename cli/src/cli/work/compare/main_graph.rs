//! Which node of a model makes which value.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{ModelProto, NodeProto, ValueInfoProto};

/// The nodes of a model that are in no subgraph.
pub(super) struct MainGraph<'a> {
    nodes: &'a [NodeProto],
    outputs: &'a [ValueInfoProto],
}

impl<'a> MainGraph<'a> {
    pub(super) fn of(model: &'a ModelProto) -> MainGraph<'a> {
        let graph = model.graph.as_ref();
        MainGraph {
            nodes: graph.map_or(&[], |graph| &graph.node),
            outputs: graph.map_or(&[], |graph| &graph.output),
        }
    }

    /// The names of the model's outputs.
    pub(super) fn outputs(&self) -> HashSet<&'a str> {
        self.outputs.iter().map(|output| output.name.as_str()).collect()
    }

    /// The values that the nodes of the main graph make, in their order.
    pub(super) fn made(&self) -> Vec<String> {
        let made = self.nodes.iter().flat_map(|node| &node.output);
        made.filter(|name| !name.is_empty()).cloned().collect()
    }

    /// The node that makes a value, and its operator.
    pub(super) fn maker(&self, value: &str) -> Option<(String, String)> {
        let node = self.nodes.iter().find(|node| node.output.iter().any(|name| name == value))?;
        let name = if node.name.is_empty() { value } else { &node.name };
        Some((name.into(), node.op_type.clone()))
    }

    /// The values of the main graph from which a value is computed.
    pub(super) fn before(&self, value: &str) -> HashSet<String> {
        let makers: HashMap<&String, &NodeProto> = self
            .nodes
            .iter()
            .flat_map(|node| node.output.iter().map(move |name| (name, node)))
            .collect();
        let (mut seen, mut next) = (HashSet::new(), vec![value.to_owned()]);
        while let Some(value) = next.pop() {
            let inputs = makers.get(&value).into_iter().flat_map(|node| &node.input);
            next.extend(inputs.filter(|input| seen.insert((*input).clone())).cloned());
        }
        seen
    }
}
