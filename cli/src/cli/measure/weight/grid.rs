//! What the values of a weight are rounded to, and what became of one by that.

use std::ops::Range;

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::{Number, Reach};

use crate::cli::found::finding::Code;
use crate::cli::measure::elements::{Elements, PartReader, parts};
use crate::cli::measure::lanes::{AT_ONCE, Lane, Replaced, SIDE_BY_SIDE, as_real, greatest};
use crate::cli::tensor::rounded;

/// A bias in 32 bits has the scale of the products that it is added to, and need not use all of its
/// codes: its steps are no finer than those of so many bits.
const FINE: u32 = 17;

/// How many values are judged together where not all of many are rounded.
const ROW: usize = 32;

/// What became of values that are the same or rounded.
#[derive(Default)]
pub(super) struct Rounded {
    pub(super) exact: u64,
    /// Those that are rounded, and of these the ones that are 0.
    pub(super) near: u64,
    pub(super) flushed: u64,
    /// The largest difference, if it is larger than what was known before.
    pub(super) farthest: f64,
}

impl Rounded {
    /// Adds others.
    pub(super) fn add(&mut self, other: &Rounded) {
        self.exact += other.exact;
        self.near += other.near;
        self.flushed += other.flushed;
        self.farthest = self.farthest.max(other.farthest);
    }
}

/// What a weight's values are rounded to.
pub(super) struct Grid {
    /// The converted side's type, by which range is judged.
    target: Reach,
    /// The type whose last place is the unit; `None` of values stored with a scale not known.
    unit: Option<Reach>,
    /// The reference's type, which has rounded what both were made of.
    reference: Option<Reach>,
    /// The largest error of a stored value, for each unit of its own magnitude, and of the weight's
    /// largest one.
    relative: f64,
    step: f64,
}

impl Grid {
    /// Of a reference's weight and the converted one, in whose codes it may be stored.
    pub(super) fn of(of: [&Elements; 2], stored: Option<ElementType>) -> TractResult<Option<Grid>> {
        let [_, converted] = of;
        let narrow = match stored {
            Some(stored) => Some(stored),
            None => narrower(converted)?,
        };
        Ok(Grid::in_codes(of, stored, narrow))
    }

    /// The same where the weight is stored in codes, whose error is bounded by the peak.
    pub(super) fn of_codes(of: [&Elements; 2], stored: Option<ElementType>) -> Option<Grid> {
        let grid = Grid::in_codes(of, stored, Some(stored?));
        grid.filter(|grid| grid.unit.is_none())
    }

    fn in_codes(
        [reference, converted]: [&Elements; 2],
        stored: Option<ElementType>,
        narrow: Option<ElementType>,
    ) -> Option<Grid> {
        let target = Reach::of(converted.ty)?;
        let reach = narrow.and_then(Reach::of);
        let (unit, relative, step) = match (narrow, reach) {
            (Some(ty), Some(Reach::Float(float))) if ty.bits() < 16 => {
                (None, 0.5f64.powi(float.mantissa_bits as i32), float.min_positive / float.max)
            }
            (_, Some(reach @ Reach::Float(_))) => (Some(reach), 0.0, 0.0),
            (Some(ty), Some(Reach::Integer(_))) if stored.is_some() => {
                let bits = ty.bits().min(FINE);
                (None, 0.0, 1.0 / ((1u64 << (bits - 1)) as f64 - 1.0).max(1.0))
            }
            _ => (Some(target), 0.0, 0.0),
        };
        let reference = Reach::of(reference.ty).filter(|reach| matches!(reach, Reach::Float(_)));
        Some(Grid { target, unit, reference, relative, step })
    }

    /// How far a stored value, whatever its size, may be off in a weight whose largest magnitude
    /// this is.
    pub(super) fn distance(&self, peak: f64) -> f64 {
        self.step * peak
    }

    /// What became of a value. `peak` is the largest magnitude in the reference, `end` in the
    /// converted weight.
    pub(super) fn outcome(&self, x: Number, y: Number, peak: f64, end: f64) -> Code {
        let (a, b) = (x.rounded(), y.rounded());
        let is_float = matches!(self.target, Reach::Float(_));
        match () {
            () if x.is(y) => Code::Exact,
            () if a.is_nan() => Code::NanLost,
            () if b.is_nan() => Code::BecameNan,
            () if b.is_infinite() && a.is_finite() => Code::Overflowed,
            () if !a.is_finite() => Code::Saturated,
            () if self.is_near(x, y, peak) && b == 0.0 => Code::Flushed,
            () if self.is_near(x, y, peak) => Code::Rounded,
            () if !is_float => Code::Changed,
            () if self.target.is_beyond(x) && a * b > 0.0 => Code::Saturated,
            () if b.abs() == end && a.abs() > end && a * b > 0.0 => Code::Clipped,
            // Scales are chosen for the least error, and a few values lie beyond the last code.
            () if self.unit.is_none() && a * b > 0.0 && (1.0..=2.0).contains(&(a / b)) => {
                Code::Clipped
            }
            () => Code::Changed,
        }
    }

