//! One axis of a tensor, resized by a plan.

use tract_onnx::tract_core::internal::*;

use super::plan::ResizePlan;
use crate::ops::fixes::recurrent::Real;

/// Room for so many elements.
fn room<T>(count: usize) -> TractResult<Vec<T>> {
    let mut room = vec![];
    room.try_reserve_exact(count)?;
    Ok(room)
}

/// The taps of an element with their weights, but for those of 0, which NaN and infinities do not
/// pass.
type Taps<T> = TVec<(usize, T)>;

/// Elements as weighted sums. The axis has `before` elements, each of which has `inner` numbers
/// after it.
pub(super) fn weighted<T: Real>(
    data: &[T],
    before: usize,
    inner: usize,
    plan: &ResizePlan,
    extrapolated: T,
) -> TractResult<Vec<T>> {
    let (places, weights) = (plan.places.chunks(plan.taps), plan.weights.chunks(plan.taps));
    let taps: Vec<Taps<T>> = places
        .zip(weights)
        .map(|(places, weights)| {
            let taps = places.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
            taps.map(|(place, weight)| (*place, T::of_f64(*weight))).collect()
        })
        .collect();
    let rows = data.len() / (before * inner).max(1);
    let mut made = room(rows * taps.len() * inner)?;
    for row in data.chunks_exact((before * inner).max(1)) {
        for (taps, is_outside) in taps.iter().zip(&plan.outside) {
            if *is_outside {
                made.resize(made.len() + inner, extrapolated);
                continue;
            }
            let at = |place: usize| row.get(place * inner..).and_then(|row| row.get(..inner));
            let slice = |place: &usize| at(*place).unwrap_or_default();
            match taps.as_slice() {
                [] => made.resize(made.len() + inner, T::zero()),
                [(a, v)] => made.extend(slice(a).iter().map(|a| *v * *a)),
                [(a, v), (b, w), rest @ ..] => {
                    let from = made.len();
                    let pairs = slice(a).iter().zip(slice(b));
                    made.extend(pairs.map(|(a, b)| *v * *a + *w * *b));
                    let made = made.get_mut(from..).unwrap_or_default();
                    for (c, w) in rest {
                        for (made, c) in made.iter_mut().zip(slice(c)) {
                            *made = *made + *w * *c;
                        }
                    }
                }
            }
        }
    }
    Ok(made)
}

/// Elements that are taken as they are, of so many bytes each.
pub(super) fn taken(
    data: &[u8],
    before: usize,
    inner: usize,
    plan: &ResizePlan,
    extrapolated: &[u8],
) -> TractResult<Vec<u8>> {
    let size = extrapolated.len();
    match (size, inner) {
        (1, 1) => taken_singly::<1>(data, before, plan, extrapolated),
        (2, 1) => taken_singly::<2>(data, before, plan, extrapolated),
        (4, 1) => taken_singly::<4>(data, before, plan, extrapolated),
        (8, 1) => taken_singly::<8>(data, before, plan, extrapolated),
        _ => {
            let length = inner * size;
            let rows = data.len() / (before * length).max(1);
            let mut made = room(rows * plan.places.len() * length)?;
            for row in data.chunks_exact((before * length).max(1)) {
                for (place, is_outside) in plan.places.iter().zip(&plan.outside) {
                    if *is_outside {
                        (0..inner).for_each(|_| made.extend_from_slice(extrapolated));
                    } else {
                        let from = row.get(place * length..).unwrap_or_default();
                        made.extend_from_slice(from.get(..length).unwrap_or_default());
                    }
                }
            }
            Ok(made)
        }
    }
}

fn taken_singly<const N: usize>(
    data: &[u8],
    before: usize,
    plan: &ResizePlan,
    extrapolated: &[u8],
) -> TractResult<Vec<u8>> {
    let (data, _) = data.as_chunks::<N>();
    let (other, _) = extrapolated.as_chunks::<N>();
    let other = other.first().copied().unwrap_or([0; N]);
    let mut made: Vec<[u8; N]> = room(data.len() / before.max(1) * plan.places.len())?;
    for row in data.chunks_exact(before.max(1)) {
        let places = plan.places.iter().zip(&plan.outside);
        made.extend(places.map(|(place, is_outside)| match row.get(*place) {
            Some(element) if !is_outside => *element,
            _ => other,
        }));
    }
    Ok(made.into_flattened())
}
