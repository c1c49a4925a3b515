//! Which types meet in a quantiser.

#![forbid(unsafe_code)]

use crate::cast::element_type::{ElementType, Family};
use crate::cast::format::{Overflow, Specials};
use crate::cast::reach::Reach;
use crate::cast::rules::Rules;
use crate::cast::value::Number;

/// What a `QuantizeLinear` makes of an element: y = saturate(x / scale + zero point) ([SEMANTICS
/// §13](crate::semantics)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quantize {
    /// The type of x: FLOAT, FLOAT16, BFLOAT16 or INT32.
    pub x: ElementType,
    /// The type of the scale: any of those, or FLOAT8E8M0.
    pub scale: ElementType,
    /// The type of y and of the zero point: an integer of at most 16 bits, a float8, float6 or
    /// float4.
    pub y: ElementType,
    /// The precision that the quotient is rounded to: FLOAT, FLOAT16 or BFLOAT16.
    pub precision: ElementType,
    /// What becomes of a number out of a float8 type's range: the largest one if set, an infinity
    /// or NaN if not.
    pub saturate: bool,
}

/// What a `DequantizeLinear` makes of an element: y = (x − zero point) · scale ([SEMANTICS
/// §13](crate::semantics)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dequantize {
    /// The type of x and of the zero point: one that [`Quantize`] makes, or INT32.
    pub x: ElementType,
    /// The type of the scale: FLOAT, FLOAT16, BFLOAT16 or FLOAT8E8M0.
    pub scale: ElementType,
    /// The type of y: FLOAT, FLOAT16 or BFLOAT16.
    pub y: ElementType,
}

/// Either of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantizer {
    /// `QuantizeLinear`.
    Quantize(Quantize),
    /// `DequantizeLinear`.
    Dequantize(Dequantize),
}

impl Quantizer {
    /// ONNX's name of the operator.
    pub const fn name(self) -> &'static str {
        match self {
            Quantizer::Quantize(_) => "QuantizeLinear",
            Quantizer::Dequantize(_) => "DequantizeLinear",
        }
    }

    /// The type of x.
    pub const fn x(self) -> ElementType {
        match self {
            Quantizer::Quantize(op) => op.x,
            Quantizer::Dequantize(op) => op.x,
        }
    }

    /// The type of the scale.
    pub const fn scale(self) -> ElementType {
        match self {
            Quantizer::Quantize(op) => op.scale,
            Quantizer::Dequantize(op) => op.scale,
        }
    }

    /// The type of the zero point.
    pub const fn zero_point(self) -> ElementType {
        match self {
            Quantizer::Quantize(op) => op.y,
            Quantizer::Dequantize(op) => op.x,
        }
    }

    /// The type of y.
    pub const fn y(self) -> ElementType {
        match self {
            Quantizer::Quantize(op) => op.y,
            Quantizer::Dequantize(op) => op.y,
        }
    }

    /// Whether the newest version of the operator has these types.
    pub fn is_defined(self) -> bool {
        use ElementType::{BFloat16, Float, Float8E8M0, Float16, Int32};
        let is_float = |ty| matches!(ty, Float | Float16 | BFloat16);
        match self {
            Quantizer::Quantize(Quantize { x, scale, y, precision, saturate: _ }) => {
                (is_float(x) || x == Int32)
                    && (is_float(scale) || matches!(scale, Int32 | Float8E8M0))
                    && is_quantized(y)
                    && is_float(precision)
            }
            Quantizer::Dequantize(Dequantize { x, scale, y }) => {
                (is_quantized(x) || x == Int32)
                    && (is_float(scale) || scale == Float8E8M0)
                    && is_float(y)
            }
        }
    }

    /// Whether the zero point can only be 0: for float8 in either operator, and for INT32.
    pub fn zero_point_is_zero(self) -> bool {
        let ty = self.zero_point();
        ty == ElementType::Int32 || is_float8(ty)
    }
}

/// Whether a type is one that a `QuantizeLinear` makes.
fn is_quantized(ty: ElementType) -> bool {
    match ty.family() {
        Family::Signed | Family::Unsigned => ty.bits() <= 16,
        Family::Float(format) => ty.bits() <= 8 && format.specials != Specials::ScaleOnly,
        Family::Bool | Family::Text => false,
    }
}

/// Whether a type is one of the float8 types that `saturate` is for; FLOAT8E8M0 is none.
pub(super) fn is_float8(ty: ElementType) -> bool {
    let is_number = |specials| specials != Specials::ScaleOnly;
    matches!(ty.family(), Family::Float(format)
        if format.overflow == Overflow::Attribute && is_number(format.specials))
}

/// The precision of the division where no attribute gives one: the scale's type if it is a float
/// that x can be, else FLOAT.
pub(crate) fn default_precision(scale: ElementType) -> ElementType {
    match scale {
        ElementType::Float16 | ElementType::BFloat16 => scale,
        _ => ElementType::Float,
    }
}

impl Quantize {
    /// The rules by which a number becomes a y that is a float.
    pub(super) fn rules(&self) -> Rules {
        Rules { saturate: self.saturate, ..Rules::default() }
    }

    /// The least and the greatest y, if it is an integer.
    pub(super) fn integer_range(&self) -> Option<(i32, i32)> {
        match self.y.family() {
            Family::Signed => {
                let half = 1 << (self.y.bits() - 1);
                Some((-half, half - 1))
            }
            Family::Unsigned => Some((0, (1 << self.y.bits()) - 1)),
            _ => None,
        }
    }

    /// Whether y, which is to be a finite quotient in the operator's precision moved by a zero
    /// point, is in its range: before it is brought there, after it is rounded.
    pub(crate) fn reaches(&self, quotient: f32, zero_point: f32) -> bool {
        let zero_point = if self.adds_zero_point() { zero_point } else { 0.0 };
        match self.integer_range() {
            Some((least, greatest)) => {
                let sum = f64::from(quotient.round_ties_even()) + f64::from(zero_point);
                (f64::from(least)..=f64::from(greatest)).contains(&sum)
            }
            None => {
                let sum = Number::Real((quotient + zero_point).into());
                quotient.is_finite() && Reach::of(self.y).is_none_or(|y| !y.is_beyond(sum))
            }
        }
    }

    /// Whether a zero point is added: to integers, and to floats that have no NaN. A float8's is 0.
    pub(super) fn adds_zero_point(&self) -> bool {
        !is_float8(self.y)
    }
}
