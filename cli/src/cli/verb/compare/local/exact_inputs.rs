//! What the conversion's inputs and weights are roundings of, and the inputs of a run that tensors
//! were saved of.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};
use tract_onnx_cast::{ElementType, OnnxTensor};

use super::Subject;
use super::numbers::{
    blocks, cast, is_computed_in, largest, numbers, rounding, smallest, tensor, wide,
};
use crate::cli::input::sets::Provenance;
use crate::cli::measure::reals::NumberReader;
use crate::cli::verb::compare::open::{LoadedModel, Sides};

/// The reference's inputs under the names that the conversion has for them, where it is given
/// their roundings.
pub(super) fn inputs_of(
    a: &LoadedModel,
    b: &LoadedModel,
    (given_a, given_b): (&[Arc<Tensor>], &[Arc<Tensor>]),
) -> HashMap<String, SharedTensor> {
    let of_a: Vec<(&str, SharedTensor)> = a
        .model
        .takes
        .inputs
        .iter()
        .zip(given_a)
        .map(|(input, tensor)| (&*input.name, (input.ty, tensor.clone())))
        .collect();
    let mut twins = HashMap::new();
    for (place, (input, tensor)) in b.model.takes.inputs.iter().zip(given_b).enumerate() {
        let named = of_a.iter().find(|(name, _)| *name == input.name).or(of_a.get(place));
        let Some((_, exact)) = named.filter(|(_, (ty, _))| is_computed_in(*ty)) else { continue };
        let is_rounded = cast(exact, input.ty).is_some_and(|(_, cast)| {
            cast.shape() == tensor.shape() && cast.as_bytes() == tensor.as_bytes()
        });
        if is_rounded && let Some(value) = cast(exact, wide(exact.0)) {
            twins.insert(input.name.clone(), value);
        }
    }
    twins
}

/// The reference's values where a constant has their roundings, or is what they have been rounded
/// from, and the constant's own elsewhere. `from` is the reference's type.
pub(super) fn rounded(
    exact: &SharedTensor,
    held: &SharedTensor,
    from: ElementType,
) -> Option<SharedTensor> {
    let most = |of: fn(ElementType) -> f64| 2.0 * of(held.0).max(of(from));
    let (unit, least, end) = (most(rounding), most(smallest), largest(held.0));
    let is_rounded = |x: f64, y: f64| {
        let is_cut = x.abs() > end && x * y > 0.0 && (y.abs() >= end || y.is_infinite());
        x == y || is_cut || (x - y).abs() <= unit * x.abs() + least || x.is_nan() && y.is_nan()
    };
    // All are, mostly, and nothing is to be written then.
    let mut is_whole = true;
    let (mut wide, mut rounded) =
        (NumberReader::of(exact.0, &exact.1), NumberReader::of(held.0, &held.1));
    for places in blocks(held.1.len()) {
        let (x, y) = (wide.numbers(places.clone())?, rounded.numbers(places)?);
        is_whole = x.iter().zip(y).all(|(x, y)| is_rounded(*x, *y));
        if !is_whole {
            break;
        }
    }
    if is_whole {
        return Some(exact.clone());
    }
    let pairs = numbers(exact)?.into_iter().zip(numbers(held)?);
    let values: Vec<f64> = pairs.map(|(x, y)| if is_rounded(x, y) { x } else { y }).collect();
    tensor(exact.0, exact.1.shape(), &values)
}

/// Whether a weight of a shape is in another order of axes where it has another shape; `None` where
/// its values tell.
pub(super) fn is_turned(exact: &[usize], held: &[usize]) -> Option<bool> {
    match exact {
        [rows, columns] if rows == columns => None,
        _ => Some(exact != held),
    }
}

/// The weight in the order of axes that a constant has, and whether that is another one: of a
/// square matrix the one in which the two are nearer.
pub(super) fn laid_out(exact: &SharedTensor, held: &SharedTensor) -> Option<(SharedTensor, bool)> {
    let turned = || {
        let turned = Tensor::clone(&exact.1).permute_axes(&[1, 0]).ok()?;
        Some((exact.0, Arc::new(turned)))
    };
    let (shape, wanted) = (exact.1.shape(), held.1.shape());
    match (shape, wanted) {
        ([rows, columns], [..]) if rows == columns && shape == wanted => {
            let is_nearer = |(of_turned, of_exact): (f64, f64)| of_turned < of_exact;
            if let Some(first) = of_first_rows(exact, held) {
                let is_turned = is_nearer(first);
                return Some((if is_turned { turned()? } else { exact.clone() }, is_turned));
            }
            let turned = turned()?;
            let is_turned = is_nearer(apart(&turned, exact, held)?);
            Some((if is_turned { turned } else { exact.clone() }, is_turned))
        }
        _ if shape == wanted => Some((exact.clone(), false)),
        ([rows, columns], [first, last]) if rows == last && columns == first => {
            Some((turned()?, true))
        }
        _ => None,
    }
}

/// How many rows tell the order of most square matrices.
const FIRST_ROWS: usize = 32;

