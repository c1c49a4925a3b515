//! Casts from STRING: the source's values are decimals of any length.

use std::cmp::Ordering;

use super::counts::{CastStats, Errors, Outcome};
use super::element::CastPair;
use crate::cast::decimal::{Decimal, Magnitude, Spelled};
use crate::cast::reach::Reach;
use crate::cast::value::{Number, exponent, power_of_two};

/// Counts a string and the number that the cast made of it; a string that is no number is none of a
/// cast's inputs.
pub(super) fn count(pair: &CastPair, text: &str, y: Number, stats: &mut CastStats) {
    let Some(x) = Spelled::read(text) else { return };
    stats.source.add(x.nearest());
    let result = y.rounded();
    let outcome = outcome(pair, &x, y);
    stats.add(outcome, 1);
    let (decimal, is_nan) = match &x.magnitude {
        Magnitude::NaN => (None, true),
        Magnitude::Infinity => (None, false),
        Magnitude::Decimal(decimal) => (Some(decimal), false),
    };
    let target = match pair.target {
        Some(Reach::Float(target)) => Some(target),
        Some(Reach::Integer(_) | Reach::Bool) | None => None,
    };
    let is_subnormal = |min_normal: f64| result != 0.0 && result.abs() < min_normal;
    let became_subnormal =
        decimal.is_some() && target.is_some_and(|target| is_subnormal(target.min_normal));
    stats.became_subnormal += u64::from(became_subnormal);
    let is_zero = decimal.is_some_and(Decimal::is_zero);
    let has_sign = x.negative && !is_nan && (target.is_some() || !is_zero);
    let is_kept = result.is_nan() || result.is_sign_negative();
    stats.sign_lost += u64::from(has_sign && !is_kept);
    if let Some(decimal) = decimal
        && result.is_finite()
        && outcome != Outcome::Exact
    {
        stats.errors.include(errors(pair, decimal, x.negative, y));
    }
}

fn errors(pair: &CastPair, x: &Decimal, negative: bool, y: Number) -> Errors {
    // A decimal beyond DOUBLE is not infinite.
    let (near, result) = (x.rounded().min(f64::MAX), y.rounded());
    let absolute = if negative == (result < 0.0) || result == 0.0 {
        x.distance(&Decimal::of_number(y))
    } else {
        near + result.abs()
    };
    // The DOUBLE may be in the next binade.
    let exponent = exponent(near).map(|exponent| {
        let is_below = *x < Decimal::of(power_of_two(exponent));
        exponent - i32::from(is_below)
    });
    let errors = pair.errors(near, exponent, absolute);
    let is_tiny = near == 0.0 && !x.is_zero();
    let relative = match result {
        // Next to a number beyond DOUBLE, any other is nothing.
        _ if absolute.is_infinite() => 1.0,
        0.0 if is_tiny => 1.0,
        _ if is_tiny => f64::INFINITY,
        _ => errors.relative,
    };
    Errors { relative, ..errors }
}

fn outcome(pair: &CastPair, x: &Spelled, y: Number) -> Outcome {
    let result = y.rounded();
    let is_same = match &x.magnitude {
        Magnitude::NaN => result.is_nan(),
        Magnitude::Infinity => result.is_infinite(),
        Magnitude::Decimal(decimal) => {
            result.is_finite()
                && *decimal == Decimal::of_number(y)
                && (x.negative == (result < 0.0) || decimal.is_zero())
        }
    };
    let target = match pair.target {
        _ if is_same => return Outcome::Exact,
        Some(Reach::Float(target)) => target,
        Some(Reach::Integer(_) | Reach::Bool) | None => return Outcome::Truncated,
    };
    let is_beyond = |decimal: &Decimal| {
        let compare = |limit: f64| {
            if limit.is_infinite() { Ordering::Less } else { decimal.cmp(&Decimal::of(limit)) }
        };
        target.is_beyond_by(x.negative, compare)
    };
    match &x.magnitude {
        Magnitude::NaN => Outcome::NanLost,
        _ if result.is_nan() => Outcome::BecameNan,
        _ if result.is_infinite() => Outcome::Overflowed,
        Magnitude::Infinity => Outcome::Saturated,
        Magnitude::Decimal(decimal) if is_beyond(decimal) => Outcome::Saturated,
        Magnitude::Decimal(_) if result == 0.0 => Outcome::Flushed,
        Magnitude::Decimal(_) => Outcome::Rounded,
    }
}

#[cfg(test)]
mod tests;
