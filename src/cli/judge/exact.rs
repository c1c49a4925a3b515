//! Elements by their exact values, whatever their types.

use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

/// The exact values of a tensor.
pub(crate) enum Values {
    Reals(Vec<f64>),
    /// Of a 64-bit type, whose values DOUBLE does not all have.
    Integers(Vec<i128>),
    Texts(Vec<String>),
}

impl Values {
    pub(crate) fn of(ty: ElementType, tensor: &Tensor) -> TractResult<Values> {
        let as_type = |wide| Conversion::new(ty, wide, Rules::default()).run(tensor);
        Ok(match (ty.family(), ty.bits()) {
            (Family::Text, _) => {
                Values::Texts(tensor.try_as_plain_ram()?.as_slice::<String>()?.to_vec())
            }
            (Family::Signed, 64) => Values::Integers(widened::<i64>(tensor)?),
            (Family::Unsigned, 64) => Values::Integers(widened::<u64>(tensor)?),
            _ => {
                let doubles = as_type(ElementType::Double)?;
                Values::Reals(doubles.try_as_plain_ram()?.as_slice::<f64>()?.to_vec())
            }
        })
    }

    pub(crate) fn element(&self, index: usize) -> Element<'_> {
        match self {
            Values::Reals(values) => Element::Real(values.get(index).copied().unwrap_or(f64::NAN)),
            Values::Integers(values) => Element::Integer(values.get(index).copied().unwrap_or(0)),
            Values::Texts(texts) => Element::Text(texts.get(index).map_or("", String::as_str)),
        }
    }
}

fn widened<T: Datum + Copy + Into<i128>>(tensor: &Tensor) -> TractResult<Vec<i128>> {
    Ok(tensor.try_as_plain_ram()?.as_slice::<T>()?.iter().map(|x| (*x).into()).collect())
}

#[derive(Clone, Copy)]
pub(crate) enum Element<'a> {
    Real(f64),
    Integer(i128),
    Text(&'a str),
}

impl Element<'_> {
    /// The value, an integer of many digits rounded; `None` for text.
    pub(crate) fn real(self) -> Option<f64> {
        match self {
            Element::Real(x) => Some(x),
            Element::Integer(x) => Some(x as f64),
            Element::Text(_) => None,
        }
    }

    pub(crate) fn is(self, other: Element) -> bool {
        match (self, other) {
            (Element::Text(a), Element::Text(b)) => a == b,
            (Element::Integer(a), Element::Integer(b)) => a == b,
            (Element::Integer(a), Element::Real(b)) | (Element::Real(b), Element::Integer(a)) => {
                a as f64 == b && (b as i128) == a
            }
            (Element::Real(a), Element::Real(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        }
    }

    /// Zeros of different sign are the same value, but not the same.
    pub(crate) fn has_other_sign(self, other: Element) -> bool {
        matches!((self, other), (Element::Real(a), Element::Real(b))
            if a == 0.0 && b == 0.0 && a.is_sign_negative() != b.is_sign_negative())
    }

    /// reference − converted.
    pub(crate) fn minus(self, other: Element) -> f64 {
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => (a - b) as f64,
            (Element::Integer(a), Element::Real(b)) => integer_minus(a, b),
            (Element::Real(a), Element::Integer(b)) => -integer_minus(b, a),
            _ => self.real().unwrap_or(f64::NAN) - other.real().unwrap_or(f64::NAN),
        }
    }
}

/// The difference of an integer of more digits than DOUBLE has from a number, rounded once where that matters.
fn integer_minus(a: i128, b: f64) -> f64 {
    const MUCH: f64 = (1i128 << 100) as f64;
    if b.abs() < MUCH { (a - b as i128) as f64 - b.fract() } else { a as f64 - b }
}

/// The unit in the last place of a type.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    One,
    Float { mantissa_bits: i32, min: i32 },
}

impl Unit {
    /// The unit of the coarser of two types: integers are finer than floating-point numbers; `None` for text.
    pub(crate) fn coarser(a: ElementType, b: ElementType) -> Option<Unit> {
        let unit = |ty: ElementType| match ty.family() {
            Family::Text => None,
            Family::Bool | Family::Signed | Family::Unsigned => Some(Unit::One),
            Family::Float(format) => Some(Unit::Float {
                mantissa_bits: format.mantissa_bits as i32,
                min: format.min_ulp_exponent(),
            }),
        };
        Some(match (unit(a)?, unit(b)?) {
            (
                a @ Unit::Float { mantissa_bits: x, .. },
                b @ Unit::Float { mantissa_bits: y, .. },
            ) => {
                if x <= y {
                    a
                } else {
                    b
                }
            }
            (float @ Unit::Float { .. }, Unit::One) | (Unit::One, float @ Unit::Float { .. }) => {
                float
            }
            (Unit::One, Unit::One) => Unit::One,
        })
    }

    pub(crate) fn at(self, x: f64) -> f64 {
        match self {
            Unit::One => 1.0,
            Unit::Float { mantissa_bits, min } => {
                let field = (x.to_bits() >> 52 & 0x7FF) as i32;
                let exponent = (field - 1023 - mantissa_bits).max(min).max(-1074);
                // By halves, for `powi` gives up below DOUBLE's normal values.
                2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
            }
        }
    }
}
