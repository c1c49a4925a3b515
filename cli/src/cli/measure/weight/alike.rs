//! Whether one factor or one shift is between all values of a weight and the reference's: a wrong
//! scale or zero point, where a rounding moves each its own way. It is told by the median, which
//! scales of the least error, GPTQ and HQQ do not move, though they move values by steps.

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::audit::Numbers;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::elements::Elements;

/// What became of values.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Alike {
    /// All are so many times what they were.
    Times(f64),
    /// All are off by so much.
    Moved(f64),
    /// Those of each channel that has changed are a number of times what they were: what was behind
    /// is folded in.
    Folded,
    /// They lie about what they were.
    Near,
    /// They are codes that make up for one another's errors.
    Compensated,
}

/// How many steps codes are off at least, taken together, where their zero point is another.
const SHIFTED: f64 = 0.75;
/// How far, beside a step, a ratio may be from 1; and values from what they are then, by their
/// size.
const RATIO: f64 = 0.02;
/// A number that is folded into a whole weight, as the scale of an attention, is beyond this.
const FOLDED: f64 = 2.0;
/// What is lost of small values in half precision is below such a share of the largest.
const FLUSHED: f64 = 1e-4;
/// At most so many values are looked at.
const MOST: usize = 1 << 22;
/// Values of so many steps about what they were are near.
const NEAR: f64 = 3.0;

/// What became of all values of a weight, which is stored in a type if that is a narrow one; `None`
/// for text. Fails when the values cannot be read.
pub(crate) fn alike(
    x: &Elements,
    y: &Elements,
    stored: Option<ElementType>,
) -> TractResult<Option<Alike>> {
    if x.ty.family() == Family::Text || y.ty.family() == Family::Text {
        return Ok(None);
    }
    let places = 0..x.len().min(MOST);
    let parts = (x.part(places.clone())?, y.part(places)?);
    let both = (Numbers::of(x.ty, &parts.0)?, Numbers::of(y.ty, &parts.1)?);
    let Some(values) = both.0.reals().zip(both.1.reals()) else { return Ok(None) };
    let is_code = |ty: &ElementType| {
        matches!(ty.family(), Family::Signed | Family::Unsigned) && ty.bits() <= 8
    };
    let codes = stored.filter(is_code);
    let peak = values.0.iter().fold(0.0, |peak: f64, x| peak.max(x.abs()));
    let step = codes.map_or(0.0, |ty| 0.5f64.powi(ty.bits() as i32 - 1));
    if codes.is_some()
        && let Some(moved) = moved(values, step * peak)
    {
        return Ok(Some(Alike::Moved(moved)));
    }
    let Some(fit) = Fit::of(values) else { return Ok(None) };
    let off = (fit.ratio - 1.0).abs();
    let end = values.1.iter().fold(0.0, |end: f64, y| end.max(y.abs()));
    let is_alike = |fit: &Fit, steps: f64| {
        fit.apart <= steps * step * end + RATIO * (fit.ratio * fit.size).abs()
    };
    let is_between = (1.0 / FOLDED..FOLDED).contains(&fit.ratio);
    let is_other = off > RATIO + step && fit.apart < off * fit.size / 4.0;
    Ok(match stored {
        Some(_) if is_other && is_between => Some(Alike::Times(fit.ratio)),
        _ if is_other => None,
        _ if is_alike_by_channel(values, &x.shape, &|fit| is_alike(fit, 1.0)) => {
            let is_folded = is_folded(values, &x.shape, step * end + FLUSHED * end);
            Some(if is_folded { Alike::Folded } else { Alike::Near })
        }
        Some(_) if off <= RATIO + step && is_alike(&fit, NEAR) => Some(Alike::Near),
        _ => None,
    })
}

/// By how much the values of codes are off alike, if they are by more than chance has it.
fn moved((x, y): (&[f64], &[f64]), step: f64) -> Option<f64> {
    let (count, mut sum, mut squares) = (x.len() as f64, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        (sum, squares) = (sum + (y - x), squares + (y - x) * (y - x));
    }
    let mean = sum / count;
    let spread = (squares / count - mean * mean).max(0.0).sqrt();
    (mean.abs() > spread.max(SHIFTED * step)).then_some(mean)
}

/// How many times what they were values are, how large these are, and how far they are from it:
/// medians of the larger half.
struct Fit {
    ratio: f64,
    size: f64,
    apart: f64,
}

