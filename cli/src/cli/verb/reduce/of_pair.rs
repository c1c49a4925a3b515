//! A pair of models: the parts of both between which they part.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, ensure};
use onnx_cast_graph::ValueId;
use tract_onnx::prelude::*;

use super::case::{self, MODEL, REFERENCE, write_into, write_tensors};
use super::cause::{Cause, Search};
use super::finding::{Kind, compared, error_of};
use super::matched::{Matched, Pair};
use super::part::Part;
use super::readme::{self, Told};
use super::request::{Reduced, ReducedCase};
use super::shrink::shrunk;
use super::side::{Side, named_nodes, onnx};
use super::trial::{PairTrial, Runs, Trial};
use super::values::by_name;
use crate::cli::args::input::{InputArgs, SearchArgs};
use crate::cli::found::compared::Compared;
use crate::cli::found::limits::Limits;
use crate::cli::found::status::Status;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::at;
use crate::cli::output_file::Drafts;
use crate::cli::process::progress;
use crate::cli::process::request::Request;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::{CompareRequest, OpenModels};
use crate::cli::work::model::Loader;

/// Reduces a pair.
///
/// # Errors
///
/// When a model or an input cannot be used, or a case cannot be written.
pub(super) fn reduce(
    loader: &Loader,
    request: &CompareRequest,
    place: &Path,
) -> TractResult<Reduced> {
    let open = OpenModels::open(loader, request)?;
    let sides =
        open.files().iter().map(|file| side(loader, file)).collect::<TractResult<Vec<_>>>()?;
    let [a, b]: [Side; 2] =
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
    let found = compare(loader, request, &inputs[0], &scratch)?;
    let of = |values: Vec<NamedTensor>| by_name(values);
    let tensors = found.tensors.iter().chain(&found.outputs).cloned().collect::<Vec<_>>();
    drop(found);
    progress::tell("recording both models");
    let inputs = inputs.map(of);
    reduced.runs += 4;
    let pair = Pair::of(a, b, inputs, &tensors)?;
    let reducer = Reducer { loader, request, place, scratch: &scratch };
    reducer.reduce(pair, whole, &mut reduced)?;
    Ok(reduced)
}

fn side(loader: &Loader, file: &Path) -> TractResult<Side> {
    let proto = loader.read(file)?;
    let folder = file.parent().map(Path::to_path_buf);
    at(file.display(), Side::of(onnx(loader), proto, folder))
}

/// The set on which the outputs are off the most, and by how much; nothing if they never are.
fn worst_set(
    open: &OpenModels,
    (a, b): (&Side, &Side),
    limits: &Limits,
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
        let error = off(&right, &found, limits)?;
        if error > worst.as_ref().map_or(0.0, |(_, most)| *most) {
            worst = Some((inputs, error));
        }
    }
    Ok(worst)
}

/// How far outputs are off; 0 if all pass.
fn off(right: &[NamedTensor], found: &[NamedTensor], limits: &Limits) -> TractResult<f64> {
    let pairs = crate::cli::measure::pairing::pair(right, found)?;
    let mut worst = 0f64;
    for (x, y) in pairs.places {
        let (Some(x), Some(y)) = (right.get(x), found.get(y)) else { continue };
        let tensor = compared(x, y, limits.output(&x.name))?;
        worst = worst.max(if tensor.passed { 0.0 } else { error_of(&tensor) });
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
    CompareRequest {
        reference: request.reference.clone(),
        converted: request.converted.clone(),
        input,
        limits: request.limits.clone(),
        limits_file: None,
        all_tensors: true,
        graph: None,
        is_strict: false,
        search: SearchArgs::none(),
        samples: None,
    }
    .answer(loader)
}

/// The causes that were found.
struct Found {
    causes: Vec<Cause>,
    /// How far the outputs are off once they are right.
    left: f64,
    /// How many nodes the largest part has.
    nodes: usize,
}

/// A part of no more nodes is small.
const FEW: usize = 3;

struct Reducer<'a> {
    loader: &'a Loader,
    request: &'a CompareRequest,
    place: &'a Path,
    scratch: &'a Path,
}

