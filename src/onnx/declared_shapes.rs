//! Shapes as the model declares them.

use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::type_proto::Value as TypeValue;
use tract_onnx::pb::{TensorShapeProto, TypeProto};

/// The shape that a declaration gives.
pub(crate) fn shape(declared: Option<&TypeProto>) -> Option<&TensorShapeProto> {
    match declared?.value.as_ref()? {
        TypeValue::TensorType(tensor) => tensor.shape.as_ref(),
        #[allow(unreachable_patterns, reason = "tract's messages have tensors only, for now")]
        _ => None,
    }
}

/// Whether a value is declared to have no elements.
pub(crate) fn is_empty(declared: Option<&TypeProto>) -> bool {
    let is_zero = |value: &Option<DimValue>| matches!(value, Some(DimValue::DimValue(0)));
    shape(declared).is_some_and(|shape| shape.dim.iter().any(|dim| is_zero(&dim.value)))
}

/// Whether a declaration leaves out a size that is a number.
pub(crate) fn leaves_open(declared: Option<&TypeProto>) -> bool {
    let is_number = |value: &Option<DimValue>| matches!(value, Some(DimValue::DimValue(0..)));
    shape(declared).is_none_or(|shape| shape.dim.iter().any(|dim| !is_number(&dim.value)))
}

/// Whether a declaration has a dimension of which nothing is said, not even a name, or gives no shape.
pub(crate) fn is_open(declared: Option<&TypeProto>) -> bool {
    let is_unknown = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(size)) => *size < 0,
        Some(DimValue::DimParam(name)) => name == "?",
        None => true,
    };
    shape(declared).is_none_or(|shape| shape.dim.iter().any(|dim| is_unknown(&dim.value)))
}
