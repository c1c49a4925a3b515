//! Which values there were.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::Range;

use crate::cli::measure::number::Num;

/// Which values there were.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SourceRange {
    pub(crate) min: Option<Num>,
    pub(crate) max: Option<Num>,
    pub(crate) zeros: u64,
    pub(crate) nans: u64,
    pub(crate) infinities: u64,
    /// Pairs of ⌊log₂|x|⌋ and how many finite values other than zero have it.
    pub(crate) log2: Vec<(i32, u64)>,
}

impl SourceRange {
    pub(crate) fn of(range: &Range) -> SourceRange {
        SourceRange {
            min: range.limits.map(|(low, _)| Num(low)),
            max: range.limits.map(|(_, high)| Num(high)),
            zeros: range.zeros,
            nans: range.nans,
            infinities: range.infinities,
            log2: range.histogram().collect(),
        }
    }
}
