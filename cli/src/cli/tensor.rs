//! Named tensors: read from a file, observed in a run or made by one, and their elements as FLOAT
//! and DOUBLE numbers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use prost::Message;
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::ObservedTensor;
use tract_onnx_cast::{Conversion, ElementType, OnnxTensor, Rules, tensor_proto};

/// A tensor for each input of a model.
pub(crate) type Tensors = Vec<Arc<Tensor>>;

/// An output of a model, or an array of a file, in the carrier of its element type.
#[derive(Clone)]
pub(crate) struct NamedTensor {
    pub(crate) name: String,
    pub(crate) ty: ElementType,
    pub(crate) tensor: Tensor,
}

impl NamedTensor {
    /// What a model makes, by its name.
    pub(crate) fn of(name: &str, made: OnnxTensor) -> NamedTensor {
        NamedTensor { name: name.into(), ty: made.element_type(), tensor: made.into_tensor() }
    }

    /// What is shown of a run.
    pub(crate) fn observed(held: &ObservedTensor) -> NamedTensor {
        let (name, ty) = (held.name.to_string(), held.element_type);
        NamedTensor { name, ty, tensor: Tensor::clone(&held.tensor) }
    }

    /// The tensor as a file holds it. Fails when it is not in its type's carrier.
    pub(crate) fn to_proto(&self) -> TractResult<TensorProto> {
        Ok(tensor_proto::write(&self.name, self.ty, &self.tensor)?)
    }
}

/// Writes tensors as the files of a set, such as `input_0.pb`. Fails when one cannot be written.
pub(crate) fn write_tensors(
    tensors: &[NamedTensor],
    prefix: &str,
    folder: &Path,
) -> TractResult<()> {
    for (place, tensor) in tensors.iter().enumerate() {
        let path = folder.join(format!("{prefix}{place}.pb"));
        let bytes = tensor.to_proto()?.encode_to_vec();
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The tensor in another type, as a Cast without attributes makes it.
/// Fails when it is not in its type's carrier, or a text is no number.
pub(crate) fn cast(from: ElementType, tensor: &Tensor, to: ElementType) -> TractResult<Tensor> {
    Ok(Conversion::new(from, to, Rules::default()).run(tensor)?)
}

/// The tensor after a cast to another type and back. Fails as [`cast`] does.
pub(crate) fn rounded(ty: ElementType, tensor: &Tensor, to: ElementType) -> TractResult<Tensor> {
    cast(to, &cast(ty, tensor, to)?, ty)
}

/// The elements of a tensor, cast to one of Rust's types. Fails as [`cast`] does.
pub(crate) fn elements<T: Datum + Copy>(ty: ElementType, tensor: &Tensor) -> TractResult<Vec<T>> {
    let cast = cast(ty, tensor, native::<T>()?)?;
    Ok(cast.try_as_plain_ram()?.as_slice::<T>()?.to_vec())
}

/// A tensor of the type that holds these numbers, cast to it. Fails when the shape is not of as
/// many.
pub(crate) fn of_numbers<T: Datum + Copy>(
    ty: ElementType,
    shape: &[usize],
    numbers: &[T],
) -> TractResult<Tensor> {
    cast(native::<T>()?, &Tensor::from_shape(shape, numbers)?, ty)
}

fn native<T: Datum>() -> TractResult<ElementType> {
    ElementType::native(T::datum_type()).context("a type of tract's that ONNX has")
}
