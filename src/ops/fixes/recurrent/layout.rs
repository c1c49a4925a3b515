//! Where in tensors the elements of a step and of a place in the batch stand.

use std::ops::Range;

use tract_onnx::tract_core::internal::*;

/// The sizes of a run, and the order of its axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceLayout {
    pub(super) times: usize,
    pub(super) batch: usize,
    pub(super) directions: usize,
    pub(super) hidden: usize,
    /// Whether the batch is the first axis, not the time.
    pub(super) batch_first: bool,
}

impl SequenceLayout {
    /// Which of x's rows belongs to a time and a place in the batch.
    pub(super) fn row(&self, time: usize, place: usize) -> usize {
        if self.batch_first { place * self.times + time } else { time * self.batch + place }
    }

    /// Where in Y the state after a time stands.
    pub(super) fn in_y(&self, direction: usize, time: usize, place: usize) -> Range<usize> {
        let row = if self.batch_first {
            self.row(time, place) * self.directions + direction
        } else {
            (time * self.directions + direction) * self.batch + place
        };
        row * self.hidden..(row + 1) * self.hidden
    }

    /// Where in the initial and the last states that of a place stands.
    pub(super) fn in_state(&self, direction: usize, place: usize) -> Range<usize> {
        let row = if self.batch_first {
            place * self.directions + direction
        } else {
            direction * self.batch + place
        };
        row * self.hidden..(row + 1) * self.hidden
    }

    /// How many elements the states of all directions have.
    pub(super) fn of_state(&self) -> usize {
        self.directions * self.batch * self.hidden
    }
}

/// The shapes of Y and of the last states, by the first two sizes of x.
pub(super) fn shapes(
    first: TDim,
    second: TDim,
    directions: usize,
    hidden: usize,
    batch_first: bool,
) -> [TVec<TDim>; 2] {
    let (directions, hidden) = (directions.to_dim(), hidden.to_dim());
    if batch_first {
        let state = tvec![first.clone(), directions.clone(), hidden.clone()];
        [tvec![first, second, directions, hidden], state]
    } else {
        let state = tvec![directions.clone(), second.clone(), hidden.clone()];
        [tvec![first, directions, second, hidden], state]
    }
}
