//! What became of most values of a weight that is stored in codes, found while it is read for the
//! first time: how far a value may be off is a share of the largest one, and who is near by the
//! largest so far is near by that of all.

use std::ops::Range;

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::kernel::Level;

use crate::cli::measure::elements::{ElementReader, Elements};
use crate::cli::measure::lanes::{Lane, finite_peak};
use crate::cli::measure::reals::blocks;
use crate::cli::measure::weight::grid::{Grid, Rounded};
use crate::cli::measure::weight::nearest::{NearestCodes, NearestPart, NearestReader};
use crate::cli::measure::weight::steps::CodeScales;

/// How many rows are left at most: of more the peak is better known before.
const LEFT: usize = 1 << 12;

/// What became of most values.
pub(super) struct Most {
    /// The largest magnitude of the whole reference.
    pub(super) peak: f64,
    pub(super) near: Rounded,
    /// The places of all others, in their order.
    pub(super) left: Vec<Range<usize>>,
    /// What all are off, where it was asked for and their codes are the nearest ones.
    pub(super) nearest: Option<NearestCodes>,
}

impl Most {
    /// Of a reference's weight and the converted one, in codes, half of whose steps are given where
    /// it is asked whether each is the nearest one; `None` where many values ask for a closer look,
    /// or the reference's are no floats. Fails when they cannot be read.
    pub(super) fn of(
        both: [&Elements; 2],
        grid: &Grid,
        half_steps: Option<&CodeScales>,
    ) -> TractResult<Option<Most>> {
        let [reference, _] = both;
        if !reference.ty.is_float() {
            return Ok(None);
        }
        let (near, left) = (Rounded::default(), vec![]);
        let mut most = Most { peak: 0.0, near, left, nearest: None };
        let mut nearest = half_steps.map(NearestReader::of);
        let [mut x, mut y] = both.map(ElementReader::of);
        for places in blocks(reference.len()) {
            match x.floats(places.clone()).zip(y.floats(places.clone())) {
                Some(floats) => most.add_block(&places, floats, grid, &mut nearest),
                None => {
                    x.read(places.clone())?;
                    y.read(places.clone())?;
                    most.add_block(&places, (x.reals(), y.reals()), grid, &mut nearest);
                }
            }
            if most.left.len() > LEFT {
                return Ok(None);
            }
        }
        most.nearest = nearest.and_then(NearestReader::found);
        Ok(Some(most))
    }

    /// Adds values, of which it may be asked whether their codes are the nearest ones.
    fn add_block<T: Lane>(
        &mut self,
        places: &Range<usize>,
        both: (&[T], &[T]),
        grid: &Grid,
        nearest: &mut Option<NearestReader>,
    ) {
        let part = nearest.as_mut().and_then(|reader| reader.add(places, both));
        match part {
            Some(part) if self.add_nearest(&part, grid) => return,
            Some(_) => (),
            None => *nearest = None,
        }
        Level::best().run(
            #[inline(always)]
            || self.add(places, both, grid),
        );
    }

    /// Adds values that are within half a step, if that is near by the largest one as well.
    fn add_nearest(&mut self, part: &NearestPart, grid: &Grid) -> bool {
        let peak = self.peak.max(part.peak);
        let is_near = part.bound <= grid.distance(peak);
        if is_near {
            self.peak = peak;
            self.near.add(&part.rounded);
        }
        is_near
    }

    #[inline(always)]
    fn add<T: Lane>(&mut self, places: &Range<usize>, (x, y): (&[T], &[T]), grid: &Grid) {
        let known = (self.peak, self.near.farthest);
        if [x.len(), y.len()] == [places.len(); 2]
            && let Some((rounded, peak)) = grid.within_a_step((x, y), known)
        {
            self.peak = self.peak.max(peak);
            self.near.add(&rounded);
            return;
        }
        self.peak = self.peak.max(finite_peak(x));
        let (start, left) = (places.start, &mut self.left);
        let known = (self.peak, self.near.farthest);
        let near = grid.rounded_rows((x, y), known, places.len(), |row| {
            left.push(start + row.start..start + row.end);
        });
        self.near.add(&near);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use anyhow::Context;
    use tract_onnx::prelude::*;
    use tract_onnx_cast::ElementType;
    use tract_onnx_cast::audit::Number;

    use super::*;
    use crate::cli::found::finding::Code;

    const COUNT: usize = 3000;

    /// What became of all values, where it is known of some and others are looked at one by one.
    fn told(
        near: &Rounded,
        left: &[Range<usize>],
        (x, y): (&[f64], &[f64]),
        grid: &Grid,
    ) -> (Vec<u64>, f64) {
        let mut counts = vec![near.exact, near.near - near.flushed, near.flushed];
        counts.resize(8, 0);
        let mut farthest = near.farthest;
        for place in left.iter().cloned().flatten() {
            let outcome = grid.outcome(Number::Real(x[place]), Number::Real(y[place]), 8.0, 8.0);
            let codes = [Code::Exact, Code::Rounded, Code::Flushed, Code::Changed];
            counts[codes.iter().position(|code| *code == outcome).unwrap_or(7)] += 1;
            farthest = farthest.max((x[place] - y[place]).abs());
        }
        (counts, farthest)
    }

    /// The largest value may come last, and what is far off may be near by it.
    #[test]
    fn most_values_and_those_that_are_left_are_all() -> TractResult<()> {
        for (large, odd) in [(0, 9), (COUNT - 1, 9), (COUNT - 1, 2500), (1500, 1501)] {
            let mut x: Vec<f32> = (0..COUNT).map(|place| (place % 7) as f32 * 0.25).collect();
            let mut y: Vec<f32> = x.iter().map(|x| (x * 2.0).round() / 2.0).collect();
            (x[large], y[large]) = (8.0, 8.0);
            (x[odd], y[odd]) = (1.0, 2.0);
            (x[odd + 300], y[odd + 300]) = (f32::NAN, 2.0);
            y[(odd + 600) % COUNT] = 7.0;
            let of = |values: &[f32]| Elements::of(ElementType::Float, Cow::Owned(tensor1(values)));
            let both = [&of(&x), &of(&y)];
            let grid = Grid::of_codes(both, Some(ElementType::Uint4)).context("codes")?;
            let most = Most::of(both, &grid, None)?.context("floats")?;
            assert_eq!(most.peak, 8.0);
            let [x, y] = [x, y].map(|x| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
            let found = told(&most.near, &most.left, (&x, &y), &grid);
            let everywhere = 0..COUNT;
            let each = told(&Rounded::default(), &[everywhere], (&x, &y), &grid);
            assert_eq!(found, each, "{large} {odd}");
            let left = most.left.iter().map(Range::len).sum::<usize>();
            assert!(left > 0 && (large > 0 || left < COUNT / 4), "{large} {odd}: {left}");
        }
        Ok(())
    }

    #[test]
    fn a_weight_that_is_another_is_read_again() -> TractResult<()> {
        let of = |x: f32| {
            let tensor = Tensor::from_shape(&[512, 512], &vec![x; 512 * 512])?;
            TractResult::Ok(Elements::of(ElementType::Float, Cow::Owned(tensor)))
        };
        let both = [&of(1.0)?, &of(-1.0)?];
        let grid = Grid::of_codes(both, Some(ElementType::Uint4)).context("codes")?;
        assert!(Most::of(both, &grid, None)?.is_none());
        Ok(())
    }
}
