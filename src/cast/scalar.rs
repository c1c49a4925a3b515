//! The truth: one element at a time, in exact integer arithmetic, written to be read beside
//! [SEMANTICS §3–7](crate::semantics). The kernels must equal it bit for bit; nothing here is fast.
//!
//! An element is its *code*: the bit pattern in the low bits of a `u64`, signed integers not
//! sign-extended.

#![forbid(unsafe_code)]

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{FloatFormat, Overflow, Specials};
use crate::cast::rules::{RoundMode, Rules};
use crate::cast::value::{ExactValue, Finite};

/// Converts one element between two numeric types ([SEMANTICS §4–7](crate::semantics)).
///
/// `code` holds the source's bit pattern in its low bits, and so does the result; signed integers
/// are not sign-extended. `None` when either type is STRING.
pub fn convert(from: ElementType, to: ElementType, rules: Rules, code: u64) -> Option<u64> {
    if from == to && !changes_values(to, rules) {
        return Some(code & from.code_mask());
    }
    let value = decode(from, code)?;
    match (from.family(), to.family(), value) {
        (
            Family::Bool | Family::Signed | Family::Unsigned,
            Family::Signed | Family::Unsigned,
            ExactValue::Finite(integer),
        ) => Some(keep_low_bits(integer) & to.code_mask()),
        _ => encode(to, rules, value),
    }
}

/// Whether a cast of a type to itself is more than a copy: FLOAT8E5M2 alone, whose infinities
/// saturate ([SEMANTICS §4](crate::semantics)).
pub(crate) fn changes_values(ty: ElementType, rules: Rules) -> bool {
    match ty.family() {
        Family::Float(f) => {
            rules.saturate && f.overflow == Overflow::Attribute && f.infinity().is_some()
        }
        _ => false,
    }
}

/// The exact value of a code; `None` for STRING.
pub(crate) fn decode(ty: ElementType, code: u64) -> Option<ExactValue> {
    let code = code & ty.code_mask();
    let integer = |negative, significand| {
        Some(ExactValue::Finite(Finite { negative, significand, exponent: 0 }))
    };
    match ty.family() {
        Family::Bool => integer(false, u64::from(code != 0)),
        Family::Unsigned => integer(false, code),
        Family::Signed => {
            let unused = 64 - ty.bits();
            let value = ((code << unused) as i64) >> unused;
            integer(value < 0, value.unsigned_abs())
        }
        Family::Float(format) => Some(decode_float(format, code)),
        Family::Text => None,
    }
}

/// [SEMANTICS §3](crate::semantics): the value of a non-special code.
fn decode_float(format: &FloatFormat, code: u64) -> ExactValue {
    let negative = code & format.sign_bit() != 0;
    let magnitude = code & !format.sign_bit();
    if format.is_nan(code) {
        return ExactValue::NaN { negative };
    }
    if Some(magnitude) == format.infinity() {
        return ExactValue::Infinity { negative };
    }
    let field = magnitude >> format.mantissa_bits;
    let fraction = magnitude & ((1 << format.mantissa_bits) - 1);
    let finite = |significand, steps: u64| {
        let exponent = format.min_ulp_exponent() + steps as i32;
        ExactValue::Finite(Finite { negative, significand, exponent })
    };
    let implicit_one = 1 << format.mantissa_bits;
    match (format.specials, field) {
        (Specials::ScaleOnly, _) => finite(1, field),
        (_, 0) => finite(fraction, 0),
        _ => finite(implicit_one | fraction, field - 1),
    }
}

/// Rounds an exact value once, to the code of a type; `None` for STRING.
pub(crate) fn encode(to: ElementType, rules: Rules, value: ExactValue) -> Option<u64> {
    match to.family() {
        Family::Bool => Some(u64::from(!value.is_zero())),
        Family::Signed | Family::Unsigned => Some(encode_integer(to, value) & to.code_mask()),
        Family::Float(format) if format.specials == Specials::ScaleOnly => {
            Some(encode_scale(format, rules, value))
        }
        Family::Float(format) => Some(encode_float(format, rules, value)),
        Family::Text => None,
    }
}

/// [SEMANTICS §5.1–5.3](crate::semantics): round to nearest, ties to even, with an unbounded
/// exponent; then test the range.
fn encode_float(format: &FloatFormat, rules: Rules, value: ExactValue) -> u64 {
    let with_sign = |negative: bool, magnitude: u64| match (negative, format.specials, magnitude) {
        (false, _, _) | (true, Specials::NegativeZero, 0) => magnitude,
        (true, _, _) => format.sign_bit() | magnitude,
    };
    let out_of_range = |negative: bool| match (format.overflow, rules.saturate) {
        (Overflow::Infinity, _) | (Overflow::Attribute, false) => match format.infinity() {
            Some(infinity) => with_sign(negative, infinity),
            None => format.nan(negative),
        },
        (Overflow::Clamp, _) | (Overflow::Attribute, true) => {
            with_sign(negative, format.max_finite())
        }
    };
    match value {
        ExactValue::NaN { negative } => format.nan(negative),
        ExactValue::Infinity { negative } => out_of_range(negative),
        ExactValue::Finite(Finite { negative, significand: 0, .. }) => with_sign(negative, 0),
        ExactValue::Finite(finite) => {
            // The unit in the last place: that of the value's own binade, or the subnormals' if
            // that is larger.
            let top = finite.exponent + finite.significand.ilog2() as i32;
            let ulp = (top - format.mantissa_bits as i32).max(format.min_ulp_exponent());
            let units = round_to_units(finite, ulp);
            // A full significand counts its implicit one, which carries into the exponent field
            // below the first step.
            let steps = (ulp - format.min_ulp_exponent()) as u64;
            let magnitude = (steps << format.mantissa_bits) + units;
            if magnitude > format.max_finite() {
                out_of_range(finite.negative)
            } else {
                with_sign(finite.negative, magnitude)
            }
        }
    }
}

