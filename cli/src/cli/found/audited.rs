//! What an audit finds: plain data, of which text, JSON, Markdown and the page are made.
//!
//! This is the schema that docs/report-format.md describes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_onnx_cast::RoundMode;
use tract_onnx_cast::audit::{AuditRow, CastStats, Outcome};
use tract_onnx_cast::survey::CastKind;

use super::finding::Code;
use super::head::Head;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach::ReportedReach;
use crate::cli::message::counted;

/// One audited model.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Audited {
    pub(crate) model: String,
    #[serde(flatten)]
    pub(crate) head: Head,
    /// Worst first.
    pub(crate) casts: Vec<AuditedCast>,
    /// How many results of half precision the model's other operators round.
    pub(crate) rounded: usize,
    /// Those of them that were not only rounded, worst first.
    pub(crate) roundings: Vec<AuditedCast>,
    /// The model of which this one is a conversion.
    pub(crate) baseline: Option<String>,
}

/// One cast and what it did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    pub(crate) outcomes: BTreeMap<Code, u64>,
    pub(crate) became_subnormal: u64,
    pub(crate) sign_lost: u64,
    /// Values that a quantiser cut off at 0, and the largest magnitude that it made of others that
    /// it cut off.
    pub(crate) saturated_to_zero: u64,
    pub(crate) cut_off_at: Num,
    /// Infinities and NaN that an operator on half precision makes of finite inputs; not of a cast.
    pub(crate) made_infinite: u64,
    pub(crate) made_nan: u64,
    pub(crate) max_abs: Num,
    pub(crate) max_rel: Num,
    pub(crate) max_ulp: Num,
    pub(crate) source: SourceRange,
    /// What the target can hold.
    pub(crate) target: Option<ReportedReach>,
    /// How many times as large the values could be before the floating-point target does not hold
    /// them.
    pub(crate) headroom: Option<Num>,
}

impl AuditedCast {
    pub(crate) fn of(row: &AuditRow) -> AuditedCast {
        let AuditRow { cast, types, stats, .. } = row;
        let source = SourceRange::of(&stats.source);
        // How far a quantiser reaches, its scales tell, of which there may be many.
        let target = match cast.kind {
            CastKind::Quantizer => None,
            _ => types.map(|(_, to)| to).or(cast.to).and_then(ReportedReach::of),
        };
        let counts = Outcome::ALL.into_iter().map(|o| (o.into(), stats.count(o)));
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
            saturated_to_zero: stats.saturated_to_zero,
            cut_off_at: Num(stats.cut_off_at),
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

    pub(crate) fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(&outcome.into()).copied().unwrap_or(0)
    }

    /// How much it did of what is counted of casts.
    pub(crate) fn measure(&self, code: Code) -> f64 {
        match code {
            Code::MadeInfinite => self.made_infinite as f64,
            Code::MadeNan => self.made_nan as f64,
            Code::BecameSubnormal => self.became_subnormal as f64,
            Code::SignLost => self.sign_lost as f64,
            Code::SaturatedShare => self.cut_off_share().unwrap_or(0.0),
            Code::MaxAbs => self.max_abs.0,
            Code::MaxRel => self.max_rel.0,
            Code::MaxUlp => self.max_ulp.0,
            outcome => self.outcomes.get(&outcome).copied().unwrap_or(0) as f64,
        }
    }

    /// Values whose result tells nothing of them, such as a NaN.
    pub(crate) fn damaged(&self) -> u64 {
        let outcomes = Outcome::ALL.iter().filter(|o| o.is_damage()).map(|o| self.count(*o));
        outcomes.sum::<u64>() + self.made_infinite + self.made_nan
    }

    /// Whether values are lost in it: what a quantiser takes for zero, or cuts off at 0, is not.
    pub(crate) fn spoils(&self) -> bool {
        let loses = if self.is_quantizer() { self.has_wrong_scale() } else { self.lost() > 0 };
        self.damaged() > 0 || loses
    }

    /// Values that became the nearest end of the target's range, or zero.
    pub(crate) fn lost(&self) -> u64 {
        self.count(Outcome::Saturated) + self.count(Outcome::Flushed)
    }

    /// Whether it is a QuantizeLinear.
    pub(crate) fn is_quantizer(&self) -> bool {
        self.op == "QuantizeLinear"
    }

    /// The share of the values that are cut off elsewhere than at 0, where a Relu may be meant. Of
    /// few values none is told.
    pub(crate) fn cut_off_share(&self) -> Option<f64> {
        let cut = self.count(Outcome::Saturated).saturating_sub(self.saturated_to_zero);
        (self.elements >= FEWEST).then(|| cut as f64 / self.elements as f64)
    }

    /// Whether it is a quantiser whose scale does not cover the values that reach it.
    pub(crate) fn has_wrong_scale(&self) -> bool {
        self.is_quantizer() && self.cut_off_share().is_some_and(|share| share > MOST_CUT_OFF)
    }

    /// How many values a quantiser cut off, and how far its scale reaches, in words.
    pub(crate) fn reach_in_words(&self) -> Option<String> {
        let cut = self.count(Outcome::Saturated).saturating_sub(self.saturated_to_zero);
        let (low, high) = (self.source.min?.0, self.source.max?.0);
        (self.is_quantizer() && cut > 0).then(|| {
            format!(
                "it cut off {cut} of {}: its scale reaches {}, the values {}",
                counted(self.elements, "value"),
                self.cut_off_at,
                Num(low.abs().max(high.abs()))
            )
        })
    }

    /// The value that it makes, with the path to it where that is in a subgraph.
    pub(crate) fn value(&self) -> String {
        match self.graph.split_once('/') {
            Some((_, path)) => format!("{path}/{}", self.output),
            None => self.output.clone(),
        }
    }

    /// The key by which casts are sorted; the worst has the smallest. Shares tell more than counts,
    /// as large tensors would always be first.
    pub(crate) fn rank(stats: &CastStats) -> impl Ord + use<> {
        let all = stats.elements().max(1) as f64;
        // Numbers from 0 up are in the order of their bits.
        let share = |count: u64| (count as f64 / all).to_bits();
        std::cmp::Reverse((
            share(stats.damaged()),
            // What has been ruined before it is more telling than what it rounds.
            share(stats.source.infinities + stats.source.nans),
            share(stats.count(Outcome::Saturated).saturating_sub(stats.saturated_to_zero)),
            share(stats.count(Outcome::Flushed)),
            share(stats.sign_lost),
            share(stats.count(Outcome::Truncated)),
            share(stats.became_subnormal),
            stats.errors.ulp.to_bits(),
            stats.errors.relative.to_bits(),
        ))
    }
}

/// The largest share of its values that a quantiser may cut off, and of how many values at least.
pub(crate) const MOST_CUT_OFF: f64 = 0.01;
const FEWEST: u64 = 100;

/// The end of a floating-point type's range by the largest magnitude that was seen. `None` where
/// there is no such number, or where a value is the end itself: that is a mask, or a scale that was
/// chosen so.
fn headroom(source: &SourceRange, target: Option<&ReportedReach>) -> Option<Num> {
    let ReportedReach { max, min_normal: Some(_), .. } = target? else { return None };
    let largest = source.max?.0.abs().max(source.min?.0.abs());
    (largest > 0.0 && largest < max.0).then(|| Num(max.0 / largest))
}
