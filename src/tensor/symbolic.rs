//! tract's symbolic dimensions, which are INT64.

use std::borrow::Cow;

use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::SymbolValues;

/// The tensor, symbolic dimensions as INT64. Fails when a symbol has no value.
pub(crate) fn numbers<'a>(
    tensor: &'a Tensor,
    symbols: &SymbolValues,
) -> TractResult<Cow<'a, Tensor>> {
    if tensor.datum_type() != DatumType::TDim {
        return Ok(Cow::Borrowed(tensor));
    }
    let dims = tensor.try_as_plain_ram()?;
    let number = |dim: &TDim| -> TractResult<i64> { Ok(dim.eval(symbols).to_i64()?) };
    let values = dims.as_slice::<TDim>()?.iter().map(number).collect::<TractResult<Vec<_>>>()?;
    Ok(Cow::Owned(Tensor::from_shape(tensor.shape(), &values)?))
}
