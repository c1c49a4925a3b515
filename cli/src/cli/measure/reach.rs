//! What an element type can hold, and numbers that stand for what none can.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::{self, FloatReach};

use crate::cli::measure::number::Num;

/// Where two numbers are held against each other: from this magnitude on either is as good as an
/// infinity, as in the masks of an attention, which are 1e9 in one file and FLOAT's largest number
/// in another. No sum notices what it is exactly.
pub(crate) const STANDS_FOR_INFINITY: f64 = 1e8;

/// Whether a value is the mask of an attention, cut off where onnxconverter-common cuts constants
/// off, at -1e4, to which little is added: nothing is left of either in a softmax.
#[inline(always)]
pub(crate) fn is_cut_mask(got: f64, want: f64) -> bool {
    const CUT: f64 = -1e4;
    (want <= 1.8 * CUT) & ((got - CUT).abs() <= 0.02 * CUT.abs())
}

/// Where it is computed how far numbers may be off: from this magnitude on none is, as a share of a
/// mask is larger than all that is computed. What lies below, [`STANDS_FOR_INFINITY`] and more
/// among it, rounds as any number does.
pub(crate) const MASK: f64 = 1e30;

/// A share of a number, unless that stands for an infinity.
#[inline(always)]
pub(crate) fn relative(x: f64, share: f64) -> f64 {
    if x.abs() < MASK { x.abs() * share } else { 0.0 }
}

/// What a type can hold, as reports have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReportedReach {
    pub(crate) min: Num,
    pub(crate) max: Num,
    /// The smallest positive value, and the smallest positive normal one, of a floating-point type.
    pub(crate) min_positive: Option<Num>,
    pub(crate) min_normal: Option<Num>,
}

impl ReportedReach {
    /// Of a numeric type.
    pub(crate) fn of(ty: ElementType) -> Option<ReportedReach> {
        let reach = audit::Reach::of(ty)?;
        let (min, max) = reach.limits();
        let of_float = |limit: fn(&FloatReach) -> f64| match &reach {
            audit::Reach::Float(float) => Some(Num(limit(float))),
            _ => None,
        };
        Some(ReportedReach {
            min: Num(min.rounded()),
            max: Num(max.rounded()),
            min_positive: of_float(|float| float.min_positive),
            min_normal: of_float(|float| float.min_normal),
        })
    }
}
