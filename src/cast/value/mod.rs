//! What an element is worth: its exact value, as an element of any type has it.

#![forbid(unsafe_code)]

use std::cmp::Ordering;

/// The exact value of an element of a numeric type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExactValue {
    NaN { negative: bool },
    Infinity { negative: bool },
    Finite(Finite),
}

/// (−1)^negative · significand · 2^exponent; a zero keeps its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finite {
    pub(crate) negative: bool,
    pub(crate) significand: u64,
    pub(crate) exponent: i32,
}

impl ExactValue {
    /// Whether it is ±0.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, ExactValue::Finite(Finite { significand: 0, .. }))
    }

    /// The same value with an odd significand, so that equal values are equal records.
    pub(crate) fn lowest_terms(self) -> ExactValue {
        match self {
            ExactValue::Finite(Finite { negative, significand: 0, .. }) => {
                ExactValue::Finite(Finite { negative, significand: 0, exponent: 0 })
            }
            ExactValue::Finite(Finite { negative, significand, exponent }) => {
                let even = significand.trailing_zeros();
                let exponent = exponent + even as i32;
                ExactValue::Finite(Finite { negative, significand: significand >> even, exponent })
            }
            special => special,
        }
    }
}

/// The exact value of an element, in the form that is compared and subtracted: DOUBLE holds every
/// value of every numeric type but the 64-bit integers'.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// Of a floating-point type, of BOOL, or an integer of at most 32 bits.
    Real(f64),
    /// Of a 64-bit integer type.
    Integer(i128),
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Real(x)
    }
}

impl From<i128> for Number {
    fn from(x: i128) -> Number {
        Number::Integer(x)
    }
}

impl Number {
    /// The nearest DOUBLE: the value itself, but for integers of more than 53 significant bits.
    pub fn rounded(self) -> f64 {
        match self {
            Number::Real(x) => x,
            Number::Integer(x) => x as f64,
        }
    }

    /// ⌊log₂|x|⌋; `None` for zero.
    pub fn exponent(self) -> Option<i32> {
        match self {
            Number::Real(x) => exponent(x),
            Number::Integer(x) => x.unsigned_abs().checked_ilog2().map(|exponent| exponent as i32),
        }
    }

    /// Whether both are the same value: NaN is NaN, and 0 is −0.
    pub fn is(self, other: Number) -> bool {
        match (self, other) {
            (Number::Real(x), Number::Real(y)) => x == y || (x.is_nan() && y.is_nan()),
            (Number::Integer(x), Number::Integer(y)) => x == y,
            (Number::Real(x), Number::Integer(n)) | (Number::Integer(n), Number::Real(x)) => {
                parts(x).is_some_and(|(whole, fraction)| whole == n && fraction == 0.0)
            }
        }
    }

    /// |self − other| of two finite values, rounded once; of an integer and a number beyond 2^100,
    /// whose fraction and last digits cannot matter, within an ulp.
    pub fn distance(self, other: Number) -> f64 {
        let distance = match (self, other) {
            (Number::Integer(x), Number::Integer(y)) => (x - y) as f64,
            (Number::Real(x), Number::Real(y)) => x - y,
            (Number::Real(x), Number::Integer(n)) | (Number::Integer(n), Number::Real(x)) => {
                match parts(x) {
                    Some((whole, fraction)) => sum(whole - n, fraction),
                    None => x - n as f64,
                }
            }
        };
        distance.abs()
    }

    /// How the values compare; `None` where one is NaN.
    pub fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Real(x), Number::Real(y)) => x.partial_cmp(&y),
            (Number::Integer(x), Number::Integer(y)) => Some(x.cmp(&y)),
            (Number::Real(x), Number::Integer(n)) => match parts(x) {
                // A fraction has the sign of its number.
                Some((whole, fraction)) => {
                    Some(whole.cmp(&n).then(fraction.partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
                }
                None => x.partial_cmp(&0.0),
            },
            (Number::Integer(_), Number::Real(_)) => other.compare(self).map(Ordering::reverse),
        }
    }
}

/// An integer below 2^101 and a fraction below 1, rounded once.
fn sum(whole: i128, fraction: f64) -> f64 {
    const EXACT: u128 = 1 << 53;
    if whole.unsigned_abs() < EXACT {
        return whole as f64 + fraction;
    }
    // Of the fraction it matters only whether there is one, and on which side.
    let side = i128::from(fraction > 0.0) - i128::from(fraction < 0.0);
    (4 * whole + side) as f64 / 4.0
}

/// The integral part and the rest of a number below 2^100, which is beyond every integer type.
fn parts(x: f64) -> Option<(i128, f64)> {
    let is_small = x.abs() < (1i128 << 100) as f64;
    is_small.then(|| (x.trunc() as i128, x.fract()))
}

/// ⌊log₂|x|⌋ of a finite number; `None` for zero.
pub(crate) fn exponent(x: f64) -> Option<i32> {
    let magnitude = x.to_bits() << 1 >> 1;
    match (magnitude >> 52) as i32 {
        _ if magnitude == 0 => None,
        0 => Some(magnitude.ilog2() as i32 - 1074),
        field => Some(field - 1023),
    }
}

/// 2^exponent, where DOUBLE has it; 0 below and infinity above.
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        1024.. => f64::INFINITY,
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074..=-1023 => f64::from_bits(1 << (exponent + 1074)),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
