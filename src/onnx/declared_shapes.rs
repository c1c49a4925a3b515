//! Types and shapes as the model declares them.

use onnx_cast_graph::tensor_type;
use tract_onnx::pb::tensor_shape_proto::dimension::Value as DimValue;
use tract_onnx::pb::{TensorShapeProto, TypeProto, ValueInfoProto};

use crate::cast::element_type::ElementType;

/// The shape that a declaration gives.
pub(crate) fn shape(declared: Option<&TypeProto>) -> Option<&TensorShapeProto> {
    tensor_type(declared)?.shape.as_ref()
}

/// The element type that a declaration gives of a tensor; `None` for one that no Cast accepts.
pub(crate) fn element_type(declared: Option<&TypeProto>) -> Option<ElementType> {
    ElementType::from_id(tensor_type(declared)?.elem_type)
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

/// Whether a declaration has a dimension of which nothing is said, not even a name, or gives no
/// shape.
pub(crate) fn is_open(declared: Option<&TypeProto>) -> bool {
    let is_unknown = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(size)) => *size < 0,
        Some(DimValue::DimParam(name)) => name == "?",
        None => true,
    };
    shape(declared).is_none_or(|shape| shape.dim.iter().any(|dim| is_unknown(&dim.value)))
}

/// The bytes that a value is declared to have, 1 in the place of each size that is no number.
pub(crate) fn bytes(value: &ValueInfoProto) -> u64 {
    let size = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(size)) => u64::try_from(*size).unwrap_or(0),
        _ => 1,
    };
    let Some(tensor) = tensor_type(value.r#type.as_ref()) else { return 0 };
    let bits = ElementType::from_id(tensor.elem_type).map_or(8, ElementType::bits);
    let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
    let elements = dims.map(|dim| size(&dim.value)).fold(1, u64::saturating_mul);
    elements.saturating_mul(u64::from(bits.div_ceil(8)))
}
