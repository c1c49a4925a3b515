//! Values as they are given to a part of a model.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use onnx_cast_graph::{named_value, sized_type, tensor_type};
use tract_onnx::pb::{ModelProto, TensorProto, TypeProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::{ElementType, OnnxTensor, tensor_proto};

use crate::cli::tensor::{NamedTensor, cast};

/// Tensors by the names of the values that they are.
pub(super) type Values = HashMap<String, NamedTensor>;

/// Tensors by their names.
pub(super) fn by_name(tensors: Vec<NamedTensor>) -> Values {
    tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect()
}

/// The tensor in another shape, if it has as many elements: another exporter may keep them so.
pub(super) fn reshaped(tensor: &NamedTensor, shape: &[usize]) -> NamedTensor {
    let held = tensor.tensor.clone().into_shape(shape);
    NamedTensor {
        name: tensor.name.clone(),
        ty: tensor.ty,
        tensor: held.unwrap_or_else(|_| tensor.tensor.clone()),
    }
}

/// The type and the sizes of a tensor, as a model declares them.
pub(super) fn type_of(tensor: &NamedTensor) -> TypeProto {
    sized_type(tensor.ty as i32, tensor.tensor.shape())
}

/// What a model declares of a tensor.
pub(super) fn declared(tensor: &NamedTensor) -> ValueInfoProto {
    ValueInfoProto { r#type: Some(type_of(tensor)), ..named_value(&tensor.name) }
}

/// The tensor that a file holds, its external data in the folder.
pub(super) fn read(proto: &TensorProto, folder: Option<&Path>) -> TractResult<NamedTensor> {
    let (ty, tensor) = tensor_proto::read(proto, folder)?;
    Ok(NamedTensor { name: proto.name.clone(), ty, tensor })
}

/// As an interpreter takes it.
pub(super) fn typed(tensor: &NamedTensor) -> TractResult<OnnxTensor> {
    Ok(OnnxTensor::new(tensor.ty, tensor.tensor.clone())?)
}

/// Whether values of one type can stand for those of the other: both are floating-point numbers, or
/// the type is the same.
pub(super) fn are_alike(a: ElementType, b: ElementType) -> bool {
    a == b || a.is_float() && b.is_float()
}

/// The tensor in another type. A finite number beyond it becomes its largest one: what overflows is
/// not what is given to a part, but what the part makes.
pub(super) fn saturated(tensor: &NamedTensor, to: ElementType) -> TractResult<NamedTensor> {
    let NamedTensor { name, ty, tensor } = tensor;
    let name = name.clone();
    if *ty == to {
        return Ok(NamedTensor { name, ty: to, tensor: tensor.clone() });
    }
    let mut doubles = cast(*ty, tensor, ElementType::Double)?;
    if let Some(Reach::Float(reach)) = Reach::of(to) {
        let mut plain = doubles.try_as_plain_ram_mut()?;
        for value in plain.as_slice_mut::<f64>()?.iter_mut().filter(|value| value.is_finite()) {
            *value = value.clamp(reach.min(), reach.max);
        }
    }
    Ok(NamedTensor { name, ty: to, tensor: cast(ElementType::Double, &doubles, to)? })
}

/// In that order; an error names the one that is missing.
pub(super) fn in_order<'a>(
    names: impl Iterator<Item = &'a str>,
    values: &Values,
) -> TractResult<Vec<OnnxTensor>> {
    let value = |name: &str| {
        typed(values.get(name).with_context(|| format!("there is no value of `{name}`"))?)
    };
    names.map(value).collect()
}

/// The values as a model takes them that may have other types.
pub(super) fn taken(model: &ModelProto, values: &Values) -> TractResult<Values> {
    let mut taken = Values::new();
    for input in model.graph.iter().flat_map(|graph| &graph.input) {
        let declared = tensor_type(input.r#type.as_ref());
        let ty = declared.and_then(|tensor| ElementType::from_id(tensor.elem_type));
        if let Some((ty, value)) = ty.zip(values.get(&input.name)) {
            taken.insert(input.name.clone(), saturated(value, ty)?);
        }
    }
    Ok(taken)
}
