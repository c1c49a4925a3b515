//! The truth: one element at a time, written to be read beside [SEMANTICS §13](crate::semantics).
//! The kernels must equal it bit for bit; nothing here is fast.
//!
//! An element is its code, as in `cast::scalar`. What is written `/`, `·`, `+` and `−` in the text
//! is FLOAT arithmetic of IEEE 754, which Rust's operators are.

#![forbid(unsafe_code)]

use super::operator::{Dequantize, Quantize};
use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::cast::scalar::convert;

/// y = saturate(x / scale + zero point), of codes.
pub(crate) fn quantize(op: Quantize, x: u64, scale: u64, zero_point: Option<u64>) -> u64 {
    let x = float(op.x, x);
    let quotient = one_nan(x / float(op.scale, scale), x);
    let v = float(op.precision, of_float(op.precision, Rules::default(), quotient));
    match (op.integer_range(), zero_point) {
        (Some((least, greatest)), zero_point) => {
            let zero_point = zero_point.map_or(0.0, |code| float(op.y, code));
            // DOUBLE holds every sum that is in range, and a NaN is not greater than the least
            // number.
            let sum = f64::from(v.round_ties_even()) + f64::from(zero_point);
            let y =
                if sum > f64::from(least) { sum.min(greatest.into()) as i64 } else { least.into() };
            y as u64 & op.y.code_mask()
        }
        (None, Some(zero_point)) if op.adds_zero_point() => {
            of_float(op.y, op.rules(), one_nan(v + float(op.y, zero_point), v))
        }
        (None, _) => of_float(op.y, op.rules(), v),
    }
}

/// y = (x − zero point) · scale, of codes.
pub(crate) fn dequantize(op: Dequantize, x: u64, scale: u64, zero_point: Option<u64>) -> u64 {
    let zero_point = zero_point.map_or(0.0, |code| float(op.x, code));
    let difference = float(op.x, x) - zero_point;
    let product = one_nan(difference * float(op.scale, scale), difference);
    of_float(op.y, Rules::default(), product)
}

/// A result that is NaN becomes the canonical one, with the sign of an operand.
fn one_nan(result: f32, operand: f32) -> f32 {
    if result.is_nan() { f32::from_bits(0x7FC0_0000).copysign(operand) } else { result }
}

/// The FLOAT that is nearest to an element: its value, of every type but INT32.
fn float(from: ElementType, code: u64) -> f32 {
    let bits = convert(from, ElementType::Float, Rules::default(), code);
    f32::from_bits(bits.expect("quantisers have numeric types") as u32)
}

fn of_float(to: ElementType, rules: Rules, x: f32) -> u64 {
    let code = convert(ElementType::Float, to, rules, x.to_bits().into());
    code.expect("quantisers have numeric types")
}
