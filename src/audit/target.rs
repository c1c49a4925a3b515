//! What a target type holds, derived from its family and format record.

use std::cmp::Ordering;

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{FloatFormat, Specials};

use super::range::power_of_two;

/// What decides an element's outcome, of a target type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    Float(FloatTarget),
    Integer(IntegerTarget),
    Bool,
    Text,
}

/// A floating-point target. Every number here is exact in DOUBLE.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FloatTarget {
    /// The largest finite value.
    pub(super) max: f64,
    /// The value half a unit beyond `max`, from which on values round out of range.
    beyond: f64,
    /// Whether `beyond` itself, a tie, rounds out of range.
    tie_goes_out: bool,
    /// Whether it has powers of two only, and no zero: the range then starts at `min_normal`, and ends at `max`.
    pub(super) is_scale: bool,
    /// The smallest normal value.
    pub(super) min_normal: f64,
    pub(super) mantissa_bits: i32,
    pub(super) min_ulp_exponent: i32,
    max_exponent: i32,
}

/// An integer target, by the range of its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct IntegerTarget {
    low: i128,
    high: i128,
}

impl Target {
    pub(super) fn new(ty: ElementType) -> Target {
        match ty.family() {
            Family::Float(format) => Target::Float(FloatTarget::new(format)),
            Family::Signed => {
                let half = 1i128 << (ty.bits() - 1);
                Target::Integer(IntegerTarget { low: -half, high: half - 1 })
            }
            Family::Unsigned => {
                Target::Integer(IntegerTarget { low: 0, high: (1i128 << ty.bits()) - 1 })
            }
            Family::Bool => Target::Bool,
            Family::Text => Target::Text,
        }
    }
}

impl FloatTarget {
    fn new(format: &FloatFormat) -> FloatTarget {
        let m = format.mantissa_bits as i32;
        let is_scale = format.specials == Specials::ScaleOnly;
        let field = (format.max_finite() >> format.mantissa_bits) as i32;
        let fraction = (format.max_finite() & ((1 << format.mantissa_bits) - 1)) as f64;
        let max_exponent = field - format.bias;
        let ulp = power_of_two(max_exponent - m);
        let max = power_of_two(max_exponent) + fraction * ulp;
        FloatTarget {
            max,
            beyond: max + ulp / 2.0,
            tie_goes_out: format.max_finite() & 1 == 1,
            is_scale,
            min_normal: power_of_two(format.min_ulp_exponent() + m),
            mantissa_bits: m,
            min_ulp_exponent: format.min_ulp_exponent(),
            max_exponent,
        }
    }

    /// Whether the type does not hold the value even after rounding.
    pub(super) fn is_beyond(&self, x: f64) -> bool {
        self.is_beyond_by(x < 0.0, |limit| x.abs().total_cmp(&limit))
    }

    /// As [`FloatTarget::is_beyond`], of a value that need not be exact in DOUBLE: how its magnitude compares with a limit.
    pub(super) fn is_beyond_by(&self, negative: bool, compare: impl Fn(f64) -> Ordering) -> bool {
        if self.is_scale {
            return negative || compare(self.min_normal).is_lt() || compare(self.max).is_gt();
        }
        match compare(self.beyond) {
            Ordering::Less => false,
            Ordering::Equal => self.tie_goes_out,
            Ordering::Greater => true,
        }
    }

    /// The unit in the last place at a value, given its ⌊log₂|x|⌋; `None` for zero.
    pub(super) fn ulp(&self, exponent: Option<i32>) -> f64 {
        let exponent = exponent.map(|e| e.min(self.max_exponent) - self.mantissa_bits);
        power_of_two(exponent.unwrap_or(i32::MIN).max(self.min_ulp_exponent))
    }
}

impl IntegerTarget {
    /// The value without its fraction, if the type holds that.
    pub(super) fn holds(&self, x: f64) -> bool {
        let t = x.trunc();
        // Both limits, or the first number beyond them, are powers of two, and so exact.
        t >= self.low as f64 && t < (self.high + 1) as f64
    }
}

