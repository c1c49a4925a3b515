//! What a floating-point format *is*: a record of constants ([SEMANTICS §3](crate::semantics)).
//! Everything else — masks, thresholds, rounding — is derived from the record, never typed in.

#![forbid(unsafe_code)]

/// How a format uses its codes for values that are not finite numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Specials {
    /// The top exponent holds infinity (mantissa 0) and NaN, as in IEEE 754.
    Ieee,
    /// No infinity; NaN is the code of all ones, with either sign (the suffix `FN`).
    AllOnes,
    /// No infinity and no −0; the code of −0 is the only NaN (the suffix `FNUZ`).
    NegativeZero,
    /// Every code is a finite number.
    None,
    /// Unsigned powers of two without zero; the code of all ones is NaN (FLOAT8E8M0).
    ScaleOnly,
}

/// What becomes of a value beyond the largest finite one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// ±infinity, whatever `saturate` says ([SEMANTICS §5.1](crate::semantics)).
    Infinity,
    /// The attribute `saturate` decides (§5.2, §5.4).
    Attribute,
    /// ±the largest finite value, whatever `saturate` says (§5.3).
    Clamp,
}

/// A binary floating-point format of at most 64 bits: sign, exponent and mantissa from the most
/// significant bit down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Width of the exponent field in bits.
    pub exponent_bits: u32,
    /// Width of the mantissa field in bits, the implicit bit not counted.
    pub mantissa_bits: u32,
    /// What the exponent field has added to it.
    pub bias: i32,
    /// How infinities and NaN are encoded.
    pub specials: Specials,
    /// What becomes of a value out of range.
    pub overflow: Overflow,
}

use Overflow::{Attribute, Clamp, Infinity};
use Specials::{AllOnes, Ieee, NegativeZero, ScaleOnly};

/// A record. Kernels round by the last bit of a mantissa: one without is a scale, or none that they
/// know ([`kernel::round`](crate::cast::kernel)).
const fn format(
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
    overflow: Overflow,
) -> FloatFormat {
    assert!(mantissa_bits > 0 || matches!(specials, ScaleOnly), "has no mantissa and is no scale");
    FloatFormat { exponent_bits, mantissa_bits, bias, specials, overflow }
}

/// IEEE 754 binary64.
pub const DOUBLE: FloatFormat = format(11, 52, 1023, Ieee, Infinity);
/// IEEE 754 binary32.
pub const FLOAT: FloatFormat = format(8, 23, 127, Ieee, Infinity);
/// The upper half of a binary32.
pub const BFLOAT16: FloatFormat = format(8, 7, 127, Ieee, Infinity);
/// IEEE 754 binary16.
pub const FLOAT16: FloatFormat = format(5, 10, 15, Ieee, Infinity);
/// Open Compute Project OFP8 E5M2.
pub const FLOAT8E5M2: FloatFormat = format(5, 2, 15, Ieee, Attribute);
/// E5M2 with one more exponent of finite values, no infinity, no −0.
pub const FLOAT8E5M2FNUZ: FloatFormat = format(5, 2, 16, NegativeZero, Attribute);
/// Open Compute Project OFP8 E4M3.
pub const FLOAT8E4M3FN: FloatFormat = format(4, 3, 7, AllOnes, Attribute);
/// E4M3 with no infinity and no −0.
pub const FLOAT8E4M3FNUZ: FloatFormat = format(4, 3, 8, NegativeZero, Attribute);
/// Open Compute Project MX E3M2.
pub const FLOAT6E3M2: FloatFormat = format(3, 2, 3, Specials::None, Clamp);
/// Open Compute Project MX E2M3.
pub const FLOAT6E2M3: FloatFormat = format(2, 3, 1, Specials::None, Clamp);
/// Open Compute Project MX E2M1.
pub const FLOAT4E2M1: FloatFormat = format(2, 1, 1, Specials::None, Clamp);
/// Open Compute Project MX scale: 2^(code − 127).
pub const FLOAT8E8M0: FloatFormat = format(8, 0, 127, ScaleOnly, Attribute);

impl FloatFormat {
    /// Whether the format has a sign bit.
    pub const fn is_signed(&self) -> bool {
        !matches!(self.specials, ScaleOnly)
    }

    /// The code with only the sign bit set; 0 for an unsigned format.
    pub const fn sign_bit(&self) -> u64 {
        if self.is_signed() { 1 << (self.exponent_bits + self.mantissa_bits) } else { 0 }
    }

    /// The exponent of one unit in the last place of the smallest normal, and of every subnormal,
    /// value.
    pub const fn min_ulp_exponent(&self) -> i32 {
        let first_normal_field = if self.is_signed() { 1 } else { 0 };
        first_normal_field - self.bias - self.mantissa_bits as i32
    }

    /// The code of the largest finite value, sign clear.
    pub const fn max_finite(&self) -> u64 {
        let all_ones = (1u64 << (self.exponent_bits + self.mantissa_bits)) - 1;
        match self.specials {
            Ieee => all_ones - (1 << self.mantissa_bits),
            AllOnes | ScaleOnly => all_ones - 1,
            NegativeZero | Specials::None => all_ones,
        }
    }

    /// The code of +infinity, where the format has one.
    pub const fn infinity(&self) -> Option<u64> {
        match self.specials {
            Ieee => Some(self.max_finite() + 1),
            _ => None,
        }
    }

    /// The canonical NaN with the source's sign, where the format has a NaN ([SEMANTICS
    /// §5.5](crate::semantics)); the two-signed zero that §5.3 decides on where it has none.
    pub const fn nan(&self, negative: bool) -> u64 {
        let sign = if negative { self.sign_bit() } else { 0 };
        match self.specials {
            Ieee => sign | (self.max_finite() + 1) | (1 << (self.mantissa_bits - 1)),
            AllOnes => sign | (self.max_finite() + 1),
            ScaleOnly => self.max_finite() + 1,
            NegativeZero => self.sign_bit(),
            Specials::None => self.sign_bit() ^ sign,
        }
    }

    /// Whether a code is a NaN of this format, whatever its sign and payload.
    pub const fn is_nan(&self, code: u64) -> bool {
        let magnitude = code & !self.sign_bit();
        match self.specials {
            Ieee | AllOnes | ScaleOnly => {
                magnitude > self.max_finite() + if matches!(self.specials, Ieee) { 1 } else { 0 }
            }
            NegativeZero => code == self.sign_bit(),
            Specials::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E3M0 rounds 3 to code 4 by the kernels, and to code 5 by the definition.
    #[test]
    #[should_panic = "has no mantissa"]
    fn a_record_without_a_mantissa_is_refused() {
        format(3, 0, 3, Specials::None, Clamp);
    }
}
