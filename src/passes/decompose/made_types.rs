//! The types of what is decomposed.

use onnx_cast_graph::{Node, NodeView, is_default_domain, one_domain};

use super::read::{Composition, composition};
use super::{MICROSOFT, read};
use crate::cast::element_type::ElementType;
use crate::onnx::operators::registered::Registered;

/// What stands for a node, unless somebody else builds it.
pub(super) fn of(node: &Node, registered: Registered) -> Option<&'static Composition> {
    composition(one_domain(&node.domain), &node.op_type)
        .filter(|_| !registered.is_of_user(&node.op_type))
}

/// Whether others stand for a node of a domain beside ONNX's own, whatever its types.
pub(in crate::passes) fn is_composed(node: &Node, registered: Registered) -> bool {
    !is_default_domain(&node.domain) && of(node, registered).is_some()
}

/// The types of the outputs of a node that is decomposed, given those of its inputs; none of any
/// other.
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
