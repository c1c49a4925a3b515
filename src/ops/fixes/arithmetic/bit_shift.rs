//! `BitShift` of signed integers, which ONNX has since opset 28, and by as many bits as there are
//! or more, which it defines since then, as onnx's evaluator and ONNX Runtime had it before.

#![forbid(unsafe_code)]

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::BinMiniOp;

use crate::ops::fixes::arithmetic::binary::wire;
use crate::ops::host::element_wise::binary_by_eval;
use crate::ops::host::hook::{HookSite, Instead};
use crate::ops::host::integers::{is_integer, pairs, read, write};

/// The same as tract's, where nothing is left undefined.
pub(crate) fn bit_shift(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [x, y] = inputs else { return Ok(None) };
    let bits = model.outlet_fact(*y)?;
    let (x, y) = (model.outlet_fact(*x)?.datum_type, bits.datum_type);
    if x != y || !is_integer(x) {
        return Ok(None);
    }
    let known = bits.konst.as_ref().map(|bits| read(bits, &SymbolValues::default())).transpose()?;
    let all = 8 * i128::try_from(x.size_of())?;
    if x.is_unsigned() && known.is_some_and(|known| known.iter().all(|bits| *bits < all)) {
        return Ok(None);
    }
    let direction: Option<&str> = site.proto.get_attr_opt("direction")?;
    let shift: Box<dyn BinMiniOp> = match direction {
        Some("RIGHT") => Box::new(Shift::<false>),
        _ => Box::new(Shift::<true>),
    };
    wire(site, model, inputs, shift, x)
}

/// A shift to the left, or else to the right, where copies of the sign bit come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shift<const LEFT: bool>;

impl<const LEFT: bool> Shift<LEFT> {
    /// `x` of `bits` bits, to be cut to as many.
    fn shifted(x: i128, y: i128, bits: u32) -> i128 {
        match u32::try_from(y).ok().filter(|y| *y < bits) {
            Some(y) if LEFT => x << y,
            Some(y) => x >> y,
            None if LEFT || x >= 0 => 0,
            None => -1,
        }
    }
}

impl<const LEFT: bool> BinMiniOp for Shift<LEFT> {
    fn name(&self) -> &'static str {
        if LEFT { "OnnxShiftLeft" } else { "OnnxShiftRight" }
    }

    fn is_commutative(&self) -> bool {
        false
    }

    fn result_datum_type(&self, x: DatumType, y: DatumType) -> TractResult<DatumType> {
        ensure!(x == y, "BitShift of {x:?} by {y:?}");
        Ok(x)
    }

    fn eval(&self, x: TValue, y: TValue, ty: DatumType) -> TractResult<Tensor> {
        let symbols = SymbolValues::default();
        let bits = 8 * u32::try_from(ty.size_of())?;
        let (x, y) = (read(&x, &symbols)?, read(&y, &symbols)?);
        write(&pairs(x.view(), y.view(), 0, |x, y| Ok(Self::shifted(x, y, bits)))?, ty)
    }

    binary_by_eval!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_by_all_bits_or_backwards_leave_the_sign() {
        let left = |y| Shift::<true>::shifted(-8, y, 8);
        let right = |x, y| Shift::<false>::shifted(x, y, 8);
        assert_eq!([left(1), left(7), left(8), left(-1), left(1 << 40)], [-16, -1024, 0, 0, 0]);
        assert_eq!([right(-8, 1), right(-8, 7), right(-8, 8), right(-8, -1)], [-4, -1, -1, -1]);
        assert_eq!([right(8, 1), right(8, 8), right(8, -1)], [4, 0, 0]);
    }
}
