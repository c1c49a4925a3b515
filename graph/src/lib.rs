//! The graph of an ONNX model, for passes that analyse and edit it.
//!
//! A `ModelProto` is a tree of messages in which everything is named by text: to know who makes a
//! value one searches, to rename one rewrites every user, and a body of an `If` uses the values
//! around it without saying so. A [`Graph`] is the same model as a structure: [`Graph::import`]
//! resolves every name once, passes edit nodes and values by their handles, and [`Graph::export`]
//! writes the names again.
//!
//! # What there is
//!
//! - A [`Node`] is an operator in one [`Body`], with its attributes. It knows its inputs and
//!   outputs, and the bodies that its attributes hold.
//! - A [`Value`] is an input of a body, a constant or the output of a node ([`Origin`]). It knows
//!   who makes it and who uses it ([`Use`]).
//! - A [`Body`] is the main graph, or the graph of an attribute of `If`, `Loop` or `Scan`: inputs,
//!   constants, nodes in topological order, outputs.
//!
//! All three live in arenas of the graph, those of nested bodies too, and are named by handles:
//! [`NodeId`], [`ValueId`], [`BodyId`]. A body uses a value of the body around it by its handle, as
//! one of its own, so what it captures is a question ([`Graph::captures`]) and not a list that must
//! be kept. What an analysis finds out is kept beside the graph, in a [`Table`] by handle.
//!
//! # What always holds
//!
//! [`Graph::verify`] checks it, and every edit keeps it:
//!
//! - a node stands behind the nodes that make what it and its bodies use (topological order);
//! - `uses` of a value and inputs of nodes agree, and so do a value's origin and the outputs of its
//!   node;
//! - a node uses values of its own body and of those around it, no others;
//! - no two values of one body have one name, and none that an edit adds has the name of any other
//!   in the model;
//! - a constant has the type that it is declared.
//!
//! What a file says wrongly is not imported silently: [`Graph::import`] returns each [`Misnamed`],
//! with a graph in which a value that nothing makes has the origin [`Origin::Missing`].
//!
//! # Names
//!
//! [`Graph::new_name`] is the one authority: a name that it gives is nobody else's in the whole
//! model, whatever the file has. Values and nodes keep the names of the file, which messages and
//! reports use ([`Node::label`]).
//!
//! # Weights
//!
//! Constants are held by [`Arc`] as the file's messages, moved in by the import and out by the
//! export. No edit copies one.
//!
//! # Files
//!
//! - `arena`: handles, and tables by them; `names`: who has which; `trace`: what passes have
//!   changed
//! - `node`, `value`, `body`: what there is
//! - `import`: messages made a graph, which `order` sorts; `export`: the way back; `part`: of some
//!   nodes
//! - `edit`: every change; `new_node`: what one adds; `splice`: a function in the place of its call
//! - `verify`: what always holds

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

mod arena;
mod body;
mod edit;
mod export;
mod import;
mod names;
mod new_node;
mod node;
mod order;
mod part;
mod splice;
mod trace;
mod value;
mod verify;

#[cfg(test)]
mod tests;

pub use arena::{BodyId, NodeId, Table, ValueId};
pub use body::{Body, Output};
pub use import::Step;
pub use names::{At, Misnamed, counted, is_unprintable};
pub use new_node::{
    Made, NewNode, Place, external_data, float_attribute, graph_attribute, int_attribute,
    ints_attribute, message_node, named_value, sized_type, value_attribute,
};
pub use node::{
    Attributes, HeldBody, Node, NodeView, all_graphs, all_tensors, attribute, attribute_type,
    default_opset, has_bodies, int, is_default_domain, one_domain, subgraphs, tensor_type,
    tensor_type_mut, word,
};
pub use order::{free_names, given, needed, sorted};
pub use part::Given;
pub use splice::Splice;
pub use trace::Changes;
pub use value::{Origin, Use, Value};

use std::sync::Arc;

use tract_onnx::pb::{FunctionProto, ModelProto};

use arena::Arena;
use names::NamePool;

/// A model as a graph; the module's documentation says what it is and what always holds.
#[derive(Debug, Clone)]
pub struct Graph {
    nodes: Arena<NodeId, Node>,
    values: Arena<ValueId, Value>,
    bodies: Arena<BodyId, Body>,
    main: BodyId,
    names: NamePool,
    /// The model without its graph and functions: versions, metadata, documentation.
    model: ModelProto,
    /// The functions that the model defines, as the file has them.
    pub functions: Vec<FunctionProto>,
    /// The version of the default domain that the model imports; 1 where it imports none, as files
    /// before IR version 3.
    pub opset: i64,
    changes: Changes,
}