/// Whether every value of one type is a value of the other: a cast there loses nothing, and one back restores it.
pub fn holds_every_value(of: ElementType, held_in: ElementType) -> bool {
    match (of.family(), held_in.family()) {
        _ if of == held_in => true,
        // Spelled so that they read back.
        (_, Family::Text) => true,
        (Family::Text, _)
        | (Family::Float(_), Family::Bool | Family::Signed | Family::Unsigned) => false,
        (_, Family::Bool) => false,
        (Family::Bool, Family::Float(format)) => format.specials != Specials::ScaleOnly,
        (Family::Bool, Family::Signed | Family::Unsigned) => true,
        (Family::Unsigned, Family::Unsigned) => of.bits() <= held_in.bits(),
        (Family::Signed, Family::Signed) => of.bits() <= held_in.bits(),
        (Family::Unsigned, Family::Signed) => of.bits() < held_in.bits(),
        (Family::Signed, Family::Unsigned) => false,
        (Family::Signed | Family::Unsigned, Family::Float(format)) => {
            let digits = of.bits() - u32::from(of.family() == Family::Signed);
            let target = FloatTarget::new(format);
            // −2^digits has one digit only, but must be in range as well.
            format.specials != Specials::ScaleOnly
                && digits <= format.mantissa_bits + 1
                && power_of_two(digits as i32) <= target.max
                && target.min_ulp_exponent <= 0
        }
        (Family::Float(from), Family::Float(to)) => holds_every_float(from, to),
    }
}

/// Whether every value of a type has an integral part that the integer type holds, so that a cast only truncates; true of
/// types that are not of floating point.
pub(super) fn holds_every_integral_part(of: ElementType, held_in: ElementType) -> bool {
    let Family::Float(format) = of.family() else { return true };
    let Target::Integer(target) = Target::new(held_in) else { return true };
    let FloatTarget { max, .. } = FloatTarget::new(format);
    format.specials == Specials::None && target.holds(max) && target.holds(-max)
}

fn holds_every_float(from: &FloatFormat, to: &FloatFormat) -> bool {
    let (a, b) = (FloatTarget::new(from), FloatTarget::new(to));
    let has_infinity = |f: &FloatFormat| f.infinity().is_some();
    let has_nan = |f: &FloatFormat| f.specials != Specials::None;
    // −0 and 0 are the same value.
    let has_zero_and_sign = |f: &FloatFormat| f.specials != Specials::ScaleOnly;
    a.mantissa_bits <= b.mantissa_bits
        && a.max <= b.max
        && a.min_ulp_exponent >= b.min_ulp_exponent
        && (!has_infinity(from) || has_infinity(to))
        && (!has_nan(from) || has_nan(to))
        && (!has_zero_and_sign(from) || has_zero_and_sign(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::rules::Rules;
    use crate::cast::scalar::{convert, decode};

    /// Against every code of the small types.
    #[test]
    fn a_type_holds_another_if_every_code_survives() {
        let small = || ElementType::ALL.iter().copied().filter(|ty| (1..=16).contains(&ty.bits()));
        for of in small() {
            for held_in in ElementType::ALL.iter().copied().filter(|ty| ty.bits() > 0) {
                let survives = |code: u64| {
                    let code = if of == ElementType::Bool { code & 1 } else { code };
                    let rules = Rules { saturate: false, ..Rules::default() };
                    let there =
                        convert(of, held_in, rules, code).and_then(|code| decode(held_in, code));
                    let here = decode(of, code);
                    there.zip(here).is_some_and(|(there, here)| is_same(there, here))
                };
                let all = of == held_in || (0..1u64 << of.bits()).all(survives);
                assert_eq!(holds_every_value(of, held_in), all, "{of} in {held_in}");
            }
        }
    }

    fn is_same(a: crate::cast::scalar::Value, b: crate::cast::scalar::Value) -> bool {
        use crate::cast::scalar::Value::*;
        match (a, b) {
            (NaN { .. }, NaN { .. }) => true,
            (Finite(a), Finite(b)) => {
                let value = |f: crate::cast::scalar::Finite| {
                    let magnitude = f.significand as f64 * 2f64.powi(f.exponent);
                    if f.negative { -magnitude } else { magnitude }
                };
                value(a) == value(b)
            }
            (a, b) => a == b,
        }
    }
}
