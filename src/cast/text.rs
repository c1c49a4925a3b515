//! STRING both ways (SEMANTICS §8–9).

use std::cmp::Ordering;
use std::str::FromStr;

use bytemuck::Pod;

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format;
use crate::cast::kernel::odd_from_f64;

/// Parses elements into a carrier's bytes; the index of the first that cannot be is the error.
pub(crate) type Parser = fn(&[String], &mut [u8]) -> Result<(), usize>;

/// Spells carrier elements of one type, over whatever the strings are.
pub(crate) type Speller = fn(&[u8], &mut [String]);

/// The parser for a numeric type: the number that a string spells, rounded once. It refuses what spells no number, and
/// for integers what the type cannot hold. For a float narrower than FLOAT it makes a FLOAT, rounded to odd, from which
/// one rounding to any such type is one rounding of the decimal.
pub(crate) fn parser(to: ElementType) -> Parser {
    match (to.family(), to.bits()) {
        (Family::Bool, _) => |texts, bytes| each(texts, bytes, |t| parse_truth(t).map(u8::from)),
        (Family::Signed, 64) => |texts, bytes| each(texts, bytes, integer::<i64>),
        (Family::Signed, 32) => |texts, bytes| each(texts, bytes, integer::<i32>),
        (Family::Signed, 16) => |texts, bytes| each(texts, bytes, integer::<i16>),
        (Family::Signed, 8) => |texts, bytes| each(texts, bytes, integer::<i8>),
        (Family::Signed, 4) => |texts, bytes| each(texts, bytes, small_signed::<4>),
        (Family::Signed, _) => |texts, bytes| each(texts, bytes, small_signed::<2>),
        (Family::Unsigned, 64) => |texts, bytes| each(texts, bytes, integer::<u64>),
        (Family::Unsigned, 32) => |texts, bytes| each(texts, bytes, integer::<u32>),
        (Family::Unsigned, 16) => |texts, bytes| each(texts, bytes, integer::<u16>),
        (Family::Unsigned, 8) => |texts, bytes| each(texts, bytes, integer::<u8>),
        (Family::Unsigned, 4) => |texts, bytes| each(texts, bytes, small_unsigned::<4>),
        (Family::Unsigned, _) => |texts, bytes| each(texts, bytes, small_unsigned::<2>),
        (Family::Float(_), 64) => |texts, bytes| each(texts, bytes, parse_f64),
        (Family::Float(_), 32) => |texts, bytes| each(texts, bytes, parse_f32),
        (Family::Float(_), _) => {
            |texts, bytes| each(texts, bytes, |t| parse_odd(t).map(odd_from_f64))
        }
        (Family::Text, _) => unreachable!("`parser` is for numeric types"),
    }
}

#[inline(always)]
fn each<D: Pod>(
    texts: &[String],
    bytes: &mut [u8],
    parse: impl Fn(&str) -> Option<D>,
) -> Result<(), usize> {
    let places: &mut [D] = bytemuck::cast_slice_mut(bytes);
    for (index, (place, text)) in places.iter_mut().zip(texts).enumerate() {
        *place = parse(text).ok_or(index)?;
    }
    Ok(())
}

/// The literal without the white space that may surround it.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C'])
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

