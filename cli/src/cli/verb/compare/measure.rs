//! The third stage: how far outputs, saved tensors, weights and inner tensors are apart, a set of
//! inputs at a time.

use anyhow::ensure;
use tract_onnx::prelude::*;
use tract_onnx_cast::Family;
use tract_onnx_cast::audit::AuditRow;

use super::by_sample::CompareSamples;
use super::divergence::Growth;
use super::dumped::Dumped;
use super::inner::Inner;
use super::inner::bodies::spread;
use super::inner::inside::Inside;
use super::local::{Grounds, Local, Subject, judge};
use super::open::{CompareRequest, LoadedModel, Sides};
use super::pair::Paired;
use super::runner::Runner;
use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::coverage::Unexercised;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::look::OperatorNumbers;
use crate::cli::found::samples::SampleResult;
use crate::cli::found::verdict::{Judgement, Verdict};
use crate::cli::found::weights::ComparedWeights;
use crate::cli::measure::metrics::OutputMetrics;
use crate::cli::measure::pairing::pair;
use crate::cli::measure::scores::Scores;
use crate::cli::message::{ProblemKind, ReportedProblem, add_once, at, names, one_line};
use crate::cli::tensor::NamedTensor;
use crate::cli::work::main_graph::MainGraph;
use crate::cli::work::watched::unexercised;
use crate::cli::work::weights::Weights;
use crate::cli::work::weights::exercise::Exercise;

/// What was measured.
pub(super) struct Measured {
    /// How many sets there were.
    pub(super) sets: usize,
    pub(super) outputs: Vec<ComparedTensor>,
    /// Inner tensors that somebody has saved.
    pub(super) saved: Vec<ComparedTensor>,
    /// Tensors inside two models, where somebody wants to know, or outputs fail.
    pub(super) inner: Option<Inner>,
    pub(super) weights: Option<ComparedWeights>,
    /// What the casts of the converted model did.
    pub(super) rows: Vec<AuditRow>,
    pub(super) unexercised: Vec<Unexercised>,
    pub(super) judgement: Judgement,
    pub(super) notes: Vec<String>,
    pub(super) samples: Vec<SampleResult>,
    /// The numbers that the reference's operators were given, where inputs were chosen.
    pub(super) operators: Vec<OperatorNumbers>,
}

impl Measured {
    /// Whether an output or a saved tensor is beyond its tolerance.
    pub(super) fn failed(&self) -> bool {
        self.outputs.iter().chain(&self.saved).any(|tensor| !tensor.passed)
    }
}

impl Measured {
    /// Judges the weights.
    fn add_weights(
        &mut self,
        request: &CompareRequest,
        weights: Option<Weights>,
        exercise: Option<&Exercise>,
    ) {
        let Some(mut weights) = weights else { return };
        self.notes.append(&mut weights.notes);
        // Without a tolerance it is told node by node whether a weight of other values is right.
        let is_by_tolerance = request.limits.has_tolerance() || !request.has_verdict;
        let shows = self.failed() && is_by_tolerance;
        self.weights = Some(weights.judged(exercise, Some(shows)));
    }

    /// Makes the verdict, by which a comparison passes that no tolerance judges.
    fn judge(&mut self, request: &CompareRequest, sides: &Sides, local: Result<Local, String>) {
        if let (Ok(local), Some(weights)) = (&local, &mut self.weights) {
            weights.excuse(&local.moved);
            let before = weights.changed.len();
            weights.changed.retain(|weight| {
                !weight.graph.is_empty() || !local.strangers.contains(&weight.name)
            });
            weights.compared -= before - weights.changed.len();
        }
        let weights = self.weights.as_ref().map_or(&[][..], |weights| &weights.changed);
        self.judgement = judge(Grounds {
            outputs: &self.outputs,
            saved: &self.saved,
            weights,
            is_computed: sides.saved_of().is_some() || sides.reference.model.is_some(),
            local,
            limits: &request.limits,
        });
        let passes = self.judgement.verdict.is_some_and(Verdict::passes);
        if passes && !request.limits.has_tolerance() {
            for tensor in self.outputs.iter_mut().chain(&mut self.saved) {
                (tensor.passed, tensor.mismatches, tensor.why) = (true, 0, None);
            }
            for sample in &mut self.samples {
                (sample.passed, sample.mismatches) = (true, 0);
            }
        }
    }

