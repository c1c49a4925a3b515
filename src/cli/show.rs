//! Values and tables as people and programs read them.

use std::fmt;
use std::ops::Range;

use anyhow::Context;
use serde::{Serialize, Serializer};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Family, Rules};

use super::message::{shortened, single_line};

/// How much of a string people are shown.
const TEXT_CHARS: usize = 40;

/// An element by what it means: a BFLOAT16 is the number that it stands for.
#[derive(Debug)]
pub(super) enum Value {
    /// Of any float type but DOUBLE: they are all exact in FLOAT.
    Float(f32),
    Double(f64),
    Signed(i64),
    Unsigned(u64),
    Bool(bool),
    Text(String),
}

/// For people: floats in the shortest form that reads back, strings in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Double(x) => write!(f, "{x:?}"),
            Value::Signed(x) => write!(f, "{x}"),
            Value::Unsigned(x) => write!(f, "{x}"),
            Value::Bool(x) => write!(f, "{x}"),
            Value::Text(text) => write!(f, "\"{}\"", shortened(&single_line(text), TEXT_CHARS)),
        }
    }
}

/// For programs: JSON has no NaN and no infinities, so they are strings, in the words that most
/// languages read.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let special = |x: f64| match x {
            _ if x.is_nan() => "NaN",
            _ if x < 0.0 => "-Infinity",
            _ => "Infinity",
        };
        match self {
            Value::Float(x) if x.is_finite() => serializer.serialize_f32(*x),
            Value::Float(x) => serializer.serialize_str(special((*x).into())),
            Value::Double(x) if x.is_finite() => serializer.serialize_f64(*x),
            Value::Double(x) => serializer.serialize_str(special(*x)),
            Value::Signed(x) => serializer.serialize_i64(*x),
            Value::Unsigned(x) => serializer.serialize_u64(*x),
            Value::Bool(x) => serializer.serialize_bool(*x),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Some of a tensor's elements, in row-major order. Places that it does not have are left out.
pub(super) fn values(
    ty: ElementType,
    tensor: &Tensor,
    places: Range<usize>,
) -> TractResult<Vec<Value>> {
    let places = places.start.min(tensor.len())..places.end.min(tensor.len());
    let Some(width) = ty.carrier_bytes() else {
        let texts = tensor.try_as_plain_ram()?.as_slice::<String>()?.get(places);
        return Ok(texts.unwrap_or_default().iter().cloned().map(Value::Text).collect());
    };
    let bytes = tensor.as_bytes().get(places.start * width..places.end * width);
    let mut some = Tensor::zero_dt(ty.datum_type(), &[places.len()])?;
    some.as_bytes_mut().copy_from_slice(bytes.context("the tensor is shorter than its shape")?);
    match ty.family() {
        Family::Float(_) if ty == ElementType::Double => widened(ty, ty, &some, Value::Double),
        Family::Float(_) => widened(ty, ElementType::Float, &some, Value::Float),
        Family::Signed => widened(ty, ElementType::Int64, &some, Value::Signed),
        Family::Unsigned => widened(ty, ElementType::Uint64, &some, Value::Unsigned),
        Family::Bool | Family::Text => widened(ty, ElementType::Bool, &some, Value::Bool),
    }
}

fn widened<T: Datum + Copy>(
    ty: ElementType,
    wide: ElementType,
    tensor: &Tensor,
    value: fn(T) -> Value,
) -> TractResult<Vec<Value>> {
    let wide = Conversion::new(ty, wide, Rules::default()).run(tensor)?;
    Ok(wide.try_as_plain_ram()?.as_slice::<T>()?.iter().copied().map(value).collect())
}

/// Rows whose cells stand under each other. The last cell of a row is as long as it likes.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let length = |cell: &String| cell.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
