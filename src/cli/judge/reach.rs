//! What an element type can hold.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::{ElementType, Family};

use super::number::Num;

/// What a type can hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reach {
    pub(crate) min: Num,
    pub(crate) max: Num,
    /// The smallest positive value, and the smallest positive normal one, of a floating-point type.
    pub(crate) min_positive: Option<Num>,
    pub(crate) min_normal: Option<Num>,
}

impl Reach {
    /// Of a numeric type.
    pub(crate) fn of(ty: ElementType) -> Option<Reach> {
        let whole = |low: i128, high: i128| {
            let (min, max) = (Num(low as f64), Num(high as f64));
            Some(Reach { min, max, min_positive: None, min_normal: None })
        };
        match ty.family() {
            Family::Text => None,
            Family::Bool => whole(0, 1),
            Family::Signed => whole(-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
            Family::Unsigned => whole(0, (1 << ty.bits()) - 1),
            Family::Float(format) => {
                let m = format.mantissa_bits as i32;
                let field = (format.max_finite() >> format.mantissa_bits) as i32;
                let fraction = format.max_finite() & ((1 << format.mantissa_bits) - 1);
                let one = (1u64 << format.mantissa_bits) as f64;
                let max = (1.0 + fraction as f64 / one) * 2f64.powi(field - format.bias);
                let min_normal = 2f64.powi(format.min_ulp_exponent() + m);
                // Below DOUBLE's normal values `powi` gives up.
                let min_positive = min_normal / one;
                let min = if format.is_signed() { -max } else { min_normal };
                Some(Reach {
                    min: Num(min),
                    max: Num(max),
                    min_positive: Some(Num(min_positive)),
                    min_normal: Some(Num(min_normal)),
                })
            }
        }
    }
}

/// Whether a finite value is one that the type cannot hold even after rounding.
pub(crate) fn beyond(ty: ElementType, limits: &Reach, x: f64) -> bool {
    let (Num(min), Num(max)) = (limits.min, limits.max);
    let is_outside = x < min || x > max;
    // What rounds to the largest value is held.
    is_outside
        && match ty.family() {
            Family::Float(format) => {
                let m = format.mantissa_bits as i32;
                let exponent = max.log2().floor() as i32;
                x.abs() - max >= 2f64.powi(exponent - m - 1) || x < min && !format.is_signed()
            }
            _ => true,
        }
}
