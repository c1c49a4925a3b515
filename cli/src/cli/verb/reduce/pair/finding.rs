//! What is wrong with a tensor of a pair of models, and how grave it is.

use std::fmt;

use tract_onnx_cast::{ElementType, Family};

use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::verdict::{Culprit, FaultKind, Verdict};

/// What is wrong with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorFault {
    /// It is of another shape, or of a type that cannot be compared.
    Shape,
    /// Infinite where the reference is finite, or the other way round.
    Overflow,
    /// NaN on one side alone.
    Nan,
    /// Beyond its tolerance.
    Beyond,
    /// Off by more than rounding explains.
    Broken,
    /// Explained by its types, and of little use.
    Imprecise,
}

impl TensorFault {
    /// What a verdict blames a node for.
    pub(super) fn of(verdict: Verdict, fault: Option<FaultKind>) -> TensorFault {
        match (verdict, fault) {
            (_, Some(FaultKind::Overflow)) => TensorFault::Overflow,
            (Verdict::Broken, _) => TensorFault::Broken,
            _ => TensorFault::Imprecise,
        }
    }

    /// What it is called in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            TensorFault::Shape => "shape",
            TensorFault::Overflow => "overflow",
            TensorFault::Nan => "nan",
            TensorFault::Beyond => "tolerance",
            TensorFault::Broken => "broken",
            TensorFault::Imprecise => "imprecise",
        }
    }
}

impl fmt::Display for TensorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TensorFault::Shape => "has another shape",
            TensorFault::Overflow => "overflows",
            TensorFault::Nan => "makes NaN",
            TensorFault::Beyond => "is beyond its tolerance",
            TensorFault::Broken => "is broken",
            TensorFault::Imprecise => "is imprecise",
        })
    }
}

/// What was found of one tensor.
#[derive(Debug, Clone)]
pub(super) struct TensorFinding {
    pub(super) kind: TensorFault,
    /// How far it is off: its largest error by its largest value, infinite where that is no number.
    pub(super) error: f64,
    /// In words.
    pub(super) text: String,
    /// What a comparison without a tolerance blames for it.
    pub(super) culprit: Option<Culprit>,
}

impl TensorFinding {
    /// What is wrong with a tensor, if anything is.
    pub(super) fn of(tensor: &ComparedTensor) -> Option<TensorFinding> {
        let kind = match tensor {
            _ if tensor.problem.is_some() => TensorFault::Shape,
            _ if tensor.infinity_differences > 0 => TensorFault::Overflow,
            _ if tensor.nan_differences > 0 => TensorFault::Nan,
            _ if !tensor.passed => TensorFault::Beyond,
            _ => return None,
        };
        Some(TensorFinding {
            kind,
            error: tensor.largest_error(),
            text: tensor.difference(),
            culprit: None,
        })
    }

    /// What a comparison says without a tolerance.
    pub(super) fn without_tolerance(
        kind: TensorFault,
        text: String,
        culprit: Option<Culprit>,
    ) -> TensorFinding {
        TensorFinding { kind, error: 1.0, text, culprit }
    }

    /// Whether this is what another one is: of the same kind, and not far less grave.
    pub(super) fn is_like(&self, other: &TensorFinding) -> bool {
        const LESS: f64 = 0.25;
        let is_less = self.error < other.error * LESS;
        self.kind == other.kind && !(is_less && other.error.is_finite())
    }
}

/// What is no more than the roundings of an operator.
pub(super) fn noise(a: ElementType, b: ElementType) -> f64 {
    const ROUNDINGS: f64 = 8.0;
    let bits = |ty: ElementType| match ty.family() {
        Family::Float(format) => format.mantissa_bits.min(23) as i32,
        _ => 23,
    };
    ROUNDINGS * 0.5f64.powi(bits(a).min(bits(b)))
}
