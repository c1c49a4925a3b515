//! What a query sees, and what is added to its products with keys.

use std::any::Any;

use super::Real;
use super::op::Attend;
use crate::ops::fixes::rows::softmax_of_rows;

/// The mask of a model: what is added, or minus infinity where it hides.
pub(super) struct Mask<T> {
    /// The sizes of batch, heads, queries and keys; 1 where it is the same for all.
    pub(super) shape: [usize; 4],
    pub(super) elements: Vec<T>,
}

/// Where a query stands, and of how many keys.
pub(super) struct QueryPlace {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) query: usize,
    /// How many keys there are before the first query's own.
    pub(super) offset: i64,
    /// Keys from here on are padding.
    pub(super) keys: usize,
}

impl<T: Real> Mask<T> {
    /// Of a tensor of at most four axes, of which the last stand for queries and keys.
    pub(super) fn new(shape: &[usize], elements: Vec<T>) -> Mask<T> {
        let mut four = [1; 4];
        for (place, size) in four.iter_mut().rev().zip(shape.iter().rev()) {
            *place = *size;
        }
        Mask { shape: four, elements }
    }

    /// Adds what it has for a query; what is behind its end is hidden.
    fn add(&self, place: &QueryPlace, bias: &mut [T]) {
        let [batches, heads, queries, keys] = self.shape;
        let at = |place: usize, size: usize| if size == 1 { 0 } else { place };
        let row = (at(place.batch, batches) * heads + at(place.head, heads)) * queries
            + at(place.query, queries);
        let row = self.elements.get(row * keys..(row + 1) * keys).unwrap_or_default();
        let hidden = T::neg_infinity();
        for (key, bias) in bias.iter_mut().enumerate() {
            *bias = *bias + row.get(key).copied().unwrap_or(hidden);
        }
    }
}

impl Attend {
    /// What is added for each key, minus infinity for those that the query does not see.
    pub(super) fn bias<T: Real>(&self, mask: Option<&Mask<T>>, place: &QueryPlace, bias: &mut [T]) {
        let hidden = T::neg_infinity();
        let own = place.offset + place.query as i64;
        let last = if self.is_causal { own } else { i64::MAX };
        let last = self.right.map_or(last, |right| last.min(own.saturating_add(right as i64)));
        let first = self.left.map_or(i64::MIN, |left| own.saturating_sub(left as i64));
        for (key, bias) in bias.iter_mut().enumerate() {
            let is_seen = (first..=last).contains(&(key as i64)) && key < place.keys;
            *bias = if is_seen { T::default() } else { hidden };
        }
        if let Some(mask) = mask {
            mask.add(place, bias);
        }
    }
}

/// The softmax of each row of `len` elements, which are not all minus infinity, in its place.
#[allow(clippy::ptr_arg, reason = "a slice cannot be asked for its type")]
pub(super) fn softmax<T: Real>(rows: &mut Vec<T>, len: usize) {
    if let Some(rows) = (rows as &mut dyn Any).downcast_mut::<Vec<f32>>() {
        return softmax_of_rows(rows, len);
    }
    for row in rows.chunks_mut(len.max(1)) {
        softmax_of_row(row);
    }
}

fn softmax_of_row<T: Real>(row: &mut [T]) {
    // NaN stays, whichever comes first.
    let greater =
        |greatest: T, x: &T| if greatest.is_nan() || *x <= greatest { greatest } else { *x };
    let greatest = row.iter().fold(T::neg_infinity(), greater);
    let mut sum = T::default();
    for x in row.iter_mut() {
        *x = (*x - greatest).power();
        sum = sum + *x;
    }
    for x in row.iter_mut() {
        *x = *x / sum;
    }
}
