//! Codes of a weight of which each makes up for the errors of others, as GPTQ chooses them: many
//! are not the nearest ones.
//!
//! Values are then off by a few steps, the fewer the farther, as a few that were changed would not
//! be; and those of one scale neither all alike, as by another zero point, nor by a share of
//! themselves, as by another scale: what is left beside either is as small as what chance explains.

use std::sync::Arc;

use tract_onnx::prelude::TractResult;

use crate::cli::measure::elements::{ElementReader, Elements};
use crate::cli::measure::reals::blocks;
use crate::cli::measure::weight::ends::{CutOffPower, EndCodes};
use crate::cli::measure::weight::steps::CodeScales;

/// How many steps a value may be off.
const FARTHEST: f64 = 4.0;
/// Beyond each of these steps are at most half of the values that are beyond the one before. Beyond
/// the first are at least as many as one in `MANY`: fewer are a few that were changed.
const BEYOND: [f64; 3] = [0.6, 1.0, 2.0];
const MANY: f64 = 100.0;
/// How many steps the errors of one scale may be spread.
const SPREAD: f64 = 1.5;
/// What the errors of one scale have in common may be so many times what chance makes of errors as
/// they are spread, and so many steps.
const CHANCE: f64 = 6.0;
const LEAST: f64 = 0.05;
/// Fewer errors than this tell nothing of what they have in common.
const FEW: f64 = 8.0;
/// A scale or zero point is another where a line through the errors by their values leaves less
/// than so much of their power, and they have more than so much of the values'. Of many scales of
/// few values one may be so by chance: so many values have such ones.
const LEFT: f64 = 0.25;
const OFF: f64 = 0.02;
const OTHERS: f64 = 0.05;

/// Sums over the values of one scale, in steps.
#[derive(Clone, Copy, Default)]
struct ScaleErrors {
    count: f64,
    error: f64,
    error_squared: f64,
    value: f64,
    value_squared: f64,
    product: f64,
}

/// What the errors of a weight in codes have in common.
#[derive(Clone, Copy, Default)]
pub(crate) struct CodeErrors {
    /// Whether each makes up for others, and they have nothing in common.
    pub(crate) is_compensated: bool,
    /// Whether those of many values are what another scale or zero point makes.
    pub(crate) is_rescaled: bool,
}

/// A weight in codes.
pub(crate) struct CodedWeight<'a> {
    pub(crate) codes: Elements<'a>,
    pub(crate) ends: EndCodes,
    pub(crate) steps: Arc<CodeScales>,
}

impl CodedWeight<'_> {
    /// What its errors have in common, where it is `got` and the reference's `want`, in its layout;
    /// `None` of integers of 64 bits. Fails when the elements cannot be read.
    pub(crate) fn errors(
        &self,
        want: &Elements,
        got: &Elements,
    ) -> TractResult<Option<CodeErrors>> {
        let mut found = CompensatedCodes::of(&self.steps);
        let (mut is_end, mut lost) = (vec![], CutOffPower::default());
        let [mut wants, mut gots, mut codes] = [want, got, &self.codes].map(ElementReader::of);
        for places in blocks(want.len()) {
            for side in [&mut wants, &mut gots, &mut codes] {
                side.read(places.clone())?;
            }
            let (want, got, codes) = (wants.reals(), gots.reals(), codes.reals());
            if [want, got, codes].iter().any(|side| side.len() != places.len()) {
                return Ok(None);
            }
            self.ends.lies_beyond(codes, (got, want), (&mut is_end, &mut lost));
            found.add(places.start, (got, want), &is_end);
        }
        let is_compensated = found.is_sound() && !lost.is_much();
        Ok(Some(CodeErrors { is_compensated, is_rescaled: found.is_rescaled() }))
    }
}

/// The errors of values in codes, by their scales.
struct CompensatedCodes<'a> {
    steps: &'a CodeScales,
    of_scales: Vec<ScaleErrors>,
    farthest: f64,
    /// How many are beyond each of [`BEYOND`].
    beyond: [u64; BEYOND.len()],
}

impl CompensatedCodes<'_> {
    fn of(steps: &CodeScales) -> CompensatedCodes<'_> {
        let of_scales = vec![ScaleErrors::default(); steps.count()];
        CompensatedCodes { steps, of_scales, farthest: 0.0, beyond: [0; BEYOND.len()] }
    }

    /// Adds values from a place on, but for those that their codes end at.
    fn add(&mut self, first: usize, (got, want): (&[f64], &[f64]), is_end: &[bool]) {
        let CompensatedCodes { steps, of_scales, farthest, beyond } = self;
        steps.each_scale(first..first + got.len(), |place, scale, half_step| {
            let at = place - first;
            let (Some(got), Some(want)) = (got.get(at), want.get(at)) else { return };
            let (Some(sums), Some(false)) = (of_scales.get_mut(scale), is_end.get(at)) else {
                return;
            };
            let (error, value) = ((got - want) / (2.0 * half_step), want / (2.0 * half_step));
            // What is no number is no error that others make up for.
            *farthest = if error.is_finite() { farthest.max(error.abs()) } else { f64::INFINITY };
            for (count, steps) in beyond.iter_mut().zip(BEYOND) {
                *count += u64::from(error.abs() > steps);
            }
            sums.count += 1.0;
            sums.error += error;
            sums.error_squared += error * error;
            sums.value += value;
            sums.value_squared += value * value;
            sums.product += error * value;
        });
    }

    /// Whether the errors are those of codes that make up for one another.
    fn is_sound(&self) -> bool {
        let are_fewer = self.beyond.windows(2).all(|each| match each {
            [near, far] => far * 2 <= *near,
            _ => false,
        });
        let all: f64 = self.of_scales.iter().map(|errors| errors.count).sum();
        let told = self.of_scales.iter().map(|errors| errors.count).filter(|count| *count >= FEW);
        let are_many = self.beyond.first().is_some_and(|near| *near as f64 * MANY >= all);
        let is_told = told.sum::<f64>() * 2.0 >= all;
        let is_thin = self.farthest <= FARTHEST && are_fewer && are_many;
        is_thin && is_told && self.of_scales.iter().all(ScaleErrors::is_sound)
    }

    /// Whether the errors of many are those of another scale or zero point.
    fn is_rescaled(&self) -> bool {
        let all: f64 = self.of_scales.iter().map(|errors| errors.count).sum();
        let others = self.of_scales.iter().filter(|errors| errors.is_rescaled());
        let others: f64 = others.map(|errors| errors.count).sum();
        others > OTHERS * all
    }
}

