//! Nodes, and what everybody asks of one: what messages call it, whose operator it is, its
//! attributes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::{
    AttributeProto, GraphProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto, type_proto,
};

use crate::arena::{BodyId, NodeId, ValueId};

/// An operator in a body.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name in the file, or the one that it was given; may be empty.
    pub name: Arc<str>,
    /// The operator's name.
    pub op_type: String,
    /// The operator's domain.
    pub domain: String,
    /// Its attributes, those that hold graphs excepted.
    pub attributes: Attributes,
    /// The documentation of the file.
    pub doc_string: Box<str>,
    /// The version of the default domain by which the operator is understood: the model's, or that
    /// of the function in whose place the node stands.
    pub opset: i64,
    /// The path to where it stands, for messages and reports: the main graph's name, then a step
    /// `node.attribute` for each body around it, and `call.Function` for each function.
    pub path: Arc<str>,
    /// How many bytes of its name are the calls' that it comes from.
    pub prefix: usize,
    /// Its place among the nodes of the message that it was read from; `None` for one that was
    /// added.
    pub place: Option<u32>,
    pub(crate) label: Arc<str>,
    pub(crate) body: BodyId,
    pub(crate) inputs: Vec<Option<ValueId>>,
    pub(crate) outputs: Vec<Option<ValueId>>,
    pub(crate) bodies: Vec<HeldBody>,
    pub(crate) previous: Option<NodeId>,
    pub(crate) next: Option<NodeId>,
}

/// The attributes of a node. Clones are one list until one of them is changed: a message of an
/// attribute takes more than a thousand bytes, and a deep model has few lists that differ.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(Arc<Vec<AttributeProto>>);

impl From<Vec<AttributeProto>> for Attributes {
    fn from(attributes: Vec<AttributeProto>) -> Attributes {
        Attributes(Arc::new(attributes))
    }
}

impl From<Attributes> for Vec<AttributeProto> {
    fn from(Attributes(attributes): Attributes) -> Vec<AttributeProto> {
        Arc::unwrap_or_clone(attributes)
    }
}

impl Deref for Attributes {
    type Target = Vec<AttributeProto>;

    fn deref(&self) -> &Vec<AttributeProto> {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Attributes {
    type Item = &'a AttributeProto;
    type IntoIter = std::slice::Iter<'a, AttributeProto>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl DerefMut for Attributes {
    fn deref_mut(&mut self) -> &mut Vec<AttributeProto> {
        Arc::make_mut(&mut self.0)
    }
}

/// A body that an attribute of a node holds.
#[derive(Debug, Clone)]
pub struct HeldBody {
    /// The attribute's name.
    pub attribute: String,
    /// The body.
    pub body: BodyId,
    /// Whether the attribute is a list of graphs.
    pub(crate) is_listed: bool,
}

impl Node {
    /// The body that it stands in.
    pub fn body(&self) -> BodyId {
        self.body
    }

    /// What goes into it, by place; `None` for an input that is not given.
    pub fn inputs(&self) -> &[Option<ValueId>] {
        &self.inputs
    }

    /// The input at a place, if it is given.
    pub fn input(&self, place: usize) -> Option<ValueId> {
        self.inputs.get(place).copied().flatten()
    }

    /// What it makes, by place; `None` for an output that is not wanted.
    pub fn outputs(&self) -> &[Option<ValueId>] {
        &self.outputs
    }

    /// The output at a place, if it is wanted.
    pub fn output(&self, place: usize) -> Option<ValueId> {
        self.outputs.get(place).copied().flatten()
    }

    /// The bodies that it holds, in the order of their attributes.
    pub fn bodies(&self) -> &[HeldBody] {
        &self.bodies
    }

    /// What it is called where it stands, without the names of the calls that it comes from.
    pub fn local_name(&self) -> &str {
        self.label.get(self.prefix..).unwrap_or(&self.label)
    }

    /// What messages call it: its name, or its first output where it has none.
    pub fn shared_label(&self) -> &Arc<str> {
        &self.label
    }
}

/// What can be asked of a node, in a graph or in a message.
pub trait NodeView {
    /// What messages call it: its name, or its first output where it has none.
    fn label(&self) -> &str;
    /// The operator's name.
    fn op_type(&self) -> &str;
    /// The operator's domain.
    fn domain(&self) -> &str;
    /// Its attributes.
    fn attributes(&self) -> &[AttributeProto];
    /// How many places for inputs it has, those that are not given among them.
    fn input_places(&self) -> usize;
    /// How many places for outputs it has, those that are not wanted among them.
    fn output_places(&self) -> usize;
    /// Whether the input at a place is given.
    fn gives(&self, place: usize) -> bool;
    /// Whether the output at a place is wanted.
    fn makes(&self, place: usize) -> bool;

    /// Whether the operator is one of ONNX's own.
    fn is_onnx(&self) -> bool {
        is_default_domain(self.domain())
    }

    /// Whether the operator is the one of ONNX's own with this name.
    fn is(&self, op_type: &str) -> bool {
        self.op_type() == op_type && self.is_onnx()
    }
}

impl<T: NodeView + ?Sized> NodeView for &T {
    fn label(&self) -> &str {
        (**self).label()
    }

    fn op_type(&self) -> &str {
        (**self).op_type()
    }

    fn domain(&self) -> &str {
        (**self).domain()
    }

    fn attributes(&self) -> &[AttributeProto] {
        (**self).attributes()
    }

    fn input_places(&self) -> usize {
        (**self).input_places()
    }

    fn output_places(&self) -> usize {
        (**self).output_places()
    }

    fn gives(&self, place: usize) -> bool {
        (**self).gives(place)
    }

    fn makes(&self, place: usize) -> bool {
        (**self).makes(place)
    }
}

impl NodeView for Node {
    fn label(&self) -> &str {
        &self.label
    }

    fn op_type(&self) -> &str {
        &self.op_type
    }

    fn domain(&self) -> &str {
        &self.domain
    }

    fn attributes(&self) -> &[AttributeProto] {
        &self.attributes
    }

    fn input_places(&self) -> usize {
        self.inputs.len()
    }

    fn output_places(&self) -> usize {
        self.outputs.len()
    }

    fn gives(&self, place: usize) -> bool {
        self.input(place).is_some()
    }

    fn makes(&self, place: usize) -> bool {
        self.output(place).is_some()
    }
}

impl NodeView for NodeProto {
    fn label(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let first = self.output.iter().find(|output| !output.is_empty());
        first.map_or("", String::as_str)
    }

    fn op_type(&self) -> &str {
        &self.op_type
    }

    fn domain(&self) -> &str {
        &self.domain
    }

    fn attributes(&self) -> &[AttributeProto] {
        &self.attribute
    }

    fn input_places(&self) -> usize {
        self.input.len()
    }

    fn output_places(&self) -> usize {
        self.output.len()
    }

    fn gives(&self, place: usize) -> bool {
        self.input.get(place).is_some_and(|name| !name.is_empty())
    }

    fn makes(&self, place: usize) -> bool {
        self.output.get(place).is_some_and(|name| !name.is_empty())
    }
}

/// Whether a domain is that of ONNX's own operators, which has two names.
pub fn is_default_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// A domain under one name, which is empty for that of ONNX's own operators.
pub fn one_domain(domain: &str) -> &str {
    if is_default_domain(domain) { "" } else { domain }
}

/// The attribute of this name.
pub fn attribute<'a>(node: &'a (impl NodeView + ?Sized), name: &str) -> Option<&'a AttributeProto> {
    node.attributes().iter().find(|attribute| attribute.name == name)
}

