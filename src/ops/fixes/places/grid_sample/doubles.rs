//! Any mode of `GridSample` in DOUBLE, as ONNX's reference has it: each axis is padded by itself.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::nn::grid_sample::{GridSample, InterpolationMode, PaddingMode};

/// An axis of the data: its size, and how far apart its elements are.
pub(super) type Axis = (usize, usize);

/// A batch of the data and the grid, and what is made of them.
pub(super) struct Batch<'a, T> {
    pub(super) data: &'a [T],
    pub(super) grid: &'a [T],
    pub(super) made: &'a mut [T],
}

/// What `Resize` and others have for it, too.
const CUBIC: f64 = -0.75;

/// The elements along an axis that a point is made of, and how much of each; none where there is a
/// zero.
type GridTaps = TVec<(Option<usize>, f64)>;

/// The place of a coordinate from −1 to 1 along an axis, and the ends of the axis.
#[allow(clippy::cast_precision_loss, reason = "a size is a small number")]
fn place(op: &GridSample, coordinate: f64, size: usize) -> (f64, f64, f64) {
    let size = size as f64;
    if op.align_corners {
        ((coordinate + 1.0) / 2.0 * (size - 1.0), 0.0, size - 1.0)
    } else {
        (((coordinate + 1.0) * size - 1.0) / 2.0, -0.5, size - 0.5)
    }
}

/// A place between two ends, from which it is reflected as often as it takes.
fn reflect(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if (low..=high).contains(&x) || range == 0.0 || x.is_infinite() {
        return if range == 0.0 || x.is_infinite() { low } else { x };
    }
    let beyond = if x < low { low - x } else { x - high };
    let rest = beyond % range;
    let is_odd = (beyond / range).floor() % 2.0 == 1.0;
    if (x < low) == is_odd { high - rest } else { low + rest }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place is brought into the axis"
)]
fn taps(op: &GridSample, coordinate: f64, size: usize) -> GridTaps {
    let (mut x, low, high) = place(op, coordinate, size);
    if op.mode == InterpolationMode::Nearest {
        x = x.round_ties_even();
    }
    if x < low || x > high {
        x = match op.padding_mode {
            PaddingMode::Zeros => x,
            PaddingMode::Border => x.clamp(0.0, size.saturating_sub(1) as f64),
            PaddingMode::Reflection => reflect(x, low, high),
        };
    }
    let first = x.floor();
    let rest = x - first;
    let weights: TVec<f64> = match op.mode {
        InterpolationMode::Nearest => tvec!(1.0),
        InterpolationMode::Bilinear => tvec!(1.0 - rest, rest),
        InterpolationMode::Bicubic => cubic(rest).into(),
    };
    let first = first as i64 - i64::from(op.mode == InterpolationMode::Bicubic);
    let index = |place: i64| match op.padding_mode {
        PaddingMode::Zeros => usize::try_from(place).ok().filter(|place| *place < size),
        PaddingMode::Border => {
            Some(usize::try_from(place).unwrap_or(0).min(size.saturating_sub(1)))
        }
        PaddingMode::Reflection => {
            Some((reflect(place as f64, low, high) as usize).min(size.saturating_sub(1)))
        }
    };
    (0..).zip(weights).map(|(step, weight)| (index(first.saturating_add(step)), weight)).collect()
}

/// The weights of the four elements around a place, so far behind the second.
fn cubic(x: f64) -> [f64; 4] {
    let near = |x: f64| ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC;
    [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)]
}

/// The sum of what is around a point, of the taps of the axes from the first on.
fn sum(data: &[f64], axes: &[(usize, GridTaps)], offset: usize) -> f64 {
    let Some(((stride, taps), inner)) = axes.split_first() else {
        return data.get(offset).copied().unwrap_or(0.0);
    };
    let of = |(index, weight): &(Option<usize>, f64)| match index {
        Some(index) => weight * sum(data, inner, offset + index * stride),
        None => 0.0,
    };
    match &**taps {
        [(Some(index), _)] => sum(data, inner, offset + index * stride),
        taps => taps.iter().map(of).sum(),
    }
}

/// Samples all channels of a batch at the points of a grid.
pub(super) fn of_batch(op: &GridSample, axes: &[Axis], batch: Batch<f64>, points: usize) {
    let Batch { data, grid, made } = batch;
    let volume: usize = axes.iter().map(|(size, _)| size).product();
    for (at, point) in grid.chunks(axes.len().max(1)).enumerate() {
        let around: Vec<(usize, GridTaps)> = axes
            .iter()
            .zip(point.iter().rev())
            .map(|((size, stride), coordinate)| (*stride, taps(op, *coordinate, *size)))
            .collect();
        let channels = data.chunks(volume.max(1)).zip(made.chunks_mut(points.max(1)));
        for (data, made) in channels {
            if let Some(made) = made.get_mut(at) {
                *made = sum(data, &around, 0);
            }
        }
    }
}
