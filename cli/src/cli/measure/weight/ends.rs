//! The least and the greatest code of a weight, which stand for what lies beyond them, where a
//! scale has been chosen for the least error.

use tract_onnx_cast::audit::Reach;
use tract_onnx_cast::kernel::Level;
use tract_onnx_cast::{ElementType, Family};

use crate::cli::measure::lanes::{AT_ONCE, Room, power};

/// A quantiser may cut off so much of its values' size.
pub(crate) const CUT_OFF: f64 = 0.1;

/// The least and the greatest code of a type.
#[derive(Clone, Copy)]
pub(crate) struct EndCodes {
    low: f64,
    high: f64,
}

impl EndCodes {
    /// Those of a type; `None` of text, and of a type of more than 8 bits.
    pub(crate) fn of(ty: ElementType) -> Option<EndCodes> {
        if ty.bits() > 8 {
            return None;
        }
        let size = 2f64.powi(i32::try_from(ty.bits()).ok()?);
        // Some quantisers leave the least code out, so that the others are symmetric.
        let (low, high) = match (ty.family(), Reach::of(ty)?) {
            (Family::Signed, _) => (1.0 - size / 2.0, size / 2.0 - 1.0),
            (_, Reach::Float(float)) => (-float.max, float.max),
            _ => (0.0, size - 1.0),
        };
        Some(EndCodes { low, high })
    }

    /// From the least code down, and from the greatest one up, codes stand for what lies beyond.
    pub(crate) fn limits(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Which of the values that were made of some codes and wanted lie beyond the codes, in the
    /// place of those before; adds what is cut off of these.
    pub(crate) fn lies_beyond(
        &self,
        codes: &[f64],
        (got, want): (&[f64], &[f64]),
        (lies_beyond, lost): (&mut Vec<bool>, &mut CutOffPower),
    ) {
        lies_beyond.resize(want.len(), false);
        Level::best().run(
            #[inline(always)]
            || {
                let mut room = Room::<1>::new();
                let all = codes.chunks(AT_ONCE).zip(got.chunks(AT_ONCE).zip(want.chunks(AT_ONCE)));
                for (beyond, (codes, (got, want))) in lies_beyond.chunks_mut(AT_ONCE).zip(all) {
                    let [cut_off] = room.of(want.len());
                    let places = beyond.iter_mut().zip(cut_off.iter_mut());
                    let each = places.zip(codes.iter().zip(got.iter().zip(want)));
                    for ((beyond, cut_off), (code, (got, want))) in each {
                        let is_end = (*code <= self.low) | (*code >= self.high);
                        *beyond = is_end & (want.abs() > got.abs());
                        *cut_off = if *beyond { want - got } else { 0.0 };
                    }
                    lost.add(power(cut_off), power(want));
                }
            },
        );
    }
}

/// What a range cuts off of values, and these, by their powers.
#[derive(Debug, Default)]
pub(crate) struct CutOffPower {
    cut_off: f64,
    all: f64,
}

impl CutOffPower {
    /// Adds what is cut off of some values, and these.
    #[inline(always)]
    pub(crate) fn add(&mut self, cut_off: f64, all: f64) {
        self.cut_off += cut_off;
        self.all += all;
    }

    /// Whether it is more than a range may.
    pub(crate) fn is_much(&self) -> bool {
        let is_little = self.cut_off <= CUT_OFF * CUT_OFF * self.all;
        !is_little
    }
}
