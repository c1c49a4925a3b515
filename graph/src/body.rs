//! Bodies: the main graph, and the graphs that nodes hold.

use std::sync::Arc;

use tract_onnx::pb::{GraphProto, ValueInfoProto};

use crate::arena::{NodeId, ValueId};

/// A graph: inputs, constants, nodes in topological order, outputs.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its name in the file.
    pub name: String,
    /// The path to it, for messages and reports ([`Node::path`](crate::Node::path)).
    pub path: Arc<str>,
    /// The node that holds it; `None` for the main graph.
    pub(crate) owner: Option<NodeId>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) constants: Vec<ValueId>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) first: Option<NodeId>,
    pub(crate) last: Option<NodeId>,
    /// What of the message is no node, value or name: documentation, annotations, sparse
    /// initializers.
    pub(crate) rest: GraphProto,
}

/// An output of a body.
#[derive(Debug, Clone)]
pub struct Output {
    /// The value that it returns.
    pub value: ValueId,
    /// The output's own name, type and shape as the file declares them.
    pub declared: ValueInfoProto,
}

impl Body {
    /// The node that holds it; `None` for the main graph.
    pub fn owner(&self) -> Option<NodeId> {
        self.owner
    }

    /// Its inputs, those with a default among them.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Its initializers.
    pub fn constants(&self) -> &[ValueId] {
        &self.constants
    }

    /// What it returns.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// How many sparse initializers the file has, which no value stands for.
    pub fn sparse_initializers(&self) -> usize {
        self.rest.sparse_initializer.len()
    }

    /// What the file annotates about quantised tensors.
    pub fn annotations(&self) -> &[tract_onnx::pb::TensorAnnotation] {
        &self.rest.quantization_annotation
    }
}
