//! The attributes that decide on the type of what a node makes.

use onnx_cast_graph::{Node, NodeView, int_attribute, value_attribute};
use tract_onnx::pb::TensorProto;

use super::data;
use crate::cast::element_type::ElementType;
use crate::error::Result;
use crate::onnx::node::attribute;
use crate::onnx::operators::behaviour::{Behaviour, Otherwise};

/// The tensor that a `Constant` stands for which holds FLOAT numbers, not a tensor.
pub(super) fn constant(node: &Node) -> Option<TensorProto> {
    let one = attribute(node, "value_float").map(|attribute| (vec![attribute.f], vec![]));
    let (float_data, dims) = match one {
        Some(one) => one,
        None => {
            let floats = &attribute(node, "value_floats")?.floats;
            (floats.clone(), vec![floats.len() as i64])
        }
    };
    let data_type = ElementType::Float as i32;
    Some(TensorProto { dims, data_type, float_data, ..TensorProto::default() })
}

/// Has a node whose attributes decide on the type of its output make another one.
/// Fails when its tensor cannot be read.
pub(super) fn retype(node: &mut Node, to: ElementType) -> Result<()> {
    let behaviour = Behaviour::of(node);
    if behaviour.makes_attributes {
        return retype_tensor(node, to);
    }
    let name = match behaviour.type_attribute {
        _ if node.is("Cast") => "to",
        _ if node.is("SequenceEmpty") => "dtype",
        // Where none gives a type it is an input's.
        Some(found)
            if !names_type(node, found.name) && matches!(found.otherwise, Otherwise::Input(_)) =>
        {
            return Ok(());
        }
        // This one is of what it makes beside its result.
        Some(found) if found.name != "stash_type" => found.name,
        _ => return Ok(()),
    };
    set_int(node, name, to);
    Ok(())
}

fn set_int(node: &mut Node, name: &str, to: ElementType) {
    match node.attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.i = to as i64,
        None => node.attributes.push(int_attribute(name, to as i64)),
    }
}

/// Whether an attribute of this name stands for the type of an output.
pub(super) fn names_type(node: &Node, name: &str) -> bool {
    attribute(node, name).is_some_and(|attribute| attribute.i != 0)
}

fn retype_tensor(node: &mut Node, to: ElementType) -> Result<()> {
    let held = node.attributes.iter_mut().find(|attribute| attribute.t.is_some());
    if let Some(attribute) = held {
        if let Some(tensor) = attribute.t.take() {
            attribute.t = Some(data::recast(tensor, to)?);
        }
        return Ok(());
    }
    let tensor = constant(node).unwrap_or_else(|| TensorProto {
        // What ConstantOfShape makes without a value.
        dims: vec![1],
        data_type: ElementType::Float as i32,
        float_data: vec![0.0],
        ..TensorProto::default()
    });
    node.attributes.retain(|attribute| !matches!(&*attribute.name, "value_float" | "value_floats"));
    node.attributes.push(value_attribute(data::recast(tensor, to)?));
    Ok(())
}
