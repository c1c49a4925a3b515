//! From STRING ([SEMANTICS §8](crate::semantics)).

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

use bytemuck::Pod;

use super::scratch::with_scratch;
use crate::cast::decimal::{Decimal, trimmed};
use crate::cast::element_type::{ElementType, Family};
use crate::cast::format;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places::TargetBytes;
use crate::cast::kernel::round::odd_from_f64;
use crate::cast::kernel::select::select;
use crate::cast::rules::Rules;

/// Reading strings as elements of one numeric type.
#[derive(Clone)]
pub(crate) struct Parse {
    parser: Parser,
    /// What finishes where the parser makes FLOATs.
    round: Option<Arc<dyn Kernel>>,
    /// Bytes of a target.
    width: usize,
}

impl Parse {
    pub(crate) fn new(to: ElementType, rules: Rules) -> Parse {
        let is_small_float = to.is_float() && to.bits() < 32;
        Parse {
            parser: parser(to),
            round: is_small_float.then(|| select(ElementType::Float, to, rules)),
            width: to.carrier_bytes().unwrap_or(1),
        }
    }

    /// Writes an element for each text, by the instructions of a level; the index of the first that
    /// cannot be read is the error.
    #[inline]
    pub(crate) fn run(
        &self,
        level: Level,
        texts: &[String],
        target: TargetBytes,
    ) -> Result<(), usize> {
        match &self.round {
            None => (self.parser)(texts, target),
            Some(round) => self.run_tiles(round.as_ref(), level, texts, target),
        }
    }

    fn run_tiles(
        &self,
        round: &dyn Kernel,
        level: Level,
        texts: &[String],
        target: TargetBytes,
    ) -> Result<(), usize> {
        with_scratch(texts.len(), |scratch| {
            let size = scratch.len();
            let tiles = texts.chunks(size).zip(target.chunks(size * self.width));
            for (tile, (texts, target)) in tiles.enumerate() {
                let wide = &mut bytemuck::cast_slice_mut(scratch)[..texts.len() * size_of::<f32>()];
                (self.parser)(texts, TargetBytes::over(wide))
                    .map_err(|index| tile * size + index)?;
                round.write(level, wide, target);
            }
            Ok(())
        })
    }
}

/// Parses elements; the index of the first that cannot be is the error.
type Parser = fn(&[String], TargetBytes) -> Result<(), usize>;

/// The parser for a numeric type: the number that a string spells, rounded once. It refuses what
/// spells no number, and for integers what the type cannot hold. For a float narrower than FLOAT it
/// makes a FLOAT, rounded to odd, from which one rounding to any such type is one rounding of the
/// decimal.
fn parser(to: ElementType) -> Parser {
    match (to.family(), to.bits()) {
        (Family::Bool, _) => |texts, target| each(texts, target, |t| parse_truth(t).map(u8::from)),
        (Family::Signed, 64) => |texts, target| each(texts, target, integer::<i64>),
        (Family::Signed, 32) => |texts, target| each(texts, target, integer::<i32>),
        (Family::Signed, 16) => |texts, target| each(texts, target, integer::<i16>),
        (Family::Signed, 8) => |texts, target| each(texts, target, integer::<i8>),
        (Family::Signed, 4) => |texts, target| each(texts, target, small_signed::<4>),
        (Family::Signed, 2) => |texts, target| each(texts, target, small_signed::<2>),
        (Family::Unsigned, 64) => |texts, target| each(texts, target, integer::<u64>),
        (Family::Unsigned, 32) => |texts, target| each(texts, target, integer::<u32>),
        (Family::Unsigned, 16) => |texts, target| each(texts, target, integer::<u16>),
        (Family::Unsigned, 8) => |texts, target| each(texts, target, integer::<u8>),
        (Family::Unsigned, 4) => |texts, target| each(texts, target, small_unsigned::<4>),
        (Family::Unsigned, 2) => |texts, target| each(texts, target, small_unsigned::<2>),
        (Family::Signed | Family::Unsigned, _) => {
            const { assert!(integers_are_read(), "an integer type of this width has no parser") };
            unreachable!("every integer type has a parser")
        }
        (Family::Float(_), 64) => |texts, target| each(texts, target, parse_f64),
        (Family::Float(_), 32) => |texts, target| each(texts, target, parse_f32),
        (Family::Float(_), _) => {
            |texts, target| each(texts, target, |t| parse_odd(t).map(odd_from_f64))
        }
        (Family::Text, _) => unreachable!("`parser` is for numeric types"),
    }
}

/// Whether every integer type is of a width that [`parser`] knows.
const fn integers_are_read() -> bool {
    let mut index = 0;
    while index < ElementType::ALL.len() {
        let ty = ElementType::ALL[index];
        let is_integer = matches!(ty.family(), Family::Signed | Family::Unsigned);
        if is_integer && !matches!(ty.bits(), 2 | 4 | 8 | 16 | 32 | 64) {
            return false;
        }
        index += 1;
    }
    true
}

#[inline(always)]
fn each<D: Pod>(
    texts: &[String],
    target: TargetBytes,
    parse: impl Fn(&str) -> Option<D>,
) -> Result<(), usize> {
    target.try_fill(texts.iter().map(|text| parse(text)))
}

