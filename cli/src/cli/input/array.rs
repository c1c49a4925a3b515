//! An array from a file, and for which element types it can stand.

use anyhow::{Context, bail};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::message::at;
use crate::cli::tensor::{NamedTensor, cast};

/// An array as it is in a file.
pub(crate) struct Array {
    /// The file, for messages.
    pub(super) source: String,
    /// What the file calls the array, if anything.
    pub(crate) name: Option<String>,
    /// In the carrier of the type.
    pub(super) tensor: Tensor,
    pub(super) ty: ElementType,
    pub(super) origin: ArrayOrigin,
}

/// Where an array comes from decides what else its elements may stand for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ArrayOrigin {
    TensorProto,
    /// A type that NumPy has, which is none of the exotic ones.
    NumPy,
    /// Bytes whose type the file does not tell. NumPy saves arrays of the ml_dtypes package so.
    Opaque,
}

impl Array {
    /// Values in their type's carrier.
    pub(super) fn of_values(source: String, ty: ElementType, tensor: Tensor) -> Array {
        Array { source, name: None, tensor, ty, origin: ArrayOrigin::TensorProto }
    }

    /// The array as a saved output, of the type that the file says. It has the file's name for it,
    /// or else the other one. Fails when the file has bytes without a type.
    pub(crate) fn into_output(
        self,
        otherwise: impl FnOnce() -> String,
    ) -> TractResult<NamedTensor> {
        let ty = self.ty;
        let name = self.name.clone().unwrap_or_else(otherwise);
        Ok(NamedTensor { name, ty, tensor: self.into_tensor(ty)? })
    }

    /// The array as a carrier tensor of the type, cast if it is of another; then the second part
    /// says of which. Fails when one of the two types is STRING and the other is not.
    pub(crate) fn cast_to(self, ty: ElementType) -> TractResult<(Tensor, Option<ElementType>)> {
        let held = self.ty;
        let is_text = |ty: ElementType| ty.family() == Family::Text;
        if self.ty == ty || is_text(held) || is_text(ty) {
            Ok((self.into_tensor(ty)?, None))
        } else {
            let cast = cast(held, &self.tensor, ty)?;
            Ok((cast, Some(held)))
        }
    }

    /// The array as a carrier tensor of the type, where floating-point values may be of another
    /// such type, from which they are cast; then the second part says of which. Fails as
    /// [`Array::into_tensor`] does.
    pub(crate) fn fitting(self, ty: ElementType) -> TractResult<(Tensor, Option<ElementType>)> {
        let is_cast = self.ty != ty && self.ty.is_float() && ty.is_float();
        // For an exotic type, numbers of NumPy's are values anyway.
        let is_usual = self.origin == ArrayOrigin::NumPy && ty.is_exotic();
        if is_cast && !is_usual && self.origin != ArrayOrigin::Opaque {
            self.cast_to(ty)
        } else {
            Ok((self.into_tensor(ty)?, None))
        }
    }

    /// The array as a carrier tensor of the type. Fails when its elements are not of the type, nor
    /// its bit patterns or values in a type that can stand for it.
    pub(crate) fn into_tensor(self, ty: ElementType) -> TractResult<Tensor> {
        let is_bits = ty.is_exotic()
            && match self.origin {
                // Releases of ONNX that could not make such tensors wrote the bit patterns as
                // integers.
                ArrayOrigin::TensorProto => {
                    let is_plain = self.ty.family() == Family::Unsigned;
                    is_plain && ty.is_float() && self.ty.bits() == ty.bits()
                }
                ArrayOrigin::NumPy => self.ty.datum_type() == ty.datum_type(),
                ArrayOrigin::Opaque => self.ty.carrier_bytes() == ty.carrier_bytes(),
            };
        let is_values = ty.is_exotic()
            && self.origin == ArrayOrigin::NumPy
            && matches!(self.ty, ElementType::Float | ElementType::Double);
        if self.ty == ty && self.origin != ArrayOrigin::Opaque {
            Ok(self.tensor)
        } else if is_bits {
            at(self.source, as_carrier(self.ty, &self.tensor, ty))
        } else if is_values {
            cast(self.ty, &self.tensor, ty)
        } else if self.origin == ArrayOrigin::Opaque {
            bail!("{} holds bytes without a type, not {ty}", self.source)
        } else {
            bail!("{} holds {}, not {ty}", self.source, self.ty)
        }
    }
}

/// Bit patterns, held in integers of their own width, in the type's carrier.
fn as_carrier(held: ElementType, tensor: &Tensor, ty: ElementType) -> TractResult<Tensor> {
    let carrier = ElementType::native(ty.datum_type()).context("a carrier is a type of tract's")?;
    let tensor = cast(held, tensor, carrier)?;
    if let Some(unused @ 1..) = 8u32.checked_sub(ty.bits()) {
        let fits = |byte: &u8| match carrier {
            ElementType::Int8 => ((byte << unused) as i8 >> unused) as u8 == *byte,
            _ => byte << unused >> unused == *byte,
        };
        if let Some(odd) = tensor.as_bytes().iter().find(|byte| !fits(byte)) {
            bail!("the byte {odd:#04x} is no {ty}");
        }
    }
    Ok(tensor)
}
