//! A function's body put in the place of a call.

use std::collections::HashMap;
use std::sync::Arc;

use tract_onnx::pb::GraphProto;

use crate::Graph;
use crate::arena::{BodyId, NodeId, ValueId};
use crate::import::{Reader, Region, Step, declarations};
use crate::names::{At, Misnamed};
use crate::new_node::{NewNode, Place};
use crate::node::HeldBody;
use crate::value::Origin;

/// How a call is replaced.
pub struct Splice<'a> {
    /// What the names inside have in front; it makes them unlike any other in the model.
    pub prefix: String,
    /// The path to the nodes of the function at this call.
    pub path: Arc<str>,
    /// The version of the default domain that the function imports.
    pub opset: i64,
    /// How a step of a path is written.
    pub step: Step<'a>,
}

impl Graph {
    /// Replaces a node by the nodes of a graph: its inputs are the node's inputs in their order,
    /// one that the node does not give is given to none, and its outputs are what the node makes.
    /// Returns the nodes that were added, and what is wrong with the names.
    pub fn splice(
        &mut self,
        call: NodeId,
        mut proto: GraphProto,
        splice: Splice,
    ) -> (Vec<NodeId>, Vec<Misnamed>) {
        let body = self.node(call).body;
        let before = self.node(call).previous;
        let mut scope: HashMap<Arc<str>, Option<ValueId>> = HashMap::new();
        for (place, formal) in proto.input.iter().enumerate() {
            scope.entry(formal.name.as_str().into()).or_insert(self.node(call).input(place));
        }
        let outputs = std::mem::take(&mut self.nodes.get_mut(call).outputs);
        let held = std::mem::take(&mut self.nodes.get_mut(call).bodies);
        let mut results = HashMap::new();
        let pairs: Vec<(String, ValueId)> = proto
            .output
            .iter()
            .zip(outputs)
            .filter_map(|(formal, actual)| Some((formal.name.clone(), actual?)))
            .collect();
        for (formal, actual) in &pairs {
            self.values.get_mut(*actual).origin = Origin::Missing;
            if !scope.contains_key(formal.as_str()) {
                results.entry(formal.clone()).or_insert(*actual);
            }
        }
        let nodes = std::mem::take(&mut proto.node);
        let declared = declarations(&mut proto);
        let Splice { prefix, path, opset, step } = splice;
        let own = prefix.clone();
        let region = Region { prefix, opset, call: Some((call, path.clone())), results };
        let mut reader = Reader::new(self, step, region);
        let order = reader.check(&proto, &nodes);
        reader.scopes.push(scope);
        reader.nodes(body, nodes, order, &declared);
        let sources: Vec<Option<ValueId>> =
            pairs.iter().map(|(formal, _)| reader.find(body, formal)).collect();
        let problems = std::mem::take(&mut reader.problems);
        // Outputs that are no node's of their own: inputs, and outputs that are given twice.
        for ((_, actual), source) in pairs.into_iter().zip(sources) {
            let is_made = !matches!(self.value(actual).origin, Origin::Missing);
            let Some(source) = source.filter(|source| !is_made && *source != actual) else {
                continue;
            };
            let name = format!("{own}{}", self.value(actual).name);
            let identity = NewNode { name, ..NewNode::making("Identity", &[source], actual) };
            let node = self.add(Place::Before(call), identity);
            let node = self.node_mut(node);
            (node.path, node.prefix, node.opset) = (path.clone(), own.len(), opset);
        }
        let added = self.between(body, before, call);
        let mut problems = problems;
        self.give_bodies(&added, held, &mut problems);
        self.remove(call);
        (added, problems)
    }

    /// The nodes of a body behind one of them, or from its first on, up to another.
    fn between(&self, body: BodyId, before: Option<NodeId>, end: NodeId) -> Vec<NodeId> {
        let mut nodes = vec![];
        let mut next = before.map_or(self.body(body).first, |before| self.node(before).next);
        while let Some(id) = next.filter(|id| *id != end) {
            nodes.push(id);
            next = self.node(id).next;
        }
        nodes
    }

    /// Gives the bodies that a call holds to the nodes whose attributes refer to them; each to one.
    fn give_bodies(&mut self, added: &[NodeId], held: Vec<HeldBody>, problems: &mut Vec<Misnamed>) {
        let mut nodes = vec![];
        for id in added {
            for body in self.node(*id).bodies() {
                nodes.extend(self.all_nodes(body.body));
            }
            nodes.push(*id);
        }
        let mut held: Vec<Option<HeldBody>> = held.into_iter().map(Some).collect();
        for id in nodes {
            let attributes = std::mem::take(&mut self.nodes.get_mut(id).attributes);
            for attribute in Vec::from(attributes) {
                let is_meant = |held: &&mut Option<HeldBody>| {
                    held.as_ref().is_some_and(|held| held.attribute == attribute.ref_attr_name)
                };
                match held.iter_mut().find(is_meant).and_then(Option::take) {
                    Some(body) => {
                        self.bodies.get_mut(body.body).owner = Some(id);
                        let body = HeldBody { attribute: attribute.name, ..body };
                        self.nodes.get_mut(id).bodies.push(body);
                    }
                    None => self.nodes.get_mut(id).attributes.push(attribute),
                }
            }
        }
        if let Some(unused) = held.into_iter().flatten().next() {
            let at = At::Graph(unused.attribute.clone());
            let text =
                format!("attribute `{}` is used by nothing in the function", unused.attribute);
            problems.push(Misnamed { at, text });
        }
    }
}
