//! What became of one element: the definition that the fast loops must equal.

use super::counts::{CastStats, Errors, Outcome};
use crate::cast::element_type::ElementType;
use crate::cast::reach::Reach;
use crate::cast::value::Number;

/// A cast between two numeric types, as far as outcomes go.
#[derive(Debug, Clone, Copy)]
pub(super) struct CastPair {
    /// `None` for STRING.
    pub(super) target: Option<Reach>,
    pub(super) from_float: bool,
    /// The smallest normal value of the source, 0 for integers.
    pub(super) source_min_normal: f64,
}

impl CastPair {
    pub(super) fn new(from: ElementType, to: ElementType) -> CastPair {
        let source_min_normal = match Reach::of(from) {
            Some(Reach::Float(source)) => source.min_normal,
            Some(Reach::Integer(_) | Reach::Bool) | None => 0.0,
        };
        CastPair { target: Reach::of(to), from_float: from.is_float(), source_min_normal }
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
        if let Some(Reach::Float(target)) = self.target
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
            Some(Reach::Float(target)) => absolute / target.ulp(exponent),
            Some(Reach::Integer(_) | Reach::Bool) => absolute,
            None => 0.0,
        };
        Errors { absolute, relative, ulp }
    }

    fn outcome(&self, x: Number, y: Number) -> Outcome {
        let (source, result) = (x.rounded(), y.rounded());
        match self.target {
            None => Outcome::Exact,
            _ if x.is(y) => Outcome::Exact,
            Some(Reach::Bool) => Outcome::Truncated,
            Some(Reach::Integer(_)) if !self.from_float => Outcome::Wrapped,
            Some(Reach::Integer(target)) if target.holds_truncated(x) => Outcome::Truncated,
            Some(Reach::Integer(_)) => Outcome::Undefined,
            Some(Reach::Float(_)) if source.is_nan() => Outcome::NanLost,
            Some(Reach::Float(_)) if result.is_nan() => Outcome::BecameNan,
            Some(Reach::Float(_)) if result.is_infinite() => Outcome::Overflowed,
            // An infinity is beyond every range that has none.
            Some(Reach::Float(_)) if source.is_infinite() => Outcome::Saturated,
            Some(Reach::Float(target)) if target.is_beyond(source) => Outcome::Saturated,
            Some(Reach::Float(_)) if result == 0.0 => Outcome::Flushed,
            Some(Reach::Float(_)) => Outcome::Rounded,
        }
    }

    fn loses_sign(&self, source: f64, result: f64) -> bool {
        let to_float = matches!(self.target, Some(Reach::Float(_)));
        let had = source < 0.0 || (to_float && source == 0.0 && source.is_sign_negative());
        had && !result.is_nan() && !result.is_sign_negative() && self.target.is_some()
    }
}
