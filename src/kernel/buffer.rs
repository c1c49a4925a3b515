//! Where outputs live.

use tract_onnx::prelude::{DatumType, Tensor, TractResult};

/// A new tensor whose bytes `fill` writes, every one. `datum_type` is numeric or bool, and for bool `fill` writes 0 or 1.
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
