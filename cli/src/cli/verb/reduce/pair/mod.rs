//! A pair of models: the parts of both between which they part.
//!
//! Values are `matched` by what `compare` finds, also where there are `codes` of them alone. A
//! `cause` is a value that the converted model makes wrongly of what is right, and a culprit a node
//! that a comparison without a tolerance blames (`culprits`). Where the part is a node with bodies,
//! `inner` takes it out of them, and Casts at its `ends` go; what is still large gets constants
//! (`folded`). A `trial` tells by a `finding` whether a part shows it.

mod cause;
mod codes;
mod culprits;
mod ends;
mod finding;
mod folded;
mod inner;
mod matched;
mod trial;

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, ensure};
use onnx_cast_graph::ValueId;
use tract_onnx::prelude::*;

use super::case;
use super::hollow::hollowed;
use super::part::Part;
use super::readme::{self, CaseSummary};
use super::reduced::{Reduced, ReducedCase};
use super::shrink::shrunk;
use super::side::{SourceModel, named_nodes, onnx};
use super::simpler::simpler;
use super::trial::{Attempts, PartTrial, Runs};
use super::values::by_name;
use crate::cli::found::compared::Compared;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::verdict::{Judgement, Verdict};
use crate::cli::input::args::InputArgs;
use crate::cli::measure::metrics::compared;
use crate::cli::measure::pairing::pair;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::at;
use crate::cli::output_file::Drafts;
use crate::cli::process::request::Request;
use crate::cli::progress;
use crate::cli::tensor::{NamedTensor, write_tensors};
use crate::cli::verb::compare::{CompareRequest, OpenModels};
use crate::cli::work::model::Loader;
use cause::{CauseSearch, RootCause};
use ends::{PartCut, without_ends, without_sums};
use folded::{Folds, folded};
use matched::{Matched, ModelPair};
use trial::{PairTrial, Yardstick};

/// Reduces a pair. Fails when a model or an input cannot be used, or a case cannot be written.
pub(super) fn reduce(
    loader: &Loader,
    request: &CompareRequest,
    place: &Path,
) -> TractResult<Reduced> {
    let open = OpenModels::open(loader, request)?;
    let sides = open
        .files()
        .iter()
        .map(|file| SourceModel::of_file(loader, file))
        .collect::<TractResult<Vec<_>>>()?;
    let [a, b]: [SourceModel; 2] =
        sides.try_into().map_err(|_| anyhow::anyhow!("two models are asked for"))?;
    let mut reduced = Reduced {
        model: request.converted.display().to_string(),
        reference: Some(request.reference.display().to_string()),
        nodes: b.count(),
        ..Reduced::default()
    };
    let Some((inputs, whole)) = worst_set(&open, (&a, &b), &request.limits, &mut reduced)? else {
        reduced.problem = Some("the outputs of both models agree within the tolerance".into());
        return Ok(reduced);
    };
    drop(open);
    // An interruption removes it.
    let mut drafts = Drafts::default();
    let scratch = drafts.folder_in(&std::env::temp_dir())?;
    let Compared { tensors, outputs, judgement, .. } =
        compare(loader, request, &inputs[0], &scratch)?;
    let is_judged = request.limits.has_tolerance();
    if !is_judged && judgement.verdict.is_some_and(Verdict::passes) {
        reduced.problem = Some(format!("no tolerance was given, and {}", judgement.reason));
        return Ok(reduced);
    }
    // An output is never paired with another value.
    let mut told: Vec<(String, String)> = outputs
        .iter()
        .chain(&tensors)
        .map(|tensor| (tensor.name.clone(), tensor.converted().to_owned()))
        .collect();
    let (b, of_codes) = codes::taken_back(b, &a);
    told.extend(of_codes.keys().map(|name| (name.clone(), name.clone())));
    drop((tensors, outputs));
    progress::tell("recording both models");
    reduced.runs += 4;
    let mut pair = ModelPair::of(a, b, inputs.map(by_name), &told)?;
    pair.added = of_codes.into_values().flatten().collect();
    let reducer = Reducer { loader, request, scratch: &scratch, judgement, is_judged };
    reducer.reduce(pair, whole, place, &mut reduced)?;
    if reduced.cases.is_empty() {
        reduced.problem = Some("the models part as a whole, and no part of them does".into());
    }
    Ok(reduced)
}

