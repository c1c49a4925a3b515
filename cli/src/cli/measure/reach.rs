//! What an element type can hold.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::audit::{self, FloatReach};

use crate::cli::measure::number::Num;

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
