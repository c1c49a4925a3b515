//! `Softmax` and `LogSoftmax` of many columns beside one another: along an axis that is not the
//! last, and of short rows that are turned.

use crate::cast::kernel::level::Level;
use crate::ops::fixes::functions::exp_of_difference;

/// How many columns are computed together.
const COLUMNS: usize = 64;

/// Puts `Softmax` or its logarithm in the place of FLOATs, of which `inner` stand beside one
/// another and the rows below are those along the axis.
pub(super) fn softmax(level: Level, block: &mut [f32], inner: usize, is_logarithm: bool) {
    if level.fuses() {
        level.run(
            #[inline(always)]
            || all_columns(block, inner, is_logarithm, exp_of_difference::<true>),
        );
    } else {
        all_columns(block, inner, is_logarithm, exp_of_difference::<false>);
    }
}

/// The same by a function that gives e^(x − most).
#[inline(always)]
pub(super) fn all_columns(
    block: &mut [f32],
    inner: usize,
    is_logarithm: bool,
    power: impl Fn(f32, f32) -> f32 + Copy,
) {
    for first in (0..inner).step_by(COLUMNS) {
        let mut most = [f32::NEG_INFINITY; COLUMNS];
        for row in block.chunks(inner) {
            for (most, x) in most.iter_mut().zip(row.get(first..).unwrap_or_default()) {
                *most = if *x > *most { *x } else { *most };
            }
        }
        let mut sums = [0f64; COLUMNS];
        for row in block.chunks_mut(inner) {
            let row = row.get_mut(first..).unwrap_or_default();
            for ((x, most), sum) in row.iter_mut().zip(&most).zip(&mut sums) {
                let made = power(*x, *most);
                *sum += f64::from(made);
                *x = if is_logarithm { *x } else { made };
            }
        }
        finish(block, inner, first, (&most, &sums), is_logarithm);
    }
}

/// Divides by the sums, or takes their logarithms away.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
fn finish(
    block: &mut [f32],
    inner: usize,
    first: usize,
    (most, sums): (&[f32; COLUMNS], &[f64; COLUMNS]),
    is_logarithm: bool,
) {
    let logarithms = if is_logarithm { sums.map(f64::ln) } else { [0.0; COLUMNS] };
    for row in block.chunks_mut(inner) {
        let row = row.get_mut(first..).unwrap_or_default();
        if is_logarithm {
            for ((x, most), logarithm) in row.iter_mut().zip(most).zip(&logarithms) {
                *x = ((f64::from(*x) - f64::from(*most)) - logarithm) as f32;
            }
        } else {
            for (x, sum) in row.iter_mut().zip(sums) {
                *x /= *sum as f32;
            }
        }
    }
}