    /// Counts what became of values, and finds the largest magnitude of the first ones, where each
    /// is within a step by the largest magnitude that is known; `None` where one is not, or what is
    /// near depends on its own size as well.
    #[inline(always)]
    pub(super) fn within_a_step<T: Lane>(
        &self,
        (x, y): (&[T], &[T]),
        (peak, known): (f64, f64),
    ) -> Option<(Rounded, f64)> {
        let step = below::<T>(self.distance(peak));
        let is_of_steps = self.unit.is_none() && self.relative == 0.0;
        if !is_of_steps || !(T::LEAST_NORMAL..=T::LARGEST).contains(&step) {
            return None;
        }
        let Replaced { exact, flushed, farthest, largest } = Replaced::of((x, y));
        (farthest <= step).then(|| {
            let farthest = as_real(farthest, (x, y), known);
            let near = x.len() as u64 - exact;
            (Rounded { exact, near, flushed, farthest }, largest.into())
        })
    }

    /// Counts what became of so many values, as far as they are numbers, a row at a time: rows that
    /// have a value which asks for a closer look are left. `farthest` is the largest difference
    /// that is known already.
    #[inline(always)]
    pub(super) fn rounded_rows<T: Lane>(
        &self,
        (x, y): (&[T], &[T]),
        (peak, farthest): (f64, f64),
        length: usize,
        mut leave: impl FnMut(Range<usize>),
    ) -> Rounded {
        let mut together = Rounded::default();
        let mut held = 0;
        for (x, y) in x.chunks(AT_ONCE).zip(y.chunks(AT_ONCE)) {
            let known = (peak, farthest.max(together.farthest));
            match self.rounded((x, y), known) {
                Some(rounded) => together.add(&rounded),
                None => {
                    let rows = x.as_chunks::<ROW>().0.iter().zip(y.as_chunks::<ROW>().0);
                    for (place, (x, y)) in rows.enumerate() {
                        match self.rounded((x, y), known) {
                            Some(rounded) => together.add(&rounded),
                            None => leave(held + place * ROW..held + (place + 1) * ROW),
                        }
                    }
                    let whole = x.len() / ROW * ROW;
                    if whole < x.len() {
                        leave(held + whole..held + x.len());
                    }
                }
            }
            held += x.len();
        }
        if held < length {
            leave(held..length);
        }
        together
    }

    /// Counts what became of values, where all are the same or rounded; `None` where one asks for a
    /// closer look, or what is behind the last that are taken together.
    #[inline(always)]
    fn rounded<T: Lane>(&self, (x, y): (&[T], &[T]), (peak, known): (f64, f64)) -> Option<Rounded> {
        let (relative, step) = match self.unit {
            None => (below(self.relative), below(self.distance(peak))),
            Some(_) => (T::default(), T::default()),
        };
        let none_is_near = self.unit.is_some() || step < T::LEAST_NORMAL;
        let step = if none_is_near { T::of(f64::NEG_INFINITY) } else { step };
        // Lanes that do not wait for one another.
        let [mut exact, mut near, mut flushed, mut farthest] = [[T::default(); SIDE_BY_SIDE]; 4];
        let counted = |is_one: bool| T::from(if is_one { 1.0f32 } else { 0.0 });
        let (all_x, all_y) = (x.as_chunks::<SIDE_BY_SIDE>().0, y.as_chunks::<SIDE_BY_SIDE>().0);
        for (x, y) in all_x.iter().zip(all_y) {
            for side in 0..SIDE_BY_SIDE {
                let (x, y) = (x[side], y[side]);
                let apart = (x - y).size();
                let is_same = x == y;
                let is_near = (apart <= relative * x.size() + step) & (apart <= T::LARGEST);
                exact[side] = exact[side] + counted(is_same & (x.size() <= T::LARGEST));
                near[side] = near[side] + counted(!is_same & is_near);
                flushed[side] = flushed[side] + counted(!is_same & is_near & (y == T::default()));
                farthest[side] = if apart > farthest[side] { apart } else { farthest[side] };
            }
        }
        let of_all = |all: [T; SIDE_BY_SIDE]| all.into_iter().map(Into::into).sum::<f64>() as u64;
        let [exact, near, flushed] = [exact, near, flushed].map(of_all);
        if exact + near < x.len() as u64 {
            return None;
        }
        let farthest = as_real(greatest(&farthest), (x, y), known);
        Some(Rounded { exact, near, flushed, farthest })
    }

    fn is_near(&self, x: Number, y: Number, peak: f64) -> bool {
        let (error, magnitude) = (x.distance(y), x.rounded().abs());
        match self.unit {
            // Converters cut digits off, and keep values from vanishing: a unit, or two of the
            // least.
            Some(unit @ Reach::Float(_)) => {
                let units = |reach| match reach {
                    Reach::Float(float) if magnitude < float.min_normal => 2.0,
                    _ => 1.0,
                };
                self.reference.into_iter().chain([unit]).any(|of| error <= units(of) * of.ulp(x))
            }
            Some(_) => false,
            None => error <= self.relative * magnitude + self.distance(peak),
        }
    }
}

