//! One model that a command fails on: the part that it still fails on.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::CastOnnx;

use super::case::{self, SET};
use super::hollow::hollowed;
use super::one::{CheckTrial, CheckedModel};
use super::part::Part;
use super::readme::{self, CaseSummary};
use super::reduced::{Reduced, ReducedCase};
use super::shrink::shrunk;
use super::side::{SourceModel, named_nodes, onnx};
use super::simpler::simpler;
use super::trial::{Attempts, Runs};
use super::values::{Values, by_name};
use crate::cli::input::args::InputArgs;
use crate::cli::input::saved::{self, Content};
use crate::cli::input::sets::{self, Set};
use crate::cli::message::one_line;
use crate::cli::output_file::Drafts;
use crate::cli::process::command::{Check, Ended};
use crate::cli::progress;
use crate::cli::tensor::{NamedTensor, write_tensors};
use crate::cli::work::engine::Engine;
use crate::cli::work::model::{Loader, Model};

/// A model that a command fails on.
#[derive(Serialize, Deserialize)]
pub(super) struct OneRequest {
    pub(super) model: PathBuf,
    pub(super) input: InputArgs,
    pub(super) check: Check,
}

/// Reduces a model.
/// Fails when the model, an input or the command cannot be used, or a case cannot be written.
pub(super) fn reduce(loader: &Loader, request: &OneRequest, place: &Path) -> TractResult<Reduced> {
    let Content::Model(file, cases) = saved::read(&request.model)? else {
        anyhow::bail!("holds saved outputs, not a model");
    };
    // An interruption removes it.
    let mut drafts = Drafts::default();
    let scratch = drafts.folder_in(&std::env::temp_dir())?;
    let mut reduced = Reduced { model: request.model.display().to_string(), ..Reduced::default() };
    let model = loader.by(Engine::Nodes, None).open(&file)?;
    let sets = sets_of(loader, &model, &file, request, &cases)?;
    let Some((inputs, whole)) = failing(request, &file, (&model, &sets), &scratch)? else {
        reduced.runs = sets.len();
        reduced.problem = Some("the command does not fail on the whole model".into());
        return Ok(reduced);
    };
    drop(model);
    let side = SourceModel::of_file(loader, &file)?;
    reduced.nodes = side.count();
    progress::tell("recording the model");
    let (recorded, ran) = side.record(&by_name(inputs));
    reduced.notes.extend(ran.as_ref().err().map(|error| {
        let reason = one_line(error);
        format!(
            "the model cannot be run to its end here, so parts are cut only before that: {reason}"
        )
    }));
    let runs_here = ran.is_ok();
    let onnx = onnx(loader);
    let scratch = scratch.join("part");
    std::fs::create_dir(&scratch)?;
    let seconds = request.check.seconds.or(Some(CheckTrial::seconds(whole.took)));
    let check = Check { seconds, ..request.check.clone() };
    let runs = Runs::of(reduced.nodes);
    let held = runs_here.then(|| onnx.clone());
    let mut trial = CheckTrial { check: &check, whole, scratch, runs, onnx: held };
    search(&CheckedModel::of(side, recorded), onnx, &mut trial, place, &mut reduced)?;
    reduced.runs = trial.runs.made + 1;
    Ok(reduced)
}

