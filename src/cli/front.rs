//! What the user's process does for `audit`, `compare` and `record`: it finds the models, asks a worker for each, and
//! reports.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use clap::Args;

use super::audit::AuditOrder;
use super::cases::{self, Case};
use super::compare::parse_tolerance;
use super::facts::{
    AUDIT_SCHEMA, Audited, COMPARE_SCHEMA, CastChanges, Compared, Status, ToleranceFacts,
};
use super::inputs::InputArgs;
use super::num::Num;
use super::record::{self, RecordOrder};
use super::report::{Report, ReportArgs};
use super::request::{Answer, Request};
use super::supervisor::Supervisor;
use super::terminal::Output;
use super::tolerance::{Tolerances, parse_allow, parse_cosine, parse_output};
use super::versus::CompareOrder;
use super::{FAILED, UNUSABLE, jobs, markdown, page, words};

/// Show what a model's casts do to the numbers.
///
/// Runs the model and counts, for each Cast and CastLike, those in subgraphs included, what became of the values that
/// passed: exact, rounded, overflowed to infinity, saturated, turned into NaN, flushed to zero, … The worst come first.
/// The model's results are not changed.
///
/// PATH is a model, or a folder: then every model.onnx in it is audited with the inputs of its test_data_set_* folders, or
/// with random ones where it has none. With -i, a folder stands for the inputs in it: input_*.pb, or several sets of them
/// in test_data_set_* folders.
///
/// The exit status is 1 if a cast did more than its limits allow. Without limits, that is any value that overflowed,
/// became NaN, lost its NaN, wrapped around, or is undefined; and a model that declares another type than a cast makes, or
/// whose casts have seen no value at all.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast audit model.onnx -i x=x.npy
  onnx-cast audit model.onnx -i recorded/ --report audit.html
  onnx-cast audit models/ --jobs 4 --allow wrapped --markdown=comment.md")]
pub(super) struct AuditArgs {
    /// The models, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// Let casts do that much: KIND is rounded, truncated, flushed, saturated, nan_lost, wrapped, overflowed, became_nan,
    /// undefined, became_subnormal, sign_lost, max_abs, max_rel or max_ulp.
    #[arg(long, value_name = "KIND[=N]", value_parser = parse_allow)]
    allow: Vec<(String, f64)>,
    #[command(flatten)]
    to: ReportArgs,
}

/// Compare a model with its conversion, on the same inputs.
///
/// REFERENCE and CONVERTED are models; folders with a model.onnx, whose test_data_set_* folders then give the inputs; or
/// outputs that were saved: a folder of output_*.pb files, a .pb, a .npy or a .npz. Outputs are matched by name, and by
/// position where no name is shared. Their element types may differ. With -i, a folder stands for the sets of inputs in it.
///
/// Without a tolerance values must be the same. With --rtol and --atol a value passes when
/// |got − want| ≤ atol + rtol·|want|, with --ulp when it is that many units in the last place of the coarser type away; one
/// of the two is enough. --cosine asks for a least cosine similarity of the whole output. NaN only passes for NaN, and an
/// infinity for itself.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast compare model.onnx model_fp16.onnx --rtol 1e-2 --atol 1e-3
  onnx-cast compare model.onnx slim.onnx fp16.onnx --all-tensors --report compare.html
  onnx-cast compare model.onnx saved_outputs/ -i x=x.npy --ulp 4
  onnx-cast compare a.onnx b.onnx --rtol 1e-3 --per-output scores:atol=1e-2")]
pub(super) struct CompareArgs {
    /// What is right.
    reference: PathBuf,
    /// What is to be judged.
    #[arg(required = true)]
    converted: Vec<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// Relative tolerance.
    #[arg(long, value_name = "R", value_parser = parse_tolerance, allow_negative_numbers = true)]
    rtol: Option<f64>,
    /// Absolute tolerance.
    #[arg(long, value_name = "A", value_parser = parse_tolerance, allow_negative_numbers = true)]
    atol: Option<f64>,
    /// Tolerance in units in the last place.
    #[arg(long, value_name = "N", value_parser = parse_tolerance, allow_negative_numbers = true)]
    ulp: Option<f64>,
    /// The least cosine similarity of an output.
    #[arg(long, value_name = "C", value_parser = parse_cosine, allow_negative_numbers = true)]
    cosine: Option<f64>,
    /// A tolerance of one output's own.
    #[arg(long, value_name = "NAME:rtol=R,…", value_parser = parse_output)]
    per_output: Vec<(String, ToleranceFacts)>,
    /// Compare every tensor that both graphs have by name; else only where the outputs fail, to find where they part.
    #[arg(long)]
    all_tensors: bool,
    #[command(flatten)]
    to: ReportArgs,
}

