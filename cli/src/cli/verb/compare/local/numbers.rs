//! Tensors as numbers, and what their types round.

use std::ops::Range;
use std::sync::Arc;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::interpreter::SharedTensor;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::value::part;
use crate::cli::tensor::{elements, of_numbers};

/// The elements; `None` for text.
pub(super) fn numbers((ty, tensor): &SharedTensor) -> Option<Vec<f64>> {
    if ty.family() == Family::Text {
        return None;
    }
    if *ty == ElementType::Float {
        return Some(floats(tensor)?.iter().map(|x| f64::from(*x)).collect());
    }
    elements(*ty, tensor).ok()
}

/// The elements of a tensor of FLOAT.
fn floats(tensor: &Tensor) -> Option<&[f32]> {
    tensor.try_as_plain_ram().ok()?.as_slice::<f32>().ok()
}

/// The magnitudes of elements that may be off by so much each.
pub(super) fn magnitudes(value: &SharedTensor, doubts: Option<&[f64]>) -> Option<SharedTensor> {
    if value.0 == ElementType::Float {
        let values = floats(&value.1)?.iter();
        let all: Vec<f32> = match doubts {
            None => values.map(|x| x.abs()).collect(),
            Some(all) => values.zip(all).map(|(x, y)| (f64::from(x.abs()) + y) as f32).collect(),
        };
        return Some((value.0, Arc::new(Tensor::from_shape(value.1.shape(), &all).ok()?)));
    }
    let values = numbers(value)?.into_iter().map(f64::abs);
    let all: Vec<f64> = match doubts {
        None => values.collect(),
        Some(all) => values.zip(all).map(|(x, doubt)| x + doubt).collect(),
    };
    tensor(value.0, value.1.shape(), &all)
}

/// Some of the elements; `None` for text.
pub(super) fn numbers_in((ty, held): &SharedTensor, places: Range<usize>) -> Option<Vec<f64>> {
    numbers(&(*ty, Arc::new(part(*ty, held, places).ok()?)))
}

/// The largest finite magnitude.
pub(super) fn peak((ty, tensor): &SharedTensor) -> f64 {
    let range = tract_onnx_cast::audit::range(*ty, tensor).ok();
    let (low, high) = range.and_then(|range| range.limits).unwrap_or_default();
    low.abs().max(high.abs())
}

/// A tensor of a type and shape that holds these elements.
pub(super) fn tensor(ty: ElementType, shape: &[usize], values: &[f64]) -> Option<SharedTensor> {
    Some((ty, Arc::new(of_numbers(ty, shape, values).ok()?)))
}

/// The tensor in another type, by the rules of a Cast.
pub(super) fn cast((from, tensor): &SharedTensor, to: ElementType) -> Option<SharedTensor> {
    if *from == to {
        return Some((to, tensor.clone()));
    }
    Some((to, Arc::new(crate::cli::tensor::cast(*from, tensor, to).ok()?)))
}

/// The tensor in another shape of as many elements.
pub(super) fn shaped((ty, tensor): &SharedTensor, shape: &[usize]) -> Option<SharedTensor> {
    if tensor.shape() == shape {
        return Some((*ty, tensor.clone()));
    }
    let tensor = Tensor::clone(tensor).into_shape(shape).ok()?;
    Some((*ty, Arc::new(tensor)))
}

/// Whether a type is a float type that is computed in: of 16 bits or more.
pub(super) fn is_computed_in(ty: ElementType) -> bool {
    matches!(ty.family(), Family::Float(_)) && ty.bits() >= 16
}

/// The type in which a value is looked at free of its type's rounding.
pub(super) fn wide(ty: ElementType) -> ElementType {
    let is_half = matches!(ty, ElementType::Float16 | ElementType::BFloat16);
    if is_half { ElementType::Float } else { ty }
}

/// Half a unit in the last place of 1, by which a result is rounded at most, relatively; 0 for
/// types that are exact.
pub(super) fn rounding(ty: ElementType) -> f64 {
    match ty.family() {
        Family::Float(format) => 0.5f64.powi(format.mantissa_bits as i32 + 1),
        _ => 0.0,
    }
}

/// The smallest positive value of a type, 0 for integers.
pub(super) fn smallest(ty: ElementType) -> f64 {
    match Reach::of(ty) {
        Some(Reach::Float(float)) => float.min_positive,
        _ => 0.0,
    }
}

/// The smallest positive value of a type that has all its digits, 0 for integers.
pub(super) fn smallest_normal(ty: ElementType) -> f64 {
    let unit = rounding(ty);
    if unit > 0.0 { smallest(ty) / (2.0 * unit) } else { 0.0 }
}

/// The largest finite value of a type.
pub(super) fn largest(ty: ElementType) -> f64 {
    match Reach::of(ty) {
        Some(Reach::Float(float)) => float.max,
        _ => f64::INFINITY,
    }
}