/// The magnitude in units of 2^ulp, to the nearest integer, ties to even.
fn round_to_units(finite: Finite, ulp: i32) -> u64 {
    let drop = ulp - finite.exponent;
    match drop {
        ..=0 => finite.significand << -drop,
        1..=64 => {
            let wide = u128::from(finite.significand);
            let floor = (wide >> drop) as u64;
            let rest = wide & ((1 << drop) - 1);
            let half = 1u128 << (drop - 1);
            floor + u64::from(rest > half || (rest == half && floor & 1 == 1))
        }
        _ => 0,
    }
}

/// [SEMANTICS §5.4](crate::semantics): the range test is made on the value itself, then
/// `round_mode` picks one of two neighbours.
fn encode_scale(format: &FloatFormat, rules: Rules, value: ExactValue) -> u64 {
    let beyond = |code| if rules.saturate { code } else { format.nan(false) };
    let below = beyond(0);
    let above = beyond(format.max_finite());
    let finite = match value {
        ExactValue::NaN { .. } => return format.nan(false),
        ExactValue::Infinity { negative: false } => return above,
        ExactValue::Finite(f) if !f.negative && f.significand != 0 => f,
        ExactValue::Infinity { negative: true } | ExactValue::Finite(_) => return below,
    };
    let floor = finite.exponent + finite.significand.ilog2() as i32;
    let is_power = finite.significand.is_power_of_two();
    let largest = format.max_finite() as i32 - format.bias;
    if floor < -format.bias {
        return below;
    }
    if floor > largest || (floor == largest && !is_power) {
        return above;
    }
    let code = (floor + format.bias) as u64;
    let at_least_half_way = {
        let leading_two = finite.significand << finite.significand.leading_zeros() >> 62;
        leading_two == 0b11
    };
    match rules.round_mode {
        _ if is_power => code,
        RoundMode::Up => code + 1,
        RoundMode::Down => code,
        RoundMode::Nearest => code + u64::from(at_least_half_way),
    }
}

/// [SEMANTICS §7.1](crate::semantics): an integer of whatever size in two's complement.
fn keep_low_bits(integer: Finite) -> u64 {
    if integer.negative { integer.significand.wrapping_neg() } else { integer.significand }
}

/// [SEMANTICS §7.2–7.3](crate::semantics): truncate toward zero and keep the low bits, if the
/// table's range holds the number.
fn encode_integer(to: ElementType, value: ExactValue) -> u64 {
    const TWO_31: i128 = 1 << 31;
    const TWO_63: i128 = 1 << 63;
    let signed = to.family() == Family::Signed;
    let truncated = match value {
        ExactValue::Finite(finite) => truncate(finite),
        ExactValue::NaN { .. } | ExactValue::Infinity { .. } => None,
    };
    let (low, high, otherwise) = match (to.bits(), signed) {
        (..=16, _) => (-TWO_31, TWO_31, 0),
        (32, true) => (-TWO_31, TWO_31, -TWO_31),
        (32, false) => (-TWO_63, TWO_63, 0),
        (_, true) => (-TWO_63, TWO_63, -TWO_63),
        (_, false) => (-TWO_63, 2 * TWO_63, if is_positive(value) { 0 } else { TWO_63 }),
    };
    truncated.filter(|t| (low..high).contains(t)).unwrap_or(otherwise) as u64
}

fn is_positive(value: ExactValue) -> bool {
    match value {
        ExactValue::NaN { .. } => false,
        ExactValue::Infinity { negative } | ExactValue::Finite(Finite { negative, .. }) => {
            !negative
        }
    }
}

/// The integer part; `None` when it needs more than 126 bits, which is beyond every range asked
/// for.
fn truncate(finite: Finite) -> Option<i128> {
    let Finite { negative, significand, exponent } = finite;
    let magnitude = match exponent {
        ..0 => i128::from(significand.checked_shr(exponent.unsigned_abs()).unwrap_or(0)),
        _ if significand == 0 => 0,
        _ if significand.ilog2() as i32 + exponent < 126 => i128::from(significand) << exponent,
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Writes a code as a carrier holds it: native byte order, small signed integers sign-extended.
/// `place` is as wide as the carrier.
pub(crate) fn write_carrier(ty: ElementType, code: u64, place: &mut [u8]) {
    let code = match ty.family() {
        Family::Signed => {
            let unused = 64 - ty.bits();
            (((code << unused) as i64) >> unused) as u64
        }
        _ => code,
    };
    match place.len() {
        1 => place.copy_from_slice(&(code as u8).to_ne_bytes()),
        2 => place.copy_from_slice(&(code as u16).to_ne_bytes()),
        4 => place.copy_from_slice(&(code as u32).to_ne_bytes()),
        _ => place.copy_from_slice(&code.to_ne_bytes()),
    }
}
