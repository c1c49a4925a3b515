//! A tensor with the element type that its bits mean.

#![forbid(unsafe_code)]

use half::bf16;
use tract_onnx::prelude::*;

use super::carrier::bf16_slice;
use super::conversion::Conversion;
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::error::{Error, Result};

/// A tensor and its ONNX element type: tract alone cannot tell BFLOAT16 from UINT16.
///
/// ```
/// use tract_onnx::prelude::*;
/// use tract_onnx_cast::{ElementType, OnnxTensor, bf16, bf16_tensor};
///
/// let halves = OnnxTensor::new(ElementType::BFloat16, bf16_tensor(&[1], &[bf16::ONE])?)?;
/// assert_eq!(halves.as_bf16()?, [bf16::ONE]);
/// let codes = OnnxTensor::new(ElementType::Uint16, tensor1(&[1u16]))?;
/// assert!(codes.as_bf16().is_err());
/// # tract_onnx_cast::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxTensor {
    ty: ElementType,
    tensor: Tensor,
}

impl OnnxTensor {
    /// A tensor whose elements are of a type, such as one of
    /// [`output_element_types`](crate::output_element_types).
    ///
    /// # Errors
    ///
    /// When the tensor is not of the type's carrier.
    pub fn new(ty: ElementType, tensor: Tensor) -> Result<OnnxTensor> {
        let (held, carrier) = (tensor.datum_type(), ty.datum_type());
        if held != carrier {
            return Err(Error::argument(format!("{ty} is held as {carrier:?}, not as {held:?}")));
        }
        Ok(OnnxTensor { ty, tensor })
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.ty
    }

    /// The carrier, as tract takes it.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The carrier, as tract takes it.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }

    /// The elements in row-major order, without copying.
    ///
    /// # Errors
    ///
    /// When they are not BFLOAT16.
    pub fn as_bf16(&self) -> Result<&[bf16]> {
        if self.ty != ElementType::BFloat16 {
            return Err(Error::argument(format!("the elements are {}, not BFLOAT16", self.ty)));
        }
        bf16_slice(&self.tensor)
    }

    /// The tensor in another type, by the rules of a Cast.
    ///
    /// # Errors
    ///
    /// When strings are no numbers.
    pub fn cast(&self, to: ElementType, rules: Rules) -> Result<OnnxTensor> {
        OnnxTensor::new(to, Conversion::new(self.ty, to, rules).run(&self.tensor)?)
    }
}
