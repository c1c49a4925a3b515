//! `onnx-cast audit`: what the casts of models do to the numbers.

mod baseline;
mod by_sample;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::AuditRow;

use crate::cli::args::report::ReportArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::parse_allow;
use crate::cli::caller::named;
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::coverage::Unexercised;
use crate::cli::found::finding::{Code, FindingRow, remarks, status};
use crate::cli::found::head::Head;
use crate::cli::found::headroom;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::samples;
use crate::cli::found::status::Status;
use crate::cli::input::args::{InputArgs, SetsArgs};
use crate::cli::input::cases::{self, Case, file_of};
use crate::cli::input::declared::Declared;
use crate::cli::input::sets::{self, Set};
use crate::cli::message::{ProblemKind, ReportedProblem, add_once, counted};
use crate::cli::process::jobs::ask_all;
use crate::cli::process::request::Request;
use crate::cli::report::destinations::{Exports, check_places};
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, plain_text};
use crate::cli::verb::Verb;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::{Loader, Model};
use crate::cli::work::probed::{Probed, casts_of, is_rounding};
use crate::cli::work::watched::{Watched, unexercised};
use baseline::{Baseline, suspicious};
use by_sample::AuditSamples;

/// Show what a model's casts do to the numbers.
///
/// Runs the model and counts, for each Cast, CastLike, QuantizeLinear and operator on half
/// precision, subgraphs included, how many values came out exact, rounded, overflowed to infinity,
/// saturated, as NaN, flushed to zero, … The worst come first. The model's results are not changed.
///
/// PATH is a model, or a folder: then every model.onnx in it is audited with the inputs of its
/// test_data_set_* folders, or with random ones where it has none. With -i, a folder stands for the
/// inputs in it: input_*.pb, or several sets of them in test_data_set_* folders.
///
/// The exit status is 1 if a cast did more than its limits allow. Without limits, that is any value
/// that overflowed, became NaN, lost its NaN, wrapped around, or is undefined; a quantiser that
/// cuts off more than 1 % of its values; and a model that declares another type than a cast makes,
/// or whose casts have seen no value at all. A model without casts and quantisers passes.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast audit model.onnx -i x=x.npy
  onnx-cast audit model.onnx -i recorded/ --report audit.html
  onnx-cast audit model_fp16.onnx --baseline model.onnx -i recorded/
  onnx-cast audit models/ --jobs 4 --allow wrapped --markdown=comment.md")]
pub(crate) struct Audit {
    /// The models, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Inputs")]
    sets: SetsArgs,
    /// Raise a limit, to N or without end: KIND is rounded, truncated, flushed, saturated,
    /// nan_lost, wrapped, overflowed, became_nan, undefined, made_infinite, made_nan,
    /// became_subnormal, sign_lost, saturated_share, max_abs, max_rel or max_ulp.
    #[arg(long, value_name = "KIND[=N]", value_parser = parse_allow, help_heading = "Findings")]
    allow: Vec<(String, f64)>,
    /// The model of which PATH is a conversion: what it does as well is excused, and its weights
    /// are compared. Of a folder with a model.onnx, the test_data_set_* folders give the inputs
    /// where PATH has none.
    #[arg(long, value_name = "ORIGINAL", help_heading = "Findings")]
    baseline: Option<PathBuf>,
    /// Fail where the inputs show too little: one set of random ones, sizes of 1, branches that did
    /// not run.
    #[arg(long, help_heading = "Findings")]
    strict: bool,
    #[command(flatten, next_help_heading = "Reports")]
    to: ReportArgs,
}

impl Verb for Audit {
    type Request = AuditRequest;

