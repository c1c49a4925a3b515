//! What messages call a node, and the error about one; what else is asked of nodes is the graph crate's.

pub(crate) use onnx_cast_graph::{
    NodeView, attribute, attribute_type, default_opset, int, is_default_domain, subgraphs, word,
};

use crate::error::Error;

/// What messages call a node: its name, or its first output where it has none.
pub(crate) fn node_name(node: &(impl NodeView + ?Sized)) -> String {
    node.label().into()
}

/// The error about a node of a model.
pub(crate) fn refusal(node: &(impl NodeView + ?Sized), problem: impl Into<String>) -> Error {
    Error::of_node(node.label(), node.op_type(), problem)
}
