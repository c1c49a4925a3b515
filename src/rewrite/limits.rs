//! What tract cannot take as it stands in a file, refused or put so that it can.

use std::collections::HashSet;

use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto};

use super::Scope;
use crate::element_type::ElementType;
use crate::error::Error;
use crate::spec::node_name;

/// An element of an INT64 tensor that has more than 32 bits.
pub(super) fn large_dimension(tensor: &TensorProto) -> Option<i64> {
    if tensor.data_type != ElementType::Int64 as i32 {
        return None;
    }
    let raw = tensor.raw_data.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok());
    let elements = tensor.int64_data.iter().copied().chain(raw.map(i64::from_le_bytes));
    elements.into_iter().find(|element| i32::try_from(*element).is_err())
}

/// Refuses a shape that tract would cut down to 32 bits.
pub(super) fn check_dimensions(node: &NodeProto, scope: &Scope) -> Result<(), Error> {
    let shape = match node.op_type.as_str() {
        "ConstantOfShape" => 0,
        "Expand" | "Reshape" | "Tile" => 1,
        _ => return Ok(()),
    };
    let large = node.input.get(shape).and_then(|name| scope.get(name)).and_then(|fact| fact.large);
    large.map_or(Ok(()), |dimension| {
        Err(Error::Node {
            node: node_name(node),
            op: node.op_type.clone(),
            problem: format!("dimension {dimension} is beyond the 32 bits that tract has for it"),
        })
    })
}

/// Makes unknown what would take tract long to understand, or more stack than there is: its parser of dimensions descends
/// into every parenthesis, and its simplifier tries every combination of nested terms.
pub(super) fn forget_intricate_dimensions(value: &mut ValueInfoProto) {
    const LENGTH: usize = 256;
    const OPERATORS: usize = 12;
    let Some(TypeProto { value: Some(TypeValue::TensorType(tensor)), .. }) = &mut value.r#type
    else {
        return;
    };
    for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
        if let Some(DimValue::DimParam(text)) = &dim.value {
            let operators = text.bytes().filter(|byte| b"+-*/%(,".contains(byte)).count();
            if text.len() > LENGTH || operators > OPERATORS {
                dim.value = None;
            }
        }
    }
}

/// Renames nodes that have another's name or that of an input or initializer: in ONNX these are names of different kinds,
/// in tract they are not.
pub(super) fn name_nodes_apart(graph: &mut GraphProto) {
    let inputs = graph.input.iter().map(|input| input.name.clone());
    let initializers = graph.initializer.iter().map(|tensor| tensor.name.clone());
    let mut taken: HashSet<String> = inputs.chain(initializers).collect();
    for (index, node) in graph.node.iter_mut().enumerate() {
        let name = node_name(node);
        let mut unique = name.clone();
        while !taken.insert(unique.clone()) {
            unique = format!("{unique}#{index}");
        }
        if unique != name {
            node.name = unique;
        }
    }
}
