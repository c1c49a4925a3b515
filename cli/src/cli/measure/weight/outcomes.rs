//! What became of values, counted one by one or many together.

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{Conversion, ElementType, Rules};

use crate::cli::found::finding::Code;
use crate::cli::measure::lanes::Replaced;
use crate::cli::measure::reach::STANDS_FOR_INFINITY;
use crate::cli::measure::weight::grid::Rounded;

/// What has been found of values, one by one.
#[derive(Default)]
pub(super) struct ElementOutcomes {
    pub(super) outcomes: Vec<(Code, u64)>,
    /// The place of the largest difference of a value that is more than rounded.
    pub(super) farthest: Option<(usize, f64)>,
    /// Whether values of a size that counts were cut off, are at the end of the type, or were
    /// spoiled.
    pub(super) is_clipped: bool,
    pub(super) is_at_end: bool,
    pub(super) is_spoiled: bool,
}

impl ElementOutcomes {
    fn count(&mut self, outcome: Code) {
        self.add(outcome, 1);
    }

    /// Adds values that were counted together.
    pub(super) fn add_rounded(&mut self, together: &Rounded) {
        let Rounded { exact, near, flushed, .. } = *together;
        let all = [(Code::Exact, exact), (Code::Flushed, flushed), (Code::Rounded, near - flushed)];
        let some = all.into_iter().filter(|(_, elements)| *elements > 0);
        some.for_each(|(outcome, elements)| self.add(outcome, elements));
    }

    pub(super) fn add(&mut self, outcome: Code, elements: u64) {
        match self.outcomes.iter_mut().find(|(code, _)| *code == outcome) {
            Some((_, count)) => *count += elements,
            None => self.outcomes.push((outcome, elements)),
        }
    }

    /// Notes what became of a value; whether it is more than rounded.
    pub(super) fn is_odd(
        &mut self,
        index: usize,
        outcome: Code,
        error: f64,
        magnitude: f64,
    ) -> bool {
        self.count(outcome);
        if matches!(outcome, Code::Exact | Code::Rounded | Code::Flushed) {
            return false;
        }
        let error = if error.is_finite() { error } else { f64::MAX };
        if self.farthest.is_none_or(|(_, most)| error > most) {
            self.farthest = Some((index, error));
        }
        if magnitude < STANDS_FOR_INFINITY || magnitude.is_nan() {
            self.is_clipped |= outcome == Code::Clipped;
            self.is_at_end |= matches!(outcome, Code::Overflowed | Code::Saturated);
            self.is_spoiled |= matches!(outcome, Code::BecameNan | Code::NanLost);
        }
        true
    }
}

/// What an exact cast to half precision has made of FLOAT, none of which is infinite or NaN.
#[derive(Default)]
pub(super) struct Halved {
    pub(super) exact: u64,
    pub(super) flushed: u64,
    pub(super) farthest: f64,
}

/// What tells the outcomes of a cast of FLOAT to half precision, some elements at a time, so that
/// all of a pair of them stays in a near cache.
pub(super) struct Halving {
    cast: Conversion,
    back: Conversion,
    half: Tensor,
    wide: Tensor,
}

/// How many elements are cast at once: few enough that no count overflows.
const ROW: usize = 1 << 12;

impl Halving {
    /// Of a cast; `None` of any other than from FLOAT to half precision.
    pub(super) fn of(cast: &Conversion) -> TractResult<Option<Halving>> {
        let (from, to) = (cast.source(), cast.target());
        let is_half = matches!(to, ElementType::Float16 | ElementType::BFloat16);
        if !is_half || from != ElementType::Float {
            return Ok(None);
        }
        let [half, wide] = [to, from].map(|ty| Tensor::zero_dt(ty.datum_type(), &[ROW]));
        let back = Conversion::new(to, from, Rules::default());
        Ok(Some(Halving { cast: cast.clone(), back, half: half?, wide: wide? }))
    }

    /// Whether a tensor is what the cast makes of another one, and what has become of its values:
    /// nothing is said of them where one is infinite or NaN. Fails when a tensor is not of its
    /// type's carrier.
    pub(super) fn halved(&mut self, x: &Tensor, y: &Tensor) -> TractResult<(bool, Option<Halved>)> {
        const WIDE: usize = size_of::<f32>();
        const HALF: usize = size_of::<u16>();
        let mut all = Halved::default();
        let (x, y) = (x.try_as_plain_ram()?, y.try_as_plain_ram()?);
        let rows = x.as_bytes().chunks(ROW * WIDE).zip(y.as_bytes().chunks(ROW * HALF));
        let mut is_odd = false;
        if x.as_bytes().len() / WIDE != y.as_bytes().len() / HALF {
            return Ok((false, None));
        }
        for ((bytes, y), x) in rows.zip(x.as_slice::<f32>()?.chunks(ROW)) {
            let half = self.half.as_bytes_mut().get_mut(..y.len()).context("room for a row")?;
            self.cast.overwrite(bytes, half)?;
            if half != y {
                return Ok((false, None));
            }
            let back = self.wide.as_bytes_mut().get_mut(..bytes.len()).context("room for a row")?;
            self.back.overwrite(y, back)?;
            let back = self.wide.try_as_plain_ram()?.as_slice::<f32>()?;
            Level::best().run(
                #[inline(always)]
                || is_odd |= all.add(x, back),
            );
        }
        Ok((true, (!is_odd).then_some(all)))
    }
}

impl Halved {
    /// Counts what has come back of values; whether one is infinite or NaN.
    #[inline(always)]
    fn add(&mut self, wide: &[f32], back: &[f32]) -> bool {
        // The difference is exact: it has fewer digits than the number that is rounded.
        let Replaced { exact, flushed, farthest, .. } = Replaced::of((wide, back));
        self.exact += exact;
        self.flushed += flushed;
        self.farthest = self.farthest.max(farthest.into());
        !farthest.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_what_is_infinite_or_nan() {
        let odd = [[f32::INFINITY; 2], [f32::NAN; 2], [70_000.0, f32::INFINITY]];
        for [x, y] in odd.into_iter().chain([[1.0, 1.0], [1.1, 1.0], [1e-9, 0.0]]) {
            let mut found = Halved::default();
            let is_odd = found.add(&[2.0, x, 0.0], &[2.0, y, 0.0]);
            assert_eq!(is_odd, !(x.is_finite() && y.is_finite()), "{x} {y}");
            let counts = (found.exact, found.flushed, found.farthest);
            let [exact, flushed] = [x == y, y == 0.0].map(u64::from);
            assert!(is_odd || counts == (2 + exact, flushed, f64::from(x - y)), "{x} {y}");
        }
    }
}
