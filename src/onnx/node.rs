//! What messages call a node, and the error about one; what else is asked of nodes is the graph
//! crate's.

pub(crate) use onnx_cast_graph::{
    NodeView, attribute, attribute_type, default_opset, int, is_default_domain, subgraphs, word,
};

use crate::error::{Cause, Error};

/// What messages call a node: its name, or its first output where it has none.
pub(crate) fn node_name(node: &(impl NodeView + ?Sized)) -> String {
    node.label().into()
}

/// The error about a node of a model.
pub(crate) fn refusal(node: &(impl NodeView + ?Sized), problem: impl Into<String>) -> Error {
    Error::of_node(node.label(), node.op_type(), problem)
}

/// That there is no memory for what a node of a model works with.
pub(crate) fn out_of_memory(node: &(impl NodeView + ?Sized)) -> Error {
    Cause::Memory { node: Some((node.label().into(), node.op_type().into())) }.into()
}

/// An axis of a rank, counted from the first: a negative one counts from the last.
pub(crate) fn from_front(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add_unsigned(rank as u64)? } else { axis };
    usize::try_from(axis).ok().filter(|axis| *axis < rank)
}

/// The place in tract of what a node has at a place of the file: tract counts without what is left
/// out.
pub(crate) fn place_in_tract(names: &[String], place: usize) -> Option<usize> {
    let (before, rest) = names.split_at_checked(place)?;
    rest.first().filter(|name| !name.is_empty())?;
    Some(before.iter().filter(|name| !name.is_empty()).count())
}
