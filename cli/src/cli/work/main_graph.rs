//! Which node of a model makes which value, and which nodes take it.

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::has_bodies;
use tract_onnx::pb::{ModelProto, NodeProto, ValueInfoProto};

/// The nodes of a model that are in no subgraph.
pub(crate) struct MainGraph<'a> {
    nodes: &'a [NodeProto],
    outputs: &'a [ValueInfoProto],
    inputs: HashSet<&'a str>,
    /// The places of the nodes.
    makers: HashMap<&'a str, usize>,
    users: HashMap<&'a str, Vec<usize>>,
    /// The values that are made of constants alone.
    constants: HashSet<&'a str>,
}

impl<'a> MainGraph<'a> {
    pub(crate) fn of(model: &'a ModelProto) -> MainGraph<'a> {
        let graph = model.graph.as_ref();
        let nodes: &[NodeProto] = graph.map_or(&[], |graph| &graph.node);
        let held: HashSet<&str> = graph
            .iter()
            .flat_map(|graph| &graph.initializer)
            .map(|held| held.name.as_str())
            .collect();
        let inputs = graph.iter().flat_map(|graph| &graph.input).map(|input| input.name.as_str());
        let (mut makers, mut users) = (HashMap::new(), HashMap::<&str, Vec<usize>>::new());
        for (place, node) in nodes.iter().enumerate() {
            makers.extend(given(&node.output).map(|name| (name, place)));
            given(&node.input).for_each(|name| users.entry(name).or_default().push(place));
        }
        let mut constants = held.clone();
        for node in nodes.iter().filter(|node| !has_bodies(node)) {
            if node.input.iter().all(|input| input.is_empty() || constants.contains(&**input)) {
                constants.extend(node.output.iter().map(String::as_str));
            }
        }
        MainGraph {
            nodes,
            constants,
            outputs: graph.map_or(&[], |graph| &graph.output),
            inputs: inputs.filter(|name| !held.contains(name)).collect(),
            makers,
            users,
        }
    }

    /// The inputs of the model.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &'a str> {
        self.inputs.iter().copied()
    }

    /// Whether a value is an input of the model.
    pub(crate) fn is_input(&self, value: &str) -> bool {
        self.inputs.contains(value)
    }

    /// Whether a value is made of constants alone.
    pub(crate) fn is_constant(&self, value: &str) -> bool {
        self.constants.contains(value)
    }

    /// The nodes, in their order.
    pub(crate) fn nodes(&self) -> &'a [NodeProto] {
        self.nodes
    }

    /// The place of the node that makes a value.
    pub(crate) fn place(&self, value: &str) -> Option<usize> {
        self.makers.get(value).copied()
    }

    /// The node that makes a value.
    pub(crate) fn node(&self, value: &str) -> Option<&'a NodeProto> {
        self.nodes.get(self.place(value)?)
    }

    /// The places of the nodes that take a value, one for each time.
    pub(crate) fn users(&self, value: &str) -> &[usize] {
        self.users.get(value).map_or(&[], Vec::as_slice)
    }

    /// The operator that makes a value.
    pub(crate) fn op(&self, value: &str) -> Option<&'a str> {
        self.node(value).map(|node| node.op_type.as_str())
    }

    /// What the node takes that makes a value.
    pub(crate) fn taken(&self, value: &str) -> &'a [String] {
        self.node(value).map_or(&[], |node| &node.input)
    }

    /// The nodes that compute a value of `known` ones and of constants, its own maker left out, in
    /// their order.
    pub(crate) fn unknown_before(
        &self,
        value: &str,
        known: impl Fn(&str) -> bool,
    ) -> Vec<&'a NodeProto> {
        let (mut seen, mut next) = (HashSet::new(), self.taken(value).iter().collect::<Vec<_>>());
        while let Some(value) = next.pop() {
            let is_open = !known(value) && !self.is_constant(value) && !self.is_input(value);
            if is_open && seen.insert(value.as_str()) {
                next.extend(self.taken(value));
            }
        }
        let is_on_the_way =
            |node: &&NodeProto| node.output.iter().any(|output| seen.contains(output.as_str()));
        self.nodes.iter().filter(is_on_the_way).collect()
    }

    /// What nodes make that take a value.
    pub(crate) fn made_of(&self, value: &str) -> impl Iterator<Item = &'a str> {
        let users = self.users(value).iter().filter_map(|place| self.nodes.get(*place));
        users.flat_map(|node| node.output.iter().map(String::as_str))
    }

    /// The names of the model's outputs.
    pub(crate) fn outputs(&self) -> HashSet<&'a str> {
        self.outputs.iter().map(|output| output.name.as_str()).collect()
    }

    /// The values that the nodes of the main graph make, in their order.
    pub(crate) fn made(&self) -> Vec<String> {
        self.nodes.iter().flat_map(|node| given(&node.output)).map(String::from).collect()
    }

    /// The node that makes a value, and its operator.
    pub(crate) fn maker(&self, value: &str) -> Option<(String, String)> {
        let node = self.node(value)?;
        let name = if node.name.is_empty() { value } else { &node.name };
        Some((name.into(), node.op_type.clone()))
    }

    /// The values of the main graph from which a value is computed.
    pub(crate) fn before(&self, value: &str) -> HashSet<String> {
        let (mut seen, mut next) = (HashSet::new(), vec![value.to_owned()]);
        while let Some(value) = next.pop() {
            let inputs = self.taken(&value).iter();
            next.extend(inputs.filter(|input| seen.insert((*input).clone())).cloned());
        }
        seen
    }
}

/// The names that are not left out.
fn given(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| !name.is_empty())
}
