//! STRING both ways (SEMANTICS §8–9).

use std::cmp::Ordering;

use crate::element_type::{ElementType, Family};
use crate::format;
use crate::rules::Rules;
use crate::scalar::{self, Finite, Value};

/// White space that may surround a literal.
const WHITE_SPACE: &[char] = &[' ', '\t', '\n', '\r', '\x0B', '\x0C'];

/// The code of the number that `text` spells, rounded once to the numeric type `to`; `None` when it spells none, or
/// one that an integer target cannot hold.
pub(crate) fn parse(text: &str, to: ElementType, rules: Rules) -> Option<u64> {
    let text = text.trim_matches(WHITE_SPACE);
    match to.family() {
        Family::Signed | Family::Unsigned => parse_integer(text, to),
        Family::Bool => parse_truth(text).map(u64::from),
        Family::Float(format) if *format == format::FLOAT => {
            text.parse::<f32>().ok().map(canonical_f32)
        }
        Family::Float(format) if *format == format::DOUBLE => {
            text.parse::<f64>().ok().map(canonical_f64)
        }
        Family::Float(_) => scalar::encode(to, rules, parse_value(text)?),
        Family::Text => None,
    }
}

fn canonical_f32(x: f32) -> u64 {
    if x.is_nan() { format::FLOAT.nan(x.is_sign_negative()) } else { u64::from(x.to_bits()) }
}

fn canonical_f64(x: f64) -> u64 {
    if x.is_nan() { format::DOUBLE.nan(x.is_sign_negative()) } else { x.to_bits() }
}

/// `"true"`, `"false"`, or whether a numeric literal is other than zero. A literal too small for any DOUBLE is not zero.
fn parse_truth(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(false);
    }
    let nearest: f64 = text.parse().ok()?;
    Some(nearest.is_nan() || nearest != 0.0 || !Decimal::new(text).digits.is_empty())
}

/// The value of a literal, exact enough to be rounded once to any format narrower than DOUBLE: the nearest DOUBLE `d`,
/// moved a hair to the side of it on which the decimal lies.
fn parse_value(text: &str) -> Option<Value> {
    let nearest: f64 = text.parse().ok()?;
    let negative = nearest.is_sign_negative();
    if nearest.is_nan() {
        return Some(Value::NaN { negative });
    }
    if nearest.is_infinite() {
        // A decimal beyond DOUBLE overflows every narrower format just as an infinity does.
        return Some(Value::Infinity { negative });
    }
    let Some(Value::Finite(finite)) = scalar::decode(ElementType::Double, nearest.to_bits()) else {
        return None;
    };
    // Only where `d` has so few significant bits that it can lie between two codes does the hair matter.
    const MORE_THAN_A_MIDPOINT_HAS: u64 = (1 << 40) - 1;
    let side = match nearest.to_bits() & MORE_THAN_A_MIDPOINT_HAS {
        0 => Decimal::new(text).cmp(&Decimal::of(nearest)),
        _ => Ordering::Equal,
    };
    let significand = 4 * finite.significand;
    Some(Value::Finite(Finite {
        negative,
        significand: match side {
            Ordering::Less => significand - 1,
            Ordering::Equal => significand,
            Ordering::Greater => significand + 1,
        },
        exponent: finite.exponent - 2,
    }))
}

/// The exact decimal, truncated toward zero.
fn parse_integer(text: &str, to: ElementType) -> Option<u64> {
    let value = match text.parse::<i64>() {
        Ok(value) => i128::from(value),
        Err(_) => parse_truncated(text)?,
    };
    let (low, high) = match to.family() {
        Family::Signed => (-(1i128 << (to.bits() - 1)), 1i128 << (to.bits() - 1)),
        _ => (0, 1i128 << to.bits()),
    };
    (low..high).contains(&value).then_some(value as u64 & to.code_mask())
}

