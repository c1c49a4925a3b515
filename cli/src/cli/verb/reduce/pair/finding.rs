//! What is wrong with a tensor of a pair of models, and how grave it is.

use std::fmt;

use tract_onnx_cast::{ElementType, Family};

use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::verdict::{Culprit, FaultKind, Verdict};

/// What is wrong with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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

impl Kind {
    /// What a verdict blames a node for.
    pub(super) fn of(verdict: Verdict, fault: Option<FaultKind>) -> Kind {
        match (verdict, fault) {
            (_, Some(FaultKind::Overflow)) => Kind::Overflow,
            (Verdict::Broken, _) => Kind::Broken,
            _ => Kind::Imprecise,
        }
    }

    /// What it is called in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Shape => "shape",
            Kind::Overflow => "overflow",
            Kind::Nan => "nan",
            Kind::Beyond => "tolerance",
            Kind::Broken => "broken",
            Kind::Imprecise => "imprecise",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Shape => "has another shape",
            Kind::Overflow => "overflows",
            Kind::Nan => "makes NaN",
            Kind::Beyond => "is beyond its tolerance",
            Kind::Broken => "is broken",
            Kind::Imprecise => "is imprecise",
        })
    }
}

/// What was found of one tensor.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    /// How far it is off: its largest error by its largest value, infinite where that is no number.
    pub(super) error: f64,
    /// In words.
    pub(super) text: String,
    /// What a comparison without a tolerance blames for it.
    pub(super) culprit: Option<Culprit>,
}

impl Finding {
    /// What is wrong with a tensor, if anything is.
    pub(super) fn of(tensor: &ComparedTensor) -> Option<Finding> {
        let kind = match tensor {
            _ if tensor.problem.is_some() => Kind::Shape,
            _ if tensor.infinity_differences > 0 => Kind::Overflow,
            _ if tensor.nan_differences > 0 => Kind::Nan,
            _ if !tensor.passed => Kind::Beyond,
            _ => return None,
        };
        Some(Finding {
            kind,
            error: tensor.largest_error(),
            text: tensor.difference(),
            culprit: None,
        })
    }

    /// What a comparison says without a tolerance.
    pub(super) fn told(kind: Kind, text: String, culprit: Option<Culprit>) -> Finding {
        Finding { kind, error: 1.0, text, culprit }
    }

    /// Whether this is what another one is: of the same kind, and not far less grave.
    pub(super) fn is_like(&self, other: &Finding) -> bool {
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
