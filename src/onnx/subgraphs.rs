//! Nodes with subgraphs: what these are fed, and what the node returns of what they return.

use tract_onnx::pb::NodeProto;

use super::declared_types::same_types;
use super::fact::Fact;
use super::node::{node_name, refusal};
use crate::cast::element_type::ElementType;
use crate::error::Error;

/// The types that a node feeds to its bodies' inputs: Loop a count, a condition, and its own inputs from the third on; Scan
/// its inputs.
pub(super) fn fed_types(
    node: &NodeProto,
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    match node.op_type.as_str() {
        "Loop" => [Some(ElementType::Int64), Some(ElementType::Bool)]
            .into_iter()
            .chain(inputs.iter().skip(2).copied())
            .collect(),
        "Scan" => inputs.to_vec(),
        _ => vec![],
    }
}

/// What a node returns whose subgraphs return `returned`.
///
/// # Errors
///
/// When the branches do not fit together, or an operator that is none of ONNX's three has exotic inputs.
pub(super) fn join(
    node: &NodeProto,
    inputs: &[Option<ElementType>],
    returned: &[Vec<Option<Fact>>],
) -> Result<Vec<Option<Fact>>, Error> {
    match (node.op_type.as_str(), returned) {
        ("If", _) => same_types(&node_name(node), &node.op_type, returned),
        ("Loop" | "Scan", [body, ..]) => {
            let condition = usize::from(node.op_type == "Loop");
            let data = |fact: &Option<Fact>| fact.map(|fact| Fact::data(fact.ty));
            Ok(body.iter().skip(condition).map(data).collect())
        }
        _ => match inputs.iter().flatten().find(|ty| ty.is_exotic()) {
            Some(ty) => Err(refusal(node, format!("cannot compute with {ty}"))),
            None => Ok(vec![]),
        },
    }
}
