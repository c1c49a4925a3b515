//! The types of what is decomposed.

use onnx_cast_graph::{Node, NodeView};

use super::{MICROSOFT, read};
use crate::cast::element_type::ElementType;

/// The types of the outputs of a node that is decomposed, given those of its inputs; none of any other.
pub(in crate::passes) fn output_types(
    node: &Node,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    if let Some(composition) = read::composition(&node.domain, &node.op_type) {
        return composition.output_types(inputs);
    }
    let place = match (node.domain.as_str(), node.op_type.as_str()) {
        (MICROSOFT, "FusedMatMul") => 0,
        (MICROSOFT, "QLinearWhere") => 1,
        (MICROSOFT, "GatherBlockQuantized" | "QLinearConcat") => 2,
        (MICROSOFT, "QGemm") if node.gives(7) => 0,
        (MICROSOFT, op) if op.starts_with("QLinear") => 0,
        _ => return vec![],
    };
    vec![inputs.get(place).copied().flatten()]
}