/// `"true"`, `"false"`, or whether a numeric literal is other than zero. A literal too small for any DOUBLE is not zero.
fn parse_truth(text: &str) -> Option<bool> {
    let text = trimmed(text);
    if text.eq_ignore_ascii_case("true") {
        return Some(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Some(false);
    }
    let nearest: f64 = text.parse().ok()?;
    Some(nearest.is_nan() || nearest != 0.0 || !Decimal::new(text).digits.is_empty())
}

/// The DOUBLE that a literal is, or else the neighbouring one whose last bit is odd, if the nearest one `d` is so round
/// that it may lie half-way between two codes of a narrower format. Beyond DOUBLE's range an infinity does as well: it
/// overflows those formats too.
fn parse_odd(text: &str) -> Option<f64> {
    let short = ShortDecimal::parse(text);
    let nearest = match &short {
        Some(short) => short.nearest(),
        None => parse_any_f64(text)?,
    };
    // No code of a format of at most 16 bits, and no half-way point, has more than 12 significant bits.
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

/// A literal of at most 15 digits without an exponent: a mantissa and a power of ten that a DOUBLE holds exactly.
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

    /// How its magnitude compares with that of a DOUBLE of at most 13 significant bits, which times 5^15, of 35 bits, is
    /// exact.
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

/// The speller for one of the types that all others are widened to before they are spelled.
pub(crate) fn speller(ty: ElementType) -> Speller {
    match ty {
        ElementType::Double => |bytes, texts| spell(bytes, texts, write_f64),
        ElementType::Float => |bytes, texts| spell(bytes, texts, write_f32),
        ElementType::Int64 => |bytes, texts| spell(bytes, texts, write_integer::<i64>),
        ElementType::Uint64 => |bytes, texts| spell(bytes, texts, write_integer::<u64>),
        _ => |bytes, texts| spell(bytes, texts, write_truth),
    }
}

#[inline(always)]
fn spell<S: Pod>(bytes: &[u8], texts: &mut [String], write: impl Fn(S, &mut String)) {
    for (text, element) in texts.iter_mut().zip(bytemuck::cast_slice(bytes)) {
        text.clear();
        write(*element, text);
    }
}

/// What an allocation for a string holds at least: allocators give no less, and a longer number then fits the next time.
const ROOM: usize = 24;

/// Writes pieces of text into an empty string, which allocates at most once.
#[inline(always)]
fn write_pieces<const N: usize>(text: &mut String, pieces: [&str; N]) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    if text.capacity() < length {
        *text = String::with_capacity(length.max(ROOM));
    }
    for piece in pieces {
        text.push_str(piece);
    }
}

#[inline(always)]
fn write_integer<I: itoa::Integer>(x: I, text: &mut String) {
    write_pieces(text, [itoa::Buffer::new().format(x)]);
}

fn write_truth(byte: u8, text: &mut String) {
    write_pieces(text, [if byte != 0 { "True" } else { "False" }]);
}

/// A FLOAT in plain notation with the fewest digits that read back to it (SEMANTICS §9).
fn write_f32(x: f32, text: &mut String) {
    match non_finite(x.is_nan(), x.is_infinite(), x.is_sign_negative()) {
        Some(word) => write_pieces(text, [word]),
        None => write_positional(text, zmij::Buffer::new().format_finite(x)),
    }
}

/// A DOUBLE in plain notation with the fewest digits that read back to it (SEMANTICS §9).
fn write_f64(x: f64, text: &mut String) {
    match non_finite(x.is_nan(), x.is_infinite(), x.is_sign_negative()) {
        Some(word) => write_pieces(text, [word]),
        None => write_positional(text, zmij::Buffer::new().format_finite(x)),
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

/// As many zeros as the smallest DOUBLE has after its point, and more than the largest has before it.
const ZEROS: &str = match std::str::from_utf8(&[b'0'; 324]) {
    Ok(zeros) => zeros,
    Err(_) => unreachable!(),
};

/// The shortest digits, which come as `-12.5` or `1.25e-7`, without an exponent.
fn write_positional(text: &mut String, shortest: &str) {
    // An exponent is one of the last characters: `e-308`.
    let bytes = shortest.as_bytes();
    let tail = bytes.len().saturating_sub("e-308".len());
    match bytes[tail..].iter().position(|byte| *byte == b'e') {
        None => write_pieces(text, [shortest]),
        Some(at) => write_shifted(text, &shortest[..tail + at], &shortest[tail + at + 1..]),
    }
}

/// The digits of a mantissa with the point where the exponent moves it.
#[cold]
fn write_shifted(text: &mut String, mantissa: &str, exponent: &str) {
    let (sign, magnitude) = match mantissa.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", mantissa),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    // Some write `1e20`, others `1.0e20`.
    let fraction = fraction.trim_end_matches('0');
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let point = whole.len() as i64 + exponent;
    match usize::try_from(point) {
        Ok(point) if point >= whole.len() + fraction.len() => {
            let zeros = &ZEROS[..point - whole.len() - fraction.len()];
            write_pieces(text, [sign, whole, fraction, zeros, ".0"]);
        }
        Ok(point) if point >= whole.len() => {
            let (before, after) = fraction.split_at(point - whole.len());
            write_pieces(text, [sign, whole, before, ".", after]);
        }
        Ok(point) if point > 0 => {
            let (before, after) = whole.split_at(point);
            write_pieces(text, [sign, before, ".", after, fraction]);
        }
        _ => {
            let zeros = &ZEROS[..point.unsigned_abs() as usize];
            write_pieces(text, [sign, "0.", zeros, whole, fraction]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tract_onnx::prelude::*;

    use super::*;
    use crate::cast::rules::Rules;
    use crate::tensor::conversion::Conversion;

    fn format_f32(x: f32) -> String {
        // Over something else, as outputs are that come back.
        let mut text = "-12345.678".into();
        spell(bytemuck::bytes_of(&x), std::slice::from_mut(&mut text), write_f32);
        text
    }

    fn format_f64(x: f64) -> String {
        let mut text = String::new();
        write_f64(x, &mut text);
        text
    }

    fn positional(shortest: &str) -> String {
        let mut text = String::new();
        write_positional(&mut text, shortest);
        text
    }

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
        assert_eq!(format_f32(f32::from_bits(0x3E99_0000)), "0.29882812");
        assert_eq!(recipe(f32::from_bits(0x3E99_0000)), "0.29882812");
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
        let rules = Rules { saturate: false, ..Rules::default() };
        let parse = |text: &str, to: ElementType| {
            let texts: Tensor = tensor0(text.to_string());
            let code = Conversion::new(ElementType::String, to, rules).run(&texts).ok()?;
            Some(code.as_bytes().iter().rev().fold(0u64, |code, byte| code << 8 | u64::from(*byte)))
        };
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

        #[test]
        fn short_decimals_are_read_as_std_reads_them(
            digits in 0u64..1_000_000_000_000_000,
            dropped in 0u32..15,
            point in 0usize..15,
            sign in "[+-]?",
        ) {
            let mut text = (digits / 10u64.pow(dropped)).to_string();
            text.insert(point.min(text.len()), '.');
            let text = sign + &text;
            prop_assert_eq!(parse_f32(&text).map(f32::to_bits), text.parse().ok().map(f32::to_bits));
            prop_assert_eq!(parse_f64(&text).map(f64::to_bits), text.parse().ok().map(f64::to_bits));
        }

        /// The middle between two FLOATs, and its neighbours among the decimals.
        #[test]
        fn decimals_around_a_middle_are_read_as_std_reads_them(
            float in 1u32 << 23..1 << 24,
            shift in 0u32..12,
            off in -1i64..=1,
            places in 0usize..4,
        ) {
            let middle = (2 * u64::from(float) + 1) << shift;
            let scaled = middle as i64 * 10i64.pow(places as u32) + off;
            let mut text = scaled.to_string();
            text.insert(text.len() - places, '.');
            prop_assert_eq!(parse_f32(&text).map(f32::to_bits), text.parse().ok().map(f32::to_bits));
        }

        #[test]
        fn integers_are_read_by_their_value(text in "[+-]?[0-9]{1,21}") {
            let value: i128 = text.parse().expect("21 digits fit 128 bits");
            prop_assert_eq!(integer(&text), u64::try_from(value).ok());
            prop_assert_eq!(integer(&text), i64::try_from(value).ok());
            prop_assert_eq!(integer(&text), i8::try_from(value).ok());
            prop_assert_eq!(integer(&text), u8::try_from(value).ok());
        }
    }
}
