//! Casts from STRING: the source's values are decimals of any length.

use std::cmp::Ordering;

use super::counts::{CastStats, Errors, Outcome};
use super::element::{Number, Pair};
use super::range::{exponent, power_of_two};
use super::target::Target;

/// What a string spells; the grammar is that of SEMANTICS §8, which the cast itself has checked.
enum Spelled {
    NaN,
    Infinity,
    Decimal(Decimal),
}

/// 0.d₁d₂… · 10^exponent, d₁ and the last digit not zero; no digits for zero.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    exponent: i64,
}

/// What a string spells, as near as DOUBLE has it; `None` where it is no number.
pub(super) fn value(text: &str) -> Option<f64> {
    let text = text.trim_ascii();
    match spelled(text.trim_start_matches(['+', '-'])) {
        // A decimal beyond DOUBLE is not infinite.
        Spelled::Decimal(_) => match text.parse::<f64>() {
            Ok(x) => Some(x.clamp(f64::MIN, f64::MAX)),
            Err(_) => truth(text).map(|truth| f64::from(u8::from(truth))),
        },
        Spelled::NaN | Spelled::Infinity => text.parse().ok(),
    }
}

/// A word that BOOL reads.
fn truth(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

/// Counts a string and the number that it became.
pub(super) fn count(pair: &Pair, text: &str, y: Number, stats: &mut CastStats) {
    let text = text.trim_ascii();
    let negative = text.starts_with('-');
    let spelled = spelled(text.trim_start_matches(['+', '-']));
    let near = value(text).unwrap_or(f64::NAN);
    stats.source.add(near);
    let result = y.rounded();
    let outcome = outcome(pair, &spelled, negative, y);
    stats.add(outcome, 1);
    if let Target::Float(target) = pair.target
        && matches!(spelled, Spelled::Decimal(_))
        && result != 0.0
        && result.abs() < target.min_normal
    {
        stats.became_subnormal += 1;
    }
    let is_nan = matches!(spelled, Spelled::NaN);
    let is_zero = matches!(&spelled, Spelled::Decimal(decimal) if decimal.digits.is_empty());
    let to_float = matches!(pair.target, Target::Float(_));
    let has_sign = negative && !is_nan && (to_float || !is_zero);
    let kept = result.is_nan() || result.is_sign_negative();
    stats.sign_lost += u64::from(has_sign && !kept);
    if let Spelled::Decimal(decimal) = &spelled
        && result.is_finite()
        && outcome != Outcome::Exact
    {
        stats.errors.include(errors(pair, decimal, negative, near, y));
    }
}

fn errors(pair: &Pair, x: &Decimal, negative: bool, near: f64, y: Number) -> Errors {
    let result = y.rounded();
    let absolute = match negative == (result < 0.0) || result == 0.0 {
        true => distance(x, &Decimal::of(y)),
        false => near.abs() + result.abs(),
    };
    // The DOUBLE may be in the next binade.
    let exponent = exponent(near).map(|exponent| {
        let is_below = x.compare(&Decimal::of_real(power_of_two(exponent))).is_lt();
        exponent - i32::from(is_below)
    });
    let errors = pair.errors(near, exponent, absolute);
    let is_tiny = near == 0.0 && !x.digits.is_empty();
    let relative = match result {
        // Next to a number beyond DOUBLE, any other is nothing.
        _ if absolute.is_infinite() => 1.0,
        0.0 if is_tiny => 1.0,
        _ if is_tiny => f64::INFINITY,
        _ => errors.relative,
    };
    Errors { relative, ..errors }
}

fn spelled(bare: &str) -> Spelled {
    let word = bare.to_ascii_lowercase();
    match (word.as_str(), truth(bare)) {
        ("nan", _) => Spelled::NaN,
        ("inf" | "infinity", _) => Spelled::Infinity,
        (_, Some(truth)) => Spelled::Decimal(Decimal::parse(if truth { "1" } else { "0" })),
        (literal, None) => Spelled::Decimal(Decimal::parse(literal)),
    }
}

fn outcome(pair: &Pair, x: &Spelled, negative: bool, y: Number) -> Outcome {
    let result = y.rounded();
    let is_same = match x {
        Spelled::NaN => result.is_nan(),
        Spelled::Infinity => result.is_infinite(),
        Spelled::Decimal(decimal) => {
            result.is_finite()
                && *decimal == Decimal::of(y)
                && (negative == (result < 0.0) || decimal.digits.is_empty())
        }
    };
    match (pair.target, x) {
        _ if is_same => Outcome::Exact,
        (Target::Float(_), Spelled::NaN) => Outcome::NanLost,
        (Target::Float(_), _) if result.is_nan() => Outcome::BecameNan,
        (Target::Float(_), _) if result.is_infinite() => Outcome::Overflowed,
        (Target::Float(_), Spelled::Infinity) => Outcome::Saturated,
        (Target::Float(target), Spelled::Decimal(decimal))
            if target.is_beyond_by(negative, |limit| {
                if limit.is_infinite() {
                    Ordering::Less
                } else {
                    decimal.compare(&Decimal::of_real(limit))
                }
            }) =>
        {
            Outcome::Saturated
        }
        (Target::Float(_), _) if result == 0.0 => Outcome::Flushed,
        (Target::Float(_), _) => Outcome::Rounded,
        (Target::Integer(_) | Target::Bool | Target::Text, _) => Outcome::Truncated,
    }
}

impl Decimal {
    /// Of a literal without a sign.
    fn parse(literal: &str) -> Decimal {
        let (mantissa, exponent) = match literal.split_once(['e', 'E']) {
            // An exponent beyond 64 bits is as good as the largest one.
            Some((mantissa, exponent)) => {
                let limit = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
                let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
                (mantissa, exponent.parse().unwrap_or(limit))
            }
            None => (literal, 0i64),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(fraction.bytes()).map(|byte| byte.wrapping_sub(b'0'));
        let exponent = exponent.saturating_add(whole.len() as i64);
        Decimal { digits: digits.collect(), exponent }.normal()
    }

    /// Of a finite number's magnitude, exactly.
    fn of(number: Number) -> Decimal {
        match number {
            Number::Real(x) => Decimal::of_real(x),
            Number::Integer(n) => Decimal::parse(&n.unsigned_abs().to_string()),
        }
    }

    fn of_real(x: f64) -> Decimal {
        // Every DOUBLE ends by then.
        const PLACES: usize = 1074;
        Decimal::parse(&format!("{:.PLACES$}", x.abs()))
    }

    fn normal(mut self) -> Decimal {
        let leading = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..leading);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        self.exponent = match self.digits.is_empty() {
            true => 0,
            false => self.exponent.saturating_sub(leading as i64),
        };
        self
    }

    fn compare(&self, other: &Decimal) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits)),
        }
    }

    /// The nearest DOUBLE.
    fn rounded(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        format!("0.{digits}0e{}", self.exponent).parse().unwrap_or(f64::NAN)
    }
}

/// |a − b|, rounded once unless the two are many orders of magnitude apart.
fn distance(a: &Decimal, b: &Decimal) -> f64 {
    const DIGITS: i64 = 4096;
    let (large, small) = if a.compare(b).is_ge() { (a, b) } else { (b, a) };
    let gap = large.exponent.saturating_sub(small.exponent);
    let length = (small.digits.len() as i64).saturating_add(gap).max(large.digits.len() as i64);
    if small.digits.is_empty() || !(0..=DIGITS).contains(&gap) || length > DIGITS {
        return large.rounded() - small.rounded();
    }
    let mut digits = large.digits.clone();
    digits.resize(length as usize, 0);
    let mut borrow = 0;
    for place in (0..digits.len()).rev() {
        let from_small = (place as i64 - gap).try_into().ok();
        let minus =
            from_small.and_then(|place: usize| small.digits.get(place)).copied().unwrap_or(0);
        if let Some(digit) = digits.get_mut(place) {
            let (value, under) = (10 + *digit - minus - borrow, *digit < minus + borrow);
            *digit = value % 10;
            borrow = u8::from(under);
        }
    }
    Decimal { digits, exponent: large.exponent }.normal().rounded()
}