impl Reducer<'_> {
    fn reduce(&self, mut pair: Pair, whole: f64, reduced: &mut Reduced) -> TractResult<()> {
        let mut found = self.causes(&pair, whole, reduced);
        if found.as_ref().is_none_or(|found| found.left > 0.0 || found.nodes > FEW) {
            // Values that are alike by accident may have misled the pairing.
            let told = pair.matched.clone();
            pair.pair_by_name();
            let by_name = self.causes(&pair, whole, reduced);
            let rank = |found: &Found| (found.left, found.nodes);
            if by_name.as_ref().map(rank) < found.as_ref().map(rank) && by_name.is_some()
                || found.is_none()
            {
                found = by_name;
            } else {
                pair.matched = told;
            }
        }
        let causes = match found {
            Some(found) => found.causes,
            None => {
                reduced.notes.push(
                    "no single place makes the error: what is left is where it adds up".into(),
                );
                vec![self.halved(&pair, reduced)?]
            }
        };
        for (number, cause) in causes.iter().enumerate() {
            let place = match number {
                0 => self.place.to_path_buf(),
                _ => self.place.join((number + 1).to_string()),
            };
            let case = self.written(&pair, cause, &place, reduced)?;
            reduced.cases.extend(case);
        }
        if reduced.cases.is_empty() {
            reduced.problem = Some("the models part as a whole, and no part of them does".into());
        }
        Ok(())
    }

    /// The causes as values are paired now; nothing where there are none.
    fn causes(&self, pair: &Pair, whole: f64, reduced: &mut Reduced) -> Option<Found> {
        let mut search = Search { pair, limits: &self.request.limits, runs: 0 };
        let causes = search.causes(whole);
        reduced.runs += search.runs;
        // Parts that cannot be run are paired wrongly.
        let (causes, left) = causes.ok().filter(|(causes, _)| !causes.is_empty())?;
        let parts = causes.iter().map(|cause| pair.part(&cause.end, &cause.inside));
        let nodes = parts.map(|part| part.map_or(usize::MAX, |part| part.nodes())).max()?;
        Some(Found { causes, left, nodes })
    }

    /// The tolerance of a part's output.
    fn tolerance(&self, pair: &Pair, end: &Matched) -> TractResult<Tolerance> {
        let name = pair.value(end)?.name.clone();
        let is_output = pair.reference.outputs().contains(&end.reference);
        let limits = &self.request.limits;
        Ok(if is_output { limits.output(&name) } else { limits.inner() })
    }

    fn trial(&self, pair: &Pair, cause: &Cause) -> TractResult<PairTrial> {
        Ok(PairTrial {
            onnx: onnx(self.loader),
            tolerance: self.tolerance(pair, &cause.end)?,
            finding: None,
            blamed: cause.blamed.clone(),
            runs: Runs::of(pair.converted.count()),
        })
    }

    /// Where the error comes from no single place: what is made behind a place as late as can be.
    fn halved(&self, pair: &Pair, reduced: &mut Reduced) -> TractResult<Cause> {
        let search = Search { pair, limits: &self.request.limits, runs: 0 };
        let made = pair.converted.run_whole(&pair.inputs[1])?;
        let (_, end) = search.worst_output(made)?.context("no output is paired")?;
        let inner: Vec<ValueId> =
            pair.matched.iter().filter(|m| pair.is_made(m)).map(|m| m.reference).collect();
        let cause = |from: usize| Cause {
            end: end.clone(),
            inside: inner.iter().skip(from).copied().collect::<HashSet<_>>(),
            blamed: None,
        };
        let mut trial = self.trial(pair, &cause(0))?;
        let (mut shown, mut not) = (0, inner.len());
        let whole = trial.shown(pair.part(&end, &cause(0).inside)?)?;
        ensure!(whole.is_some(), "the models part as a whole, and not run node by node");
        while shown + 1 < not && trial.runs.left() > 0 {
            let half = (shown + not) / 2;
            let part = pair.part(&end, &cause(half).inside);
            let is_shown = match part {
                Ok(part) => trial.shown(part)?.is_some(),
                Err(_) => false,
            };
            if is_shown { shown = half } else { not = half }
        }
        reduced.runs += trial.runs.made;
        Ok(cause(shown))
    }

    /// Writes the case of a cause, smaller and smaller.
    fn written(
        &self,
        pair: &Pair,
        cause: &Cause,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        let mut trial = self.trial(pair, cause)?;
        let shown = trial.shown(pair.part(&cause.end, &cause.inside)?)?;
        let (Some(mut part), Some(finding)) = (shown, trial.finding.clone()) else {
            reduced.runs += trial.runs.made;
            return Ok(None);
        };
        let value = pair.value(&cause.end)?;
        let maker = pair.converted.graph.maker(cause.end.converted);
        let end = maker.map(|id| pair.converted.graph.node(id));
        let node = cause.blamed.clone();
        let node = node.or_else(|| end.map(|node| node.shared_label().to_string()));
        let node = node.unwrap_or_default();
        let op = named_nodes(&part.model).into_iter().find(|(name, _)| *name == node);
        let op = op.map_or(String::new(), |(_, op)| op);
        let (kind, words) = (finding.kind, finding.text);
        let sentence = format!("`{node}` ({op}) {kind}: `{}`, {words}", value.name);
        let told = Told {
            models: vec![
                self.request.reference.display().to_string(),
                self.request.converted.display().to_string(),
            ],
            nodes: pair.converted.count(),
            finding: sentence.clone(),
            how: readme::options(trial.tolerance),
            is_pair: true,
        };
        let tolerance = trial.tolerance;
        let write = |part: &Part| case::write(part, &readme::text(&told, part), place);
        write(&part)?;
        let smaller = shrunk(part.clone(), &mut trial, &mut |part| write(part))?;
        // What runs node by node is to hold where a plan runs as well.
        if self.holds(&smaller, tolerance)? {
            part = smaller;
        } else {
            write(&part)?;
        }
        reduced.runs += trial.runs.made;
        Ok(Some(ReducedCase {
            folder: place.display().to_string(),
            node,
            op,
            kind: name_of(kind).into(),
            finding: sentence,
            left: named_nodes(&part.model),
            inputs: part.inputs.len(),
            bytes: case::size_of(place),
        }))
    }

    /// Whether a comparison tells the parts of both models apart.
    fn holds(&self, part: &Part, tolerance: Tolerance) -> TractResult<bool> {
        let folder = tempfile::tempdir_in(self.scratch)?;
        write_into(part, folder.path())?;
        let mut limits = Limits::default();
        limits.judge_by(tolerance, &[]);
        let request = CompareRequest {
            reference: folder.path().join(REFERENCE),
            converted: folder.path().join(MODEL),
            input: InputArgs::default(),
            limits,
            limits_file: None,
            all_tensors: false,
            graph: None,
            is_strict: false,
            search: SearchArgs::none(),
            samples: None,
        };
        Ok(request.answer(self.loader).is_ok_and(|found| found.head.status == Status::Failed))
    }
}

/// What a kind is called in JSON.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Shape => "shape",
        Kind::Overflow => "overflow",
        Kind::Nan => "nan",
        Kind::Beyond => "tolerance",
    }
}