/// The value of a STRING attribute that is not empty.
pub fn word<'a>(node: &'a (impl NodeView + ?Sized), name: &str) -> Option<&'a [u8]> {
    attribute(node, name).map(|attribute| &attribute.s[..]).filter(|word| !word.is_empty())
}

/// The value of an INT attribute.
pub fn int(node: &(impl NodeView + ?Sized), name: &str) -> Option<i64> {
    let is_int = |attribute: &&AttributeProto| attribute.r#type == AttributeType::Int as i32;
    attribute(node, name).filter(is_int).map(|attribute| attribute.i)
}

/// What a declaration says of a tensor: its element type and its shape.
pub fn tensor_type(declared: Option<&TypeProto>) -> Option<&type_proto::Tensor> {
    let type_proto::Value::TensorType(tensor) = declared?.value.as_ref()?;
    Some(tensor)
}

/// The same, to be changed.
pub fn tensor_type_mut(declared: Option<&mut TypeProto>) -> Option<&mut type_proto::Tensor> {
    let type_proto::Value::TensorType(tensor) = declared?.value.as_mut()?;
    Some(tensor)
}

/// The graphs in an attribute of a message.
pub fn subgraphs(attribute: &AttributeProto) -> impl Iterator<Item = &GraphProto> {
    attribute.g.iter().chain(&attribute.graphs)
}

/// Whether a node of a message holds graphs.
pub fn has_bodies(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| subgraphs(attribute).next().is_some())
}

/// A message's graph and all graphs in it, each before those that its nodes hold.
pub fn all_graphs(graph: &GraphProto) -> Vec<&GraphProto> {
    let mut all = vec![graph];
    let mut next = 0;
    while let Some(graph) = all.get(next).copied() {
        let attributes = graph.node.iter().flat_map(|node| &node.attribute);
        all.extend(attributes.flat_map(subgraphs));
        next += 1;
    }
    all
}

/// The tensors that a message's graph and all graphs in it hold: initializers and attributes.
pub fn all_tensors(graph: &GraphProto) -> impl Iterator<Item = &TensorProto> {
    all_graphs(graph).into_iter().flat_map(|graph| {
        let attributes = graph.node.iter().flat_map(|node| &node.attribute);
        let held = attributes.flat_map(|attribute| attribute.t.iter().chain(&attribute.tensors));
        graph.initializer.iter().chain(held)
    })
}

/// The version of the default domain among imports.
pub fn default_opset(imports: &[OperatorSetIdProto]) -> Option<i64> {
    imports.iter().find(|import| is_default_domain(&import.domain)).map(|import| import.version)
}

/// An attribute's declared type. Files older than IR version 2 declare none: there, the one field
/// that is set tells.
pub fn attribute_type(attribute: &AttributeProto) -> AttributeType {
    match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Undefined) if !attribute.s.is_empty() => AttributeType::String,
        Ok(AttributeType::Undefined) if attribute.i != 0 => AttributeType::Int,
        Ok(declared) => declared,
        Err(_) => AttributeType::Undefined,
    }
}
