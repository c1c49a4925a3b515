//! Whether a pair of parts still shows what is wrong.

use std::path::PathBuf;

use onnx_cast_graph::NodeView;
use tract_onnx::prelude::*;
use tract_onnx_cast::CastOnnx;

use super::finding::{TensorFault, TensorFinding};
use crate::cli::found::compared::Compared;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::status::Status;
use crate::cli::found::verdict::{Culprit, Verdict};
use crate::cli::measure::metrics::compared;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::process::request::Request;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::CompareRequest;
use crate::cli::verb::reduce::case::{MODEL, REFERENCE, write_into};
use crate::cli::verb::reduce::part::{Part, declare_outputs};
use crate::cli::verb::reduce::side;
use crate::cli::verb::reduce::trial::{PartTrial, Runs};
use crate::cli::verb::reduce::values::{by_name, saturated, taken};
use crate::cli::verb::test::expected::difference;
use crate::cli::work::model::Loader;

/// What is to stay so.
#[derive(Clone)]
pub(super) enum Yardstick {
    /// An output is beyond this tolerance.
    Tolerance(Tolerance),
    /// A comparison without a tolerance says so, and blames this node, or weight, or else another
    /// one, for this.
    Verdict(Verdict, Option<Culprit>, bool),
}

/// Whether the converted part is off where the reference's is not.
pub(super) struct PairTrial<'a> {
    pub(super) loader: &'a Loader,
    pub(super) onnx: CastOnnx,
    pub(super) judge: Yardstick,
    /// Where parts are written.
    pub(super) scratch: PathBuf,
    /// What was found; the first part says it.
    pub(super) finding: Option<TensorFinding>,
    /// The node of the converted model that is blamed: it stays.
    pub(super) blamed: Option<String>,
    pub(super) runs: Runs,
}

impl PartTrial for PairTrial<'_> {
    fn shown(&mut self, part: Part) -> TractResult<Option<Part>> {
        self.runs.count(part.nodes());
        let nodes = part.model.graph.iter().flat_map(onnx_cast_graph::all_graphs);
        let mut nodes = nodes.flat_map(|graph| &graph.node);
        let has_blamed = self.blamed.as_ref().is_none_or(|name| nodes.any(|n| n.label() == name));
        let Some((found, part)) = self.attempt(&part).ok().flatten().filter(|_| has_blamed) else {
            return Ok(None);
        };
        let is_it = self.finding.as_ref().is_none_or(|finding| found.is_like(finding));
        self.finding.get_or_insert(found);
        Ok(is_it.then_some(part))
    }

    fn runs(&self) -> &Runs {
        &self.runs
    }
}

/// Whether `test` fails, which runs what was converted alone: what rounds to the right value shows
/// nothing.
fn is_failed(wanted: &[NamedTensor], made: &[NamedTensor]) -> TractResult<bool> {
    for (wanted, made) in wanted.iter().zip(made) {
        if difference(made.ty, &made.tensor, &wanted.tensor, None)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl PairTrial<'_> {
    /// What the part shows, and what is right in the model's types.
    fn attempt(&self, part: &Part) -> TractResult<Option<(TensorFinding, Part)>> {
        let Some(reference) = part.reference.clone() else { return Ok(None) };
        let values = by_name(part.inputs.clone());
        let right = side::run(&self.onnx, reference.clone(), None, &taken(&reference, &values)?)?;
        let made = side::run(&self.onnx, part.model.clone(), None, &values)?;
        let pairs = right.iter().zip(&made);
        let mut part = part.clone();
        declare_outputs(&mut part.model, &made);
        part.reference.iter_mut().for_each(|reference| declare_outputs(reference, &right));
        let outputs = pairs
            .clone()
            .map(|(x, y)| Ok(NamedTensor { name: y.name.clone(), ..saturated(x, y.ty)? }))
            .collect::<TractResult<Vec<_>>>()?;
        let is_broken = matches!(self.judge, Yardstick::Verdict(Verdict::Broken, ..));
        if is_broken && !is_failed(&outputs, &made)? {
            return Ok(None);
        }
        part.outputs = outputs;
        let found = match &self.judge {
            Yardstick::Tolerance(tolerance) => {
                let mut worst: Option<TensorFinding> = None;
                for (x, y) in pairs {
                    let found = TensorFinding::of(&compared(x, y, *tolerance)?);
                    let is_worse = |found: &TensorFinding| {
                        worst.as_ref().is_none_or(|worst| found.error > worst.error)
                    };
                    worst = found.filter(is_worse).or(worst);
                }
                worst
            }
            Yardstick::Verdict(verdict, culprit, is_another) => {
                self.verdict(&part, *verdict, culprit.as_ref(), *is_another)?
            }
        };
        Ok(found.map(|found| (found, part)))
    }

    /// What a comparison without a tolerance finds, if it is that.
    fn verdict(
        &self,
        part: &Part,
        verdict: Verdict,
        culprit: Option<&Culprit>,
        is_another: bool,
    ) -> TractResult<Option<TensorFinding>> {
        let found = self.compared(part, ToleranceLimits::default())?;
        if found.judgement.verdict != Some(verdict) {
            return Ok(None);
        }
        let Some(culprit) = culprit else {
            return Ok(Some(TensorFinding::without_tolerance(
                TensorFault::of(verdict, None),
                found.judgement.reason,
                None,
            )));
        };
        let kind = TensorFault::of(verdict, Some(culprit.kind));
        let before = self.finding.as_ref().and_then(|finding| finding.culprit.as_ref());
        let is_it = |other: &Culprit| {
            let is_node = match before {
                Some(before) => other.node == before.node,
                None => is_another,
            };
            let is_like = TensorFault::of(verdict, Some(other.kind)) == kind;
            is_like && (is_node || other.node == culprit.node)
        };
        let told = found.judgement.culprits.into_iter().find(is_it);
        Ok(told.map(|told| TensorFinding::without_tolerance(kind, told.text.clone(), Some(told))))
    }

    /// What a comparison says of the part.
    fn compared(&self, part: &Part, limits: ToleranceLimits) -> TractResult<Compared> {
        let folder = tempfile::tempdir_in(&self.scratch)?;
        write_into(part, folder.path())?;
        let [reference, model] = [REFERENCE, MODEL].map(|name| folder.path().join(name));
        CompareRequest { limits, ..CompareRequest::of(&reference, &model) }.answer(self.loader)
    }

    /// Whether a comparison tells the parts apart as well.
    pub(super) fn holds(&self, part: &Part) -> bool {
        let Yardstick::Tolerance(tolerance) = self.judge else { return true };
        let mut limits = ToleranceLimits::default();
        limits.judge_by(tolerance, &[]);
        self.compared(part, limits).is_ok_and(|found| found.head.status == Status::Failed)
    }
}
