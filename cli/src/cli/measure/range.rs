//! The range of the values that a cast was given: the least and the greatest, how many are special,
//! and a histogram of exponents.

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::{Tensor, TractResult};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::{self, Numbers, Range};

use crate::cli::measure::lanes::finite_peak;
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

/// The largest finite magnitude of a tensor of a type.
/// Fails when the tensor is not of its type's carrier.
pub(crate) fn peak(ty: ElementType, tensor: &Tensor) -> TractResult<f64> {
    if ty == ElementType::Float {
        // What is most of a model is not widened for this.
        let floats = tensor.try_as_plain_ram()?.as_slice::<f32>()?;
        // The patterns of magnitudes are ordered as these are.
        let finite = |x: &f32| if x.is_finite() { x.abs().to_bits() } else { 0 };
        return Ok(f32::from_bits(floats.iter().map(finite).max().unwrap_or(0)).into());
    }
    if let Some(reals) = Numbers::of(ty, tensor)?.reals() {
        return Ok(finite_peak(reals));
    }
    let (low, high) = audit::range(ty, tensor)?.limits.unwrap_or_default();
    Ok(low.abs().max(high.abs()))
}
