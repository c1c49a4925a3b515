//! Which of tract's tensors hold which element type, and what they mean.

#![forbid(unsafe_code)]

use std::array;

use half::bf16;
use tract_onnx::prelude::{DatumType, Tensor, tract_ndarray::ArrayD};

use crate::cast::element_type::{ElementType, MachineType};
use crate::cast::rules::Rules;
use crate::cast::scalar;
use crate::error::{Error, Result};
use crate::tensor::conversion::Conversion;

impl ElementType {
    /// The tract type whose tensors hold the elements, one element to a place. Where tract has no
    /// such type it is a carrier: the bit pattern of a BFLOAT16 in `U16` and of a small float in
    /// the low bits of `U8`, the value of a small integer in `U8` or, sign-extended, in `I8`.
    pub const fn datum_type(self) -> DatumType {
        match self.machine_type() {
            MachineType::Bool => DatumType::Bool,
            MachineType::U8 => DatumType::U8,
            MachineType::I8 => DatumType::I8,
            MachineType::U16 => DatumType::U16,
            MachineType::I16 => DatumType::I16,
            MachineType::U32 => DatumType::U32,
            MachineType::I32 => DatumType::I32,
            MachineType::U64 => DatumType::U64,
            MachineType::I64 => DatumType::I64,
            MachineType::F16 => DatumType::F16,
            MachineType::F32 => DatumType::F32,
            MachineType::F64 => DatumType::F64,
            MachineType::Text => DatumType::String,
        }
    }

    /// The element type that a tract tensor holds when nothing more is known: the type of the same
    /// name. A symbolic dimension is an INT64. `None` for tract's quantised types and blobs.
    pub fn native(datum_type: DatumType) -> Option<ElementType> {
        if datum_type == DatumType::TDim {
            return Some(ElementType::Int64);
        }
        Self::ALL.iter().copied().find(|t| !t.is_exotic() && t.datum_type() == datum_type)
    }
}

/// What codes are in memory, of a type whose carrier is a byte.
pub(super) fn of_bytes(ty: ElementType) -> [u8; 256] {
    array::from_fn(|code| {
        let mut carrier = [0];
        scalar::write_carrier(ty, code as u64, &mut carrier);
        carrier[0]
    })
}

/// Writes codes as a type's carriers, which `bytes` has room for, hold them.
pub(super) fn write(ty: ElementType, codes: impl Iterator<Item = u64>, bytes: &mut [u8]) {
    let width = ty.carrier_bytes().unwrap_or(1);
    if width == 1 {
        let table = of_bytes(ty);
        for (place, code) in bytes.iter_mut().zip(codes) {
            *place = table[usize::from(code as u8)];
        }
        return;
    }
    for (place, code) in bytes.chunks_exact_mut(width).zip(codes) {
        scalar::write_carrier(ty, code, place);
    }
}

/// The elements of a BFLOAT16 tensor, in row-major order, without copying. One of UINT16 looks the
/// same: an [`OnnxTensor`](crate::OnnxTensor) knows which it is.
///
/// # Errors
///
/// When the tensor is not of BFLOAT16's carrier.
///
/// ```
/// use half::bf16;
/// use tract_onnx_cast::{bf16_slice, bf16_tensor};
///
/// let tensor = bf16_tensor(&[2], &[bf16::ONE, bf16::from_f32(-2.5)])?;
/// assert_eq!(bf16_slice(&tensor)?[1].to_f32(), -2.5);
/// # tract_onnx_cast::Result::Ok(())
/// ```
pub fn bf16_slice(tensor: &Tensor) -> Result<&[bf16]> {
    let codes = tensor.try_as_plain_ram().and_then(|view| view.as_slice::<u16>());
    Ok(bytemuck::cast_slice(codes.map_err(Error::of_argument)?))
}

/// A BFLOAT16 tensor of a shape, its elements in row-major order.
///
/// # Errors
///
/// When there are not as many elements as the shape has.
pub fn bf16_tensor(shape: &[usize], elements: &[bf16]) -> Result<Tensor> {
    let codes = bytemuck::cast_slice::<bf16, u16>(elements).to_vec();
    let array = ArrayD::from_shape_vec(shape, codes);
    Ok(array.map_err(|error| Error::of_argument(error.into()))?.into())
}

/// The values of a tensor of any numeric type as FLOAT: exact for every float type but DOUBLE, and
/// for integers of up to 24 bits; rounded to nearest otherwise.
///
/// # Errors
///
/// When the tensor is not of the type's carrier, or holds strings that are no numbers.
pub fn to_f32(tensor: &Tensor, ty: ElementType) -> Result<Tensor> {
    Conversion::new(ty, ElementType::Float, Rules::default()).run(tensor)
}

/// A carrier tensor of the type from FLOAT values, by the rules of a Cast.
///
/// # Errors
///
/// When the tensor does not hold FLOAT values.
///
/// ```
/// use tract_onnx::prelude::tensor1;
/// use tract_onnx_cast::{ElementType, Rules, from_f32, to_f32};
///
/// let weights = from_f32(&tensor1(&[0.3f32, -5.0]), ElementType::Float4E2M1, Rules::default())?;
/// assert_eq!(to_f32(&weights, ElementType::Float4E2M1)?, tensor1(&[0.5f32, -4.0]));
/// # tract_onnx_cast::Result::Ok(())
/// ```
pub fn from_f32(tensor: &Tensor, ty: ElementType, rules: Rules) -> Result<Tensor> {
    let is_float = tensor.datum_type() == ElementType::Float.datum_type();
    if !is_float {
        return Err(Error::argument(format!(
            "values are to be FLOAT, not {:?}",
            tensor.datum_type()
        )));
    }
    Conversion::new(ElementType::Float, ty, rules).run(tensor)
}
