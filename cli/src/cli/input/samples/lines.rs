//! Samples in the lines of a file, each an object of JSON: an input's name, and its values as a
//! number, as nested lists, or as an object of a `shape` and a flat list, `data`.

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Family};

use super::{Other, Sample};
use crate::cli::input::array::Array;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input_file::read_regular_text;
use crate::cli::message::{at, counted};
use crate::cli::tensor::of_numbers;

/// Whether a file's name says that it holds lines of JSON.
pub(super) fn is_it(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

/// The samples of a file, of which empty lines are none. Fails when it cannot be read, or holds
/// none.
pub(super) fn of(path: &Path) -> TractResult<Vec<Sample>> {
    let name = path.display().to_string();
    let text: Rc<str> = at(&name, read_regular_text(path))?.into();
    let (mut samples, mut start) = (vec![], 0);
    for (number, line) in text.split('\n').enumerate() {
        let place = start..start + line.len();
        start = place.end + 1;
        if line.trim().is_empty() {
            continue;
        }
        let text = text.clone();
        let sample = Other::of_arrays(format!("{name} line {}", number + 1), move |model| {
            read(model, &text, place.clone())
        });
        samples.push(Sample::Other(sample));
    }
    ensure!(!samples.is_empty(), "{name}: holds no sample");
    Ok(samples)
}

fn read(
    model: &Declared,
    text: &str,
    place: Range<usize>,
) -> TractResult<Vec<(String, Option<Array>)>> {
    let line = text.get(place).unwrap_or_default();
    let object: Map<String, Value> = serde_json::from_str(line)
        .context("it should be an object, with \"NaN\" and \"Infinity\" as strings")?;
    let array = |(name, value): (String, Value)| {
        let Some(input) = model.input(&name) else {
            return Ok((name, None));
        };
        let array = at(format!("input `{name}`"), array(input, &value))?;
        Ok((name, Some(array)))
    };
    object.into_iter().map(array).collect()
}

/// The values of an input.
fn array(input: &Input, value: &Value) -> TractResult<Array> {
    let (mut shape, mut flat) = (vec![], vec![]);
    if let Value::Object(object) = value {
        let sizes = object.get("shape").and_then(Value::as_array).context("it has no `shape`")?;
        let size = |size: &Value| size.as_u64().and_then(|size| usize::try_from(size).ok());
        shape = sizes.iter().map(size).collect::<Option<_>>().context("its `shape` is no shape")?;
        flatten(object.get("data").context("it has no `data`")?, 0, &mut vec![], &mut flat)?;
    } else {
        flatten(value, 0, &mut shape, &mut flat)?;
    }
    let elements = shape.iter().try_fold(1usize, |elements, size| elements.checked_mul(*size));
    let found = flat.len();
    ensure!(elements == Some(found), "{} for a shape of {shape:?}", counted(found, "value"));
    Ok(Array::of_values("JSON".into(), input.ty, tensor(input.ty, &shape, &flat)?))
}

/// Puts nested lists in a row, and finds their sizes.
fn flatten<'a>(
    value: &'a Value,
    depth: usize,
    shape: &mut Vec<usize>,
    flat: &mut Vec<&'a Value>,
) -> TractResult<()> {
    let Value::Array(values) = value else {
        ensure!(depth == shape.len(), "there is a value beside a list");
        flat.push(value);
        return Ok(());
    };
    if shape.len() == depth {
        ensure!(flat.is_empty(), "there is a list beside a value");
        shape.push(values.len());
    }
    let (size, found) = (shape.get(depth).copied().unwrap_or(0), values.len());
    ensure!(size == found, "lists of {size} and of {found} stand beside each other");
    values.iter().try_for_each(|value| flatten(value, depth + 1, shape, flat))
}

/// The values in the type's carrier.
fn tensor(ty: ElementType, shape: &[usize], flat: &[&Value]) -> TractResult<Tensor> {
    match ty.family() {
        Family::Text => {
            let text = |value: &&Value| Some(value.as_str()?.to_owned());
            let texts: Option<Vec<String>> = flat.iter().map(text).collect();
            let texts = tensor1(&texts.context("there is a value that is no string")?);
            Ok(texts.into_shape(shape)?)
        }
        Family::Float(_) => {
            let numbers =
                flat.iter().map(|value| float(value)).collect::<TractResult<Vec<f64>>>()?;
            of_numbers(ty, shape, &numbers)
        }
        Family::Unsigned if ty.bits() == 64 => {
            let number = |value: &&Value| value.as_u64().with_context(|| beyond(value, ty));
            let numbers = flat.iter().map(number).collect::<TractResult<Vec<u64>>>()?;
            of_numbers(ty, shape, &numbers)
        }
        _ => {
            let numbers =
                flat.iter().map(|value| whole(value, ty)).collect::<TractResult<Vec<i64>>>()?;
            of_numbers(ty, shape, &numbers)
        }
    }
}

fn float(value: &Value) -> TractResult<f64> {
    match value {
        Value::Number(number) => number.as_f64().context("a number"),
        Value::Bool(value) => Ok(f64::from(u8::from(*value))),
        Value::String(text) => match text.as_str() {
            "NaN" | "nan" => Ok(f64::NAN),
            "Infinity" | "inf" => Ok(f64::INFINITY),
            "-Infinity" | "-inf" => Ok(f64::NEG_INFINITY),
            _ => bail!("{value} is no number"),
        },
        _ => bail!("{value} is no number"),
    }
}

/// A whole number that a type of up to 63 bits, or INT64, holds.
fn whole(value: &Value, ty: ElementType) -> TractResult<i64> {
    // Writers of JSON make 1.0 of 1.
    let exact = |number: f64| {
        (number.fract() == 0.0 && number.abs() < 2f64.powi(53)).then_some(number as i64)
    };
    let number = match value {
        Value::Bool(value) => Some(i64::from(*value)),
        _ => value.as_i64().or_else(|| value.as_f64().and_then(exact)),
    };
    let mask = ty.code_mask();
    let (least, most) = match ty.family() {
        Family::Bool => (0, 1),
        Family::Signed => (-((mask >> 1) as i64) - 1, (mask >> 1) as i64),
        _ => (0, i64::try_from(mask).unwrap_or(i64::MAX)),
    };
    number.filter(|number| (least..=most).contains(number)).with_context(|| beyond(value, ty))
}

fn beyond(value: &Value, ty: ElementType) -> String {
    format!("{value} is no {ty}")
}