/// Record a model's outputs, to be replayed by `onnx-cast test`.
///
/// Adds test_data_set_* folders with input_*.pb and output_*.pb to DIR, and the model if it is not there. Nothing that is
/// there is changed; `rerecord` does that. With -i, a folder stands for the sets of inputs in it.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast record model.onnx goldens/model --sets 3
  onnx-cast record model.onnx goldens/model -i x=x.npy
  onnx-cast test goldens")]
pub(super) struct RecordArgs {
    /// The model.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// How many sets of random inputs, each with the next seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: u64,
}

/// Run recorded inputs again, and change the outputs that `record` has written.
///
/// The model is DIR's own, or MODEL.onnx, which then takes its place.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast rerecord goldens/model
  onnx-cast rerecord goldens/model new.onnx")]
pub(super) struct RerecordArgs {
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The model from now on.
    #[arg(value_name = "MODEL.onnx")]
    model: Option<PathBuf>,
}

/// Audits every model. The result is the exit status.
///
/// # Errors
///
/// When there is no model, or a single one that cannot be used.
pub(super) fn audit(
    args: AuditArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let orders = audit_orders(&args)?;
    let read = orders.iter().map(|order| order.model.as_path());
    args.to.check(read, &args.input)?;
    let answers = jobs::each(&orders, args.to.jobs(), max_memory, |order, supervisor| {
        answer::<Audited>(supervisor, &Request::Audit(order.clone()), |problem| Audited {
            model: order.model.display().to_string(),
            status: Status::Unusable,
            problem: Some(problem),
            sets: 0,
            tolerance_file: None,
            notes: vec![],
            casts: vec![],
            findings: vec![],
            exceeded: vec![],
        })
    });
    let (facts, texts): (Vec<Audited>, Vec<String>) =
        answers.into_iter().collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
    let report = Report {
        json: format!("{{\"schema\":\"{AUDIT_SCHEMA}\",\"models\":[{}]}}", texts.join(",")),
        page: &|| page::of_audits(&facts),
        markdown: &|| markdown::of_audits(&facts),
        words: &|output| words::of_audits(&facts, output),
    };
    let problem = |model: &Audited| Some(format!("{}: {}", model.model, model.problem.as_ref()?));
    report.write(&args.to, facts.iter().map(problem), output)?;
    if facts.iter().all(|model| model.casts.is_empty()) {
        let names: Vec<&str> = facts.iter().map(|model| model.model.as_str()).collect();
        bail!("{}: no Cast and no CastLike, so there is nothing to audit", names.join(", "));
    }
    Ok(exit_status(facts.iter().map(|model| model.status)))
}

/// Compares the reference with every conversion. The result is the exit status.
///
/// # Errors
///
/// When a single conversion cannot be compared.
pub(super) fn compare(
    args: CompareArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let read = args.converted.iter().chain([&args.reference]).map(PathBuf::as_path);
    args.to.check(read, &args.input)?;
    let mut orders = vec![];
    for converted in &args.converted {
        let (mut tolerances, tolerance_file) =
            Tolerances::of(&model_file(converted), args.to.tolerance.as_deref())?;
        let CompareArgs { rtol, atol, ulp, cosine, .. } = args;
        let [rtol, atol, ulp, cosine] = [rtol, atol, ulp, cosine].map(|number| number.map(Num));
        tolerances.judge_by(ToleranceFacts { rtol, atol, ulp, cosine }, &args.per_output);
        orders.push(CompareOrder {
            reference: args.reference.clone(),
            converted: converted.clone(),
            input: args.input.clone(),
            tolerances,
            tolerance_file,
            all_tensors: args.all_tensors,
        });
    }
    let answers = jobs::each(&orders, args.to.jobs(), max_memory, |order, supervisor| {
        answer::<Compared>(supervisor, &Request::Compare(order.clone()), |problem| Compared {
            reference: order.reference.display().to_string(),
            converted: order.converted.display().to_string(),
            status: Status::Unusable,
            problem: Some(problem),
            sets: 0,
            tolerance_file: None,
            identical: false,
            notes: vec![],
            outputs: vec![],
            tensors: vec![],
            first_difference: None,
            first_damage: None,
            first_beyond: None,
            casts: CastChanges::default(),
            converted_casts: vec![],
        })
    });
    let (facts, texts): (Vec<Compared>, Vec<String>) =
        answers.into_iter().collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
    let report = Report {
        json: format!("{{\"schema\":\"{COMPARE_SCHEMA}\",\"comparisons\":[{}]}}", texts.join(",")),
        page: &|| page::of_comparisons(&facts),
        markdown: &|| markdown::of_comparisons(&facts),
        words: &|output| words::of_comparisons(&facts, output),
    };
    report.write(&args.to, facts.iter().map(|pair| pair.problem.clone()), output)?;
    Ok(exit_status(facts.iter().map(|pair| pair.status)))
}

