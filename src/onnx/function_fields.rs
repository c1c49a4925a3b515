//! The fields of model-local functions that tract's messages do not have.
//!
//! tract's `FunctionProto` and `NodeProto` are older than overloads, attribute defaults and the
//! types of a function's values, so decoding drops them. Here they are decoded beside, and put
//! where a `ModelProto` has room: an overload joins the function's and its callers' names, the rest
//! goes into nodes of this crate's domain at the head of the function.

use onnx_cast_graph::{graph_attribute, named_value};
use prost::Message;
use tract_onnx::pb::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto,
};
use tract_onnx::prelude::TractResult;

use crate::onnx::lowered::DOMAIN;

const DEFAULTS: &str = "AttributeDefaults";
const VALUE_INFO: &str = "ValueInfo";

/// A model's functions and what may call them, by the fields that tract lacks. The tags are those
/// of onnx.proto.
#[derive(Clone, PartialEq, Message)]
struct ModelFields {
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphFields>,
    #[prost(message, repeated, tag = "25")]
    functions: Vec<FunctionFields>,
}

#[derive(Clone, PartialEq, Message)]
struct FunctionFields {
    #[prost(message, repeated, tag = "7")]
    node: Vec<NodeFields>,
    /// Undecoded: each is read as a whole, and once more for the fields that tract lacks.
    #[prost(bytes = "vec", repeated, tag = "11")]
    attribute_proto: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "12")]
    value_info: Vec<ValueInfoProto>,
    #[prost(string, tag = "13")]
    overload: String,
}

#[derive(Clone, PartialEq, Message)]
struct GraphFields {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeFields>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeFields {
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<AttributeFields>,
    #[prost(string, tag = "8")]
    overload: String,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeFields {
    #[prost(message, optional, tag = "6")]
    g: Option<GraphFields>,
    #[prost(message, repeated, tag = "11")]
    graphs: Vec<GraphFields>,
}

/// Gives a decoded model with functions what decoding has dropped of `bytes`.
pub(crate) fn restore(proto: &mut ModelProto, bytes: &[u8]) -> TractResult<()> {
    let fields = ModelFields::decode(bytes)?;
    if let (Some(graph), Some(fields)) = (&mut proto.graph, &fields.graph) {
        restore_nodes(&mut graph.node, &fields.node);
    }
    for (function, fields) in proto.functions.iter_mut().zip(&fields.functions) {
        restore_function(function, fields)?;
    }
    Ok(())
}

fn restore_function(function: &mut FunctionProto, fields: &FunctionFields) -> TractResult<()> {
    restore_nodes(&mut function.node, &fields.node);
    if !fields.overload.is_empty() {
        function.name = Some(overloaded(function.name(), &fields.overload));
    }
    let default = |bytes: &Vec<u8>| -> TractResult<AttributeProto> {
        let mut default = AttributeProto::decode(&**bytes)?;
        restore_attribute(&mut default, &AttributeFields::decode(&**bytes)?);
        Ok(default)
    };
    let attribute: Vec<AttributeProto> =
        fields.attribute_proto.iter().map(default).collect::<TractResult<_>>()?;
    let carrier = |op_type: &str, attribute| NodeProto {
        domain: DOMAIN.into(),
        op_type: op_type.into(),
        attribute,
        ..NodeProto::default()
    };
    let mut head = vec![];
    if !attribute.is_empty() {
        head.push(carrier(DEFAULTS, attribute));
    }
    if !fields.value_info.is_empty() {
        let value_info = fields.value_info.clone();
        let held = graph_attribute("", GraphProto { value_info, ..GraphProto::default() });
        head.push(carrier(VALUE_INFO, vec![held]));
    }
    function.node.splice(0..0, head);
    Ok(())
}

fn restore_nodes(nodes: &mut [NodeProto], fields: &[NodeFields]) {
    for (node, fields) in nodes.iter_mut().zip(fields) {
        if !fields.overload.is_empty() {
            node.op_type = overloaded(&node.op_type, &fields.overload);
        }
        for (attribute, fields) in node.attribute.iter_mut().zip(&fields.attribute) {
            restore_attribute(attribute, fields);
        }
    }
}

fn restore_attribute(attribute: &mut AttributeProto, fields: &AttributeFields) {
    let graphs = attribute.g.iter_mut().zip(&fields.g);
    for (graph, fields) in graphs.chain(attribute.graphs.iter_mut().zip(&fields.graphs)) {
        restore_nodes(&mut graph.node, &fields.node);
    }
}

/// A name that no other function has: ONNX's names are identifiers.
fn overloaded(name: &str, overload: &str) -> String {
    format!("{name}:{overload}")
}

/// A function's parts.
pub(crate) struct FunctionParts<'a> {
    /// The attributes that have a default, with it.
    pub(crate) defaults: &'a [AttributeProto],
    /// Declared types of the values.
    pub(crate) value_info: &'a [ValueInfoProto],
    /// The nodes that stand in the file.
    pub(crate) body: &'a [NodeProto],
}

impl FunctionParts<'_> {
    /// What stands in the file as a graph, of these nodes.
    pub(crate) fn graph(&self, function: &FunctionProto, node: Vec<NodeProto>) -> GraphProto {
        GraphProto {
            name: function.name().into(),
            node,
            value_info: self.value_info.to_vec(),
            input: function.input.iter().map(named_value).collect(),
            output: function.output.iter().map(named_value).collect(),
            ..GraphProto::default()
        }
    }

    /// Takes apart what [`restore`] has put together. Of a function that was decoded elsewhere only
    /// the body is there.
    pub(crate) fn of(function: &FunctionProto) -> FunctionParts<'_> {
        let (mut body, mut defaults, mut value_info) = (&function.node[..], &[][..], &[][..]);
        while let [node, rest @ ..] = body
            && node.domain == DOMAIN
        {
            match node.op_type.as_str() {
                DEFAULTS => defaults = &node.attribute[..],
                VALUE_INFO => {
                    let graph = node.attribute.first().and_then(|attribute| attribute.g.as_ref());
                    value_info = graph.map_or(&[][..], |graph| &graph.value_info);
                }
                _ => break,
            }
            body = rest;
        }
        FunctionParts { defaults, value_info, body }
    }
}
