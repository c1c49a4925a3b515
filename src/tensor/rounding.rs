//! Tensors of FLOATs rounded to half precision.

#![forbid(unsafe_code)]

use tract_onnx::prelude::{Tensor, TractResult};

use super::parallel::in_parts;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::rounding::Rounding;

/// Rounds a tensor of FLOATs in its own buffer; a large one on the threads of tract's current
/// executor. Fails when the tensor is not of FLOATs, or its bytes are not at hand.
pub(crate) fn round(rounding: &Rounding, tensor: &mut Tensor) -> TractResult<()> {
    let mut view = tensor.try_as_plain_ram_mut()?;
    let floats = view.as_slice_mut::<f32>()?;
    let elements = floats.len();
    in_parts(floats, 1, elements, |_, part| rounding.run(Level::best(), part));
    Ok(())
}
