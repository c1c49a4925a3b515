//! Rounding a FLOAT to a format of at most 16 bits. The loops know no format: they read constants
//! that are computed from the format record when the kernel is selected, so a new format with a
//! mantissa is a new record and nothing more (a record without one is refused when it is compiled,
//! but for scales). With AVX2 `x86/bytes` has another form of it.

use crate::cast::format::{FloatFormat, Overflow, Specials};
use crate::cast::rules::{RoundMode, Rules};

const FLOAT_MANTISSA_BITS: u32 = 23;
const FLOAT_BIAS: i32 = 127;
const FLOAT_INFINITY: u32 = 0x7F80_0000;

/// The bits of the FLOAT 2^exponent, for a normal one.
const fn power_of_two(exponent: i32) -> u32 {
    ((exponent + FLOAT_BIAS) as u32) << FLOAT_MANTISSA_BITS
}

/// Rounding to a signed format with zero: [SEMANTICS §5.1–5.3](crate::semantics).
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    /// Mantissa bits that a FLOAT has more.
    pub(super) shift: u32,
    /// Added before they are dropped: just under half a unit in the last place, and what the
    /// exponent field loses.
    round_and_rebias: u32,
    /// FLOATs below this are subnormal in the format.
    pub(super) smallest_normal: u32,
    /// A FLOAT whose unit in the last place is the format's smallest subnormal: adding it rounds to
    /// a subnormal.
    subnormal_unit: u32,
    /// The format's largest number as a FLOAT.
    largest: u32,
    /// The first FLOAT whose rounding is beyond it, and what becomes of that, where it does not
    /// become the largest number.
    overflow_from: u32,
    overflow: u32,
    pub(super) nan: u32,
    /// From a FLOAT's sign bit down to the format's.
    sign_shift: u32,
    /// The code without its sign bit.
    pub(super) magnitude_mask: u32,
    saturates: bool,
    /// Whether a zero takes the source's sign. Where it does not, its sign bit alone would be a
    /// NaN.
    signs_zero: bool,
}

impl Narrow {
    pub(crate) fn new(format: &FloatFormat, rules: Rules) -> Narrow {
        let m = format.mantissa_bits;
        let shift = FLOAT_MANTISSA_BITS - m;
        let rebias = ((FLOAT_BIAS - format.bias) as u32) << FLOAT_MANTISSA_BITS;
        let below_half = (1u32 << (shift - 1)) - 1;
        let code = format.max_finite() as u32;
        let largest = (code << shift) + rebias;
        let tie = largest + (1 << (shift - 1));
        let saturates = match format.overflow {
            Overflow::Infinity => false,
            Overflow::Attribute => rules.saturate,
            Overflow::Clamp => true,
        };
        let overflow = format.infinity().unwrap_or(format.nan(false));
        Narrow {
            shift,
            round_and_rebias: below_half.wrapping_sub(rebias),
            smallest_normal: power_of_two(1 - format.bias),
            subnormal_unit: power_of_two(format.min_ulp_exponent() + FLOAT_MANTISSA_BITS as i32),
            largest,
            // A tie goes to the even code: away from an odd largest one.
            overflow_from: if code & 1 == 1 { tie } else { tie + 1 },
            overflow: overflow as u32,
            nan: format.nan(false) as u32,
            sign_shift: 31 - format.sign_bit().ilog2(),
            magnitude_mask: format.sign_bit() as u32 - 1,
            saturates,
            signs_zero: format.specials != Specials::NegativeZero,
        }
    }

    pub(crate) fn saturates(&self) -> bool {
        self.saturates
    }

    pub(crate) fn signs_zero(&self) -> bool {
        self.signs_zero
    }

    /// The code of `x`, which is exact or rounded to odd. The parameters are what the record says
    /// of them, known when the loop is compiled.
    #[inline(always)]
    pub(crate) fn code<const SATURATES: bool, const SIGNS_ZERO: bool>(&self, x: f32) -> u32 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7FFF_FFFF;
        let bounded = if SATURATES { magnitude.min(self.largest) } else { magnitude };
        let tie_to_even = (bounded >> self.shift) & 1;
        let normal =
            bounded.wrapping_add(self.round_and_rebias).wrapping_add(tie_to_even) >> self.shift;
        let unit = f32::from_bits(self.subnormal_unit);
        let subnormal =
            (f32::from_bits(bounded) + unit).to_bits().wrapping_sub(self.subnormal_unit);
        let finite = if bounded < self.smallest_normal { subnormal } else { normal };
        let overflows = !SATURATES && magnitude >= self.overflow_from;
        let number = if overflows { self.overflow } else { finite };
        let code = if magnitude > FLOAT_INFINITY { self.nan } else { number };
        // The formats without NaN turn its sign around, the others' codes have no sign yet: both
        // are an exclusive or.
        let sign = (bits >> self.sign_shift) & !self.magnitude_mask;
        let is_unsigned = !SIGNS_ZERO && code & self.magnitude_mask == 0;
        code ^ if is_unsigned { 0 } else { sign }
    }
}

/// Rounds to BFLOAT16, whose exponents are FLOAT's: carries run into the exponent, and beyond the
/// largest number into infinity, by themselves.
#[inline(always)]
pub(super) fn upper_half(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 & 0x8000 | 0x7FC0;
    (if bits & 0x7FFF_FFFF > FLOAT_INFINITY { nan } else { rounded }) as u16
}

/// Rounding to FLOAT8E8M0: [SEMANTICS §5.4](crate::semantics).
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// Added to a normal FLOAT before its mantissa is dropped.
    pub(super) increment: u32,
    /// From this FLOAT subnormal on the result is 2^−126 rather than 2^−127.
    pub(super) second_from: u32,
    saturates: bool,
    pub(super) above: u32,
    pub(super) nan: u32,
}

impl Scale {
    /// The smallest FLOAT that is not below all numbers of the format.
    pub(super) const SMALLEST: i32 = 0x0040_0000;
    /// The largest that is not above all of them.
    pub(super) const LARGEST: u32 = power_of_two(127);

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
            saturates: rules.saturate,
            above: if rules.saturate { format.max_finite() as u32 } else { nan },
            nan,
        }
    }

    pub(super) fn saturates(&self) -> bool {
        self.saturates
    }

    /// The code of `x`, which is exact or rounded to odd; the parameter is what
    /// [`Scale::saturates`] says. As signed numbers, what is negative or too small for the second
    /// code is less than that, and so is its code.
    #[inline(always)]
    pub(super) fn code<const SATURATES: bool>(&self, x: f32) -> u32 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(self.increment) >> FLOAT_MANTISSA_BITS;
        let is_first = (bits as i32) < self.second_from as i32;
        let number = if is_first { 0 } else { rounded.min(self.above) };
        // Unsigned, what is less than the smallest number wraps around beyond the largest, and NaN
        // is there as well.
        let from_smallest = bits.wrapping_sub(Scale::SMALLEST as u32);
        let is_none = if SATURATES {
            bits & 0x7FFF_FFFF > FLOAT_INFINITY
        } else {
            from_smallest > Scale::LARGEST - Scale::SMALLEST as u32
        };
        if is_none { self.nan } else { number }
    }
}

/// Rounds to odd: the FLOAT itself where one holds `x`, else the neighbour whose last bit is set.
/// Below FLOAT's smallest subnormal it may be a zero, and beyond its largest number an infinity: to
/// the formats that are rounded to from there, neither makes a difference.
#[inline(always)]
pub(crate) fn odd_from_f64(x: f64) -> f32 {
    // Mantissa bits that a FLOAT does not have: 29 more for each step below its smallest normal
    // exponent.
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