/// How far the first rows of a square matrix in either order, turned and as it is, are from those
/// of another one; `None` where they do not tell: neither of the two is near, or both are.
fn of_first_rows(exact: &SharedTensor, held: &SharedTensor) -> Option<(f64, f64)> {
    const CLEARLY: f64 = 4.0;
    let count = FIRST_ROWS.min(*exact.1.shape().first()?);
    let part = |value: &SharedTensor, axis: usize| {
        let part = value.1.slice(axis, 0, count).ok()?;
        let part = if axis == 1 { part.permute_axes(&[1, 0]).ok()? } else { part };
        Some((value.0, Arc::new(part)))
    };
    let first = part(held, 0)?;
    let size: f64 = numbers(&first)?.into_iter().map(f64::abs).sum();
    let (one, other) = apart(&part(exact, 1)?, &part(exact, 0)?, &first)?;
    let (near, far) = (one.min(other) * CLEARLY, one.max(other));
    (near < far && near < size).then_some((one, other))
}

/// How far the elements of either of two values are from those of a third, added up in their order.
fn apart(one: &SharedTensor, other: &SharedTensor, from: &SharedTensor) -> Option<(f64, f64)> {
    let [mut one, mut other, mut from_these] =
        [one, other, from].map(|(ty, tensor)| NumberReader::of(*ty, tensor));
    let off = |x: &f64, y: &f64| (x - y).abs().min(f64::MAX);
    let (mut of_one, mut of_other) = (0.0, 0.0);
    for places in blocks(from.1.len()) {
        let from = from_these.numbers(places.clone())?;
        let (one, other) = (one.numbers(places.clone())?, other.numbers(places)?);
        for (y, (one, other)) in from.iter().zip(one.iter().zip(other)) {
            of_one += off(one, y);
            of_other += off(other, y);
        }
    }
    Some((of_one, of_other))
}

/// The inputs of a run that tensors were saved of with other ones, or perhaps with other ones.
pub(super) fn other_inputs(
    subject: &Subject,
    model: &Interpreter,
    (given, held): (&[OnnxTensor], &[(String, SharedTensor)]),
    place: usize,
) -> Vec<(String, &'static str)> {
    let Sides { reference_sets, converted_sets, .. } = subject.sides;
    let set = reference_sets.get(place).or(converted_sets.get(place));
    let random = set.map_or(&[][..], |set| match &set.provenance {
        Provenance::Random { inputs, .. } => inputs,
        Provenance::Given => &[],
    });
    let inputs = model.input_names().into_iter().zip(given);
    let other = inputs.filter_map(|(name, given)| {
        let was = held.iter().find(|(held, _)| held == name).map(|(_, (_, tensor))| &**tensor);
        match was {
            Some(was) if was != given.tensor() => {
                Some((name.into(), "was saved with other values"))
            }
            Some(_) => None,
            None => random.iter().any(|x| x == name).then(|| (name.into(), "is random here")),
        }
    });
    other.collect()
}

/// The inputs of the side that is a model, of a set.
pub(super) fn set_inputs(
    loaded: &LoadedModel,
    subject: &Subject,
    place: usize,
) -> TractResult<Vec<OnnxTensor>> {
    let sets = match subject.sides.reference.model {
        Some(_) => &subject.sides.reference_sets,
        None => &subject.sides.converted_sets,
    };
    loaded.inputs(&sets.get(place).context("as many sets")?.tensors()?)
}

/// The inputs of a model among tensors that were saved on either side.
pub(super) fn saved_inputs(
    model: &Interpreter,
    held: &[(String, SharedTensor)],
    subject: &Subject,
) -> TractResult<Vec<OnnxTensor>> {
    let first = subject.sides.reference.saved.first().context("there are saved tensors")?;
    let others = first.outputs()?;
    let input = |name: &str| {
        let held = held.iter().find(|(held, _)| held == name).map(|(_, (ty, held))| (*ty, &**held));
        let other =
            || others.iter().find(|o| o.name == name).map(|other| (other.ty, &other.tensor));
        let (ty, tensor) =
            held.or_else(other).with_context(|| format!("input `{name}` was not saved"))?;
        Ok(OnnxTensor::new(ty, tensor.clone())?)
    };
    model.input_names().into_iter().map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 2 * FIRST_ROWS + 3;

    fn matrix(element: impl Fn(usize, usize) -> f32) -> TractResult<SharedTensor> {
        let places = (0..SIZE).flat_map(|row| (0..SIZE).map(move |column| (row, column)));
        let all: Vec<f32> = places.map(|(row, column)| element(row, column)).collect();
        Ok((ElementType::Float, Arc::new(Tensor::from_shape(&[SIZE, SIZE], &all)?)))
    }

    #[test]
    fn a_square_matrix_has_the_order_in_which_it_is_nearer() -> TractResult<()> {
        let element = |row: usize, column: usize| (row * 31 + column * 17 % 13) as f32;
        let nudged = |x: f32| x + 0.25;
        let exact = matrix(element)?;
        let turned = matrix(|row, column| element(column, row))?;
        let held = matrix(|row, column| nudged(element(row, column)))?;
        assert_eq!(laid_out(&exact, &held), Some((exact.clone(), false)));
        assert_eq!(laid_out(&turned, &held), Some((exact, true)));
        // The first rows and columns are the same in either order.
        let late = |row: usize, column: usize| {
            if row.min(column) < FIRST_ROWS { 1.0 } else { element(row, column) }
        };
        let (exact, turned) = (matrix(late)?, matrix(|row, column| late(column, row))?);
        let held = matrix(|row, column| nudged(late(row, column)))?;
        assert_eq!(laid_out(&exact, &held), Some((exact.clone(), false)));
        assert_eq!(laid_out(&turned, &held), Some((exact, true)));
        Ok(())
    }
}