impl ScaleErrors {
    /// The mean of the errors, the power of what a straight line through them by their values
    /// explains beside it, and what is left.
    fn line(&self) -> (f64, f64, f64) {
        let ScaleErrors { count, error, error_squared, value, value_squared, product } = *self;
        let (mean, mean_value) = (error / count, value / count);
        let of_values = (value_squared - count * mean_value * mean_value).max(0.0);
        let together = product - count * mean * mean_value;
        let explained = if of_values > 0.0 { together * together / of_values } else { 0.0 };
        (mean, explained, (error_squared - count * mean * mean - explained).max(0.0))
    }

    /// Whether the errors are what another scale or zero point makes.
    fn is_rescaled(&self) -> bool {
        let (.., left) = self.line();
        let is_off = self.error_squared > OFF * OFF * self.value_squared;
        self.count >= FEW && is_off && left < LEFT * self.error_squared
    }

    fn is_sound(&self) -> bool {
        let count = self.count;
        if count < FEW {
            return true;
        }
        let (mean, explained, left) = self.line();
        let left = left / (count - 2.0);
        let chance = CHANCE * (left / count).sqrt() + LEAST;
        let is_common = mean.abs() > chance || (explained / count).sqrt() > chance;
        left.sqrt() <= SPREAD && !is_common
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use onnx_cast_graph::int_attribute;
    use tract_onnx::prelude::*;
    use tract_onnx_cast::ElementType;

    use super::*;

    const ROWS: usize = 64;
    const COLUMNS: usize = 3;

    /// Whether values of steps of 0.5, in blocks of 32 rows, are sound that are `off` by so many
    /// steps, given their places.
    fn is_sound(off: impl Fn(usize, f64) -> f64) -> TractResult<bool> {
        let scale = Arc::new(Tensor::from_shape(&[2, COLUMNS], &[0.5f32; 2 * COLUMNS])?);
        let blocks = [int_attribute("axis", 0), int_attribute("block_size", 32)];
        let scale = (ElementType::Float, scale);
        let steps = CodeScales::of(&blocks, &[ROWS, COLUMNS], &scale, 0.5).context("steps")?;
        let want: Vec<f64> =
            (0..ROWS * COLUMNS).map(|i| (i * 37 % 61) as f64 / 8.0 - 3.8).collect();
        let got: Vec<f64> =
            want.iter().enumerate().map(|(place, x)| x + 0.5 * off(place, x / 0.5)).collect();
        let mut codes = CompensatedCodes::of(&steps);
        let half = got.len() / 2 + 1;
        for places in [0..half, half..got.len()] {
            let is_end = vec![false; places.len()];
            codes.add(places.start, (&got[places.clone()], &want[places]), &is_end);
        }
        Ok(codes.is_sound())
    }

    #[test]
    fn errors_are_sound_that_have_nothing_in_common() -> TractResult<()> {
        let even = |place: usize| (place * 7919 % 101) as f64 / 50.0 - 1.0;
        let spread =
            |place: usize| 0.45 * (even(place) + even(3 * place + 1) + even(7 * place + 2));
        assert!(is_sound(|place, _| spread(place))?);
        assert!(is_sound(|place, _| if place == 100 { 3.9 } else { spread(place) })?);
        assert!(!is_sound(|place, _| if place == 100 { 4.1 } else { spread(place) })?);
        assert!(!is_sound(|place, _| 4.0 * even(place))?);
        // A block of one column, by its zero point and by its scale.
        let is_of_block = |place: usize| place % COLUMNS == 1 && place / COLUMNS >= 32;
        let rounded = |place: usize| 0.5 * even(place);
        let moved = |place: usize| f64::from(u8::from(is_of_block(place)));
        assert!(!is_sound(|place, _| 0.4 * spread(place) + moved(place))?);
        assert!(!is_sound(|place, x| rounded(place) + moved(place) * x / 6.0)?);
        // A few of those that are rounded.
        assert!(!is_sound(|place, _| if place % 60 == 7 { 1.5 } else { rounded(place) })?);
        Ok(())
    }
}
