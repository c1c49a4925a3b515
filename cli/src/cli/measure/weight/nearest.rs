//! A weight whose codes are the nearest ones to the reference's values, as they are that quantisers
//! round: what it is off is known then, and that half a step explains each of its values.

use std::array;
use std::ops::Range;

use tract_onnx_cast::kernel::Level;

use crate::cli::measure::lanes::{AT_ONCE, SIDE_BY_SIDE, summed};
use crate::cli::measure::weight::grid::Rounded;
use crate::cli::measure::weight::steps::CodeSteps;

/// The scale, and what is made by it, are rounded themselves: by less than this share of a step.
const ROUNDED: f64 = 1.0 / 1024.0;

/// What such a weight is off.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct NearestCodes {
    /// The power of its errors, and that of the reference.
    pub(crate) noise: f64,
    pub(crate) power: f64,
    pub(crate) largest: f64,
}

/// Holds values that codes stand for against the reference's, in their order.
pub(super) struct NearestReader<'a> {
    half_steps: &'a CodeSteps,
    doubts: Vec<f64>,
    /// `None` from a value on that is farther off than half a step, or no number.
    found: Option<NearestCodes>,
}

/// What some values have come to, all of them numbers within half a step.
pub(super) struct NearestPart {
    pub(super) rounded: Rounded,
    /// The largest magnitude of the reference's, and the largest of the bounds.
    pub(super) peak: f64,
    pub(super) bound: f64,
}

/// What is added up of values, side by side.
#[derive(Default)]
struct Sums {
    noise: [f64; SIDE_BY_SIDE],
    power: [f64; SIDE_BY_SIDE],
    largest: [f64; SIDE_BY_SIDE],
    peak: [f64; SIDE_BY_SIDE],
    bound: [f64; SIDE_BY_SIDE],
    /// Words, as numbers are: whether a value is not near, and how many are exact or 0 alone.
    is_beyond: [u64; SIDE_BY_SIDE],
    exact: [u64; SIDE_BY_SIDE],
    flushed: [u64; SIDE_BY_SIDE],
}

