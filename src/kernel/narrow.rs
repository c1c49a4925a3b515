//! Rounding a FLOAT to a format of at most 16 bits. The loops know no format: they read constants that are computed
//! from the format record when the kernel is selected, so a new format is a new record and nothing more.

use crate::format::{FloatFormat, Overflow, Specials};
use crate::rules::{RoundMode, Rules};

const FLOAT_MANTISSA_BITS: u32 = 23;
const FLOAT_BIAS: i32 = 127;
const FLOAT_INFINITY: u32 = 0x7F80_0000;

/// The bits of the FLOAT 2^exponent, for a normal one.
const fn power_of_two(exponent: i32) -> u32 {
    ((exponent + FLOAT_BIAS) as u32) << FLOAT_MANTISSA_BITS
}

/// Rounding to a signed format with zero: SEMANTICS §5.1–5.3.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    /// Mantissa bits that a FLOAT has more.
    shift: u32,
    /// Just under half a unit in the last place, in FLOAT mantissa bits.
    below_half: u32,
    /// What the exponent field loses, in place.
    rebias: u32,
    /// FLOATs below this are subnormal in the format; 0 where both have the same exponents.
    smallest_normal: u32,
    /// A FLOAT whose unit in the last place is the format's smallest subnormal: adding it rounds to a subnormal.
    subnormal_unit: u32,
    /// The first FLOAT whose rounding is beyond the largest finite value.
    overflow_from: u32,
    overflow: u32,
    nan: u32,
    /// From a FLOAT's sign bit down to the format's.
    sign_shift: u32,
    /// The code without its sign bit.
    magnitude_mask: u32,
    /// All ones where a zero takes the source's sign; 0 where its sign bit alone would be a NaN.
    sign_of_zero: u32,
}

impl Narrow {
    pub(super) fn new(format: &FloatFormat, rules: Rules) -> Narrow {
        let m = format.mantissa_bits;
        let shift = FLOAT_MANTISSA_BITS - m;
        let rebias = ((FLOAT_BIAS - format.bias) as u32) << m;
        let same_exponents = format.bias == FLOAT_BIAS;
        let largest = format.max_finite() as u32;
        let tie = ((largest + rebias) << shift) + (1 << (shift - 1));
        // A tie goes to the even code: away from an odd largest one.
        let overflow_from = if largest & 1 == 1 { tie } else { tie + 1 };
        let saturates = match format.overflow {
            Overflow::Infinity => false,
            Overflow::Attribute => rules.saturate,
            Overflow::Clamp => true,
        };
        let overflow = match format.infinity() {
            _ if saturates => format.max_finite(),
            Some(infinity) => infinity,
            None => format.nan(false),
        };
        let zero_takes_sign = format.specials != Specials::NegativeZero;
        Narrow {
            shift,
            below_half: (1 << (shift - 1)) - 1,
            rebias,
            smallest_normal: if same_exponents { 0 } else { power_of_two(1 - format.bias) },
            subnormal_unit: if same_exponents {
                0
            } else {
                power_of_two(format.min_ulp_exponent() + FLOAT_MANTISSA_BITS as i32)
            },
            overflow_from,
            overflow: overflow as u32,
            nan: format.nan(false) as u32,
            sign_shift: 31 - format.sign_bit().ilog2(),
            magnitude_mask: format.sign_bit() as u32 - 1,
            sign_of_zero: if zero_takes_sign { u32::MAX } else { 0 },
        }
    }

    /// The code of `x`, which is exact or rounded to odd.
    #[inline(always)]
    pub(super) fn code(&self, x: f32) -> u32 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let tie_to_even = (magnitude >> self.shift) & 1;
        let normal = magnitude.wrapping_add(self.below_half + tie_to_even) >> self.shift;
        let normal = normal.wrapping_sub(self.rebias);
        let unit = f32::from_bits(self.subnormal_unit);
        let subnormal =
            (f32::from_bits(magnitude) + unit).to_bits().wrapping_sub(self.subnormal_unit);
        let finite = if magnitude < self.smallest_normal { subnormal } else { normal };
        let number = if magnitude >= self.overflow_from { self.overflow } else { finite };
        let code = if magnitude > FLOAT_INFINITY { self.nan } else { number };
        // The formats without NaN turn its sign around, the others' codes have no sign yet: both are an exclusive or.
        let sign = (bits & 0x8000_0000) >> self.sign_shift;
        let kept = if code & self.magnitude_mask == 0 { self.sign_of_zero } else { u32::MAX };
        code ^ (sign & kept)
    }
}

