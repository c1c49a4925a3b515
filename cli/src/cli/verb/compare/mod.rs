//! `onnx-cast compare`: a model against its conversions.
//!
//! The work has four stages, each of which makes plain data of that of those before it: `open` the
//! two sides and what they run on, `pair` what belongs together, `measure` how far it is apart,
//! with the verdict of `local`, and `explain` where the graphs part, and why.
//!
//! - `runner`: runs both sides, a set at a time; `by_sample`: how each set fares
//! - `inner`, `dumped`: tensors inside, of both models or as another runtime has saved them
//! - `matching`: which of them belong together; `operators`: which numbers operators were given
//! - `divergence`, `error_profile`: where the graphs part, and the error along them
//! - `weights_only`: the weights alone, which needs no run

mod by_sample;
mod divergence;
mod dumped;
mod error_profile;
mod explain;
mod inner;
mod local;
mod matching;
mod measure;
mod open;
mod operators;
mod pair;
mod runner;
mod weights_only;

use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::Args;
use tract_onnx::prelude::TractResult;

use crate::cli::args::report::ReportArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::{ToleranceArgs, parse_output};
use crate::cli::caller::named;
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::coverage::Unexercised;
use crate::cli::found::finding::{Code, FindingRow, remarks, status};
use crate::cli::found::head::Head;
use crate::cli::found::headroom;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::samples;
use crate::cli::found::status::Status;
use crate::cli::found::verdict::{Judgement, Verdict};
use crate::cli::input::args::{SearchArgs, SetsArgs};
use crate::cli::input::cases::file_of;
use crate::cli::input::sets::try_sets;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::at;
use crate::cli::output_file::{try_file, write_whole};
use crate::cli::process::jobs::ask_all;
use crate::cli::process::request::Request;
use crate::cli::report::destinations::{Exports, check_places};
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, plain_text};
use crate::cli::verb::Verb;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::Loader;
use measure::Measured;
use open::Sides;
pub(crate) use open::{CompareRequest, OpenModels, with_way_out};

/// Compare a model with its conversion, on the same inputs.
///
/// REFERENCE and CONVERTED are models; folders with a model.onnx, whose test_data_set_* folders
/// then give the inputs; or outputs that were saved, by any runtime: a folder of output_*.pb files,
/// a .pb, a .npy or a .npz; with inner tensors by name, a folder of .pb files, a .npz, or the .json
/// of Polygraphy. Outputs are matched by name, and by position where no name is shared. Their
/// element types may differ. With -i, a folder stands for the sets of inputs in it.
///
/// Without a tolerance the verdict follows from the arithmetic of both models: same, rounded,
/// imprecise or broken; the first two pass. With --rtol and --atol a value passes when
/// |got − want| ≤ atol + rtol·|want|, with --ulp when it is that many units in the last place of
/// the coarser type away; one of the two is enough. --cosine asks for a least cosine similarity of
/// the whole output, --sqnr for a least ratio of its signal to the noise. NaN only passes for NaN,
/// and an infinity for itself.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast compare model.onnx model_fp16.onnx
  onnx-cast compare model.onnx model_fp16.onnx --rtol 1e-2 --atol 1e-3
  onnx-cast compare model.onnx slim.onnx fp16.onnx --all-tensors --report compare.html
  onnx-cast compare model.onnx saved_outputs/ -i x=x.npy --ulp 4
  onnx-cast compare model.onnx model_int4.onnx --weights-only
  onnx-cast compare good.npz bad.npz --graph model.onnx --rtol 1e-2
  onnx-cast compare a.onnx b.onnx --rtol 1e-3 --per-output scores:atol=1e-2")]
