//! A weight whose codes are the nearest ones to the reference's values, as they are that quantisers
//! round: what it is off is known then, and that half a step explains each of its values.

use std::iter::{once, zip};
use std::ops::Range;

use tract_onnx_cast::kernel::Level;

use crate::cli::measure::lanes::{AT_ONCE, Lane, Replaced, SIDE_BY_SIDE, as_real, summed};
use crate::cli::measure::weight::grid::Rounded;
use crate::cli::measure::weight::steps::CodeScales;

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
    half_steps: &'a CodeScales,
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

impl<'a> NearestReader<'a> {
    pub(super) fn of(half_steps: &'a CodeScales) -> NearestReader<'a> {
        NearestReader { half_steps, found: Some(NearestCodes::default()) }
    }

    /// Adds some of the reference's values and what codes stand for in their place. `None` where a
    /// code is not the nearest one, there or before.
    pub(super) fn add<T: Lane>(
        &mut self,
        places: &Range<usize>,
        (want, got): (&[T], &[T]),
    ) -> Option<NearestPart> {
        let NearestReader { half_steps, found } = self;
        let mut sums = found.take()?;
        let (mut is_near, mut bound) = ([want.len(), got.len()] == [places.len(); 2], 0.0f64);
        half_steps.each_run(places.clone(), |run, scales| {
            let sides = want.get(run.clone()).zip(got.get(run));
            let of_run = sides.and_then(|sides| {
                Level::best().run(
                    #[inline(always)]
                    || bound_of(sides, half_steps, scales),
                )
            });
            (is_near, bound) = (is_near && of_run.is_some(), bound.max(of_run.unwrap_or(0.0)));
        });
        let part = is_near.then(|| {
            Level::best().run(
                #[inline(always)]
                || sums.add((want, got)),
            )
        });
        let (rounded, peak) = part.filter(|(_, peak)| *peak < f64::INFINITY)?;
        *found = Some(sums);
        Some(NearestPart { rounded, peak, bound })
    }

    /// What all of them are off; `None` where a code is not the nearest one.
    pub(super) fn found(self) -> Option<NearestCodes> {
        self.found
    }
}

/// The largest of the bounds of values that have one scale, or each its own; `None` where one is
/// farther off than its bound, or no number.
#[inline(always)]
fn bound_of<T: Lane>(
    (want, got): (&[T], &[T]),
    half_steps: &CodeScales,
    scales: &[f32],
) -> Option<f64> {
    let near = |(want, got): (&T, &T), bound: T| u32::from((*got - *want).size() <= bound);
    let (near, most) = match scales {
        [one] => {
            let bound = half_steps.times(*one, 1.0 + ROUNDED);
            (zip(want, got).map(|pair| near(pair, bound)).sum::<u32>(), *one)
        }
        _ => {
            let pairs = zip(zip(want, got), scales);
            let near =
                pairs.map(|(pair, scale)| near(pair, half_steps.times(*scale, 1.0 + ROUNDED)));
            let near = near.sum::<u32>();
            // Words order as what is not negative does. A scale that is no number makes none
            // either, so that its values are not near.
            let sizes = scales.iter().map(|scale| scale.abs().to_bits());
            (near, f32::from_bits(sizes.max().unwrap_or(0)))
        }
    };
    (near as usize == want.len()).then(|| half_steps.times(most, 1.0 + ROUNDED))
}

impl NearestCodes {
    /// Adds values, and tells what became of them, and their largest magnitude.
    #[inline(always)]
    fn add<T: Lane>(&mut self, (want, got): (&[T], &[T])) -> (Rounded, f64) {
        let (mut rounded, mut peak) = (Rounded::default(), T::default());
        for (want, got) in zip(want.chunks(AT_ONCE), got.chunks(AT_ONCE)) {
            let Replaced { exact, flushed, farthest, largest } = Replaced::of((want, got));
            let farthest = as_real(farthest, (want, got), self.largest);
            rounded.add(&Rounded { exact, near: want.len() as u64 - exact, flushed, farthest });
            peak = if largest > peak { largest } else { peak };
            let [noise, power] = powers((want, got));
            self.noise += noise;
            self.power += power;
            self.largest = self.largest.max(farthest);
        }
        (rounded, peak.into())
    }
}

/// The power of what values are off, and that of the reference's.
#[inline(always)]
fn powers<T: Lane>((want, got): (&[T], &[T])) -> [f64; 2] {
    let [all, others] = [want, got].map(<[T]>::as_chunks::<SIDE_BY_SIDE>);
    let squares = squares(zip(all.0, others.0));
    let rest = self::squares(once((&padded(all.1), &padded(others.1))));
    [0, 1].map(|of| summed(&std::array::from_fn(|side| squares[of][side] + rest[of][side])))
}

/// The same of pairs of many, side by side.
#[inline(always)]
fn squares<'a, T: Lane + 'a>(
    pairs: impl Iterator<Item = (&'a [T; SIDE_BY_SIDE], &'a [T; SIDE_BY_SIDE])>,
) -> [[f64; SIDE_BY_SIDE]; 2] {
    let [mut noise, mut power] = [[0.0; SIDE_BY_SIDE]; 2];
    for (want, got) in pairs {
        let want: [f64; SIDE_BY_SIDE] = want.map(Into::into);
        let got: [f64; SIDE_BY_SIDE] = got.map(Into::into);
        for side in 0..SIDE_BY_SIDE {
            let off = got[side] - want[side];
            noise[side] += off * off;
        }
        for side in 0..SIDE_BY_SIDE {
            power[side] += want[side] * want[side];
        }
    }
    [noise, power]
}

/// Some numbers, and zeros behind them.
#[inline(always)]
fn padded<T: Lane>(numbers: &[T]) -> [T; SIDE_BY_SIDE] {
    let mut padded = [T::default(); SIDE_BY_SIDE];
    zip(&mut padded, numbers).for_each(|(to, from)| *to = *from);
    padded
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
        let half_steps = CodeScales::of(&axis, &[ROWS, COLUMNS], &scale, 0.5)?;
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

    /// Of differences that FLOAT has to round, and that are equal then.
    #[test]
    fn floats_come_to_what_reals_come_to() {
        let scale = (ElementType::Float, Arc::new(tensor0(1.0f32)));
        let half_steps = CodeScales::of(&[], &[COUNT], &scale, 0.5).expect("a scale");
        let off = |place: usize| (place * 37 % 1001) as f32 / 1024.0 - 0.488;
        for tiny in [0.0, 1e-9] {
            let mut want: Vec<f32> =
                (0..COUNT).map(|place| (place % 5) as f32 + off(place)).collect();
            let mut got: Vec<f32> = (0..COUNT).map(|place| (place % 5) as f32).collect();
            (got[77], got[1500]) = (want[77], want[1500]);
            (want[COUNT - 1], got[COUNT - 1]) = (-tiny, 0.5);
            let [reals, others] =
                [&want, &got].map(|side| side.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
            let [mut floats, mut exact] = [(); 2].map(|()| NearestReader::of(&half_steps));
            for places in blocks(COUNT) {
                let both = (&want[places.clone()], &got[places.clone()]);
                let part = floats.add(&places, both).expect("within half a step");
                let both = (&reals[places.clone()], &others[places.clone()]);
                let wanted = exact.add(&places, both).expect("within half a step");
                assert_eq!((part.peak, part.bound), (wanted.peak, wanted.bound));
                let counts = |part: &NearestPart| {
                    [part.rounded.exact, part.rounded.near, part.rounded.flushed]
                };
                assert_eq!(counts(&part), counts(&wanted));
            }
            let found = floats.found();
            assert_eq!(found, exact.found());
            assert_eq!(found.map(|found| found.largest), Some(0.5 + f64::from(tiny)));
        }
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