impl Fit {
    /// `None` where all values are 0.
    fn of((x, y): (&[f64], &[f64])) -> Option<Fit> {
        let pairs = x.iter().copied().zip(y.iter().copied()).filter(|(x, _)| *x != 0.0);
        let mut pairs: Vec<(f64, f64)> = pairs.collect();
        pairs.sort_by(|(one, _), (other, _)| other.abs().total_cmp(&one.abs()));
        pairs.truncate(pairs.len().div_ceil(2));
        let middle = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let mut numbers: Vec<f64> = pairs.iter().map(of).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.get(numbers.len() / 2).copied()
        };
        let ratio = middle(&|(x, y)| y / x)?;
        let (size, apart) = (middle(&|(x, _)| x.abs())?, middle(&|(x, y)| (y - ratio * x).abs())?);
        Some(Fit { ratio, size, apart })
    }
}

/// Whether the values of nearly each channel of one of the first two axes, or of the last, are a
/// number of times what they were, which may be 1.
fn is_alike_by_channel(
    values: (&[f64], &[f64]),
    shape: &[usize],
    is_alike: &dyn Fn(&Fit) -> bool,
) -> bool {
    axes(shape).any(|axis| {
        let groups = channels(values, shape, axis);
        let is_long = values.0.len() > 2 * groups.len() && groups.len() > 1;
        let fits: Vec<Fit> = groups.iter().filter_map(|(x, y)| Fit::of((x, y))).collect();
        is_long && fits.iter().filter(|fit| is_alike(fit)).count() * 10 >= fits.len() * 9
    })
}

/// Whether each channel of one of these axes that has changed is another number than 1 times what
/// it was, with every value that has changed by more than a rounding, which is so far off at most
/// beside a share of the value.
fn is_folded(values: (&[f64], &[f64]), shape: &[usize], rounding: f64) -> bool {
    let is_off = |is: f64, was: f64| (is - was).abs() > RATIO * was.abs() + rounding;
    axes(shape).any(|axis| {
        let groups = channels(values, shape, axis);
        let changed = |(x, y): &(Vec<f64>, Vec<f64>)| -> Vec<(f64, f64)> {
            let pairs = x.iter().copied().zip(y.iter().copied());
            pairs.filter(|(x, y)| is_off(*y, *x)).collect()
        };
        let mut changed = groups.iter().map(|group| (group, changed(group)));
        let mut has_changed = false;
        let is_multiplied = changed.all(|((x, y), changed)| {
            has_changed |= !changed.is_empty();
            let ratio = Fit::of((x, y)).map_or(1.0, |fit| fit.ratio);
            let fits = |(x, y): &(f64, f64)| !is_off(*y, ratio * x);
            changed.is_empty() || (ratio - 1.0).abs() > RATIO && changed.iter().all(fits)
        });
        is_multiplied && has_changed
    })
}

/// The axes of which one may be that of channels.
fn axes(shape: &[usize]) -> impl Iterator<Item = usize> {
    let mut axes: Vec<usize> = (0..shape.len().min(2)).chain(shape.len().checked_sub(1)).collect();
    axes.dedup();
    axes.into_iter()
}

/// The values of each channel of an axis.
fn channels(values: (&[f64], &[f64]), shape: &[usize], axis: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
    let channels = shape.get(axis).copied().unwrap_or(1).max(1);
    let width: usize = shape.iter().skip(axis + 1).product::<usize>().max(1);
    let mut groups = vec![(vec![], vec![]); channels];
    for (place, (x, y)) in values.0.iter().zip(values.1).enumerate() {
        if let Some(group) = groups.get_mut(place / width % channels) {
            group.0.push(*x);
            group.1.push(*y);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use tract_onnx::prelude::Tensor;

    use super::*;

    const SIDE: usize = 64;

    fn told(change: impl Fn(usize, f32) -> f32) -> Option<Alike> {
        let x: Vec<f32> = (0..SIDE * SIDE).map(|place| (place % 101) as f32 * 0.01 - 0.5).collect();
        let y: Vec<f32> = x.iter().enumerate().map(|(place, x)| change(place, *x)).collect();
        let of = |values: &[f32]| {
            let tensor = Tensor::from_shape(&[SIDE, SIDE], values).expect("a matrix");
            Elements::of(ElementType::Float, Cow::Owned(tensor))
        };
        alike(&of(&x), &of(&y), None).expect("numbers")
    }

    #[test]
    fn only_channels_that_are_multiplied_are_told_so() {
        let is_folded = |change: &dyn Fn(usize, f32) -> f32| told(change) == Some(Alike::Folded);
        // A factor for each channel, or for some of them.
        assert!(is_folded(&|place, x| x * (1.5 + (place % SIDE) as f32)));
        assert!(is_folded(&|place, x| if place / SIDE < 5 { x * 3.0 } else { x }));
        // One value; one value beside factors; and next to nothing.
        assert!(!is_folded(&|place, x| if place == 77 { x + 1.0 } else { x }));
        assert!(!is_folded(&|place, x| {
            if place == 77 { x + 9.0 } else { x * (1.5 + (place % SIDE) as f32) }
        }));
        assert!(!is_folded(&|_, x| x * 1.001));
    }
}