pub(crate) struct Compare {
    /// The model that is right, or its saved outputs.
    reference: PathBuf,
    /// The conversions to check, or their saved outputs.
    #[arg(required = true)]
    converted: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Inputs")]
    sets: SetsArgs,
    #[command(flatten, next_help_heading = "Inputs")]
    search: SearchArgs,
    #[command(flatten, next_help_heading = "Tolerance")]
    tolerance: ToleranceArgs,
    /// The tolerance of a single output.
    #[arg(long, value_name = "NAME:rtol=R,…", value_parser = parse_output, help_heading = "Tolerance")]
    per_output: Vec<(String, Tolerance)>,
    /// Compare every inner tensor that has a counterpart in the other graph, by name, values or
    /// structure. Without it they are compared where the outputs fail, to find where they diverge.
    #[arg(long, help_heading = "Comparison")]
    all_tensors: bool,
    /// Compare the weights alone: nothing is run, and no inputs are taken.
    #[arg(long, help_heading = "Comparison", conflicts_with_all = OF_RUNS)]
    weights_only: bool,
    /// The model whose tensors were saved, where both sides were: nodes are then named, and nothing
    /// is run. It need not be one that tract can run.
    #[arg(long, value_name = "MODEL.onnx", help_heading = "Comparison")]
    graph: Option<PathBuf>,
    /// Fail where the inputs show too little: one set of random ones, sizes of 1, branches that did
    /// not run.
    #[arg(long, help_heading = "Comparison")]
    strict: bool,
    /// How often the conversion runs with random rounding, to see how far rounding errors grow.
    /// Where nothing is given, 3 times, or once if it has 16 million weights and no floating-point
    /// output of few numbers; but not if no report shows it and the outputs are near.
    #[arg(long, value_name = "N", help_heading = "Comparison")]
    samples: Option<u64>,
    /// Leave the verdict out, which takes several runs of both models: a tolerance judges alone. It
    /// is the quicker check of a large model.
    #[arg(long, help_heading = "Comparison", conflicts_with_all = ["samples", "suggest_tolerance"])]
    no_verdict: bool,
    /// Write limits that the conversion keeps and a fault would not to NAME.tolerance.toml beside
    /// it, if its verdict passes and there is no such file.
    #[arg(long)]
    suggest_tolerance: bool,
    #[command(flatten, next_help_heading = "Reports")]
    to: ReportArgs,
}

/// What says how models run, and how that is judged: groups of options, and options.
const OF_RUNS: [&str; 14] = [
    "InputArgs",
    "sets",
    "random",
    "SearchArgs",
    "ToleranceArgs",
    "per_output",
    "tolerance",
    "suggest_tolerance",
    "all_tensors",
    "graph",
    "strict",
    "samples",
    "no_verdict",
    "model_explorer",
];

impl Verb for Compare {
    type Request = CompareRequest;

    /// Compares the reference with every conversion.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let read =
            self.converted.iter().chain([&self.reference]).chain(&self.graph).map(PathBuf::as_path);
        check_places(&self.to, &self.sets.input, read)?;
        let is_shared = self.search.keep_inputs.is_some() && self.converted.len() > 1;
        ensure!(!is_shared, "--keep-inputs is for one conversion: each has inputs of its own");
        let is_idle = self.weights_only && resources.engine.is_some();
        ensure!(!is_idle, "--engine says how models run, and --weights-only runs none");
        let request = |converted: &PathBuf| {
            let file = self.to.tolerance.as_deref();
            let (mut limits, limits_file) = ToleranceLimits::of(&file_of(converted), file)?;
            limits.judge_by(self.tolerance.of_every_output(), &self.per_output);
            let is_judged = limits.has_tolerance() || !self.no_verdict;
            let shown = converted.display();
            ensure!(is_judged, "--no-verdict leaves a tolerance to judge by: {shown} has none");
            Ok(CompareRequest {
                reference: self.reference.clone(),
                converted: converted.clone(),
                input: self.sets.input(),
                limits,
                limits_file,
                // Model Explorer colours every node.
                all_tensors: self.all_tensors || self.to.model_explorer.is_some(),
                is_of_weights: self.weights_only,
                graph: self.graph.clone(),
                is_strict: self.strict,
                search: self.search.clone(),
                has_verdict: !self.no_verdict,
                band_runs: self.samples,
                shows_band: self.suggest_tolerance
                    || self.to.json.is_some()
                    || self.to.report.is_some(),
            })
        };
        let requests = self.converted.iter().map(request).collect::<anyhow::Result<Vec<_>>>()?;
        let suggested = self.converted.iter().filter(|_| self.suggest_tolerance);
        suggested.map(|model| suggested_place(model)).try_for_each(try_suggested)?;
        let mut pairs = ask_all(&requests, self.to.jobs(), resources, |request, problem| {
            let CompareRequest { reference, converted, .. } = request;
            let [reference, converted] =
                [reference, converted].map(|path| path.display().to_string());
            Compared { reference, converted, head: Head::unusable(problem), ..Compared::default() }
        })?;
        for (pair, request) in pairs.iter_mut().zip(&requests).filter(|_| self.suggest_tolerance) {
            let suggested = suggest(pair, &request.converted);
            pair.head.rows.extend(remarks(vec![suggested?]));
        }
        for side in pairs.iter_mut().flat_map(|pair| [&mut pair.reference, &mut pair.converted]) {
            *side = named(side);
        }
        let report = Exports {
            json: &|| json::of_comparisons(&pairs),
            page: &|| page::of_comparisons(&pairs, self.to.top),
            markdown: &|| Ok(markdown::of_comparisons(&pairs, self.to.top)),
            junit: &|| junit::of_comparisons(&pairs),
            model_explorer: &|| model_explorer::of_comparisons(&pairs),
            text: &|output| plain_text::of_comparisons(&pairs, self.to.shown(), output),
        };
        report.write(&self.to, pairs.iter().map(|pair| pair.head.error.clone()), output)?;
        Ok(pairs.iter().map(|pair| pair.head.status).max().unwrap_or(Status::Passed))
    }
}

