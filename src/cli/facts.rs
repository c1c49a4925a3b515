//! What `audit` and `compare` report, in the one form that text, JSON, Markdown and the page are made of.
//!
//! This is the schema that docs/report-format.md describes; a change that a reader of the JSON could notice needs a new
//! version there and in [`AUDIT_SCHEMA`] or [`COMPARE_SCHEMA`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::{AuditRow, CastStats, Outcome, Range};
use tract_onnx_cast::{CastNode, ElementType, Family, RoundMode};

use super::num::Num;

/// The version of what `audit --json` writes.
pub(super) const AUDIT_SCHEMA: &str = "onnx-cast/audit/1";
/// The version of what `compare --json` writes.
pub(super) const COMPARE_SCHEMA: &str = "onnx-cast/compare/1";

/// How a model or a comparison fared; the exit status is the worst of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Passed,
    Failed,
    Unusable,
}

/// One audited model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Audited {
    pub(super) model: String,
    pub(super) status: Status,
    /// Why the model cannot be used.
    pub(super) problem: Option<String>,
    /// Sets of inputs that it ran on.
    pub(super) sets: usize,
    pub(super) tolerance_file: Option<String>,
    /// What to know about the inputs.
    pub(super) notes: Vec<String>,
    /// Worst first.
    pub(super) casts: Vec<CastFacts>,
    pub(super) findings: Vec<FindingFacts>,
    /// What was beyond the limits, a sentence each.
    pub(super) exceeded: Vec<String>,
}

/// One cast and what it did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CastFacts {
    pub(super) node: String,
    pub(super) op: String,
    pub(super) graph: String,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) saturate: Option<i64>,
    pub(super) round_mode: Option<String>,
    pub(super) constant: bool,
    pub(super) runs: u64,
    pub(super) elements: u64,
    /// Elements by outcome; the counts add up to `elements`.
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) became_subnormal: u64,
    pub(super) sign_lost: u64,
    pub(super) max_abs: Num,
    pub(super) max_rel: Num,
    pub(super) max_ulp: Num,
    pub(super) source: RangeFacts,
    /// What the target can hold.
    pub(super) target: Option<TargetFacts>,
}

/// Which values there were.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct RangeFacts {
    pub(super) min: Option<Num>,
    pub(super) max: Option<Num>,
    pub(super) zeros: u64,
    pub(super) nans: u64,
    pub(super) infinities: u64,
    /// Pairs of ⌊log₂|x|⌋ and how many finite values other than zero have it.
    pub(super) log2: Vec<(i32, u64)>,
}

/// What a type can hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TargetFacts {
    pub(super) min: Num,
    pub(super) max: Num,
    /// The smallest positive value, and the smallest positive normal one, of a floating-point type.
    pub(super) min_positive: Option<Num>,
    pub(super) min_normal: Option<Num>,
}

/// Something to know about a cast that needs no run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FindingFacts {
    pub(super) kind: String,
    pub(super) node: String,
    pub(super) graph: String,
    pub(super) text: String,
    /// Whether the model is invalid for it.
    pub(super) is_error: bool,
}

/// Two models, or a model and saved outputs, and how they differ.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) reference: String,
    pub(super) converted: String,
    pub(super) status: Status,
    /// Why the two cannot be compared.
    pub(super) problem: Option<String>,
    pub(super) sets: usize,
    pub(super) tolerance_file: Option<String>,
    /// Whether every output has the same values.
    pub(super) identical: bool,
    /// What to know about how things were compared.
    pub(super) notes: Vec<String>,
    pub(super) outputs: Vec<TensorFacts>,
    /// Inner tensors that both graphs have, in the order of computation; only what was asked for.
    pub(super) tensors: Vec<TensorFacts>,
    pub(super) first_difference: Option<Parting>,
    /// The first tensor in which the converted model has a NaN or an infinity that the reference does not have.
    pub(super) first_damage: Option<Parting>,
    /// The first tensor of which the converted model's type cannot hold the reference's values.
    pub(super) first_beyond: Option<Parting>,
    pub(super) casts: CastChanges,
    /// What the casts of the converted model did, worst first.
    pub(super) converted_casts: Vec<CastFacts>,
}

/// Where two graphs part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Parting {
    pub(super) tensor: TensorFacts,
    /// The node that makes the tensor in the converted model, and its operator.
    pub(super) node: String,
    pub(super) op: String,
    /// What the cast did, where it is one.
    pub(super) cast: Option<CastFacts>,
    /// The worst of the casts before it that spoil values and that the reference does not have.
    pub(super) culprit: Option<CastFacts>,
}