impl<'a> NearestReader<'a> {
    pub(super) fn of(half_steps: &'a CodeSteps) -> NearestReader<'a> {
        NearestReader { half_steps, doubts: vec![], found: Some(NearestCodes::default()) }
    }

    /// Adds some of the reference's values and what codes stand for in their place. `None` where a
    /// code is not the nearest one, there or before.
    pub(super) fn add<T: Copy + Into<f64>>(
        &mut self,
        places: &Range<usize>,
        (want, got): (&[T], &[T]),
    ) -> Option<NearestPart> {
        let NearestReader { half_steps, doubts, found } = self;
        let mut sums = found.take()?;
        half_steps.doubts_in(places.clone(), got, doubts);
        let is_whole = [want.len(), got.len(), doubts.len()] == [places.len(); 3];
        let part = is_whole.then(|| {
            Level::best().run(
                #[inline(always)]
                || sums.add((want, got), doubts),
            )
        });
        let part = part??;
        *found = Some(sums);
        Some(part)
    }

    /// What all of them are off; `None` where a code is not the nearest one.
    pub(super) fn found(self) -> Option<NearestCodes> {
        self.found
    }
}

impl NearestCodes {
    /// Adds values, if all are numbers within half a step.
    #[inline(always)]
    fn add<T: Copy + Into<f64>>(
        &mut self,
        (want, got): (&[T], &[T]),
        half_steps: &[f64],
    ) -> Option<NearestPart> {
        let (mut rounded, mut peak, mut bound) = (Rounded::default(), 0.0f64, 0.0f64);
        let sides = want.chunks(AT_ONCE).zip(got.chunks(AT_ONCE)).zip(half_steps.chunks(AT_ONCE));
        for ((want, got), half_steps) in sides {
            let mut sums = Sums::default();
            let [all_want, all_got] = [want, got].map(<[T]>::as_chunks::<SIDE_BY_SIDE>);
            let all_steps = half_steps.as_chunks::<SIDE_BY_SIDE>();
            let each = all_want.0.iter().zip(all_got.0).zip(all_steps.0);
            for ((want, got), half_steps) in each {
                sums.add(want.map(T::into), got.map(T::into), *half_steps);
            }
            // Values that are exactly 0 count for nothing beside those that are left.
            let count = all_want.1.len();
            if count > 0 {
                let number = |side: &[T], place| side.get(place).map_or(0.0, |x: &T| (*x).into());
                let [want, got] =
                    [all_want.1, all_got.1].map(|side| array::from_fn(|at| number(side, at)));
                let steps = |place| all_steps.1.get(place).copied().unwrap_or_default();
                sums.add(want, got, array::from_fn(steps));
                let padding = sums.exact.iter_mut().skip(count);
                padding.for_each(|exact| *exact -= 1);
            }
            if sums.is_beyond != [0; SIDE_BY_SIDE] {
                return None;
            }
            let greatest = |all: [f64; SIDE_BY_SIDE]| all.into_iter().fold(0.0, f64::max);
            let [exact, flushed] =
                [sums.exact, sums.flushed].map(|all| all.into_iter().sum::<u64>());
            let farthest = greatest(sums.largest);
            rounded.add(&Rounded { exact, near: want.len() as u64 - exact, flushed, farthest });
            (peak, bound) = (peak.max(greatest(sums.peak)), bound.max(greatest(sums.bound)));
            self.noise += summed(&sums.noise);
            self.power += summed(&sums.power);
            self.largest = self.largest.max(farthest);
        }
        Some(NearestPart { rounded, peak, bound })
    }
}

impl Sums {
    #[inline(always)]
    fn add(
        &mut self,
        want: [f64; SIDE_BY_SIDE],
        got: [f64; SIDE_BY_SIDE],
        half_steps: [f64; SIDE_BY_SIDE],
    ) {
        let greater = |x: f64, most: f64| if x > most { x } else { most };
        for side in 0..SIDE_BY_SIDE {
            let (want, got) = (want[side], got[side]);
            let bound = half_steps[side] * (1.0 + ROUNDED);
            let (off, size) = ((got - want).abs(), want.abs());
            let is_near = (off <= bound) & (size < f64::INFINITY);
            let is_exact = want == got;
            self.is_beyond[side] |= u64::from(!is_near);
            self.exact[side] += u64::from(is_exact);
            self.flushed[side] += u64::from(!is_exact & (got == 0.0));
            self.noise[side] += off * off;
            self.power[side] += want * want;
            self.largest[side] = greater(off, self.largest[side]);
            self.peak[side] = greater(size, self.peak[side]);
            self.bound[side] = greater(bound, self.bound[side]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onnx_cast_graph::int_attribute;
    use tract_onnx::prelude::*;
    use tract_onnx_cast::ElementType;

    use super::*;
    use crate::cli::measure::lanes::power;
    use crate::cli::measure::reals::blocks;

    const COLUMNS: usize = 3;
    const ROWS: usize = 1111;
    const COUNT: usize = ROWS * COLUMNS;

    /// What is found of errors that are shares of a step, of codes whose scale is 0.5, 1 or 1.5 by
    /// their column.
    fn found(share: impl Fn(usize) -> f64) -> Option<(NearestCodes, Vec<f64>, Vec<f64>)> {
        let scales: Vec<f32> = (0..COLUMNS).map(|place| 0.5 * (place as f32 + 1.0)).collect();
        let scale = (ElementType::Float, Arc::new(tensor1(&scales)));
        let axis = [int_attribute("axis", 1)];
        let half_steps = CodeSteps::of(&axis, &[ROWS, COLUMNS], (&scale, 0.0), 0.5)?;
        let step = |place: usize| f64::from(scales[place % COLUMNS]);
        let got: Vec<f64> = (0..COUNT).map(|at| (at % 16) as f64 * step(at)).collect();
        let want: Vec<f64> = (0..COUNT).map(|at| got[at] + share(at) * step(at)).collect();
        let mut reader = NearestReader::of(&half_steps);
        let (mut exact, mut flushed) = (0, 0);
        for places in blocks(COUNT) {
            let (want, got) = (&want[places.clone()], &got[places.clone()]);
            let Some(part) = reader.add(&places, (want, got)) else { break };
            let NearestPart { rounded, peak, bound } = part;
            let pairs = || want.iter().zip(got);
            let count = |is_it: fn(f64, f64) -> bool| {
                pairs().filter(|(x, y)| is_it(**x, **y)).count() as u64
            };
            assert_eq!(rounded.exact, count(|x, y| x == y));
            assert_eq!(rounded.flushed, count(|x, y| x != y && y == 0.0));
            assert_eq!(rounded.exact + rounded.near, places.len() as u64);
            let errors = pairs().map(|(x, y)| (x - y).abs());
            assert_eq!(rounded.farthest, errors.fold(0.0, f64::max));
            assert_eq!(peak, want.iter().fold(0.0, |most: f64, x| most.max(x.abs())));
            assert_eq!(bound, 0.75 * (1.0 + ROUNDED));
            (exact, flushed) = (exact + rounded.exact, flushed + rounded.flushed);
        }
        assert!(reader.found.is_none() || exact > 10 && flushed > 10);
        reader.found().map(|found| (found, want, got))
    }

    #[test]
    fn what_nearest_codes_are_off_is_added_up() {
        let share = |place: usize| (place * 37 % 101) as f64 / 100.0 - 0.5;
        let share = |place: usize| if place.is_multiple_of(29) { 0.0 } else { share(place) };
        let (found, want, got) = found(share).expect("within half a step");
        let errors: Vec<f64> = want.iter().zip(&got).map(|(x, y)| (y - x).abs()).collect();
        let of_parts = |values: &[f64]| values.chunks(AT_ONCE).map(power).sum::<f64>();
        let wanted = NearestCodes {
            noise: of_parts(&errors),
            power: of_parts(&want),
            largest: errors.iter().copied().fold(0.0, f64::max),
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_code_that_is_not_the_nearest_is_seen_wherever_it_is() {
        for place in [0, 511, 512, COUNT - 1] {
            for (odd, is_near) in
                [(0.5, true), (-0.5, true), (0.502, false), (-1.0, false), (f64::NAN, false)]
            {
                let share = |at: usize| match at {
                    _ if at == place => odd,
                    _ => (at % 3) as f64 / 10.0,
                };
                assert_eq!(found(share).is_some(), is_near, "{odd} at {place}");
            }
            let share = |at: usize| if at == place { f64::INFINITY } else { 0.1 };
            assert!(found(share).is_none());
        }
    }
}
