//! Elements by their exact values, whatever their types.

use std::ops::Range;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Number, Numbers, Reach};
use tract_onnx_cast::{ElementType, Family};

/// The exact values of a tensor.
pub(crate) enum ExactValues {
    Numbers(Numbers),
    Texts(Vec<String>),
}

impl ExactValues {
    pub(crate) fn of(ty: ElementType, tensor: &Tensor) -> TractResult<ExactValues> {
        Ok(match ty.family() {
            Family::Text => ExactValues::Texts(tensor.try_as_plain_ram()?.as_slice()?.to_vec()),
            _ => ExactValues::Numbers(Numbers::of(ty, tensor)?),
        })
    }

    /// Some of them, where they are no integers of 64 bits and no text.
    pub(crate) fn reals(&self, places: Range<usize>) -> Option<&[f64]> {
        match self {
            ExactValues::Numbers(numbers) => numbers.reals()?.get(places),
            ExactValues::Texts(_) => None,
        }
    }

    pub(crate) fn element(&self, index: usize) -> Element<'_> {
        match self {
            ExactValues::Numbers(numbers) => {
                Element::Number(numbers.get(index).unwrap_or(Number::from(f64::NAN)))
            }
            ExactValues::Texts(texts) => Element::Text(texts.get(index).map_or("", String::as_str)),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Element<'a> {
    Number(Number),
    Text(&'a str),
}

impl Element<'_> {
    /// The exact value; `None` for text.
    pub(crate) fn number(self) -> Option<Number> {
        match self {
            Element::Number(number) => Some(number),
            Element::Text(_) => None,
        }
    }

    pub(crate) fn is(self, other: Element) -> bool {
        match (self, other) {
            (Element::Text(a), Element::Text(b)) => a == b,
            (Element::Number(a), Element::Number(b)) => a.is(b),
            _ => false,
        }
    }

    /// Zeros of different sign are the same value, but not the same.
    pub(crate) fn has_other_sign(self, other: Element) -> bool {
        let zero = |element: Element| match element {
            Element::Number(Number::Real(x)) => (x == 0.0).then_some(x.is_sign_negative()),
            _ => None,
        };
        zero(self).zip(zero(other)).is_some_and(|(a, b)| a != b)
    }
}

/// The coarser of two types, whose last place is the unit of their errors: integers are finer than
/// floating-point numbers. `None` for text.
pub(crate) fn coarser(a: ElementType, b: ElementType) -> Option<Reach> {
    let (a, b) = (Reach::of(a)?, Reach::of(b)?);
    Some(match (&a, &b) {
        (Reach::Float(_), Reach::Float(_)) if b.significant_bits() < a.significant_bits() => b,
        (Reach::Float(_), _) => a,
        _ => b,
    })
}
