//! What every reader of a `NodeProto` asks: what to call it, whose operator it is, its attributes and subgraphs.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto, OperatorSetIdProto};

use crate::error::Error;

/// What messages call a node: its name, or its first output where it has none.
pub(crate) fn node_name(node: &NodeProto) -> String {
    name_of(node).into()
}

/// As [`node_name`].
pub(crate) fn name_of(node: &NodeProto) -> &str {
    let first_output = || node.output.iter().find(|output| !output.is_empty());
    match node.name.is_empty() {
        false => &node.name,
        true => first_output().map_or("", String::as_str),
    }
}

/// The error about a node of a model.
pub(crate) fn refusal(node: &NodeProto, problem: impl Into<String>) -> Error {
    Error::of_node(node_name(node), &node.op_type, problem)
}

/// Whether a domain is that of ONNX's own operators, which has two names.
pub(crate) fn is_default_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// The attribute of this name.
pub(crate) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

/// The value of a STRING attribute that is not empty.
pub(crate) fn word<'a>(node: &'a NodeProto, name: &str) -> Option<&'a [u8]> {
    attribute(node, name).map(|attribute| &attribute.s[..]).filter(|word| !word.is_empty())
}

/// The value of an INT attribute.
pub(crate) fn int(node: &NodeProto, name: &str) -> Option<i64> {
    let is_int = |attribute: &&AttributeProto| attribute.r#type == AttributeType::Int as i32;
    attribute(node, name).filter(is_int).map(|attribute| attribute.i)
}

/// The graphs in an attribute.
pub(crate) fn subgraphs(attribute: &AttributeProto) -> impl Iterator<Item = &GraphProto> {
    attribute.g.iter().chain(&attribute.graphs)
}

/// The version of the default domain among imports.
pub(in crate::onnx) fn default_opset(imports: &[OperatorSetIdProto]) -> Option<i64> {
    imports.iter().find(|import| is_default_domain(&import.domain)).map(|import| import.version)
}
