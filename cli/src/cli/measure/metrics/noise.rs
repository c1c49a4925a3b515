//! How a whole tensor fares, where single elements tell too much: its noise, and which element of a
//! row is the largest.

use std::borrow::Cow;
use std::ops::Range;

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::audit::Number;

use super::PART;
use crate::cli::measure::exact::ExactValues;
use crate::cli::measure::number::Num;
use crate::cli::measure::reals::pieces;
use crate::cli::tensor::NamedTensor;

/// The signal's power and the noise's, over all elements that are finite on both sides.
#[derive(Default, Clone, Copy)]
pub(super) struct Noise {
    signal: f64,
    noise: f64,
    elements: u64,
}

impl Noise {
    pub(super) fn add(&mut self, reference: f64, error: f64) {
        self.signal += reference * reference;
        self.noise += error * error;
        self.elements += 1;
    }

    /// Adds many, with the same sums as if each were added alone.
    #[inline(always)]
    pub(super) fn add_many(&mut self, references: &[f64], errors: &[f64]) {
        let Noise { mut signal, mut noise, elements } = *self;
        for (reference, error) in references.iter().zip(errors) {
            signal += reference * reference;
            noise += error * error;
        }
        *self = Noise { signal, noise, elements: elements + references.len() as u64 };
    }

    /// The signal-to-quantisation-noise ratio 10·log₁₀(Σ x² / Σ (y − x)²), in decibels: infinite
    /// without noise. `None` where the powers are beyond DOUBLE, or there is nothing to measure.
    pub(super) fn sqnr(&self) -> Option<f64> {
        let is_finite = self.signal.is_finite() && self.noise.is_finite() && self.elements > 0;
        is_finite.then(|| match (self.signal, self.noise) {
            (_, 0.0) => f64::INFINITY,
            (signal, noise) => 10.0 * (signal / noise).log10(),
        })
    }
}

/// How many of the largest elements of a row are compared as a set.
const FEW: usize = 5;
/// Rows are no longer than that: the vocabulary of a large language model has room.
const LONGEST: usize = 1 << 20;

/// Whether rows, along the last axis, have the same largest elements on both sides, as classifiers
/// are judged.
#[derive(Default)]
pub(super) struct Ranking {
    rows: u64,
    first: u64,
    few_rows: u64,
    few: u64,
}

impl Ranking {
    /// Adds the rows of two tensors of one shape. Fails when one is not of its type's carrier.
    pub(super) fn add(&mut self, x: &NamedTensor, y: &NamedTensor) -> TractResult<()> {
        let shape = x.tensor.shape();
        let Some(length) = shape.last().copied().filter(|length| (2..=LONGEST).contains(length))
        else {
            return Ok(());
        };
        let rows: usize = shape.iter().rev().skip(1).product();
        for some in pieces(0..rows, (PART / length).max(1)) {
            let places = some.start * length..some.end * length;
            let exact = |side: &NamedTensor| ExactValues::of(side.ty, &side.tensor, places.clone());
            let both = (exact(x)?, exact(y)?);
            some.for_each(|row| self.add_row(&both, row * length..(row + 1) * length));
        }
        Ok(())
    }

    fn add_row(&mut self, (x, y): &(ExactValues, ExactValues), places: Range<usize>) {
        let length = places.len();
        let (Some(x), Some(y)) = (numbers(x, places.clone()), numbers(y, places)) else { return };
        let largest = (largest(&x, FEW), largest(&y, FEW));
        let agreeing = |count: usize| agrees((&x, &y), (&largest.0, &largest.1), count) as u64;
        self.rows += 1;
        self.first += agreeing(1);
        if length > FEW {
            self.few_rows += FEW as u64;
            self.few += agreeing(FEW);
        }
    }

    /// The share of rows whose largest element is at the same place.
    pub(super) fn top1(&self) -> Option<Num> {
        share(self.first, self.rows)
    }

    /// The share of the five largest elements of rows that are among the five largest on the other
    /// side as well.
    pub(super) fn top5(&self) -> Option<Num> {
        share(self.few, self.few_rows)
    }
}

fn share(part: u64, whole: u64) -> Option<Num> {
    (whole > 0).then(|| Num(part as f64 / whole as f64))
}

/// Some elements as numbers; `None` of text.
fn numbers(values: &ExactValues, places: Range<usize>) -> Option<Cow<'_, [f64]>> {
    if let Some(reals) = values.reals(places.clone()) {
        return Some(Cow::Borrowed(reals));
    }
    places.map(|place| values.element(place).number().map(Number::rounded)).collect()
}