fn parse_truncated(text: &str) -> Option<i128> {
    let nearest: f64 = text.parse().ok()?;
    if !nearest.is_finite() && !text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let magnitude = Decimal::new(text).integer_part()?;
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// The magnitude of a decimal literal: 0.d₁d₂d₃… · 10^point, d₁ and the last digit not zero; no digits for zero.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    /// Of a literal that `str::parse::<f64>` accepts as a number.
    fn new(literal: &str) -> Decimal {
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
        Decimal { digits, point }
    }

    /// Of a finite DOUBLE, exactly: none has more than 1074 digits after the point.
    fn of(x: f64) -> Decimal {
        Decimal::new(&format!("{x:.1074}"))
    }

    /// The digits before the point as a number; `None` when it is beyond every 64-bit integer.
    fn integer_part(&self) -> Option<i128> {
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

/// An exponent beyond 64 bits is as good as the largest: no literal is long enough to bring it back.
fn parse_exponent(text: &str) -> i64 {
    let largest = if text.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    text.parse().ok().filter(|e| (i64::MIN / 2..i64::MAX / 2).contains(e)).unwrap_or(largest)
}

/// A FLOAT in plain notation with the fewest digits that read back to it (SEMANTICS §9).
pub(crate) fn format_f32(x: f32) -> String {
    match non_finite(x.is_nan(), x.is_infinite(), x.is_sign_negative()) {
        Some(word) => word.into(),
        None => positional(ryu::Buffer::new().format_finite(x)),
    }
}

/// A DOUBLE in plain notation with the fewest digits that read back to it (SEMANTICS §9).
pub(crate) fn format_f64(x: f64) -> String {
    match non_finite(x.is_nan(), x.is_infinite(), x.is_sign_negative()) {
        Some(word) => word.into(),
        None => positional(ryu::Buffer::new().format_finite(x)),
    }
}

fn non_finite(nan: bool, infinite: bool, negative: bool) -> Option<&'static str> {
    match (nan, infinite, negative) {
        (true, _, _) => Some("NaN"),
        (_, true, false) => Some("INF"),
        (_, true, true) => Some("-INF"),
        _ => None,
    }
}

/// The shortest digits, which ryu gives as `-12.5` or `1.25e-7`, without an exponent.
fn positional(shortest: &str) -> String {
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return shortest.into();
    };
    let (sign, magnitude) = match mantissa.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", mantissa),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let digits = [whole, fraction].concat();
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let zeros = |count: usize| "0".repeat(count);
    match usize::try_from(whole.len() as i64 + exponent) {
        Ok(point) if point >= digits.len() => {
            format!("{sign}{digits}{}.0", zeros(point - digits.len()))
        }
        Ok(point) if point > 0 => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
        _ => {
            let leading = (whole.len() as i64 + exponent).unsigned_abs() as usize;
            format!("{sign}0.{}{digits}", zeros(leading))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The recipe of SEMANTICS §9 as it stands there, over the standard library's formatting.
    fn recipe<F>(x: F) -> String
    where
        F: std::fmt::Display + std::fmt::LowerExp + std::str::FromStr + PartialEq + Copy,
    {
        let scientific = format!("{x:e}");
        let mantissa = scientific.split('e').next().unwrap_or_default();
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
        let even = format!("{x:.*e}", digits - 1);
        let reads_back = even.parse::<F>().ok() == Some(x);
        let plain =
            if even != scientific && reads_back { positional(&even) } else { format!("{x}") };
        if plain.contains('.') { plain } else { format!("{plain}.0") }
    }

    #[test]
    fn digit_ties_go_to_the_even_digit() {
        assert_eq!(format_f32(0.298828125), "0.29882812");
        assert_eq!(recipe(0.298828125f32), "0.29882812");
    }

    #[test]
    fn floats_are_spelled_in_plain_notation() {
        let cases = [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (-0.0, "-0.0"),
            (0.00001, "0.00001"),
            (1e20, "100000000000000000000.0"),
            (123456789.0, "123456790.0"),
            (f32::NAN, "NaN"),
            (f32::INFINITY, "INF"),
            (f32::NEG_INFINITY, "-INF"),
        ];
        for (x, expected) in cases {
            assert_eq!(format_f32(x), expected);
        }
    }

    #[test]
    fn decimals_round_once() {
        let parse = |text, to| parse(text, to, Rules { saturate: false, ..Rules::default() });
        let cases = [
            ("16777217.0000000001", ElementType::Float, Some(0x4B80_0001)),
            ("65519.999999999999999", ElementType::Float16, Some(0x7BFF)),
            ("65520", ElementType::Float16, Some(0x7C00)),
            ("464", ElementType::Float8E4M3FN, Some(0x7E)),
            ("464.00000000000000000001", ElementType::Float8E4M3FN, Some(0x7F)),
            ("1e-400", ElementType::Bool, Some(1)),
            ("0e99999999999999999999", ElementType::Bool, Some(0)),
            ("1e-400", ElementType::Float8E8M0, Some(0xFF)),
            ("9007199254740993", ElementType::Int64, Some(9007199254740993)),
            ("18446744073709551615.9", ElementType::Uint64, Some(u64::MAX)),
            ("18446744073709551616", ElementType::Uint64, None),
            ("-0.5", ElementType::Uint8, Some(0)),
            ("-1", ElementType::Uint8, None),
            ("1e2", ElementType::Int8, Some(100)),
            ("1e99999999999999999999", ElementType::Int64, None),
            ("inf", ElementType::Int64, None),
            ("nan", ElementType::Int8, None),
            (" \t5. \x0B", ElementType::Int8, Some(5)),
            ("\u{a0}5", ElementType::Int8, None),
            ("0x10", ElementType::Float, None),
            ("", ElementType::Float, None),
        ];
        for (text, to, expected) in cases {
            assert_eq!(parse(text, to), expected, "{text:?} to {to}");
        }
    }

    proptest! {
        #[test]
        fn float_spelling_is_the_recipe(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(x.is_finite());
            prop_assert_eq!(format_f32(x), recipe(x));
        }

        #[test]
        fn short_float_spelling_is_the_recipe(mantissa in 0u32..1 << 12, exponent in 0u32..255) {
            let x = f32::from_bits(exponent << 23 | mantissa << 11);
            prop_assert_eq!(format_f32(x), recipe(x));
        }

        #[test]
        fn double_spelling_is_the_recipe(bits: u64) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            prop_assert_eq!(format_f64(x), recipe(x));
        }
    }
}
