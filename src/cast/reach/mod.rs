//! How far a type reaches: its limits, its unit in the last place, and what is beyond it
//! ([SEMANTICS §5.1–5.4](crate::semantics), 7.2).

#![forbid(unsafe_code)]

use std::cmp::Ordering;

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{FloatFormat, Specials};
use crate::cast::value::{Number, power_of_two};

/// What the elements of a numeric type can be, derived from its family and format record.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Reach {
    /// A floating-point type.
    Float(FloatReach),
    /// An integer type.
    Integer(IntegerReach),
    /// BOOL: 0 and 1.
    Bool,
}

/// The reach of a floating-point type. Every number here is exact in DOUBLE.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct FloatReach {
    /// The largest finite value; its negative is the smallest, but for FLOAT8E8M0.
    pub max: f64,
    /// The smallest positive value.
    pub min_positive: f64,
    /// The smallest positive normal value.
    pub min_normal: f64,
    /// Bits after the leading one of a normal value.
    pub mantissa_bits: u32,
    /// Whether it has powers of two only, without zero and signs, as FLOAT8E8M0: its range is
    /// tested before rounding.
    pub is_scale: bool,
    /// The value half a unit beyond `max`, from which on values round out of range.
    half_beyond: f64,
    /// Whether `half_beyond` itself, a tie, rounds out of range: not where the largest value's code
    /// is even.
    tie_goes_out: bool,
    min_ulp_exponent: i32,
    max_exponent: i32,
}

/// The reach of an integer type: every integer from `min` to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IntegerReach {
    /// The smallest value.
    pub min: i128,
    /// The largest value.
    pub max: i128,
}

impl Reach {
    /// Of a type; `None` for STRING.
    pub fn of(ty: ElementType) -> Option<Reach> {
        Some(match ty.family() {
            Family::Float(format) => Reach::Float(FloatReach::of(format)),
            Family::Signed => {
                let half = 1i128 << (ty.bits() - 1);
                Reach::Integer(IntegerReach { min: -half, max: half - 1 })
            }
            Family::Unsigned => {
                Reach::Integer(IntegerReach { min: 0, max: (1i128 << ty.bits()) - 1 })
            }
            Family::Bool => Reach::Bool,
            Family::Text => return None,
        })
    }

    /// The smallest and the largest finite value.
    pub fn limits(&self) -> (Number, Number) {
        match *self {
            Reach::Float(float) => (Number::Real(float.min()), Number::Real(float.max)),
            Reach::Integer(IntegerReach { min, max }) => {
                (Number::Integer(min), Number::Integer(max))
            }
            Reach::Bool => (Number::Integer(0), Number::Integer(1)),
        }
    }

    /// Whether the type does not hold a finite value even after rounding to it: to a floating-point
    /// type as Cast rounds, to FLOAT8E8M0 not at all, to an integer type toward zero ([SEMANTICS
    /// §5.1–5.4](crate::semantics), 7.2). NaN and infinities are not beyond.
    pub fn is_beyond(&self, x: Number) -> bool {
        if !x.rounded().is_finite() {
            return false;
        }
        match self {
            Reach::Float(float) => match x {
                Number::Real(x) => float.is_beyond(x),
                Number::Integer(n) => float.is_beyond_by(n < 0, |limit| {
                    let magnitude = Number::Integer(n.abs());
                    magnitude.compare(Number::Real(limit)).unwrap_or(Ordering::Greater)
                }),
            },
            Reach::Integer(integer) => !integer.holds_truncated(x),
            // Whatever is not zero is true.
            Reach::Bool => false,
        }
    }

    /// The unit in the last place at a finite value: of the last binade for values beyond it, of
    /// the smallest values for those below the normal ones; 1 for integers and BOOL.
    pub fn ulp(&self, x: Number) -> f64 {
        match self {
            Reach::Float(float) => float.ulp(x.exponent()),
            Reach::Integer(_) | Reach::Bool => 1.0,
        }
    }

    /// How coarse the type's values are, to find the coarser of two: bits that a value has, at
    /// most.
    pub fn significant_bits(&self) -> u32 {
        match self {
            Reach::Float(float) => float.mantissa_bits + 1,
            Reach::Integer(integer) => 128 - integer.max.leading_zeros(),
            Reach::Bool => 1,
        }
    }
}

impl FloatReach {
    /// Of a format.
    pub fn of(format: &FloatFormat) -> FloatReach {
        let m = format.mantissa_bits as i32;
        let field = (format.max_finite() >> format.mantissa_bits) as i32;
        let fraction = (format.max_finite() & ((1 << format.mantissa_bits) - 1)) as f64;
        let max_exponent = field - format.bias;
        let ulp = power_of_two(max_exponent - m);
        let max = power_of_two(max_exponent) + fraction * ulp;
        FloatReach {
            max,
            min_positive: power_of_two(format.min_ulp_exponent()),
            min_normal: power_of_two(format.min_ulp_exponent() + m),
            mantissa_bits: format.mantissa_bits,
            is_scale: format.specials == Specials::ScaleOnly,
            half_beyond: max + ulp / 2.0,
            tie_goes_out: format.max_finite() & 1 == 1,
            min_ulp_exponent: format.min_ulp_exponent(),
            max_exponent,
        }
    }