    /// Audits every model.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let has_folders = self.paths.iter().any(|path| path.is_dir());
        let resources = if has_folders { resources.for_folders() } else { resources };
        let requests = requests(&self)?;
        let models = requests.iter().map(|request| &request.model);
        let read = models.chain(requests.iter().filter_map(|request| request.baseline.as_ref()));
        check_places(&self.to, &self.sets.input, read.map(PathBuf::as_path))?;
        let mut models = ask_all(&requests, self.to.jobs(), resources, |request, problem| {
            let model = request.model.display().to_string();
            Audited { model, head: Head::unusable(problem), ..Audited::default() }
        })?;
        models.iter_mut().for_each(|audited| audited.model = named(&audited.model));
        let report = Exports {
            json: &|| json::of_audits(&models),
            page: &|| page::of_audits(&models, self.to.top),
            markdown: &|| Ok(markdown::of_audits(&models, self.to.top)),
            junit: &|| junit::of_audits(&models),
            model_explorer: &|| model_explorer::of_audits(&models),
            text: &|output| plain_text::of_audits(&models, self.to.shown(), output),
        };
        let problem = |model: &Audited| {
            let ReportedProblem { kind, message } = model.head.error.clone()?;
            Some(ReportedProblem { kind, message: format!("{}: {message}", model.model) })
        };
        report.write(&self.to, models.iter().map(problem), output)?;
        Ok(models.iter().map(|model| model.head.status).max().unwrap_or(Status::Passed))
    }
}

/// A model for each path, or for each folder below a path with a model.onnx in it.
fn requests(args: &Audit) -> anyhow::Result<Vec<AuditRequest>> {
    let mut models: Vec<(PathBuf, Vec<Case>)> = vec![];
    let input = args.sets.input();
    for path in &args.paths {
        if !path.is_dir() {
            let is_wanted = input.takes_recorded(false);
            models.push((path.clone(), if is_wanted { cases::beside(path) } else { vec![] }));
            continue;
        }
        for case in cases::find(std::slice::from_ref(path))? {
            if models.last().is_none_or(|(model, _)| *model != case.model) {
                models.push((case.model.clone(), vec![]));
            }
            // A model without data runs on random values, and so does one whose data are not wanted
            // on those that are.
            let has_none = case.inputs().is_ok_and(|files| files.is_empty());
            let is_wanted = input.takes_recorded(true) && !has_none;
            if let Some((_, sets)) = models.last_mut().filter(|_| is_wanted) {
                sets.push(case);
            }
        }
    }
    let baseline = args.baseline.as_ref().map(|path| file_of(path));
    // What lies beside the original is as good for its conversion.
    if let Some(path) = &args.baseline {
        let sets =
            if path.is_dir() { cases::sets_in(path, &file_of(path))? } else { cases::beside(path) };
        let sets: Vec<Case> = sets.into_iter().filter(Case::has_inputs).collect();
        if input.takes_recorded(path.is_dir()) {
            let bare = models.iter_mut().filter(|(_, own)| own.is_empty());
            bare.for_each(|(_, own)| own.clone_from(&sets));
        }
    }
    if models.iter().all(|(_, cases)| !cases.is_empty()) {
        input.check_nothing_is_random("those beside the models are recorded")?;
    }
    let request = |(model, cases): (PathBuf, Vec<Case>)| {
        let (mut limits, limits_file) = ToleranceLimits::of(&model, args.to.tolerance.as_deref())?;
        limits.allow(&args.allow);
        let (input, baseline) = (input.clone(), baseline.clone());
        let is_strict = args.strict;
        Ok(AuditRequest { model, cases, input, limits, limits_file, baseline, is_strict })
    };
    models.into_iter().map(request).collect()
}

/// A model to audit.
#[derive(Serialize, Deserialize)]
pub(crate) struct AuditRequest {
    pub(crate) model: PathBuf,
    /// The model's own sets of inputs, where they are to be used.
    pub(crate) cases: Vec<Case>,
    pub(crate) input: InputArgs,
    pub(crate) limits: ToleranceLimits,
    pub(crate) limits_file: Option<PathBuf>,
    /// The model of which this one is a conversion.
    pub(crate) baseline: Option<PathBuf>,
    /// Whether a verdict that stands on little fails.
    pub(crate) is_strict: bool,
}

