//! `Softmax` along the last axes, whose elements stand one after the other: several short rows
//! together, and longer ones by themselves.
//!
//! tract's has kernels that are called for each row, which short rows take longer to call than to
//! compute (tract-core, `ops/nn/softmax/mod.rs`, `softmax_inner_slice_f32`).

use super::columns::all_columns;
use super::largest_in_lanes;
use crate::cast::kernel::level::Level;
use crate::ops::fixes::functions::exp_of_difference;

/// How many elements are computed together.
const LANES: usize = 16;

/// Of rows from here on tract's kernels are as fast.
pub(super) const LONG: usize = 256;

/// Rows of so many elements are computed beside one another.
const SHORT: usize = 32;

/// Puts `Softmax` in the place of FLOATs in rows of `len` elements.
pub(super) fn softmax(level: Level, values: &mut [f32], len: usize) {
    if level.fuses() {
        level.run(
            #[inline(always)]
            || all_rows(values, len, exp_of_difference::<true>),
        );
    } else {
        all_rows(values, len, exp_of_difference::<false>);
    }
}

#[inline(always)]
fn all_rows(values: &mut [f32], len: usize, power: impl Fn(f32, f32) -> f32 + Copy) {
    if len > SHORT {
        for row in values.chunks_mut(len) {
            alone(row, power);
        }
        return;
    }
    for block in values.chunks_mut((len * LANES).max(1)) {
        beside(block, len, power);
    }
}

/// As many rows as there are lanes, or fewer, as the columns that they are turned.
#[inline(always)]
fn beside(block: &mut [f32], len: usize, power: impl Fn(f32, f32) -> f32 + Copy) {
    let mut cells = [[0f32; LANES]; SHORT];
    let cells = cells.get_mut(..len).unwrap_or_default();
    for (lane, row) in block.chunks(len.max(1)).enumerate() {
        for (cell, x) in cells.iter_mut().zip(row) {
            if let Some(cell) = cell.get_mut(lane) {
                *cell = *x;
            }
        }
    }
    all_columns(cells.as_flattened_mut(), LANES, false, power);
    for (lane, row) in block.chunks_mut(len.max(1)).enumerate() {
        for (cell, x) in cells.iter().zip(row) {
            *x = cell.get(lane).copied().unwrap_or_default();
        }
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
fn alone(row: &mut [f32], power: impl Fn(f32, f32) -> f32) {
    // NaN is in the sum.
    let most = largest_in_lanes(row);
    let mut sums = [0f64; LANES];
    let (parts, rest) = row.as_chunks_mut::<LANES>();
    for part in parts {
        for (x, sum) in part.iter_mut().zip(&mut sums) {
            *x = power(*x, most);
            *sum += f64::from(*x);
        }
    }
    // What is left is computed together as well.
    let mut last = [most; LANES];
    for (cell, x) in last.iter_mut().zip(&*rest) {
        *cell = *x;
    }
    for x in &mut last {
        *x = power(*x, most);
    }
    for ((x, made), sum) in rest.iter_mut().zip(&last).zip(&mut sums) {
        *x = *made;
        *sum += f64::from(*made);
    }
    let divisor = sums.iter().sum::<f64>() as f32;
    for x in row {
        *x /= divisor;
    }
}
