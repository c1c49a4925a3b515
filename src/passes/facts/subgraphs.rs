//! Nodes with subgraphs: what these are fed, and what the node returns of what they return.

use super::fact::Fact;
use super::value_type::same_types;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::node::{NodeView, refusal};

/// The types that a node feeds to its bodies' inputs: Loop a count, a condition, and its own inputs
/// from the third on; Scan its inputs.
pub(crate) fn fed_types(
    node: &(impl NodeView + ?Sized),
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    match node.op_type() {
        "Loop" => [Some(ElementType::Int64), Some(ElementType::Bool)]
            .into_iter()
            .chain(inputs.iter().skip(2).copied())
            .collect(),
        "Scan" => inputs.to_vec(),
        _ => vec![],
    }
}

/// What a node returns whose subgraphs return `returned`. Fails when the branches do not fit
/// together, or an operator that is none of ONNX's three has exotic inputs.
pub(crate) fn join(
    node: &(impl NodeView + ?Sized),
    inputs: &[Option<ElementType>],
    returned: &[Vec<Option<Fact>>],
) -> Result<Vec<Option<Fact>>, Error> {
    match (node.op_type(), returned) {
        ("If", _) => same_types(node.label(), node.op_type(), returned),
        ("Loop" | "Scan", [body, ..]) => {
            let condition = usize::from(node.op_type() == "Loop");
            let data = |fact: &Option<Fact>| fact.map(|fact| Fact::data(fact.ty));
            Ok(body.iter().skip(condition).map(data).collect())
        }
        _ => match inputs.iter().flatten().find(|ty| ty.is_exotic()) {
            Some(ty) => Err(refusal(node, format!("cannot compute with {ty}"))),
            None => Ok(vec![]),
        },
    }
}
