//! What an audit finds: plain data, of which text, JSON, Markdown and the page are made.
//!
//! This is the schema that docs/report-format.md describes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::{AuditRow, CastStats, Outcome};
use tract_onnx_cast::{CastKind, RoundMode};

use crate::cli::found::coverage::Unexercised;
use crate::cli::found::headroom::headroom;
use crate::cli::found::inputs::Inputs;
use crate::cli::found::status::Status;
use crate::cli::found::weights::ComparedWeights;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach::Reach;
use crate::cli::message::Problem;

/// One audited model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Audited {
    pub(crate) model: String,
    pub(crate) status: Status,
    /// Why the model cannot be used.
    pub(crate) problem: Option<String>,
    /// The same for programs, and what it is about.
    pub(crate) error: Option<Problem>,
    /// Sets of inputs that it ran on.
    pub(crate) sets: usize,
    pub(crate) inputs: Inputs,
    pub(crate) tolerance_file: Option<String>,
    /// What to know about the inputs.
    pub(crate) notes: Vec<String>,
    /// Why the verdict may be another on other inputs.
    pub(crate) warnings: Vec<String>,
    /// Worst first.
    pub(crate) casts: Vec<AuditedCast>,
    /// How many results of half precision the model's other operators round.
    pub(crate) rounded: usize,
    /// Those of them that were not only rounded, worst first.
    pub(crate) roundings: Vec<AuditedCast>,
    pub(crate) findings: Vec<AuditFinding>,
    /// What was beyond the limits, a sentence each.
    pub(crate) exceeded: Vec<String>,
    /// The model of which this one is a conversion, and what it excuses, a sentence each.
    pub(crate) baseline: Option<String>,
    pub(crate) excused: Vec<String>,
    /// What the conversion did to the constants of the baseline.
    pub(crate) weights: ComparedWeights,
    /// What no run has reached.
    pub(crate) unexercised: Vec<Unexercised>,
}

/// One cast and what it did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AuditedCast {
    pub(crate) node: String,
    pub(crate) op: String,
    pub(crate) graph: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) saturate: Option<i64>,
    pub(crate) round_mode: Option<String>,
    pub(crate) constant: bool,
    pub(crate) runs: u64,
    pub(crate) elements: u64,
    /// Elements by outcome; the counts add up to `elements`.
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) became_subnormal: u64,
    pub(crate) sign_lost: u64,
    /// Infinities and NaN that an operator on half precision makes of finite inputs; not of a cast.
    pub(crate) made_infinite: u64,
    pub(crate) made_nan: u64,
    pub(crate) max_abs: Num,
    pub(crate) max_rel: Num,
    pub(crate) max_ulp: Num,
    pub(crate) source: SourceRange,
    /// What the target can hold.
    pub(crate) target: Option<Reach>,
    /// How many times as large the values could be before the floating-point target does not hold them.
    pub(crate) headroom: Option<Num>,
}

/// Something to know about a cast that can be told without a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AuditFinding {
    pub(crate) kind: String,
    pub(crate) node: String,
    pub(crate) graph: String,
    pub(crate) text: String,
    /// Whether the model is invalid for it.
    pub(crate) is_error: bool,
}

impl Audited {
    /// A model that could not be audited.
    pub(crate) fn unusable(model: String, problem: Problem) -> Audited {
        Audited {
            model,
            status: Status::Unusable,
            problem: Some(problem.message.clone()),
            error: Some(problem),
            sets: 0,
            inputs: Inputs::default(),
            tolerance_file: None,
            notes: vec![],
            warnings: vec![],
            casts: vec![],
            rounded: 0,
            roundings: vec![],
            findings: vec![],
            exceeded: vec![],
            baseline: None,
            excused: vec![],
            weights: ComparedWeights::default(),
            unexercised: vec![],
        }
    }
}

impl AuditedCast {
    pub(crate) fn of(row: &AuditRow) -> AuditedCast {
        let AuditRow { cast, types, stats, .. } = row;
        let source = SourceRange::of(&stats.source);
        // How far a quantiser reaches, its scales tell, of which there may be many.
        let target = match cast.kind {
            CastKind::Quantizer => None,
            _ => types.map(|(_, to)| to).or(cast.to).and_then(Reach::of),
        };
        let counts = Outcome::ALL.into_iter().map(|o| (o.name().to_owned(), stats.count(o)));
        AuditedCast {
            node: cast.node.clone(),
            op: cast.op_type().into(),
            graph: cast.graph.to_string(),
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
            made_infinite: 0,
            made_nan: 0,
            max_abs: Num(stats.errors.absolute),
            max_rel: Num(stats.errors.relative),
            max_ulp: Num(stats.errors.ulp),
            headroom: headroom(&source, target.as_ref()),
            source,
            target,
        }
    }

    pub(crate) fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// Values whose result tells nothing of them, such as a NaN.
    pub(crate) fn damaged(&self) -> u64 {
        let outcomes = Outcome::ALL.iter().filter(|o| o.is_damage()).map(|o| self.count(o.name()));
        outcomes.sum::<u64>() + self.made_infinite + self.made_nan
    }

    /// Values that became the nearest end of the target's range, or zero.
    pub(crate) fn lost(&self) -> u64 {
        self.count(Outcome::Saturated.name()) + self.count(Outcome::Flushed.name())
    }

    /// The value that it makes, with the path to it where that is in a subgraph.
    pub(crate) fn value(&self) -> String {
        match self.graph.split_once('/') {
            Some((_, path)) => format!("{path}/{}", self.output),
            None => self.output.clone(),
        }
    }

    /// The key by which casts are sorted; the worst has the smallest.
    pub(crate) fn rank(stats: &CastStats) -> impl Ord + use<> {
        let ulp = stats.errors.ulp.to_bits();
        std::cmp::Reverse((
            stats.damaged(),
            // What has been ruined before it is more telling than what it rounds.
            stats.source.infinities + stats.source.nans,
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
