//! Carrier tensors as what they mean, and back.

use anyhow::ensure;
use half::bf16;
use tract_onnx::prelude::{Tensor, TractResult, tract_ndarray::ArrayD};

use crate::conversion::Conversion;
use crate::element_type::ElementType;
use crate::rules::Rules;

/// The elements of a BFLOAT16 tensor, in row-major order, without copying.
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
/// # tract_onnx::prelude::TractResult::Ok(())
/// ```
pub fn bf16_slice(tensor: &Tensor) -> TractResult<&[bf16]> {
    Ok(bytemuck::cast_slice(tensor.try_as_plain_ram()?.as_slice::<u16>()?))
}

/// A BFLOAT16 tensor of a shape, its elements in row-major order.
///
/// # Errors
///
/// When there are not as many elements as the shape has.
pub fn bf16_tensor(shape: &[usize], elements: &[bf16]) -> TractResult<Tensor> {
    Ok(ArrayD::from_shape_vec(shape, bytemuck::cast_slice::<bf16, u16>(elements).to_vec())?.into())
}

/// The values of a tensor of any numeric type as FLOAT: exact for every float type but DOUBLE, and for integers of up to
/// 24 bits; rounded to nearest otherwise.
///
/// # Errors
///
/// When the tensor is not of the type's carrier, or holds strings that are no numbers.
pub fn to_f32(tensor: &Tensor, ty: ElementType) -> TractResult<Tensor> {
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
/// # tract_onnx::prelude::TractResult::Ok(())
/// ```
pub fn from_f32(tensor: &Tensor, ty: ElementType, rules: Rules) -> TractResult<Tensor> {
    let is_float = tensor.datum_type() == ElementType::Float.datum_type();
    ensure!(is_float, "values are to be FLOAT, not {:?}", tensor.datum_type());
    Conversion::new(ElementType::Float, ty, rules).run(tensor)
}