/// What is near by less than that, as its type rounds it, is near.
#[inline(always)]
fn below<T: Lane>(x: f64) -> T {
    T::of(x * (1.0 - 4.0 * T::ROUNDED))
}

/// The type of half precision that holds all values of a wider weight: it has been rounded, and
/// kept wide.
fn narrower(weight: &Elements) -> TractResult<Option<ElementType>> {
    if !matches!(weight.ty, ElementType::Float | ElementType::Double) {
        return Ok(None);
    }
    let is_held_in = |half: ElementType| -> TractResult<bool> {
        let mut reader = PartReader::of(weight)?;
        for places in parts(weight.len()) {
            let wide = reader.part(places)?;
            if rounded(weight.ty, wide, half)?.as_bytes() != wide.as_bytes() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    for half in [ElementType::BFloat16, ElementType::Float16] {
        if is_held_in(half)? {
            return Ok(Some(half));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn values_together_are_judged_as_each_alone() -> TractResult<()> {
        let target = Reach::of(ElementType::Float).context("a type with a range")?;
        let (unit, reference) = (None, None);
        let coarse = Grid { target, unit, reference, relative: 0.125, step: 1.0 / 64.0 };
        let fine = Grid { unit: Some(target), relative: 0.0, step: 0.0, ..coarse };
        let tiny = Grid { step: 1e-40, ..coarse };
        let numbers = [0.0, -0.0, 0.01, 1.0, 1.1, 1.5, -1.0, f32::INFINITY, f32::NAN];
        let ends = [f32::MAX, -f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e-45];
        let numbers = [&numbers[..], &ends].concat();
        let even = Grid { relative: 0.0, ..coarse };
        for grid in [&coarse, &fine, &tiny, &even] {
            for (a, b) in numbers.iter().flat_map(|a| numbers.iter().map(|b| (*a, *b))) {
                let [x, y] = [a, b].map(f64::from);
                judged_as_alone(grid, (x, y), (x, y), 0.0);
                judged_as_alone(grid, (a, b), (x, y), 0.0);
            }
        }
        // Where the last value is as far off as may be, and about.
        for (grid, bound) in [(&coarse, 0.125f32.mul_add(1.0, 1.5 / 64.0)), (&even, 1.5 / 64.0)] {
            let last = (1.0 - bound).to_bits();
            for b in (last - 9..last + 9).map(f32::from_bits) {
                judged_as_alone(grid, (1.0f32, b), (1.0, f64::from(b)), 1e-6);
                judged_as_alone(grid, (1.0f64, b.into()), (1.0, f64::from(b)), 1e-14);
            }
        }
        Ok(())
    }

    /// Whether the last of many values is told as it is alone, if it is told: that need not be
    /// where it is apart by about as much as may be, given by which share.
    fn judged_as_alone<T: Lane>(grid: &Grid, (a, b): (T, T), (x, y): (f64, f64), share: f64) {
        let row = |last: T| {
            let mut row = [T::from(1.0); ROW];
            row[ROW - 1] = last;
            row
        };
        let (a, b) = (row(a), row(b));
        told_as_alone(grid, grid.rounded((&a, &b), (1.5, 0.0)), (x, y), share);
        let within = grid.within_a_step((&a, &b), (1.5, 0.0)).map(|(found, _)| found);
        match grid.unit {
            None if grid.relative == 0.0 => told_as_alone(grid, within, (x, y), share),
            _ => assert!(within.is_none()),
        }
    }

    fn told_as_alone(grid: &Grid, found: Option<Rounded>, (x, y): (f64, f64), share: f64) {
        let alone = grid.outcome(Number::Real(x), Number::Real(y), 1.5, 1.5);
        let Some(found) = found else {
            let is_finite = x.is_finite() && y.is_finite();
            let is_kept = matches!(alone, Code::Exact | Code::Flushed | Code::Rounded) && is_finite;
            let bound = grid.relative * x.abs() + grid.distance(1.5);
            let is_left = grid.unit.is_some() || grid.distance(1.5) < f64::from(f32::MIN_POSITIVE);
            assert!(!is_kept || is_left || (x - y).abs() > bound * (1.0 - share), "{x} {y}");
            return;
        };
        let Rounded { exact, flushed, farthest, .. } = found;
        assert_eq!(found.exact + found.near, ROW as u64);
        let of_last = match (exact, flushed) {
            (exact, 0) if exact == ROW as u64 => Code::Exact,
            (_, 1) => Code::Flushed,
            _ => Code::Rounded,
        };
        assert_eq!((of_last, farthest), (alone, (x - y).abs()), "{x} {y}");
    }
}