/// Rounds to BFLOAT16, whose exponents are FLOAT's: carries run into the exponent, and beyond the largest number into
/// infinity, by themselves.
#[inline(always)]
pub(super) fn upper_half(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 & 0x8000 | 0x7FC0;
    (if bits & 0x7FFF_FFFF > FLOAT_INFINITY { nan } else { rounded }) as u16
}

/// Rounding to FLOAT8E8M0: SEMANTICS §5.4.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// Added to a normal FLOAT before its mantissa is dropped.
    increment: u32,
    /// From this FLOAT subnormal on the result is 2^−126 rather than 2^−127.
    second_from: u32,
    below: u32,
    above: u32,
    nan: u32,
}

impl Scale {
    pub(super) fn new(format: &FloatFormat, rules: Rules) -> Scale {
        let nan = format.nan(false) as u32;
        let (increment, second_from) = match rules.round_mode {
            RoundMode::Up => (0x007F_FFFF, 0x0040_0001),
            RoundMode::Down => (0, 0x0080_0000),
            RoundMode::Nearest => (0x0040_0000, 0x0060_0000),
        };
        Scale {
            increment,
            second_from,
            below: if rules.saturate { 0 } else { nan },
            above: if rules.saturate { format.max_finite() as u32 } else { nan },
            nan,
        }
    }

    /// The code of `x`, which is exact or rounded to odd.
    #[inline(always)]
    pub(super) fn code(&self, x: f32) -> u32 {
        const SMALLEST: i32 = 0x0040_0000;
        const SMALLEST_NORMAL: u32 = 0x0080_0000;
        const LARGEST: u32 = power_of_two(127);
        let bits = x.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let normal = magnitude.wrapping_add(self.increment) >> FLOAT_MANTISSA_BITS;
        let subnormal = u32::from(magnitude >= self.second_from);
        let in_range = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
        let number = if magnitude > LARGEST { self.above } else { in_range };
        // As a signed number, a FLOAT with its sign set is below every other.
        let number = if (bits as i32) < SMALLEST { self.below } else { number };
        if magnitude > FLOAT_INFINITY { self.nan } else { number }
    }
}

/// Rounds to odd: the FLOAT itself where one holds `x`, else the neighbour whose last bit is set. Below FLOAT's smallest
/// subnormal it may be a zero, and beyond its largest number an infinity: to the formats that are rounded to from there,
/// neither makes a difference.
#[inline(always)]
pub(super) fn odd_from_f64(x: f64) -> f32 {
    // Mantissa bits that a FLOAT does not have: 29 more for each step below its smallest normal exponent.
    const DROPPED: u64 = 52 - FLOAT_MANTISSA_BITS as u64;
    const SMALLEST_NORMAL: u64 = 1023 - 126;
    let exponent = x.to_bits() >> 52 & 0x7FF;
    odd_without(x, (SMALLEST_NORMAL + DROPPED).saturating_sub(exponent).clamp(DROPPED, 52))
}

/// As [`odd_from_f64`], for a number that is zero or at least FLOAT's smallest normal one.
#[inline(always)]
pub(super) fn odd_from_normal(x: f64) -> f32 {
    odd_without(x, 52 - u64::from(FLOAT_MANTISSA_BITS))
}

/// `x` without its last `dropped` bits, whose being set moves into the last bit that stays.
#[inline(always)]
fn odd_without(x: f64, dropped: u64) -> f32 {
    let rest = (1 << dropped) - 1;
    let bits = x.to_bits();
    let sticky = u64::from(bits & rest != 0) << dropped;
    f64::from_bits(bits & !rest | sticky) as f32
}