/// The set on which the outputs are off the most, and by how much; nothing if they never are.
fn worst_set(
    open: &OpenModels,
    (a, b): (&SourceModel, &SourceModel),
    limits: &ToleranceLimits,
    reduced: &mut Reduced,
) -> TractResult<Option<([Vec<NamedTensor>; 2], f64)>> {
    let mut worst: Option<([Vec<NamedTensor>; 2], f64)> = None;
    for set in 0..open.sets() {
        progress::tell(format_args!("running set {} of {}", set + 1, open.sets()));
        let inputs = open.set(set)?;
        let values = inputs.clone().map(by_name);
        let right = at("the reference", a.run_whole(&values[0]))?;
        let found = at("the converted model", b.run_whole(&values[1]))?;
        reduced.runs += 2;
        reduced.of_sets += if set > 0 { 2 } else { 0 };
        let error = off(&right, &found, limits)?;
        if error > worst.as_ref().map_or(0.0, |(_, most)| *most) {
            worst = Some((inputs, error));
        }
    }
    Ok(worst)
}

/// How far outputs are off; 0 if all pass.
fn off(right: &[NamedTensor], found: &[NamedTensor], limits: &ToleranceLimits) -> TractResult<f64> {
    let mut worst = 0f64;
    for (x, y) in pair(right, found)?.of(right, found) {
        worst = worst.max(compared(x, y, limits.output(&x.name))?.excess());
    }
    Ok(worst)
}

/// What a comparison of everything inside finds on one set.
fn compare(
    loader: &Loader,
    request: &CompareRequest,
    inputs: &[NamedTensor],
    scratch: &Path,
) -> TractResult<Compared> {
    let folder = scratch.join("inputs");
    std::fs::create_dir(&folder)?;
    write_tensors(inputs, "input_", &folder)?;
    let folder = folder.to_str().context("a temporary folder whose name is not UTF-8")?.to_owned();
    let input = InputArgs {
        inputs: if inputs.is_empty() { vec![] } else { vec![folder] },
        ..InputArgs::default()
    };
    let pair = CompareRequest::of(&request.reference, &request.converted);
    CompareRequest { input, limits: request.limits.clone(), all_tensors: true, ..pair }
        .answer(loader)
}

/// The causes that were found.
struct FoundCauses {
    causes: Vec<RootCause>,
    /// How far the outputs are off once they are right.
    left: f64,
    /// How many nodes the largest part has.
    nodes: usize,
    /// The nodes of all parts.
    names: HashSet<String>,
}

/// A part of no more nodes is small.
const FEW: usize = 3;

struct Reducer<'a> {
    loader: &'a Loader,
    request: &'a CompareRequest,
    scratch: &'a Path,
    /// What a comparison without a tolerance says of the whole models.
    judgement: Judgement,
    /// Whether a tolerance was given.
    is_judged: bool,
}