    /// The smallest finite value.
    pub fn min(&self) -> f64 {
        if self.is_scale { self.min_positive } else { -self.max }
    }

    /// Whether the type does not hold the value even after rounding to it.
    pub(crate) fn is_beyond(&self, x: f64) -> bool {
        self.is_beyond_by(x < 0.0, |limit| x.abs().total_cmp(&limit))
    }

    /// As [`FloatReach::is_beyond`], of a value that need not be exact in DOUBLE: how its magnitude
    /// compares with a limit.
    pub(crate) fn is_beyond_by(&self, negative: bool, compare: impl Fn(f64) -> Ordering) -> bool {
        if self.is_scale {
            return negative || compare(self.min_positive).is_lt() || compare(self.max).is_gt();
        }
        match compare(self.half_beyond) {
            Ordering::Less => false,
            Ordering::Equal => self.tie_goes_out,
            Ordering::Greater => true,
        }
    }

    /// The unit in the last place at a value, given its ⌊log₂|x|⌋; `None` for zero.
    pub(crate) fn ulp(&self, exponent: Option<i32>) -> f64 {
        let exponent = exponent.map(|e| e.min(self.max_exponent) - self.mantissa_bits as i32);
        power_of_two(exponent.unwrap_or(i32::MIN).max(self.min_ulp_exponent))
    }
}

impl IntegerReach {
    /// Whether the type holds the value without its fraction; not of NaN and infinities.
    pub(crate) fn holds_truncated(&self, x: Number) -> bool {
        match x {
            Number::Integer(n) => (self.min..=self.max).contains(&n),
            Number::Real(x) => {
                let whole = x.trunc();
                // The smallest value, and the first number beyond the largest, are powers of two or
                // 0, and so exact.
                whole >= self.min as f64 && whole < (self.max + 1) as f64
            }
        }
    }
}

/// Whether every value of one type is a value of the other: a cast there loses nothing, and one
/// back restores it. The sign of zero is no part of a value here; a number has a text that reads
/// back as it.
pub fn holds_every_value(of: ElementType, held_in: ElementType) -> bool {
    let (source, target) = match (Reach::of(of), Reach::of(held_in)) {
        _ if of == held_in => return true,
        (_, None) => return true,
        (None, _) => return false,
        (Some(source), Some(target)) => (source, target),
    };
    match (source, target) {
        (_, Reach::Bool) | (Reach::Float(_), Reach::Integer(_)) => false,
        (Reach::Bool, Reach::Integer(_)) => true,
        (Reach::Bool, Reach::Float(target)) => !target.is_scale,
        (Reach::Integer(source), Reach::Integer(target)) => {
            target.min <= source.min && source.max <= target.max
        }
        (Reach::Integer(source), Reach::Float(target)) => {
            // The least number of a signed type has one digit only, but must be in range as well.
            let digits = 128 - source.max.leading_zeros();
            !target.is_scale
                && digits <= target.mantissa_bits + 1
                && source.max.max(-source.min) as f64 <= target.max
                && target.min_positive <= 1.0
        }
        (Reach::Float(_), Reach::Float(_)) => match (of.family(), held_in.family()) {
            (Family::Float(from), Family::Float(to)) => holds_every_float(from, to),
            _ => false,
        },
    }
}

/// Whether every value of a type has an integral part that the integer type holds, so that a cast
/// only truncates; true of types that are not of floating point, and of targets that are no
/// integers.
pub(crate) fn holds_every_integral_part(of: ElementType, held_in: ElementType) -> bool {
    let Family::Float(format) = of.family() else { return true };
    let Some(Reach::Integer(target)) = Reach::of(held_in) else { return true };
    let limits = FloatReach::of(format);
    let holds = |x| target.holds_truncated(Number::Real(x));
    format.specials == Specials::None && holds(limits.max) && holds(limits.min())
}

fn holds_every_float(from: &FloatFormat, to: &FloatFormat) -> bool {
    let (a, b) = (FloatReach::of(from), FloatReach::of(to));
    let has_infinity = |f: &FloatFormat| f.infinity().is_some();
    let has_nan = |f: &FloatFormat| f.specials != Specials::None;
    a.mantissa_bits <= b.mantissa_bits
        && a.max <= b.max
        && a.min_positive >= b.min_positive
        && (!has_infinity(from) || has_infinity(to))
        && (!has_nan(from) || has_nan(to))
        // Zeros and signs.
        && (a.is_scale || !b.is_scale)
}

#[cfg(test)]
mod tests;
