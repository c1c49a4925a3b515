//! What became of one element: the definition that the fast loops must equal.

use super::counts::{CastStats, Errors, Outcome};
use super::range::exponent;
use super::target::Target;
use crate::cast::element_type::{ElementType, Family};

/// The exact value of an element of a numeric type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// Of a floating-point type, or an integer of at most 32 bits.
    Real(f64),
    /// Of a 64-bit integer type.
    Integer(i128),
}

impl Number {
    /// The value, an integer of many digits rounded.
    pub(super) fn rounded(self) -> f64 {
        match self {
            Number::Real(x) => x,
            Number::Integer(x) => x as f64,
        }
    }

    /// ⌊log₂|x|⌋; `None` for zero.
    pub(super) fn exponent(self) -> Option<i32> {
        match self {
            Number::Real(x) => exponent(x),
            Number::Integer(x) => x.unsigned_abs().checked_ilog2().map(|exponent| exponent as i32),
        }
    }

    fn is(self, other: Number) -> bool {
        match (self, other) {
            (Number::Real(x), Number::Real(y)) => x == y || (x.is_nan() && y.is_nan()),
            (Number::Integer(x), Number::Integer(y)) => x == y,
            (Number::Real(x), Number::Integer(n)) | (Number::Integer(n), Number::Real(x)) => {
                integer_of(x).is_some_and(|(whole, fraction)| whole == n && fraction == 0.0)
            }
        }
    }

    /// |self − other|, rounded once where that is possible; both are finite.
    fn distance(self, other: Number) -> f64 {
        let distance = match (self, other) {
            (Number::Integer(x), Number::Integer(y)) => (x - y) as f64,
            (Number::Real(x), Number::Real(y)) => x - y,
            (Number::Real(x), Number::Integer(n)) | (Number::Integer(n), Number::Real(x)) => {
                match integer_of(x) {
                    Some((whole, fraction)) => (whole - n) as f64 + fraction,
                    None => x - n as f64,
                }
            }
        };
        distance.abs()
    }
}

/// The integral part and the rest of a number that is not too large for that.
fn integer_of(x: f64) -> Option<(i128, f64)> {
    let small = x.abs() < (1i128 << 100) as f64;
    small.then(|| (x.trunc() as i128, x.fract()))
}

/// A cast between two numeric types, as far as outcomes go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) target: Target,
    pub(super) from_float: bool,
    /// The smallest normal value of the source, 0 for integers.
    pub(super) source_min_normal: f64,
}

impl Pair {
    pub(super) fn new(from: ElementType, to: ElementType) -> Pair {
        let source_min_normal = match Target::new(from) {
            Target::Float(source) => source.min_normal,
            Target::Integer(_) | Target::Bool | Target::Text => 0.0,
        };
        Pair {
            target: Target::new(to),
            from_float: matches!(from.family(), Family::Float(_)),
            source_min_normal,
        }
    }

    /// Counts one element.
    pub(super) fn count(&self, x: Number, y: Number, stats: &mut CastStats) {
        stats.source.add_number(x);
        self.judge(x, y, stats);
    }

    /// Counts one element, the source's range excepted.
    pub(super) fn judge(&self, x: Number, y: Number, stats: &mut CastStats) {
        let outcome = self.outcome(x, y);
        stats.add(outcome, 1);
        let (source, result) = (x.rounded(), y.rounded());
        if let Target::Float(target) = self.target
            && result != 0.0
            && result.abs() < target.min_normal
            && source.abs() >= self.source_min_normal
            && source.is_finite()
        {
            stats.became_subnormal += 1;
        }
        stats.sign_lost += u64::from(self.loses_sign(source, result));
        if outcome != Outcome::Exact && source.is_finite() && result.is_finite() {
            stats.errors.include(self.errors(source, x.exponent(), x.distance(y)));
        }
    }

    /// The errors of a finite value, given its ⌊log₂|x|⌋ and what the result is off by.
    pub(super) fn errors(&self, source: f64, exponent: Option<i32>, absolute: f64) -> Errors {
        let relative = if source == 0.0 { 0.0 } else { absolute / source.abs() };
        let ulp = match self.target {
            Target::Float(target) => absolute / target.ulp(exponent),
            Target::Integer(_) | Target::Bool => absolute,
            Target::Text => 0.0,
        };
        Errors { absolute, relative, ulp }
    }

    fn outcome(&self, x: Number, y: Number) -> Outcome {
        let (source, result) = (x.rounded(), y.rounded());
        match self.target {
            Target::Text => Outcome::Exact,
            _ if x.is(y) => Outcome::Exact,
            Target::Bool => Outcome::Truncated,
            Target::Integer(_) if !self.from_float => Outcome::Wrapped,
            Target::Integer(target) if target.holds(source) => Outcome::Truncated,
            Target::Integer(_) => Outcome::Undefined,
            Target::Float(_) if source.is_nan() => Outcome::NanLost,
            Target::Float(_) if result.is_nan() => Outcome::BecameNan,
            Target::Float(_) if result.is_infinite() => Outcome::Overflowed,
            Target::Float(target) if target.is_beyond(source) => Outcome::Saturated,
            Target::Float(_) if result == 0.0 => Outcome::Flushed,
            Target::Float(_) => Outcome::Rounded,
        }
    }

    fn loses_sign(&self, source: f64, result: f64) -> bool {
        let to_float = matches!(self.target, Target::Float(_));
        let had = source < 0.0 || (to_float && source == 0.0 && source.is_sign_negative());
        had && !result.is_nan() && !result.is_sign_negative() && self.target != Target::Text
    }
}
