//! Tensors as numbers, and what their types round.

use std::sync::Arc;

use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::interpreter::SharedTensor;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::range;
pub(super) use crate::cli::measure::reals::blocks;
use crate::cli::measure::reals::{reals, reals_in};
use crate::cli::tensor::of_numbers;

/// All elements of a value; `None` for text.
pub(super) fn numbers((ty, tensor): &SharedTensor) -> Option<Vec<f64>> {
    reals(*ty, tensor)
}

/// The elements of a tensor of FLOAT.
fn floats(tensor: &Tensor) -> Option<&[f32]> {
    tensor.try_as_plain_ram().ok()?.as_slice::<f32>().ok()
}

/// The elements of a FLOAT; `None` of another type.
pub(super) fn floats_of(value: &SharedTensor) -> Option<&[f32]> {
    if value.0 == ElementType::Float { floats(&value.1) } else { None }
}

/// A FLOAT of this shape that holds these elements, without another copy of them.
pub(super) fn filled(shape: &[usize], values: impl Iterator<Item = f64>) -> Option<SharedTensor> {
    let mut tensor = Tensor::zero::<f32>(shape).ok()?;
    let mut held = tensor.try_as_plain_ram_mut().ok()?;
    for (place, value) in held.as_slice_mut::<f32>().ok()?.iter_mut().zip(values) {
        *place = value as f32;
    }
    Some((ElementType::Float, Arc::new(tensor)))
}

/// The magnitudes of elements.
pub(super) fn magnitudes(value: &SharedTensor) -> Option<SharedTensor> {
    if let Some(values) = floats_of(value) {
        return filled(value.1.shape(), values.iter().map(|x| f64::from(x.abs())));
    }
    let all: Vec<f64> = numbers(value)?.into_iter().map(f64::abs).collect();
    tensor(value.0, value.1.shape(), &all)
}

/// Gives each pair of elements of two tensors of one length, with its place, to a function, without
/// holding all of them as numbers; `None` for text.
pub(super) fn each_pair(
    x: &SharedTensor,
    y: &SharedTensor,
    mut take: impl FnMut(usize, f64, f64),
) -> Option<()> {
    if let Some((x, y)) = floats_of(x).zip(floats_of(y)) {
        for (place, (x, y)) in x.iter().zip(y).enumerate() {
            take(place, f64::from(*x), f64::from(*y));
        }
        return Some(());
    }
    let length = x.1.len();
    for places in blocks(length) {
        let (x, y) = (reals_in(x.0, &x.1, places.clone())?, reals_in(y.0, &y.1, places.clone())?);
        for (place, (x, y)) in places.zip(x.iter().zip(&y)) {
            take(place, *x, *y);
        }
    }
    Some(())
}

/// The largest finite magnitude; 0 of text.
pub(super) fn peak((ty, tensor): &SharedTensor) -> f64 {
    range::peak(*ty, tensor).unwrap_or_default()
}

/// A tensor of a type and shape that holds these elements.
pub(super) fn tensor(ty: ElementType, shape: &[usize], values: &[f64]) -> Option<SharedTensor> {
    if ty == ElementType::Float && shape.iter().product::<usize>() == values.len() {
        return filled(shape, values.iter().copied());
    }
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

/// How far the codes beside one may be from it.
pub(super) fn gap(ty: ElementType, code: f64) -> f64 {
    match ty.family() {
        Family::Float(_) => (2.0 * rounding(ty) * code.abs()).max(smallest(ty)),
        _ => 1.0,
    }
}
