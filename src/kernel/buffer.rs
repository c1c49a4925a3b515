//! Where outputs live.

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

/// A new tensor whose bytes `fill` writes, every one unless the tensor is then dropped unread. `datum_type` is numeric or
/// bool, and for bool `fill` writes 0 or 1.
pub(crate) fn fill_output(
    datum_type: DatumType,
    shape: &[usize],
    fill: impl FnOnce(&mut [u8]),
) -> TractResult<Tensor> {
    debug_assert!(datum_type.is_copy());
    #[expect(unsafe_code, reason = "zeroing first would cost as much as the conversion")]
    // SAFETY: elements of a copy type are plain bytes without a destructor, and `fill` writes them before they are read.
    let mut output = unsafe { Tensor::uninitialized_dt(datum_type, shape)? };
    fill(output.as_bytes_mut());
    Ok(output)
}

/// A new tensor of strings, empty ones until `fill` writes them.
pub(crate) fn fill_strings(
    shape: &[usize],
    fill: impl FnOnce(&mut [String]),
) -> TractResult<Tensor> {
    #[expect(unsafe_code, reason = "the only constructor of strings that does not copy them")]
    // SAFETY: of strings, tract leaves none uninitialised: it makes them empty.
    let mut output = unsafe { Tensor::uninitialized_dt(DatumType::String, shape)? };
    fill(output.try_as_plain_ram_mut()?.as_slice_mut()?);
    Ok(output)
}