impl Request for AuditRequest {
    const NAME: &'static str = "audit";

    const ENGINE: Engine = Engine::Nodes;

    type Answer = Audited;

    fn answer(&self, loader: &Loader) -> TractResult<Audited> {
        let probed = Probed::open(loader, &self.model)?;
        let mut watched = Watched::of(&probed, &[])?;
        let takes = watched.model.takes.clone();
        let sets = self.sets(&probed, &watched.model)?;
        let open = |path: &PathBuf| baseline::open(loader, path);
        let original = self.baseline.as_ref().map(open).transpose()?;
        let mut baseline = match self.baseline.as_deref().zip(original.as_ref()) {
            Some((path, original)) => Some(Baseline::of(path, original)?),
            None => None,
        };
        let mut samples = AuditSamples::of(sets.len());
        for (place, set) in sets.iter().enumerate() {
            let run = watched.run(set, sets.len() > 1, None)?;
            samples.add(&set.name, || watched.rows());
            if place + 1 == sets.len() {
                watched.rest();
            }
            if let Some(baseline) = &mut baseline {
                baseline.run(&takes, set, &run.outputs)?;
            }
        }
        let rows = watched.rows();
        self.check_names(&rows)?;
        let mut model = Audited {
            model: self.model.display().to_string(),
            casts: casts_of(&rows),
            roundings: probed.roundings(&rows, &sets),
            rounded: rows.iter().filter(|row| is_rounding(&row.cast)).count(),
            baseline: self.baseline.as_ref().map(|path| path.display().to_string()),
            head: Head {
                unexercised: unexercised(Some(&watched.exercise), &rows),
                samples: samples.finish(),
                ..self.head(&takes, &sets)
            },
        };
        let (mut notes, mut excused, mut errors) = (vec![], vec![], vec![]);
        sets.iter().flat_map(|set| &set.notes).for_each(|n| add_once(&mut notes, Some(n.clone())));
        notes.append(&mut watched.notes);
        let all = model.casts.iter().chain(&model.roundings);
        if let Some(baseline) = &mut baseline {
            let excuses = baseline.excuses(&takes, &sets, &suspicious(&model.roundings))?;
            notes.append(&mut baseline.notes);
            let mut compared = baseline.weights(&probed)?;
            notes.append(&mut compared.notes);
            let differ = Some(baseline.outputs_differ());
            model.head.weights = compared.judged(Some(&watched.exercise), differ);
            errors.extend(model.head.weights.errors());
            let left = all.map(|cast| excuses.excuse(cast, &mut excused));
            errors.extend(left.flat_map(|cast| self.limits.exceeded(&cast)).collect::<Vec<_>>());
        } else {
            errors.extend(all.flat_map(|cast| self.limits.exceeded(cast)));
        }
        let declared = probed.findings(&rows);
        let looked = model.head.inputs.looked();
        let by_sample = samples::finding(&model.head.samples, "the share of values spoilt");
        let notes = looked.chain(by_sample).chain(remarks(notes)).collect();
        self.finish(&mut model, Found { notes, excused, declared, errors }, &rows);
        Ok(model)
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn running(&self) -> Vec<&Path> {
        self.baseline.iter().chain([&self.model]).map(PathBuf::as_path).collect()
    }

    fn places(&self) -> Vec<PathBuf> {
        let cases = self.cases.iter().map(|case| case.set.clone());
        let folder = self.baseline.iter().filter_map(|path| path.parent()).map(PathBuf::from);
        self.input.files().chain(cases).chain(folder).collect()
    }
}

/// What was found of a model, before it is judged.
struct Found {
    notes: Vec<FindingRow>,
    /// What a baseline does as well.
    excused: Vec<FindingRow>,
    /// What can be said without a run.
    declared: Vec<FindingRow>,
    /// What is beyond the limits.
    errors: Vec<FindingRow>,
}

impl AuditRequest {
    /// The sets of inputs that the model runs on.
    fn sets(&self, probed: &Probed, model: &Model) -> TractResult<Vec<Set>> {
        match &self.cases[..] {
            [] => sets::gather(&model.source(&probed.proto), &self.model, &self.input),
            cases => sets::of_cases(&model.takes, cases, &self.input),
        }
    }

