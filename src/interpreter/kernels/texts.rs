//! Operators on STRING, and `LabelEncoder`.

use std::collections::HashMap;

use onnx_cast_graph::counted;
use tract_onnx::prelude::tract_ndarray::{ArrayD, ArrayViewD, IxDyn, Zip};
use tract_onnx::prelude::*;

use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;
use crate::tensor::proto;

fn texts<'i>(
    site: &KernelSite,
    inputs: &'i KernelInputs,
    place: usize,
) -> TractResult<ArrayViewD<'i, String>> {
    let typed = site.input(inputs, place)?;
    match typed.ty {
        ElementType::String => Ok(typed.tensor.to_plain_array_view::<String>()?),
        ty => site.refuse(format!("has an input {place} of {ty}, not STRING")),
    }
}

fn made(texts: ArrayD<String>) -> TractResult<TypedTensor> {
    TypedTensor::new(ElementType::String, texts.into_tensor())
}

/// `StringConcat`: each with each, broadcast.
pub(super) fn concat(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let (x, y) = (texts(site, inputs, 0)?, texts(site, inputs, 1)?);
    let rank = x.ndim().max(y.ndim());
    let size = |array: &ArrayViewD<String>, axis: usize| {
        (axis + array.ndim()).checked_sub(rank).and_then(|axis| array.shape().get(axis).copied())
    };
    let shape =
        (0..rank).map(|axis| match (size(&x, axis).unwrap_or(1), size(&y, axis).unwrap_or(1)) {
            (1, other) => other,
            (one, _) => one,
        });
    let shape: Vec<i64> = shape.map(|size| size as i64).collect();
    let shape = site.shape(&shape)?;
    let (Some(x), Some(y)) = (x.broadcast(&*shape), y.broadcast(&*shape)) else {
        return site.refuse(format!("has inputs of {:?} and {:?}", x.shape(), y.shape()));
    };
    Ok(vec![made(Zip::from(&x).and(&y).map_collect(|x, y| format!("{x}{y}")))?])
}

/// `StringNormalizer`: without stop words, in one case.
pub(super) fn normalize(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = texts(site, inputs, 0)?;
    let rank = x.ndim();
    if !(rank == 1 || rank == 2 && x.shape().first() == Some(&1)) {
        return site.refuse(format!("is given the shape {:?}, not [C] or [1, C]", x.shape()));
    }
    let fold = |text: &str| match site.int("is_case_sensitive") {
        0 => text.to_lowercase(),
        _ => text.to_string(),
    };
    let stops = site.attribute("stopwords").map(|stops| stops.strings).unwrap_or_default();
    let stops: Vec<String> =
        stops.iter().map(|stop| fold(&String::from_utf8_lossy(stop))).collect();
    let change: fn(&str) -> String = match site.word("case_change_action").as_str() {
        "LOWER" => str::to_lowercase,
        "UPPER" => str::to_uppercase,
        "NONE" => str::to_string,
        other => return site.refuse(format!("has attribute `case_change_action` {other:?}")),
    };
    let kept = x.iter().filter(|text| !stops.contains(&fold(text)));
    let mut kept: Vec<String> = kept.map(|text| change(text)).collect();
    if kept.is_empty() {
        kept.push(String::new());
    }
    let shape = [&vec![1; rank - 1][..], &[kept.len()]].concat();
    Ok(vec![made(ArrayD::from_shape_vec(IxDyn(&shape), kept)?)?])
}

/// `StringSplit`: at a delimiter, or at any white space.
pub(super) fn split(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = texts(site, inputs, 0)?;
    let delimiter = site.word("delimiter");
    let most = site
        .attribute("maxsplit")
        .map_or(usize::MAX, |most| usize::try_from(most.i).unwrap_or(usize::MAX));
    let parts: Vec<Vec<&str>> = x
        .iter()
        .map(|text| match delimiter.as_str() {
            "" => words(text, most),
            delimiter => text.splitn(most.saturating_add(1), delimiter).collect(),
        })
        .collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let shape: Vec<i64> = x.shape().iter().chain([&longest]).map(|size| *size as i64).collect();
    let shape = site.shape(&shape)?;
    let counts: Vec<i64> = parts.iter().map(|parts| parts.len() as i64).collect();
    let all = parts.iter().flat_map(|parts| {
        (0..longest).map(|at| parts.get(at).map_or(String::new(), |part| (*part).to_string()))
    });
    let pieces = ArrayD::from_shape_vec(IxDyn(&shape), all.collect())?;
    let counts = ArrayD::from_shape_vec(x.raw_dim(), counts)?;
    Ok(vec![made(pieces)?, TypedTensor::native(counts.into_tensor())?])
}

/// What stands between white space; behind the last split all that is left.
fn words(text: &str, most: usize) -> Vec<&str> {
    let (mut words, mut rest) = (vec![], text.trim());
    while !rest.is_empty() {
        match rest.split_once(char::is_whitespace).filter(|_| words.len() < most) {
            Some((word, behind)) => {
                words.push(word);
                rest = behind.trim_start();
            }
            None => {
                words.push(rest);
                break;
            }
        }
    }
    words
}

/// A key as a map holds it: all NaN are one, and so are zeros.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Number(u64),
    Integer(i64),
}