impl Request for CompareRequest {
    const NAME: &'static str = "compare";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = Compared;

    fn answer(&self, loader: &Loader) -> TractResult<Compared> {
        if self.is_of_weights {
            return weights_only::compare(loader, &self.reference, &self.converted);
        }
        let _made = self.search.keep_inputs.as_deref().map(try_sets).transpose()?;
        let mut sides = open::open(loader, self)?;
        open::search::search_further(self, &mut sides)?;
        open::left_out::leave_out(&mut sides)?;
        let paired = pair::pair(&sides, self.has_verdict)?;
        let mut measured = match measure::measure(self, &sides, paired) {
            Ok(measured) => measured,
            Err(error) => return self.refused(&sides, error),
        };
        let mut notes = std::mem::take(&mut measured.notes);
        let explained = explain::explain(self, &sides, &measured, &mut notes);
        measured.notes = notes;
        Ok(self.report(&sides, measured, explained))
    }

    fn model(&self) -> &Path {
        &self.reference
    }

    fn running(&self) -> Vec<&Path> {
        if self.is_of_weights { vec![] } else { vec![&self.reference, &self.converted] }
    }

    fn subject(&self) -> &Path {
        &self.converted
    }

    fn places(&self) -> Vec<PathBuf> {
        let sides = [&self.reference, &self.converted].map(PathBuf::clone);
        let folder = self.converted.parent().map(PathBuf::from);
        self.input.files().chain(sides).chain(folder).chain(self.graph.clone()).collect()
    }

    fn output(&self) -> Option<&Path> {
        self.search.keep_inputs.as_deref()
    }
}

impl CompareRequest {
    /// What is said where one side does not run: a conversion that refuses values which the
    /// reference takes is broken.
    fn refused(&self, sides: &Sides, error: anyhow::Error) -> TractResult<Compared> {
        let Some(culprit) = runner::refused(sides) else { return Err(error) };
        let reason = format!("{} `{}` refuses what the reference takes", culprit.op, culprit.node);
        let verdict = Some(Verdict::Broken);
        let judgement =
            Judgement { verdict, reason, culprits: vec![culprit], ..Judgement::default() };
        let rows: Vec<FindingRow> = judgement.finding().into_iter().collect();
        Ok(Compared {
            reference: self.reference.display().to_string(),
            converted: self.converted.display().to_string(),
            head: Head { status: status(&rows), inputs: sides.inputs(), rows, ..Head::default() },
            judgement,
            ..Compared::default()
        })
    }