    /// Refuses limits for casts that the model does not have.
    fn check_names(&self, rows: &[AuditRow]) -> TractResult<()> {
        let names: Vec<&str> = rows.iter().map(|row| row.cast.node.as_str()).collect();
        let Some(name) = self.limits.unknown_casts(&names).next() else { return Ok(()) };
        let message =
            format!("there are limits for the cast `{name}`, but the model has none of that name");
        Err(ReportedProblem { kind: ProblemKind::Call, message }.into())
    }

    /// What was asked, before anything is found.
    fn head(&self, takes: &Declared, sets: &[Set]) -> Head {
        Head {
            sets: sets.len(),
            inputs: sets::inputs_of(takes, sets),
            tolerance_file: self.limits_file.as_ref().map(|path| path.display().to_string()),
            ..Head::default()
        }
    }

    /// Judges what was found of a model, and puts it into rows.
    fn finish(&self, model: &mut Audited, found: Found, rows: &[AuditRow]) {
        let Found { notes, excused, declared, mut errors } = found;
        let casts = &model.casts;
        let seen =
            casts.iter().map(|cast| cast.elements.saturating_sub(cast.source.nans)).sum::<u64>();
        if !casts.is_empty() && seen == 0 {
            let sentence = "no value other than NaN has reached a cast, which shows nothing";
            errors.push(FindingRow::new(Code::NothingSeen, sentence));
        }
        let judged = |finding| self.limits.judged(finding);
        let declared: Vec<FindingRow> = declared.into_iter().map(judged).collect();
        let errors: Vec<FindingRow> = errors.into_iter().map(judged).collect();
        let all: Vec<AuditedCast> = rows.iter().map(AuditedCast::of).collect();
        // What happens to constants happens on any inputs.
        let depends = all.iter().any(|cast| !cast.constant);
        let head = &model.head;
        let narrow = head.inputs.narrow(head.sets, &head.unexercised, self.is_strict);
        let narrow = narrow.filter(|_| depends);
        let judged: Vec<FindingRow> =
            declared.iter().chain(&errors).chain(&narrow).cloned().collect();
        let failed = status(&judged);
        let received = received(casts).filter(|_| failed == Status::Passed);
        let random = model.head.inputs.warning(failed).filter(|_| depends);
        let head = &mut model.head;
        head.status = failed;
        let unexercised = head.unexercised.iter().map(Unexercised::finding);
        head.rows = notes.into_iter().chain(received).chain(excused).chain(unexercised).collect();
        head.rows.extend(declared.into_iter().chain(errors));
        head.rows.extend(narrow);
        head.rows.extend(random.into_iter().chain(headroom::warning(all.iter())));
    }
}

/// A note on casts that were given NaN or infinities. That is within every cast's limits, but it
/// means that something is wrong before them.
fn received(casts: &[AuditedCast]) -> Option<FindingRow> {
    let is_given = |cast: &&AuditedCast| cast.source.nans + cast.source.infinities > 0;
    let mut given = casts.iter().filter(is_given).map(|cast| &cast.node);
    let (first, more) = (given.next()?, given.count());
    let others = if more == 0 { String::new() } else { format!(" and {}", counted(more, "other")) };
    let sentence = format!(
        "NaN or infinities reach `{first}`{others}: no cast is blamed for what it is given, `compare` finds where it arises"
    );
    Some(FindingRow::new(Code::NotFinite, sentence))
}