impl Graph {
    /// The body of the main graph.
    pub fn main(&self) -> BodyId {
        self.main
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id)
    }

    /// A node's operator, names and attributes, to be changed. Its inputs and outputs are changed
    /// by edits.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(id)
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &Value {
        self.values.get(id)
    }

    /// What is declared of a value, to be changed.
    pub fn value_mut(&mut self, id: ValueId) -> &mut Value {
        self.values.get_mut(id)
    }

    /// A body.
    pub fn body(&self, id: BodyId) -> &Body {
        self.bodies.get(id)
    }

    /// How many values have been made, those that are gone included: the length of a [`Table`] that
    /// holds them all.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// How many nodes have been made, those that are gone included.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The model's messages besides its graph: versions, opset imports, metadata.
    pub fn model(&self) -> &ModelProto {
        &self.model
    }

    /// The nodes of a body, in topological order.
    pub fn nodes_of(&self, body: BodyId) -> Vec<NodeId> {
        let mut nodes = vec![];
        let mut next = self.body(body).first;
        while let Some(id) = next {
            nodes.push(id);
            next = self.node(id).next;
        }
        nodes
    }

    /// The nodes of a body and of all bodies in it, in the order of computation: what a node's
    /// bodies hold before it.
    pub fn all_nodes(&self, body: BodyId) -> Vec<NodeId> {
        let mut nodes = vec![];
        self.collect(body, &mut nodes);
        nodes
    }

    fn collect(&self, body: BodyId, nodes: &mut Vec<NodeId>) {
        for id in self.nodes_of(body) {
            for held in self.node(id).bodies() {
                self.collect(held.body, nodes);
            }
            nodes.push(id);
        }
    }

    /// All bodies in a body, itself first.
    pub fn all_bodies(&self, body: BodyId) -> Vec<BodyId> {
        let mut bodies = vec![body];
        for id in self.nodes_of(body) {
            for held in self.node(id).bodies() {
                bodies.extend(self.all_bodies(held.body));
            }
        }
        bodies
    }

    /// Whether a body is another one or stands in it, however deep.
    pub fn is_within(&self, body: BodyId, outer: BodyId) -> bool {
        let mut at = Some(body);
        while let Some(id) = at {
            if id == outer {
                return true;
            }
            at = self.body(id).owner.map(|owner| self.node(owner).body);
        }
        false
    }

    /// The values from around a body that it and the bodies in it use, each once, in the order of
    /// their first use.
    pub fn captures(&self, body: BodyId) -> Vec<ValueId> {
        let mut captured = vec![];
        let mut seen = Table::default();
        for inner in self.all_bodies(body) {
            let inputs = self.nodes_of(inner).into_iter().flat_map(|id| self.node(id).inputs());
            let outputs = self.body(inner).outputs.iter().map(|output| output.value);
            for value in inputs.flatten().copied().chain(outputs) {
                let is_outer = !self.is_within(self.value(value).body, body);
                if is_outer && seen.insert(value, ()).is_none() {
                    captured.push(value);
                }
            }
        }
        captured
    }

    /// The values that a node needs: its inputs, and what its bodies capture.
    pub fn needs(&self, node: NodeId) -> Vec<ValueId> {
        let node = self.node(node);
        let captured = node.bodies().iter().flat_map(|held| self.captures(held.body));
        node.inputs().iter().flatten().copied().chain(captured).collect()
    }

    /// The node that makes a value, if one does.
    pub fn maker(&self, value: ValueId) -> Option<NodeId> {
        match self.value(value).origin {
            Origin::Node(node, _) => Some(node),
            _ => None,
        }
    }

    /// The node whose body a use stands in at the level of `body`: the user itself, or the node
    /// around it.
    pub fn user_in(&self, used: Use, body: BodyId) -> Option<NodeId> {
        let (mut node, mut at) = match used {
            Use::Node(node, _) => (Some(node), self.node(node).body),
            Use::Output(inner, _) => (None, inner),
        };
        while at != body {
            let owner = self.body(at).owner?;
            (node, at) = (Some(owner), self.node(owner).body);
        }
        node
    }

    /// A constant's tensor; `None` for any other value.
    pub fn constant(&self, value: ValueId) -> Option<&Arc<tract_onnx::pb::TensorProto>> {
        match &self.value(value).origin {
            Origin::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }
}
