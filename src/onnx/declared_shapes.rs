//! Shapes as the model declares them.

use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{GraphProto, NodeProto, TensorShapeProto, ValueInfoProto};

/// The values of which a graph declares a shape, if one may be needed.
pub(crate) fn declared(graph: &GraphProto) -> Vec<ValueInfoProto> {
    let is_open = |input: &ValueInfoProto| shape(input).is_none_or(has_open_dimension);
    let expands = |node: &NodeProto| node.op_type == "Expand";
    if !graph.input.iter().any(is_open) && !graph.node.iter().any(expands) {
        return vec![];
    }
    let values = graph.value_info.iter().chain(&graph.output);
    values.filter(|value| shape(value).is_some()).cloned().collect()
}

/// The shape that a declaration gives.
pub(crate) fn shape(value: &ValueInfoProto) -> Option<&TensorShapeProto> {
    match value.r#type.as_ref()?.value.as_ref()? {
        TypeValue::TensorType(tensor) => tensor.shape.as_ref(),
        #[allow(unreachable_patterns, reason = "tract's messages have tensors only, for now")]
        _ => None,
    }
}

/// Whether a value is declared to have no elements.
pub(crate) fn is_empty(value: &ValueInfoProto) -> bool {
    let is_zero = |value: &Option<DimValue>| matches!(value, Some(DimValue::DimValue(0)));
    shape(value).is_some_and(|shape| shape.dim.iter().any(|dim| is_zero(&dim.value)))
}

/// Whether a size of a graph's inputs is not a number.
pub(crate) fn leave_open(inputs: &[ValueInfoProto]) -> bool {
    let is_number = |value: &Option<DimValue>| matches!(value, Some(DimValue::DimValue(0..)));
    let is_open =
        |input| shape(input).is_none_or(|shape| shape.dim.iter().any(|dim| !is_number(&dim.value)));
    inputs.iter().any(is_open)
}

fn has_open_dimension(shape: &TensorShapeProto) -> bool {
    shape.dim.iter().any(|dim| match &dim.value {
        Some(DimValue::DimValue(size)) => *size < 0,
        Some(DimValue::DimParam(name)) => name == "?",
        None => true,
    })
}