    /// What the four stages have found, judged.
    fn report(&self, sides: &Sides, measured: Measured, mut explained: Compared) -> Compared {
        let Measured { outputs, mut notes, weights, unexercised, sets, samples, .. } = measured;
        let (judgement, operators) = (measured.judgement, measured.operators);
        notes.extend(outputs.iter().filter_map(emptiness));
        let weights = weights.unwrap_or_default();
        let failed = |tensor: &&ComparedTensor| !tensor.passed;
        let told = |tensor: &ComparedTensor, code| {
            FindingRow::at(&tensor.name, "", code, tensor.difference())
        };
        let outside = outputs.iter().filter(failed).map(|t| told(t, Code::BeyondTolerance));
        let inside = measured.saved.iter().filter(failed).map(|t| told(t, Code::DiffersInside));
        let nothing = "nothing was compared: no output has a value other than NaN";
        let is_compared = outputs.iter().any(|output| output.elements > output.both_nan);
        let nothing = (!is_compared).then(|| FindingRow::new(Code::NothingCompared, nothing));
        let judged = judgement.finding().filter(|_| !self.limits.has_tolerance());
        let errors = outside.chain(inside).chain(weights.errors()).chain(nothing).chain(judged);
        let unexercised_rows = unexercised.iter().map(Unexercised::finding);
        let mut inputs = sides.inputs();
        inputs.look.operators = operators;
        let by_sample = samples::finding(&samples, "relative error");
        let scores = outputs.iter().filter_map(ComparedTensor::scores_in_words);
        let general = inputs.looked().chain(scores).chain(by_sample);
        let general = general.chain(remarks(notes));
        let narrow = inputs.narrow(sets, &unexercised, self.is_strict);
        let mut rows: Vec<FindingRow> = general.chain(unexercised_rows).chain(errors).collect();
        rows.extend(narrow);
        let status = status(&rows);
        rows.extend(std::mem::take(&mut explained.head.rows));
        rows.extend(inputs.warning(status));
        rows.extend(headroom::warning(explained.converted_casts.iter()));
        let tolerance_file = self.limits_file.as_ref().map(|path| path.display().to_string());
        Compared {
            reference: self.reference.display().to_string(),
            converted: self.converted.display().to_string(),
            head: Head {
                status,
                error: None,
                sets,
                inputs,
                tolerance_file,
                rows,
                weights,
                samples,
                unexercised,
            },
            is_of_weights: false,
            identical: outputs.iter().all(|output| output.identical),
            judgement,
            is_judged_by_tolerance: self.limits.has_tolerance(),
            outputs,
            ..explained
        }
    }
}

/// Where the tolerance file is written that is suggested for a conversion.
fn suggested_place(converted: &Path) -> PathBuf {
    file_of(converted).with_extension("tolerance.toml")
}

/// Fails where such a file cannot be written; one that is there is not written over.
fn try_suggested(place: PathBuf) -> anyhow::Result<()> {
    at("--suggest-tolerance", if place.exists() { Ok(()) } else { try_file(&place) })
}

/// Writes the tolerance file that a comparison suggests, and says so, or why there is none. One
/// that is given is what the conversion has to keep. Fails when it cannot be written.
fn suggest(compared: &Compared, converted: &Path) -> anyhow::Result<String> {
    let place = suggested_place(converted);
    let shown = place.display();
    let is_off = compared.is_judged_by_tolerance && compared.head.status != Status::Passed;
    match compared.judgement.suggested(&compared.outputs) {
        _ if is_off => Ok("no tolerance is suggested where the given one fails".into()),
        Ok(_) if place.exists() => Ok(format!("{shown} is there, and was left as it is")),
        Ok(text) => {
            write_whole(&place, text.as_bytes())?;
            Ok(format!("limits that this conversion keeps were written to {shown}"))
        }
        Err(why) => Ok(why),
    }
}

/// A note that the comparison of an output shows nothing, if it does not.
fn emptiness(output: &ComparedTensor) -> Option<String> {
    let name = &output.name;
    match output {
        _ if output.problem.is_some() => None,
        _ if output.elements == 0 => {
            Some(format!("output `{name}` has no elements: nothing was compared"))
        }
        _ if output.both_nan == output.elements => {
            Some(format!("output `{name}` is nothing but NaN on both sides, which shows nothing"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What means the same where weights alone are compared. Whatever else there is says how models
    /// run.
    const OF_BOTH: [&str; 11] = [
        "reference",
        "converted",
        "weights_only",
        "json",
        "report",
        "markdown",
        "junit",
        "top",
        "quiet",
        "jobs",
        "help",
    ];

    #[test]
    fn no_option_is_ignored_where_weights_alone_are_compared() {
        let program = crate::cli::command();
        let compare = program.find_subcommand("compare").expect("a verb");
        let groups =
            compare.get_groups().filter(|group| OF_RUNS.contains(&group.get_id().as_str()));
        let grouped: Vec<&str> =
            groups.flat_map(|group| group.get_args()).map(|id| id.as_str()).collect();
        let ids = compare.get_arguments().map(|argument| argument.get_id().as_str());
        let known = [&OF_RUNS[..], &OF_BOTH, &grouped].concat();
        let unsaid: Vec<&str> = ids.filter(|id| !known.contains(id)).collect();
        assert_eq!(unsaid, Vec::<&str>::new());
    }
}