/// Adds recordings.
///
/// # Errors
///
/// When the model or an input cannot be used, or something that is there would change.
pub(super) fn record(
    args: RecordArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let RecordArgs { model, folder, input, sets } = args;
    ensure!(sets == 1 || input.inputs.is_empty(), "--sets is for random inputs, without -i");
    write_recordings(RecordOrder { model, folder, input, sets, is_anew: false }, max_memory, output)
}

/// Changes recordings.
///
/// # Errors
///
/// When the model or a recorded input cannot be used.
pub(super) fn rerecord(
    args: RerecordArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let RerecordArgs { model, folder } = args;
    let model = model.unwrap_or_else(|| folder.join("model.onnx"));
    let input = InputArgs::default();
    write_recordings(
        RecordOrder { model, folder, input, sets: 0, is_anew: true },
        max_memory,
        output,
    )
}

fn write_recordings(
    order: RecordOrder,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let name = order.model.display().to_string();
    let bar = jobs::progress_bar(1);
    let answer = Supervisor::new(max_memory).ask(&Request::Record(order));
    bar.finish_and_clear();
    match answer? {
        Answer::Shown(lines) => output.line(&record::spoken(&lines))?,
        Answer::Unusable(problem) => bail!("{name}: {problem}"),
        Answer::Passed | Answer::Failed(_) | Answer::Facts(_) => {}
    }
    Ok(0)
}

/// A model for each path, or for each folder below a path with a model.onnx in it.
fn audit_orders(args: &AuditArgs) -> anyhow::Result<Vec<AuditOrder>> {
    let mut models: Vec<(PathBuf, Vec<Case>)> = vec![];
    for path in &args.paths {
        if !path.is_dir() {
            models.push((path.clone(), vec![]));
            continue;
        }
        for case in cases::find(std::slice::from_ref(path))? {
            if models.last().is_none_or(|(model, _)| *model != case.model) {
                models.push((case.model.clone(), vec![]));
            }
            // A model without data runs on random values, and so does one whose data are not wanted on those that are.
            let has_none = case.inputs().is_ok_and(|files| files.is_empty());
            let is_wanted = args.input.inputs.is_empty() && !has_none;
            if let Some((_, sets)) = models.last_mut().filter(|_| is_wanted) {
                sets.push(case);
            }
        }
    }
    if models.iter().all(|(_, cases)| !cases.is_empty()) {
        args.input.check_nothing_is_random("those beside the models are recorded")?;
    }
    models
        .into_iter()
        .map(|(model, cases)| {
            let (mut tolerances, tolerance_file) =
                Tolerances::of(&model, args.to.tolerance.as_deref())?;
            tolerances.allow(&args.allow);
            Ok(AuditOrder { model, cases, input: args.input.clone(), tolerances, tolerance_file })
        })
        .collect()
}

/// The model that a path of `compare` means.
fn model_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("model.onnx") } else { path.into() }
}

/// Has a worker find the facts; the second part of the result is the JSON that it wrote.
fn answer<F: serde::Serialize + serde::de::DeserializeOwned>(
    supervisor: &mut Supervisor,
    request: &Request,
    unusable: impl FnOnce(String) -> F,
) -> anyhow::Result<(F, String)> {
    let problem = match supervisor.ask(request)? {
        Answer::Facts(text) => return Ok((serde_json::from_str(&text)?, text)),
        Answer::Unusable(problem) | Answer::Failed(problem) | Answer::Shown(problem) => problem,
        Answer::Passed => String::new(),
    };
    let facts = unusable(problem);
    let text = serde_json::to_string(&facts)?;
    Ok((facts, text))
}

fn exit_status(statuses: impl Iterator<Item = Status>) -> u8 {
    match statuses.max() {
        Some(Status::Unusable) => UNUSABLE,
        Some(Status::Failed) => FAILED,
        Some(Status::Passed) | None => 0,
    }
}
