//! Elements by their exact values, whatever their types.

use std::ops::Range;

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::{Number, Numbers, Reach};
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::value::part;

/// The exact values of some of a tensor's elements.
pub(crate) struct ExactValues {
    /// The place of the first of them.
    first: usize,
    values: Values,
}

enum Values {
    Numbers(Numbers),
    Texts(Vec<String>),
}

impl ExactValues {
    /// Of the elements at some places, in row-major order. Fails when the tensor does not have
    /// them, or is not of its type's carrier.
    pub(crate) fn of(
        ty: ElementType,
        tensor: &Tensor,
        places: Range<usize>,
    ) -> TractResult<ExactValues> {
        let (carrier, got) = (ty.datum_type(), tensor.datum_type());
        ensure!(got == carrier, "a tensor of {ty} is held in {carrier:?}, not {got:?}");
        let first = places.start;
        let values = match ty.family() {
            Family::Text => {
                let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?.get(places);
                Values::Texts(texts.context("the tensor is shorter than its shape")?.to_vec())
            }
            _ => Values::Numbers(Numbers::of(ty, &part(ty, tensor, places)?)?),
        };
        Ok(ExactValues { first, values })
    }

    /// Those at some of these places, where they are no integers of 64 bits and no text.
    pub(crate) fn reals(&self, places: Range<usize>) -> Option<&[f64]> {
        let start = places.start.checked_sub(self.first)?;
        match &self.values {
            Values::Numbers(numbers) => numbers.reals()?.get(start..places.end - self.first),
            Values::Texts(_) => None,
        }
    }

    /// That at one of these places.
    pub(crate) fn element(&self, place: usize) -> Element<'_> {
        let index = place.wrapping_sub(self.first);
        match &self.values {
            Values::Numbers(numbers) => {
                Element::Number(numbers.get(index).unwrap_or(Number::from(f64::NAN)))
            }
            Values::Texts(texts) => Element::Text(texts.get(index).map_or("", String::as_str)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_values_are_those_of_their_places() -> TractResult<()> {
        let floats = tensor1(&[0.5f32, -0.0, 2.0, 3.0, f32::MAX]);
        let words = tensor1(&[1i64, i64::MIN, i64::MAX, i64::MAX - 1, 5]);
        let texts = ["a", "b", "c", "d", "e"].map(String::from);
        let some = |ty, tensor: &Tensor| ExactValues::of(ty, tensor, 2..4);
        let found = some(ElementType::Float, &floats)?;
        assert_eq!(found.reals(2..4), Some(&[2.0, 3.0][..]));
        assert_eq!(found.reals(3..4), Some(&[3.0][..]));
        assert!([0..2, 1..3, 3..5].into_iter().all(|others| found.reals(others).is_none()));
        let found = some(ElementType::Int64, &words)?;
        let is = |place, word: i64| {
            found.element(place).is(Element::Number(Number::Integer(word.into())))
        };
        assert!(is(2, i64::MAX) && is(3, i64::MAX - 1) && found.reals(2..4).is_none());
        let found = some(ElementType::String, &tensor1(&texts))?;
        assert!(found.element(2).is(Element::Text("c")) && found.element(3).is(Element::Text("d")));
        assert!(ExactValues::of(ElementType::Float, &floats, 2..6).is_err());
        assert!(ExactValues::of(ElementType::String, &tensor1(&texts), 2..6).is_err());
        // Of as many bytes each.
        assert!(some(ElementType::Int32, &floats).is_err());
        Ok(())
    }
}
