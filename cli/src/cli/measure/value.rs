//! Elements as people and programs read them, and where they stand.

use std::fmt;
use std::ops::Range;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::number::Num;
use crate::cli::message::{shortened, single_line};
use crate::cli::tensor::elements;

/// How much of a string people are shown.
const TEXT_CHARS: usize = 40;

/// An element by what it means: a BFLOAT16 is the number that it stands for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ElementValue {
    /// Of any float type but DOUBLE: they are all exact in FLOAT.
    Float(Num),
    Double(Num),
    Signed(i64),
    Unsigned(u64),
    Bool(bool),
    Text(String),
}

/// For people: floats in the shortest form that reads back, strings in quotes.
impl fmt::Display for ElementValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementValue::Float(Num(x)) => write!(f, "{:?}", *x as f32),
            ElementValue::Double(Num(x)) => write!(f, "{x:?}"),
            ElementValue::Signed(x) => write!(f, "{x}"),
            ElementValue::Unsigned(x) => write!(f, "{x}"),
            ElementValue::Bool(x) => write!(f, "{x}"),
            ElementValue::Text(text) => {
                write!(f, "\"{}\"", shortened(&single_line(text), TEXT_CHARS))
            }
        }
    }
}

/// Some of a tensor's elements, in row-major order. Places that it does not have are left out.
pub(crate) fn values(
    ty: ElementType,
    tensor: &Tensor,
    places: Range<usize>,
) -> TractResult<Vec<ElementValue>> {
    let places = places.start.min(tensor.len())..places.end.min(tensor.len());
    if ty.family() == Family::Text {
        let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?.get(places);
        return Ok(texts.unwrap_or_default().iter().cloned().map(ElementValue::Text).collect());
    }
    let some = part(ty, tensor, places)?;
    match ty.family() {
        Family::Float(_) if ty == ElementType::Double => {
            widened(ty, &some, |x: f64| ElementValue::Double(Num(x)))
        }
        Family::Float(_) => widened(ty, &some, |x: f32| ElementValue::Float(Num(x.into()))),
        Family::Signed => widened(ty, &some, ElementValue::Signed),
        Family::Unsigned => widened(ty, &some, ElementValue::Unsigned),
        Family::Bool | Family::Text => widened(ty, &some, ElementValue::Bool),
    }
}

/// Some of the elements of a tensor of numbers, which has the places, in row-major order.
/// Fails when the tensor does not have them, or is not of its type's carrier.
pub(crate) fn part(ty: ElementType, tensor: &Tensor, places: Range<usize>) -> TractResult<Tensor> {
    let width = ty.carrier_bytes().context("texts have no width")?;
    if let (&[_, columns], None, false) = (tensor.shape(), tensor.as_plain_ram(), places.is_empty())
    {
        // Of a matrix that is in its file rows are read, as many as hold the places.
        let first = places.start / columns.max(1);
        let rows = tensor.slice(0, first, places.end.div_ceil(columns.max(1)))?;
        let before = first * columns;
        if before == places.start && rows.len() == places.len() {
            return rows.into_shape(&[places.len()]);
        }
        return part(ty, &rows, places.start - before..places.end - before);
    }
    let bytes = tensor.as_bytes().get(places.start * width..places.end * width);
    let mut some = Tensor::zero_dt(ty.datum_type(), &[places.len()])?;
    some.as_bytes_mut().copy_from_slice(bytes.context("the tensor is shorter than its shape")?);
    Ok(some)
}

fn widened<T: Datum + Copy>(
    ty: ElementType,
    tensor: &Tensor,
    value: fn(T) -> ElementValue,
) -> TractResult<Vec<ElementValue>> {
    Ok(elements(ty, tensor)?.into_iter().map(value).collect())
}

/// One element, for people.
pub(crate) fn shown(ty: ElementType, tensor: &Tensor, place: usize) -> TractResult<String> {
    let value = values(ty, tensor, place..place + 1)?;
    Ok(value.first().map(ElementValue::to_string).unwrap_or_default())
}

/// The coordinates of an element, given its place in row-major order.
pub(crate) fn coordinates(place: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = place;
    let mut reversed: Vec<usize> = vec![];
    for size in shape.iter().rev() {
        reversed.push(rest % size.max(&1));
        rest /= size.max(&1);
    }
    reversed.into_iter().rev().collect()
}
