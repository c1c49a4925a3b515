//! `Pow` of an integer by an integer.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::BinMiniOp;

use crate::error::Error;
use crate::ops::host::element_wise::binary_by_eval;
use crate::ops::host::hook::refused;
use crate::ops::host::integers::{pairs, read, write};
use crate::ops::host::label::Label;

/// Powers that wrap around in the type of the base, as products do. A negative exponent is the
/// reciprocal's, cut to an integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Power {
    /// For messages.
    pub(crate) node: Label,
}

impl Power {
    fn power(&self, base: i128, exponent: i128) -> Result<i128, Error> {
        match (base, exponent) {
            (0, ..0) => Err(refused(&self.node, "Pow", format!("0 has no power of {exponent}"))),
            (-1 | 1, _) => Ok(if exponent % 2 == 0 { 1 } else { base }),
            (_, ..0) => Ok(0),
            _ => {
                let (mut power, mut square, mut exponent) = (1i128, base, exponent);
                while exponent > 0 {
                    if exponent % 2 == 1 {
                        power = power.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    exponent /= 2;
                }
                Ok(power)
            }
        }
    }
}

impl BinMiniOp for Power {
    fn name(&self) -> &'static str {
        "Pow"
    }

    fn is_commutative(&self) -> bool {
        false
    }

    fn result_datum_type(&self, base: DatumType, _: DatumType) -> TractResult<DatumType> {
        Ok(base)
    }

    fn eval(&self, a: TValue, b: TValue, ty: DatumType) -> TractResult<Tensor> {
        let symbols = SymbolValues::default();
        let (a, b) = (read(&a, &symbols)?, read(&b, &symbols)?);
        write(&pairs(a.view(), b.view(), 0, |a, b| self.power(a, b))?, ty)
    }

    binary_by_eval!();
}
