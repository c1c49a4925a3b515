//! The numbers that strings spell, exactly: one grammar of decimals ([SEMANTICS
//! §8](crate::semantics)).

#![forbid(unsafe_code)]

use std::cmp::Ordering;

use crate::cast::value::Number;

/// A literal without the white space that may surround it.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C'])
}

/// The magnitude of a decimal literal: 0.d₁d₂d₃… · 10^point, d₁ and the last digit not zero; no
/// digits for zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// ASCII digits.
    digits: Vec<u8>,
    /// How many places the point is right of the first digit's left; 0 for zero.
    point: i64,
}

impl Decimal {
    /// Of a literal that `str::parse::<f64>` accepts as a number.
    pub(crate) fn new(literal: &str) -> Decimal {
        let unsigned = literal.trim_start_matches(['+', '-']);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = [whole.as_bytes(), fraction.as_bytes()].concat();
        let leading = digits.iter().take_while(|d| **d == b'0').count();
        digits.drain(..leading);
        digits.truncate(digits.iter().rposition(|d| *d != b'0').map_or(0, |last| last + 1));
        let point = (whole.len() as i64 - leading as i64).saturating_add(exponent);
        Decimal { point: if digits.is_empty() { 0 } else { point }, digits }
    }

    /// Of a finite DOUBLE's magnitude, exactly: each binary place after the point is one decimal
    /// place.
    pub(crate) fn of(x: f64) -> Decimal {
        let bits = x.abs().to_bits();
        let (exponent, fraction) = ((bits >> 52) as usize, bits & ((1 << 52) - 1));
        let significand = fraction | u64::from(exponent > 0) << 52;
        let lowest_bit = exponent.max(1) + significand.trailing_zeros() as usize;
        let places = if significand == 0 { 0 } else { 1075usize.saturating_sub(lowest_bit) };
        Decimal::new(&format!("{x:.places$}"))
    }

    /// Of an exact value's magnitude; the value is finite.
    pub(crate) fn of_number(number: Number) -> Decimal {
        match number {
            Number::Real(x) => Decimal::of(x),
            Number::Integer(n) => Decimal::new(&n.to_string()),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The nearest DOUBLE.
    pub(crate) fn rounded(&self) -> f64 {
        let digits = String::from_utf8_lossy(&self.digits);
        format!("0.{digits}0e{}", self.point).parse().unwrap_or(f64::NAN)
    }

    /// |self − other|, rounded once unless the two are many orders of magnitude apart.
    pub(crate) fn distance(&self, other: &Decimal) -> f64 {
        const DIGITS: i64 = 4096;
        let (large, small) = if self >= other { (self, other) } else { (other, self) };
        let gap = large.point.saturating_sub(small.point);
        let length = (small.digits.len() as i64).saturating_add(gap).max(large.digits.len() as i64);
        if small.is_zero() || !(0..=DIGITS).contains(&gap) || length > DIGITS {
            return large.rounded() - small.rounded();
        }
        let digit = |of: &Decimal, place: i64| {
            let digit = usize::try_from(place).ok().and_then(|place| of.digits.get(place));
            digit.map_or(0, |digit| digit - b'0')
        };
        let mut digits = vec![b'0'; length as usize];
        let mut borrow = 0;
        for (place, result) in digits.iter_mut().enumerate().rev() {
            let place = place as i64;
            let minus = digit(small, place - gap) + borrow;
            let from = digit(large, place);
            borrow = u8::from(from < minus);
            *result = b'0' + (10 * borrow + from - minus);
        }
        // The digits are those of a literal behind its point.
        let literal = format!(".{}", String::from_utf8_lossy(&digits));
        let mut difference = Decimal::new(&literal);
        difference.point = difference.point.saturating_add(large.point);
        difference.rounded()
    }

    /// The digits before the point as a number; `None` when it is beyond every 64-bit integer.
    pub(crate) fn integer_part(&self) -> Option<i128> {
        const MORE_THAN_64_BITS_NEED: i64 = 20;
        if self.digits.is_empty() || self.point <= 0 {
            return Some(0);
        }
        if self.point > MORE_THAN_64_BITS_NEED {
            return None;
        }
        let digit = |place| self.digits.get(place).map_or(0, |d| i128::from(d - b'0'));
        Some((0..self.point as usize).fold(0, |number, place| 10 * number + digit(place)))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => {
                self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits))
            }
            (mine, theirs) => theirs.cmp(&mine),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An exponent beyond 64 bits is as good as the largest: no literal is long enough to bring it
/// back.
fn parse_exponent(text: &str) -> i64 {
    let largest = if text.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    text.parse().ok().filter(|e| (i64::MIN / 2..i64::MAX / 2).contains(e)).unwrap_or(largest)
}

/// What a string spells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spelled {
    /// Whether it begins with a minus sign.
    pub(crate) negative: bool,
    /// What follows.
    pub(crate) magnitude: Magnitude,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Magnitude {
    NaN,
    Infinity,
    Decimal(Decimal),
}

impl Spelled {
    /// `None` where the text spells neither a number nor, as BOOL reads them, `true` or `false`.
    pub(crate) fn read(text: &str) -> Option<Spelled> {
        let text = trimmed(text);
        let truth = ["false", "true"].iter().position(|word| text.eq_ignore_ascii_case(word));
        if let Some(truth) = truth {
            let magnitude = Magnitude::Decimal(Decimal::new(if truth == 1 { "1" } else { "0" }));
            return Some(Spelled { negative: false, magnitude });
        }
        let nearest: f64 = text.parse().ok()?;
        let is_word = text.ends_with(|c: char| c.is_ascii_alphabetic());
        let magnitude = if !is_word {
            Magnitude::Decimal(Decimal::new(text))
        } else if nearest.is_nan() {
            Magnitude::NaN
        } else {
            Magnitude::Infinity
        };
        Some(Spelled { negative: text.starts_with('-'), magnitude })
    }

    /// The value as near as DOUBLE has it: a number other than zero does not become zero, nor a
    /// finite one infinite.
    pub(crate) fn nearest(&self) -> f64 {
        let magnitude = match &self.magnitude {
            Magnitude::NaN => f64::NAN,
            Magnitude::Infinity => f64::INFINITY,
            Magnitude::Decimal(decimal) if decimal.is_zero() => 0.0,
            Magnitude::Decimal(decimal) => decimal.rounded().clamp(f64::from_bits(1), f64::MAX),
        };
        if self.negative { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests;