    /// Keeps what inner tensors have shown, if somebody wants to know.
    fn add_inner(&mut self, inner: TractResult<Inner>, [reference, converted]: [&LoadedModel; 2]) {
        match at("the inner tensors", inner) {
            Ok(mut inner) => {
                let of_reference = spread(&reference.probed.proto);
                let spread = spread(&converted.probed.proto);
                let of_reference = Some(MainGraph::of(&of_reference));
                let all = inner.tensors.iter().chain(&self.outputs);
                let growth = Growth::of(MainGraph::of(&spread), of_reference, all, &self.outputs);
                let unlike = growth.unlike();
                inner.tensors.retain(|tensor| !unlike.contains(&tensor.name));
                self.inner = Some(inner);
            }
            Err(error) => self.notes.push(one_line(&error)),
        }
    }
}

/// Runs both sides, and measures. Fails when a side cannot be run, or the outputs have nothing in
/// common.
pub(super) fn measure(
    request: &CompareRequest,
    sides: &Sides,
    paired: Paired,
) -> TractResult<Measured> {
    let (sets, mut notes) = (sides.count()?, sides.notes.clone());
    let [further_a, further_b] = paired.further;
    let reference = Runner::of(&sides.reference, further_a, &mut notes)?;
    let mut reference = reference.looking(&sides.reference_sets);
    let mut converted = Runner::of(&sides.converted, further_b, &mut notes)?;
    let mut metrics = OutputMetrics::default();
    let (mut dumped, limits) = (Dumped::of(sides), &request.limits);
    let (mut samples, mut scores) = (CompareSamples::of(sides, sets), Scores::default());
    let subject = Subject::of(request, sides, paired.weights.as_ref());
    let mut inside = Inside::of(request, &subject);
    for place in 0..sets {
        let a = reference.outputs(place, &sides.reference_sets, &mut notes)?;
        let b = converted.outputs(place, &sides.converted_sets, &mut notes)?;
        let (a, b) = dumped.add(a, b, limits, &mut notes)?;
        let pairs = pair(&a, &b)?;
        add_once(&mut notes, pairs.note.clone());
        let outputs = pairs.of(&a, &b);
        if place == 0 {
            notes.extend(outputs.iter().filter_map(|(a, b)| other_type(a, b)));
        }
        metrics.add(&outputs, |name| limits.output(name))?;
        samples.add(place, &outputs, limits)?;
        let tokens = sides.tokens(place);
        for (a, b) in &outputs {
            scores.add(a, b, tokens.as_deref())?;
        }
        if inside.is_wanted(&outputs, metrics.may_fail()) {
            inside.add(place, (&mut reference, &mut converted), &outputs)?;
        }
    }
    let rows = converted.rows();
    let mut outputs = known(metrics.finish(), limits)?;
    scores.put(&mut outputs);
    let mut measured = Measured {
        sets,
        outputs,
        saved: dumped.finish(),
        inner: None,
        weights: None,
        unexercised: unexercised(converted.exercise(), &rows),
        rows,
        judgement: Judgement::default(),
        notes,
        samples: samples.finish(),
        operators: reference.seen(),
    };
    measured.add_weights(request, paired.weights, converted.exercise());
    drop((reference, converted));
    if request.has_verdict {
        let changed = measured.weights.as_ref().map_or(&[][..], |weights| &weights.changed);
        let is_same = measured.outputs.iter().chain(&measured.saved).all(|tensor| tensor.identical);
        let local = inside.local(changed, is_same)?;
        measured.judge(request, sides, local);
    }
    if (request.all_tensors || measured.failed())
        && let Some(both) = sides.models().filter(|_| inside.is_of_models())
    {
        measured.add_inner(inside.inner(), both);
    }
    Ok(measured)
}

/// A note on an output that is of another type on both sides.
fn other_type(a: &NamedTensor, b: &NamedTensor) -> Option<String> {
    let is_text = |output: &NamedTensor| output.ty.family() == Family::Text;
    (a.ty != b.ty && !is_text(a) && !is_text(b)).then(|| {
        format!(
            "output `{}` is {} in the reference and {} converted: their values are compared",
            a.name, a.ty, b.ty
        )
    })
}

/// The outputs, if there are any, and no tolerance is for another one.
fn known(
    outputs: Vec<ComparedTensor>,
    limits: &ToleranceLimits,
) -> TractResult<Vec<ComparedTensor>> {
    ensure!(!outputs.is_empty(), "there are no outputs to compare");
    let known: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
    if let Some(name) = limits.unknown_outputs(&known).next() {
        let outputs = names(known.iter().copied());
        let message = format!("there is a tolerance for `{name}`; the outputs: {outputs}");
        return Err(ReportedProblem { kind: ProblemKind::Call, message }.into());
    }
    Ok(outputs)
}