impl Reducer<'_> {
    /// Writes the cases of a pair, the first into the place and the others below it.
    fn reduce(
        &self,
        mut pair: ModelPair,
        whole: f64,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<()> {
        let found = if self.is_judged { self.found(&mut pair, whole, reduced) } else { None };
        let among = found.as_ref().map(|found| &found.names);
        if found.as_ref().is_none_or(|found| found.nodes > FEW)
            && self.of_culprits(&mut pair, among, place, reduced)?
        {
            return Ok(());
        }
        let causes = match found {
            Some(found) => found.causes,
            None => {
                let Ok(cause) = self.halved(&pair, reduced) else { return Ok(()) };
                reduced.notes.push(
                    "no single place makes the error: what is left is where it adds up".into(),
                );
                vec![cause]
            }
        };
        for (number, cause) in causes.iter().enumerate() {
            let case = self.written(&pair, cause, &numbered(place, number), reduced)?;
            reduced.cases.extend(case);
        }
        Ok(())
    }

    /// The causes as values are paired best.
    fn found(
        &self,
        pair: &mut ModelPair,
        whole: f64,
        reduced: &mut Reduced,
    ) -> Option<FoundCauses> {
        let found = self.causes(pair, whole, reduced);
        let is_found = |found: &FoundCauses| found.left == 0.0 && found.nodes <= FEW;
        if found.as_ref().is_some_and(is_found)
            || Runs::to_search(reduced.counted(), reduced.nodes) == 0
        {
            return found;
        }
        // Values that are alike by accident may have misled the pairing.
        let told = pair.matched.clone();
        pair.pair_by_name();
        let by_name = self.causes(pair, whole, reduced);
        let rank = |found: &FoundCauses| (found.left, found.nodes);
        let is_better = by_name.as_ref().map(rank) < found.as_ref().map(rank);
        if by_name.is_some() && (found.is_none() || is_better) {
            return by_name;
        }
        pair.matched = told;
        found
    }

    /// The causes as values are paired now; nothing where there are none.
    fn causes(&self, pair: &ModelPair, whole: f64, reduced: &mut Reduced) -> Option<FoundCauses> {
        let most = Runs::to_search(reduced.counted(), reduced.nodes);
        let mut search = CauseSearch { pair, limits: &self.request.limits, runs: 0, most };
        let causes = search.causes(whole);
        reduced.runs += search.runs;
        // Parts that cannot be run are paired wrongly.
        let (causes, left) = causes.ok().filter(|(causes, _)| !causes.is_empty())?;
        let parts = causes.iter().map(|cause| pair.part(&cause.end, &cause.inside).ok());
        let parts: Vec<Option<Part>> = parts.collect();
        let size = |part: &Option<Part>| part.as_ref().map_or(usize::MAX, Part::outer_nodes);
        let nodes = parts.iter().map(size).max()?;
        let named = parts.iter().flatten().flat_map(|part| named_nodes(&part.model));
        let names = named.map(|(name, _)| name).collect();
        Some(FoundCauses { causes, left, nodes, names })
    }

    /// The tolerance of a part's output.
    fn tolerance(&self, pair: &ModelPair, end: &Matched) -> TractResult<Tolerance> {
        let name = pair.value(end)?.name.clone();
        let is_output = pair.reference.outputs().contains(&end.reference);
        let limits = &self.request.limits;
        Ok(if is_output { limits.output(&name) } else { limits.inner() })
    }

    fn trial(
        &self,
        pair: &ModelPair,
        cause: &RootCause,
        (runs, nodes): (usize, usize),
    ) -> TractResult<PairTrial<'_>> {
        let verdict = self.judgement.verdict.unwrap_or(Verdict::Broken);
        let judge = match &cause.culprit {
            Some(culprit) => Yardstick::Verdict(verdict, Some(culprit.clone()), cause.is_another),
            None if self.is_judged => Yardstick::Tolerance(self.tolerance(pair, &cause.end)?),
            None => Yardstick::Verdict(verdict, None, false),
        };
        Ok(PairTrial {
            loader: self.loader,
            onnx: onnx(self.loader),
            judge,
            scratch: self.scratch.to_path_buf(),
            finding: None,
            blamed: cause.blamed.clone(),
            runs: Runs::after(runs, nodes),
        })
    }

    /// Where the error comes from no single place: what is made behind a place as late as can be.
    fn halved(&self, pair: &ModelPair, reduced: &mut Reduced) -> TractResult<RootCause> {
        let search = CauseSearch { pair, limits: &self.request.limits, runs: 0, most: 0 };
        let made = pair.converted.run_whole(&pair.inputs[1])?;
        let (_, end) = search.worst_output(made)?.context("no output is paired")?;
        let inner: Vec<ValueId> =
            pair.matched.iter().filter(|m| pair.is_made(m)).map(|m| m.reference).collect();
        let cause = |from: usize| RootCause {
            inside: inner.iter().skip(from).copied().collect::<HashSet<_>>(),
            ..RootCause::at(&end)
        };
        let before = before(reduced);
        let mut trial = self.trial(pair, &cause(0), (before, reduced.nodes))?;
        let (mut shown, mut not) = (0, inner.len());
        let whole = trial.shown(pair.part(&end, &cause(0).inside)?)?;
        ensure!(whole.is_some(), "the models part as a whole, and not run node by node");
        while shown + 1 < not && trial.runs.left() > Runs::TO_SHRINK {
            let half = (shown + not) / 2;
            let part = pair.part(&end, &cause(half).inside);
            let is_shown = match part {
                Ok(part) => trial.shown(part)?.is_some(),
                Err(_) => false,
            };
            if is_shown { shown = half } else { not = half }
        }
        reduced.runs += trial.runs.made - before;
        Ok(cause(shown))
    }

    /// Writes the case of a cause, smaller and smaller.
    fn written(
        &self,
        pair: &ModelPair,
        cause: &RootCause,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        let before = before(reduced);
        let mut trial = self.trial(pair, cause, (before, reduced.nodes))?;
        let shown = trial.shown(pair.part(&cause.end, &cause.inside)?)?;
        reduced.runs += 1;
        let (Some(part), Some(finding)) = (shown, trial.finding.clone()) else { return Ok(None) };
        let culprits = finding.culprit.iter().chain(&cause.culprit);
        let culprits: Vec<String> = culprits.map(|culprit| culprit.node.clone()).collect();
        let mut kept = culprits.clone();
        kept.extend(cause.blamed.clone());
        let onnx = onnx(self.loader);
        let attempts = &mut Attempts { trial: &mut trial, save: &|_| Ok(()) };
        let fewer = without_ends(part.clone(), &kept, &onnx, attempts)?;
        if let Some(case) = self.inside(&fewer, cause, place, reduced)? {
            return Ok(Some(case));
        }
        let value = pair.value(&cause.end)?;
        let maker = pair.converted.graph.maker(cause.end.converted);
        let end = maker.map(|id| pair.converted.graph.node(id));
        let node =
            kept.into_iter().next().or_else(|| end.map(|node| node.shared_label().to_string()));
        let node = node.unwrap_or_default();
        let op = named_nodes(&part.model).into_iter().find(|(name, _)| *name == node);
        let op = op.map_or(String::new(), |(_, op)| op);
        let (kind, words) = (finding.kind, finding.text);
        let told = if op.is_empty() { String::new() } else { format!(" ({op})") };
        let sentence = format!("`{node}`{told} {kind}: `{}`, {words}", value.name);
        let summary = CaseSummary {
            models: vec![
                self.request.reference.display().to_string(),
                self.request.converted.display().to_string(),
            ],
            nodes: reduced.nodes,
            finding: sentence.clone(),
            how: match trial.judge {
                Yardstick::Tolerance(tolerance) => readme::options(tolerance),
                Yardstick::Verdict(..) => String::new(),
            },
            is_pair: true,
        };
        let write = |part: &Part| case::write(part, &readme::text(&summary, part), place);
        let part = smallest(part, fewer, &culprits, &mut trial, &write)?;
        reduced.runs += trial.runs.made - before - 1;
        Ok(Some(ReducedCase {
            folder: place.display().to_string(),
            node,
            op,
            kind: kind.name().into(),
            finding: sentence,
            left: named_nodes(&part.model),
            inputs: part.inputs.len(),
            bytes: case::size_of(place),
        }))
    }
}