/// Looks for the smallest part, and writes each that is smaller.
fn search(
    one: &CheckedModel,
    onnx: CastOnnx,
    trial: &mut CheckTrial,
    place: &Path,
    reduced: &mut Reduced,
) -> TractResult<()> {
    let finding = format!("the command {}", trial.whole.end.in_words());
    let runs_here = trial.onnx.is_some();
    let summary = CaseSummary {
        models: vec![reduced.model.clone()],
        nodes: reduced.nodes,
        finding: finding.clone(),
        how: trial.check.command.clone(),
        is_pair: false,
    };
    let write = |part: &Part| case::write(part, &readme::text(&summary, part), place);
    let mut attempts = Attempts { trial, save: &write };
    let Some(part) = one.reduced(&mut attempts)? else {
        reduced.problem = Some(
            "the command fails on the model's file, and not on the same graph written anew".into(),
        );
        return Ok(());
    };
    let part = if runs_here { part } else { recorded_anew(part, &onnx, &mut attempts)? };
    let part = if runs_here {
        let part = opened(part, &onnx, &mut attempts)?;
        hollowed(part, &onnx, &mut attempts)?
    } else {
        part
    };
    let part = shrunk(part, &mut attempts)?;
    let part = simpler(part, &mut attempts)?;
    reduced.cases.push(case_of(&part, place, readme::of_command(&finding, &part)));
    Ok(())
}

/// What is left of a part, which may run to its end where the whole does not.
fn recorded_anew(part: Part, onnx: &CastOnnx, attempts: &mut Attempts) -> TractResult<Part> {
    let side = SourceModel::of(onnx.clone(), part.model.clone(), None)?;
    let (values, ran) = side.record(&by_name(part.inputs.clone()));
    if ran.is_err() {
        return Ok(part);
    }
    Ok(CheckedModel::of(side, values).reduced(attempts)?.unwrap_or(part))
}

/// The part taken out of the bodies that it is in, as long as the command fails on what a body does
/// one of the first times or the last.
fn opened(mut part: Part, onnx: &CastOnnx, attempts: &mut Attempts) -> TractResult<Part> {
    const TIMES: usize = 2;
    loop {
        let side = SourceModel::of(onnx.clone(), part.model.clone(), None)?;
        // A part whose bodies cannot be looked into is left as it is.
        let bodies = side.bodies(&by_name(part.inputs.clone())).unwrap_or_default();
        let mut inner = None;
        for body in &bodies {
            let last = body.times.get(TIMES..).and_then(<[Values]>::last);
            for values in body.times.iter().take(TIMES).chain(last) {
                let Ok(Some(opened)) = side.opened(body.body, values) else { continue };
                inner = CheckedModel::of(opened, values.clone()).reduced(attempts)?;
                if inner.is_some() {
                    break;
                }
            }
            if inner.is_some() {
                break;
            }
        }
        match inner {
            Some(inner) => part = inner,
            None => return Ok(part),
        }
    }
}

fn case_of(part: &Part, place: &Path, finding: String) -> ReducedCase {
    let left = named_nodes(&part.model);
    let (node, op) = left.last().cloned().unwrap_or_default();
    ReducedCase {
        folder: place.display().to_string(),
        node,
        op,
        kind: "command".into(),
        finding,
        left,
        inputs: part.inputs.len(),
        bytes: case::size_of(place),
    }
}

/// The sets of inputs: those that are given, those beside the model, or random ones.
fn sets_of(
    loader: &Loader,
    model: &Model,
    file: &Path,
    request: &OneRequest,
    cases: &[crate::cli::input::cases::Case],
) -> TractResult<Vec<Set>> {
    if !cases.is_empty() && request.input.takes_recorded(request.model.is_dir()) {
        return sets::of_cases(&model.takes, cases, &request.input);
    }
    sets::gather(&model.source(&loader.read(file)?), file, &request.input)
}

/// The first set on which the command fails on the whole model, and how it does.
fn failing(
    request: &OneRequest,
    file: &Path,
    (model, sets): (&Model, &[Set]),
    scratch: &Path,
) -> TractResult<Option<(Vec<NamedTensor>, Ended)>> {
    let folder = scratch.join(SET);
    for set in sets {
        progress::tell(format_args!("running the command on the whole model"));
        let inputs = set.named(&model.takes)?;
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        write_tensors(&inputs, "input_", &folder)?;
        let ended = request.check.run(file, &folder)?;
        if request.check.is_shown(&ended, None) {
            return Ok(Some((inputs, ended)));
        }
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(None)
}