/// What an element is ranked by: NaN is never among the largest.
fn rank(number: f64) -> f64 {
    if number.is_nan() { f64::NEG_INFINITY } else { number }
}

/// What an element is ranked by, and its place.
type Ranked = (f64, usize);

/// So many of the largest elements, the largest first. Among equals the first one
/// counts, as in ArgMax.
fn largest(numbers: &[f64], count: usize) -> Vec<Ranked> {
    let mut found: Vec<Ranked> = Vec::with_capacity(count + 1);
    for (place, number) in numbers.iter().enumerate() {
        let number = rank(*number);
        let is_larger = |(other, _): &Ranked| number.total_cmp(other).is_gt();
        if found.len() == count && !found.last().is_some_and(is_larger) {
            continue;
        }
        let at = found.iter().position(is_larger).unwrap_or(found.len());
        found.insert(at, (number, place));
        found.truncate(count);
    }
    found
}

/// How many of the places of y's largest elements hold one of x's largest, or as large a one.
fn agrees((x, y): (&[f64], &[f64]), (of_x, of_y): (&[Ranked], &[Ranked]), count: usize) -> usize {
    let Some((least, _)) = of_x.get(..count).unwrap_or(of_x).last() else { return 0 };
    let is_large = |(_, place): &&Ranked| {
        let both = x.get(*place).zip(y.get(*place));
        both.is_some_and(|(x, y)| !x.is_nan() && !y.is_nan() && x >= least)
    };
    of_y.iter().take(count).filter(is_large).count()
}

#[cfg(test)]
mod tests {
    use tract_onnx::prelude::Tensor;
    use tract_onnx_cast::ElementType;

    use super::*;

    #[test]
    fn the_largest_elements_are_found() {
        let nan = f64::NAN;
        for (x, y, one, two) in [
            ([3.0, 2.0, 1.0], [3.0, 2.0, 1.0], 1, 2),
            ([3.0, 2.0, 1.0], [2.0, 3.0, 1.0], 0, 2),
            ([3.0, 2.0, 1.0], [1.0, 2.0, 3.0], 0, 1),
            ([3.0, 3.0, 1.0], [1.0, 3.0, 3.0], 1, 1),
            ([3.0, 2.0, 1.0], [nan, nan, nan], 0, 0),
            ([nan, 2.0, 1.0], [5.0, 2.0, 1.0], 0, 1),
        ] {
            let largest = [&x, &y].map(|all| largest(all, 2));
            let agreeing = [1, 2].map(|count| agrees((&x, &y), (&largest[0], &largest[1]), count));
            assert_eq!(agreeing, [one, two], "{x:?} {y:?}");
        }
    }

    /// Of rows that are widened many at once, and of ones that are longer than that.
    #[test]
    fn many_rows_are_ranked_as_each_of_them() -> TractResult<()> {
        for (rows, length) in [(1, 2), (PART, 3), (PART / 7 + 3, 19), (3, 2 * PART + 1)] {
            let tensor = |seed: usize, rows: Range<usize>| {
                let places = rows.start * length..rows.end * length;
                let values = places.map(|at| ((at * 2_654_435_761 + at % seed) % 1009) as f32);
                let tensor =
                    Tensor::from_shape(&[rows.len(), length], &values.collect::<Vec<_>>())?;
                TractResult::Ok(NamedTensor { name: "y".into(), ty: ElementType::Float, tensor })
            };
            let [mut all, mut each] = [(); 2].map(|()| Ranking::default());
            all.add(&tensor(7, 0..rows)?, &tensor(11, 0..rows)?)?;
            for row in 0..rows {
                each.add(&tensor(7, row..row + 1)?, &tensor(11, row..row + 1)?)?;
            }
            let found =
                |ranking: Ranking| (ranking.rows, ranking.first, ranking.few_rows, ranking.few);
            assert_eq!(all.rows, rows as u64);
            assert_eq!(found(all), found(each), "{rows} of {length}");
        }
        Ok(())
    }

    #[test]
    fn noise_is_told_in_decibels() {
        let mut noise = Noise::default();
        assert_eq!(noise.sqnr(), None);
        noise.add(10.0, 0.0);
        assert_eq!(noise.sqnr(), Some(f64::INFINITY));
        noise.add(0.0, 1.0);
        assert_eq!(noise.sqnr(), Some(20.0));
        noise.add(1e300, 1.0);
        assert_eq!(noise.sqnr(), None);
    }
}
