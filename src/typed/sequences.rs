//! The types of what sequences and optionals hold, of which no schema tells: that of the tensors
//! that they are made of and taken apart into.

use onnx_cast_graph::{Node, NodeView, ValueId};

use super::inference::KnownTypes;
use crate::cast::element_type::ElementType;
use crate::onnx::node::attribute;

/// Whether a node only puts tensors into sequences, or takes them out.
pub(crate) fn moves(node: &Node) -> bool {
    let op = node.op_type().strip_prefix("Sequence");
    let is_own = matches!(op, Some("At" | "Construct" | "Empty" | "Erase" | "Insert" | "Length"));
    let is_named = matches!(node.op_type(), "ConcatFromSequence" | "SplitToSequence");
    node.is_onnx() && (is_own || is_named)
}

/// The type of the elements of what such a node makes, where that is known.
pub(crate) fn made(known: &KnownTypes, value: ValueId) -> Option<ElementType> {
    let node = known.graph.maker(value).map(|id| known.graph.node(id))?;
    match node.op_type() {
        _ if !moves(node) => None,
        "SequenceLength" => Some(ElementType::Int64),
        "SequenceEmpty" => match attribute(node, "dtype") {
            None => Some(ElementType::Float),
            Some(held) if !held.ref_attr_name.is_empty() => None,
            Some(held) => i32::try_from(held.i).ok().and_then(ElementType::from_id),
        },
        _ => known.ty(node.input(0)?),
    }
}

/// The same of what is in an optional, or comes out of one.
pub(crate) fn of_optional(known: &KnownTypes, value: ValueId) -> Option<ElementType> {
    let node = known.graph.maker(value).map(|id| known.graph.node(id))?;
    let is_it = node.is("Optional") || node.is("OptionalGetElement");
    known.ty(node.input(0).filter(|_| is_it)?)
}
