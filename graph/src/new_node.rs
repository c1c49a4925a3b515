//! A node that is to be added, and where; and parts of messages, made of what differs from one to
//! the next.

use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{
    AttributeProto, GraphProto, NodeProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};

use crate::Graph;
use crate::arena::{BodyId, NodeId, ValueId};
use crate::node::Attributes;

/// Where a node is put.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// Before another node of the same body.
    Before(NodeId),
    /// Behind another node of the same body.
    After(NodeId),
    /// Before all nodes of a body.
    First(BodyId),
    /// Behind all nodes of a body.
    Last(BodyId),
}

/// An output of a node that is added.
#[derive(Debug, Clone)]
pub enum Made {
    /// A new value, of this name or the like.
    New(String),
    /// A value that nothing makes: one that [`Graph::take_output`] has taken from its node.
    Value(ValueId),
    /// An output that nobody wants.
    Unwanted,
}

/// A node to be added. Its opset and path are those of its neighbour, or of the main graph.
#[derive(Debug, Clone, Default)]
pub struct NewNode {
    /// Its name; empty for that of its first output.
    pub name: String,
    /// The operator's name.
    pub op_type: String,
    /// The operator's domain.
    pub domain: String,
    /// What goes into it.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes.
    pub outputs: Vec<Made>,
    /// Its attributes, none of which holds a graph.
    pub attributes: Attributes,
}

impl NewNode {
    /// A node of one of ONNX's operators with one output, whose name is like `output`.
    pub fn of(op_type: &str, inputs: &[ValueId], output: impl Into<String>) -> NewNode {
        NewNode {
            op_type: op_type.into(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Made::New(output.into())],
            ..NewNode::default()
        }
    }

    /// The same, making a value that was taken from another node.
    pub fn making(op_type: &str, inputs: &[ValueId], output: ValueId) -> NewNode {
        NewNode { outputs: vec![Made::Value(output)], ..NewNode::of(op_type, inputs, "") }
    }

    /// The same with these attributes.
    pub fn with(self, attributes: impl Into<Attributes>) -> NewNode {
        NewNode { attributes: attributes.into(), ..self }
    }
}

impl Graph {
    /// Puts a node into the order of its body.
    pub(crate) fn link(&mut self, id: NodeId, place: Place) {
        let (body, previous, next) = match place {
            Place::Before(next) => (self.node(next).body, self.node(next).previous, Some(next)),
            Place::After(previous) => {
                (self.node(previous).body, Some(previous), self.node(previous).next)
            }
            Place::First(body) => (body, None, self.body(body).first),
            Place::Last(body) => (body, self.body(body).last, None),
        };
        let node = self.nodes.get_mut(id);
        (node.previous, node.next) = (previous, next);
        match previous {
            Some(previous) => self.nodes.get_mut(previous).next = Some(id),
            None => self.bodies.get_mut(body).first = Some(id),
        }
        match next {
            Some(next) => self.nodes.get_mut(next).previous = Some(id),
            None => self.bodies.get_mut(body).last = Some(id),
        }
    }

    /// Takes a node out of the order of its body.
    pub(crate) fn unlink(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(id);
        let (previous, next, body) = (node.previous.take(), node.next.take(), node.body);
        match previous {
            Some(previous) => self.nodes.get_mut(previous).next = next,
            None => self.bodies.get_mut(body).first = next,
        }
        match next {
            Some(next) => self.nodes.get_mut(next).previous = previous,
            None => self.bodies.get_mut(body).last = previous,
        }
    }
}

/// An attribute that is an INT.
pub fn int_attribute(name: &str, i: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type, i, ..AttributeProto::default() }
}

/// An attribute that is a FLOAT.
pub fn float_attribute(name: &str, f: f32) -> AttributeProto {
    let r#type = AttributeType::Float as i32;
    AttributeProto { name: name.into(), r#type, f, ..AttributeProto::default() }
}

/// An attribute that is a list of INTs.
pub fn ints_attribute(name: &str, ints: Vec<i64>) -> AttributeProto {
    let r#type = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), r#type, ints, ..AttributeProto::default() }
}

/// The attribute `value` of a `Constant`.
pub fn value_attribute(tensor: TensorProto) -> AttributeProto {
    let (name, r#type) = ("value".into(), AttributeType::Tensor as i32);
    AttributeProto { name, r#type, t: Some(tensor), ..AttributeProto::default() }
}

/// A node of a message that makes one value, whose name it has.
pub fn message_node(op_type: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: output.into(),
        op_type: op_type.into(),
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

/// An attribute that is a graph.
pub fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    let r#type = AttributeType::Graph as i32;
    AttributeProto { name: name.into(), r#type, g: Some(graph), ..AttributeProto::default() }
}

/// A value of which only the name is said.
pub fn named_value(name: impl Into<String>) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), ..ValueInfoProto::default() }
}

/// The type of a tensor of these elements and sizes.
pub fn sized_type(elem_type: i32, shape: &[usize]) -> TypeProto {
    let dimension = |size: &usize| Dimension {
        value: Some(dimension::Value::DimValue(i64::try_from(*size).unwrap_or(i64::MAX))),
        ..Dimension::default()
    };
    let shape = Some(TensorShapeProto { dim: shape.iter().map(dimension).collect() });
    let tensor = type_proto::Tensor { elem_type, shape };
    TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() }
}

/// Where a tensor's data is that is not in its message.
pub fn external_data(location: &str, offset: u64, length: u64) -> Vec<StringStringEntryProto> {
    let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
    vec![
        entry("location", location.into()),
        entry("offset", offset.to_string()),
        entry("length", length.to_string()),
    ]
}
