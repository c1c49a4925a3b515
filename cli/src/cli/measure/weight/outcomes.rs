//! What became of values, counted one by one or many together.

use tract_onnx::prelude::*;

use crate::cli::found::finding::Code;
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
pub(super) struct Halved {
    pub(super) exact: u64,
    pub(super) flushed: u64,
    pub(super) farthest: f64,
}

impl Halved {
    /// Counts what has come back; `None` where a value is infinite or NaN.
    pub(super) fn of(wide: &Tensor, back: &Tensor) -> TractResult<Option<Halved>> {
        // Few enough that no count overflows. Integers alone are counted many at once.
        const ROW: usize = 1 << 12;
        let (wide, back) = (wide.try_as_plain_ram()?, back.try_as_plain_ram()?);
        let rows = wide.as_slice::<f32>()?.chunks(ROW).zip(back.as_slice::<f32>()?.chunks(ROW));
        let (mut exact, mut flushed, mut farthest, mut is_odd) = (0u64, 0u64, 0u32, false);
        for (wide, back) in rows {
            let (mut same, mut gone) = (0u32, 0u32);
            for (x, y) in wide.iter().zip(back) {
                same += u32::from(x == y);
                gone += u32::from((*y == 0.0) & (*x != 0.0));
                // The difference is exact: it has fewer digits than the number that is rounded.
                farthest = farthest.max((x - y).abs().to_bits());
                is_odd |= !(x.is_finite() & y.is_finite());
            }
            exact += u64::from(same);
            flushed += u64::from(gone);
        }
        let farthest = f64::from(f32::from_bits(farthest));
        Ok((!is_odd).then_some(Halved { exact, flushed, farthest }))
    }
}