/// The part of fewer nodes with smaller shapes and simpler values, written; the part itself where
/// that does not hold.
fn smallest(
    part: Part,
    fewer: Part,
    culprits: &[String],
    trial: &mut PairTrial,
    write: &dyn Fn(&Part) -> TractResult<()>,
) -> TractResult<Part> {
    write(&fewer)?;
    // Constants are right for the last values alone, so they come last, and runs are kept for them.
    let onnx = &trial.onnx.clone();
    let [fixed, coded] = [Folds::Fixed, Folds::Quantizers]
        .map(|folds| move |part: &Part| folded(part, culprits, folds, onnx));
    let sums = |part: &Part| without_sums(part, culprits);
    let ways: [&PartCut; 3] = [&fixed, &coded, &sums];
    let kept = if culprits.is_empty() || fewer.nodes() <= FEW { 0 } else { ways.len() };
    trial.runs.most -= kept;
    let attempts = &mut Attempts { trial, save: write };
    let fewer = hollowed(fewer, onnx, attempts)?;
    let mut smaller = simpler(shrunk(fewer, attempts)?, attempts)?;
    trial.runs.most += kept;
    for fewer in ways.into_iter().take(kept) {
        // What cannot be folded stays.
        let fewer = fewer(&smaller).ok().flatten().filter(|_| smaller.nodes() > FEW);
        if let Some(fewer) = fewer {
            let attempts = &mut Attempts { trial, save: write };
            smaller = attempts.shown(fewer)?.unwrap_or(smaller);
        }
    }
    // A comparison is to fail as well, by the engine that was asked for.
    if trial.holds(&smaller) {
        return Ok(smaller);
    }
    write(&part)?;
    Ok(part)
}

/// What was run for the case that is next, which leaves some to be run.
fn before(reduced: &Reduced) -> usize {
    let most = Runs::of(reduced.nodes).most.saturating_sub(Runs::TO_SHRINK);
    if reduced.cases.is_empty() { reduced.counted().min(most) } else { 0 }
}

/// Whether no more is left to be run for the first case.
fn is_spent(reduced: &Reduced) -> bool {
    let most = Runs::of(reduced.nodes).most;
    reduced.cases.is_empty() && reduced.counted() + Runs::TO_SHRINK > most
}

/// Where the cases after the first are.
fn numbered(place: &Path, number: usize) -> std::path::PathBuf {
    match number {
        0 => place.to_path_buf(),
        _ => place.join((number + 1).to_string()),
    }
}