fn keys(site: &KernelSite, tensor: &Tensor) -> TractResult<Vec<Key>> {
    let float = |x: &f64| match *x {
        x if x.is_nan() => Key::Number(f64::NAN.to_bits()),
        x => Key::Number((x + 0.0).to_bits()),
    };
    let dt = tensor.datum_type();
    if dt == String::datum_type() {
        let plain = tensor.try_as_plain_ram()?;
        return Ok(plain.as_slice::<String>()?.iter().cloned().map(Key::Text).collect());
    }
    if dt.is_float() {
        let wide = tensor.cast_to::<f64>()?;
        return Ok(wide.try_as_plain_ram()?.as_slice::<f64>()?.iter().map(float).collect());
    }
    if dt.is_integer() {
        let wide = tensor.cast_to::<i64>()?;
        return Ok(wide
            .try_as_plain_ram()?
            .as_slice::<i64>()?
            .iter()
            .copied()
            .map(Key::Integer)
            .collect());
    }
    site.refuse(format!("has keys of {dt:?}"))
}

/// `LabelEncoder`: each key's value, or the default.
pub(super) fn labels(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let x = site.input(inputs, 0)?;
    let pairs = match classes(site, x.ty)? {
        Some((from, to)) => (Some(from), Some(to)),
        None => (attribute_list(site, "keys")?, attribute_list(site, "values")?),
    };
    let (Some(from), Some(to)) = pairs else {
        return site.refuse("lacks attributes for its keys or its values");
    };
    if from.ty != x.ty || from.tensor.len() != to.tensor.len() {
        let problem = format!(
            "maps {} of {} to {}, given {}",
            counted(from.tensor.len(), "key"),
            from.ty,
            counted(to.tensor.len(), "value"),
            x.ty
        );
        return site.refuse(problem);
    }
    let mut otherwise = otherwise(site, to.ty)?;
    if otherwise.datum_type() != to.tensor.datum_type() || otherwise.len() != 1 {
        return site.refuse("has a default that is not one value of the type of the others");
    }
    otherwise.set_shape(&[1])?;
    let places: HashMap<Key, usize> = keys(site, &from.tensor)?.into_iter().zip(0..).collect();
    let wanted = keys(site, &x.tensor)?;
    let slice = |key: &Key| match places.get(key) {
        Some(place) => to.tensor.slice(0, *place, place + 1),
        None => Ok(otherwise.clone()),
    };
    let values: Vec<Tensor> = wanted.iter().map(slice).collect::<TractResult<_>>()?;
    let mut y = match values.as_slice() {
        [] if to.ty == ElementType::String => tensor1::<String>(&[]),
        [] => Tensor::zero_dt(otherwise.datum_type(), &[0])?,
        values => Tensor::stack_tensors(0, values)?,
    };
    y.set_shape(x.tensor.shape())?;
    Ok(vec![TypedTensor::new(to.ty, y)?])
}

/// What a `LabelEncoder` of version 1 maps to what: texts to their places in a list, or places to
/// texts, as its input has it.
fn classes(site: &KernelSite, ty: ElementType) -> TractResult<Option<(TypedTensor, TypedTensor)>> {
    let Some(classes) = site.attribute("classes_strings") else { return Ok(None) };
    let places: Vec<i64> = (0..).take(classes.strings.len()).collect();
    let text = |text: &Vec<u8>| String::from_utf8_lossy(text).into_owned();
    let texts: Vec<String> = classes.strings.iter().map(text).collect();
    let (texts, places) = (tensor1(&texts), tensor1(&places));
    let (from, to) = if ty == ElementType::String { (texts, places) } else { (places, texts) };
    Ok(Some((TypedTensor::native(from)?, TypedTensor::native(to)?)))
}

/// The keys or the values that a node's attributes hold, in whichever form.
fn attribute_list(site: &KernelSite, kind: &str) -> TractResult<Option<TypedTensor>> {
    for name in ["tensor", "strings", "int64s", "floats"] {
        let Some(list) = site.attribute(&format!("{kind}_{name}")) else { continue };
        let text = |text: &Vec<u8>| String::from_utf8_lossy(text).into_owned();
        return Ok(Some(match (&list.t, name) {
            (Some(tensor), _) => {
                let (ty, tensor) = proto::read(tensor, None)?;
                TypedTensor::new(ty, tensor)?
            }
            (_, "strings") => {
                TypedTensor::native(tensor1(&list.strings.iter().map(text).collect::<Vec<_>>()))?
            }
            (_, "int64s") => TypedTensor::native(tensor1(&list.ints))?,
            _ => TypedTensor::native(tensor1(&list.floats))?,
        }));
    }
    Ok(None)
}

/// What a key becomes that the node does not hold.
fn otherwise(site: &KernelSite, ty: ElementType) -> TractResult<Tensor> {
    if let Some(tensor) = site.attribute("default_tensor").and_then(|held| held.t) {
        return Ok(proto::read(&tensor, None)?.1);
    }
    if ty == ElementType::String {
        let given = site.attribute("default_string").map(|given| given.s);
        let text = given.as_deref().map(String::from_utf8_lossy);
        return Ok(tensor1(&[text.unwrap_or("_Unused".into()).into_owned()]));
    }
    let default = if ty.datum_type().is_float() {
        tensor1(&[site.attribute("default_float").map_or(-0.0, |given| given.f)])
    } else {
        tensor1(&[site.attribute("default_int64").map_or(-1, |given| given.i)])
    };
    Ok(default.cast_to_dt(ty.datum_type())?.into_owned())
}