fn parse_f32(text: &str) -> Option<f32> {
    // A DOUBLE between two FLOATs, exactly in the middle, may have been rounded to there.
    const BETWEEN_FLOATS: u64 = (1 << 29) - 1;
    const MIDDLE: u64 = 1 << 28;
    if let Some(nearest) = ShortDecimal::parse(text).map(|short| short.nearest())
        && nearest.to_bits() & BETWEEN_FLOATS != MIDDLE
    {
        return Some(nearest as f32);
    }
    let x: f32 = text.parse().or_else(|_| trimmed(text).parse()).ok()?;
    let nan = || f32::from_bits(format::FLOAT.nan(x.is_sign_negative()) as u32);
    Some(if x.is_nan() { nan() } else { x })
}

fn parse_f64(text: &str) -> Option<f64> {
    if let Some(short) = ShortDecimal::parse(text) {
        return Some(short.nearest());
    }
    parse_any_f64(text)
}

fn parse_any_f64(text: &str) -> Option<f64> {
    let x: f64 = text.parse().or_else(|_| trimmed(text).parse()).ok()?;
    let nan = || f64::from_bits(format::DOUBLE.nan(x.is_sign_negative()));
    Some(if x.is_nan() { nan() } else { x })
}

/// `"true"`, `"false"`, or whether a numeric literal is other than zero. A literal too small for
/// any DOUBLE is not zero.
fn parse_truth(text: &str) -> Option<bool> {
    let text = trimmed(text);
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(false);
    }
    let nearest: f64 = text.parse().ok()?;
    Some(nearest.is_nan() || nearest != 0.0 || !Decimal::new(text).is_zero())
}

/// The DOUBLE that a literal is, or else the neighbouring one whose last bit is odd, if the nearest
/// one `d` is so round that it may lie half-way between two codes of a narrower format. Beyond
/// DOUBLE's range an infinity does as well: it overflows those formats too.
fn parse_odd(text: &str) -> Option<f64> {
    let short = ShortDecimal::parse(text);
    let nearest = match &short {
        Some(short) => short.nearest(),
        None => parse_any_f64(text)?,
    };
    // No code of a format of at most 16 bits, and no half-way point, has more than 12 significant
    // bits.
    const MORE_THAN_A_MIDPOINT_HAS: u64 = (1 << 40) - 1;
    let bits = nearest.to_bits();
    if bits & MORE_THAN_A_MIDPOINT_HAS != 0 || !nearest.is_finite() {
        return Some(nearest);
    }
    let side = match short {
        Some(short) => short.compare(nearest),
        None => Decimal::new(trimmed(text)).cmp(&Decimal::of(nearest)),
    };
    Some(f64::from_bits(match side {
        Ordering::Less => bits - 1,
        Ordering::Equal => bits,
        Ordering::Greater => bits + 1,
    }))
}

/// A literal of at most 15 digits without an exponent: a mantissa and a power of ten that a DOUBLE
/// holds exactly.
struct ShortDecimal {
    negative: bool,
    mantissa: f64,
    scale: f64,
}

impl ShortDecimal {
    const DIGITS: usize = 15;
    const SCALES: [f64; ShortDecimal::DIGITS + 1] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

    fn parse(literal: &str) -> Option<ShortDecimal> {
        let bytes = literal.as_bytes();
        let (negative, unsigned) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        let (mut mantissa, mut digits, mut whole_digits) = (0u64, 0, None);
        for byte in unsigned {
            match byte {
                b'0'..=b'9' if digits < Self::DIGITS => {
                    mantissa = mantissa * 10 + u64::from(byte - b'0');
                    digits += 1;
                }
                b'.' if whole_digits.is_none() => whole_digits = Some(digits),
                _ => return None,
            }
        }
        let fraction = whole_digits.map_or(0, |whole| digits - whole);
        let scale = *Self::SCALES.get(fraction).filter(|_| digits > 0)?;
        Some(ShortDecimal { negative, mantissa: mantissa as f64, scale })
    }

    /// Rounded once, by the division: both of its operands are exact.
    fn nearest(&self) -> f64 {
        let magnitude = self.mantissa / self.scale;
        if self.negative { -magnitude } else { magnitude }
    }

    /// How its magnitude compares with that of a DOUBLE of at most 13 significant bits, which times
    /// 5^15, of 35 bits, is exact.
    fn compare(&self, double: f64) -> Ordering {
        self.mantissa.total_cmp(&(double.abs() * self.scale))
    }
}

/// An integer literal, or the exact decimal truncated toward zero, if the type can hold it.
#[inline(always)]
fn integer<I: FromStr + TryFrom<i128> + TryFrom<u64>>(text: &str) -> Option<I> {
    if let Some(digits) = short_digits(text) {
        return I::try_from(digits).ok();
    }
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => I::try_from(parse_truncated(text)?).ok(),
    }
}

/// A literal of digits alone, so few that no number of 64 bits overflows.
#[inline(always)]
fn short_digits(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut number = 0;
    for byte in text.bytes() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

fn small_signed<const BITS: u32>(text: &str) -> Option<i8> {
    let half = 1 << (BITS - 1);
    integer::<i8>(text).filter(|value| (-half..half).contains(value))
}

fn small_unsigned<const BITS: u32>(text: &str) -> Option<u8> {
    integer::<u8>(text).filter(|value| *value < 1 << BITS)
}

/// Of what is not a plain integer of the type.
#[cold]
#[inline(never)]
fn parse_truncated(text: &str) -> Option<i128> {
    let text = trimmed(text);
    text.parse::<f64>().ok()?;
    let is_number = text.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let magnitude = Decimal::new(text).integer_part().filter(|_| is_number)?;
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests;