/// How the two graphs' casts differ, by the value that they make.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CastChanges {
    pub(super) added: Vec<CastName>,
    pub(super) removed: Vec<CastName>,
    pub(super) retargeted: Vec<Retargeted>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CastName {
    pub(super) node: String,
    pub(super) graph: String,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Retargeted {
    pub(super) reference: CastName,
    pub(super) converted: CastName,
}

/// One tensor of both sides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TensorFacts {
    pub(super) name: String,
    /// The converted side's name, where it is another.
    pub(super) converted_name: Option<String>,
    pub(super) reference_type: String,
    pub(super) converted_type: String,
    pub(super) shape: Vec<usize>,
    /// Why the tensors cannot be compared, such as different shapes.
    pub(super) problem: Option<String>,
    pub(super) elements: u64,
    pub(super) passed: bool,
    /// Whether every value is the same, the sign of zeros included.
    pub(super) identical: bool,
    /// Elements beyond the tolerance.
    pub(super) mismatches: u64,
    /// Elements that are not the same value.
    pub(super) differing: u64,
    /// Where only one side is NaN.
    pub(super) nan_differences: u64,
    /// Where only one side is infinite, or both with other signs.
    pub(super) infinity_differences: u64,
    /// Where both sides are NaN.
    pub(super) both_nan: u64,
    pub(super) max_abs: Num,
    pub(super) max_rel: Num,
    pub(super) max_ulp: Num,
    pub(super) mean_ulp: Num,
    pub(super) cosine: Option<Num>,
    /// The smallest tolerances that would pass, each on its own; none passes where NaN or infinities differ.
    pub(super) passing_atol: Option<Num>,
    pub(super) passing_rtol: Option<Num>,
    pub(super) tolerance: ToleranceFacts,
    /// The mismatch that comes first, in words.
    pub(super) first_mismatch: Option<String>,
    /// The reference's values.
    pub(super) source: RangeFacts,
    /// What the converted side's type can hold.
    pub(super) target: Option<TargetFacts>,
    /// How many finite values of the reference the converted side's type cannot hold even after rounding.
    pub(super) beyond_target: u64,
    /// Pairs of ⌊log₁₀ of the relative error⌋ and how many elements have it; identical ones are left out.
    pub(super) errors_log10: Vec<(i32, u64)>,
}

/// What a tensor was judged by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ToleranceFacts {
    pub(super) rtol: Option<Num>,
    pub(super) atol: Option<Num>,
    pub(super) ulp: Option<Num>,
    pub(super) cosine: Option<Num>,
}

impl RangeFacts {
    pub(super) fn of(range: &Range) -> RangeFacts {
        RangeFacts {
            min: range.limits.map(|(low, _)| Num(low)),
            max: range.limits.map(|(_, high)| Num(high)),
            zeros: range.zeros,
            nans: range.nans,
            infinities: range.infinities,
            log2: range.histogram().collect(),
        }
    }
}

impl TargetFacts {
    /// Of a numeric type.
    pub(super) fn of(ty: ElementType) -> Option<TargetFacts> {
        let whole = |low: i128, high: i128| {
            let (min, max) = (Num(low as f64), Num(high as f64));
            Some(TargetFacts { min, max, min_positive: None, min_normal: None })
        };
        match ty.family() {
            Family::Text => None,
            Family::Bool => whole(0, 1),
            Family::Signed => whole(-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
            Family::Unsigned => whole(0, (1 << ty.bits()) - 1),
            Family::Float(format) => {
                let m = format.mantissa_bits as i32;
                let field = (format.max_finite() >> format.mantissa_bits) as i32;
                let fraction = format.max_finite() & ((1 << format.mantissa_bits) - 1);
                let one = (1u64 << format.mantissa_bits) as f64;
                let max = (1.0 + fraction as f64 / one) * 2f64.powi(field - format.bias);
                let min_normal = 2f64.powi(format.min_ulp_exponent() + m);
                // Below DOUBLE's normal values `powi` gives up.
                let min_positive = min_normal / one;
                let min = if format.is_signed() { -max } else { min_normal };
                Some(TargetFacts {
                    min: Num(min),
                    max: Num(max),
                    min_positive: Some(Num(min_positive)),
                    min_normal: Some(Num(min_normal)),
                })
            }
        }
    }
}

impl CastFacts {
    pub(super) fn of(row: &AuditRow) -> CastFacts {
        let AuditRow { cast, types, stats, .. } = row;
        let counts = Outcome::ALL.into_iter().map(|o| (o.name().to_owned(), stats.count(o)));
        CastFacts {
            node: cast.node.clone(),
            op: cast.operator.name().into(),
            graph: cast.graph.clone(),
            input: cast.input.clone(),
            output: cast.output.clone(),
            from: types.map(|(from, _)| from).or(cast.from).map(|ty| ty.name().into()),
            to: types.map(|(_, to)| to).or(cast.to).map(|ty| ty.name().into()),
            saturate: cast.saturate,
            round_mode: cast.round_mode.map(|mode| RoundMode::name(mode).into()),
            constant: row.is_constant,
            runs: row.runs,
            elements: stats.elements(),
            outcomes: counts.collect(),
            became_subnormal: stats.became_subnormal,
            sign_lost: stats.sign_lost,
            max_abs: Num(stats.errors.absolute),
            max_rel: Num(stats.errors.relative),
            max_ulp: Num(stats.errors.ulp),
            source: RangeFacts::of(&stats.source),
            target: types.map(|(_, to)| to).or(cast.to).and_then(TargetFacts::of),
        }
    }

    pub(super) fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// Values whose result has nothing to do with them.
    pub(super) fn damaged(&self) -> u64 {
        Outcome::ALL.iter().filter(|o| o.is_damage()).map(|o| self.count(o.name())).sum()
    }

    /// Values of which only the nearest end of the range is left.
    pub(super) fn lost(&self) -> u64 {
        self.count(Outcome::Saturated.name()) + self.count(Outcome::Flushed.name())
    }

    /// By what casts are sorted: the smaller, the worse.
    pub(super) fn rank(stats: &CastStats) -> impl Ord + use<> {
        let ulp = stats.errors.ulp.to_bits();
        std::cmp::Reverse((
            stats.damaged(),
            stats.count(Outcome::Saturated),
            stats.count(Outcome::Flushed),
            stats.sign_lost,
            stats.count(Outcome::Truncated),
            stats.became_subnormal,
            ulp,
            stats.count(Outcome::Rounded),
        ))
    }
}

impl CastName {
    pub(super) fn of(cast: &CastNode) -> CastName {
        CastName {
            node: cast.node.clone(),
            graph: cast.graph.clone(),
            from: cast.from.map(|ty| ty.name().into()),
            to: cast.to.map(|ty| ty.name().into()),
        }
    }
}
