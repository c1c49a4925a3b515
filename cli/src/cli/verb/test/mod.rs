//! `onnx-cast test`: every case in turn, the outputs of each against the expected ones.

pub(crate) mod expected;
mod values;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use clap::Args;
use quick_junit::TestSuite;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::parse_tolerance;
use crate::cli::found::status::Status;
use crate::cli::input::array::Array;
use crate::cli::input::cases::Case;
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::{cases, files};
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{self, ProblemKind, ReportedProblem, about, at, counted, single_line};
use crate::cli::output_file::{try_file, write_whole};
use crate::cli::process::protocol::RequestOutcome;
use crate::cli::process::request::Request;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::json;
use crate::cli::report::junit::{self, TestOutcome};
use crate::cli::report::progress_bar::progress_bar;
use crate::cli::report::terminal::{BAD, GOOD, Output, print_note};
use crate::cli::tensor::NamedTensor;
use crate::cli::tensor::Tensors;
use crate::cli::verb::Verb;
use crate::cli::work::model::{Loader, RunResult};
use expected::difference;
use values::ModelHeader;

/// Run test cases and compare the outputs with the expected ones.
///
/// A case is a folder with model.onnx and, beside it or in test_data_set_* folders, input_*.pb and
/// output_*.pb: the layout of ONNX's own tests. Files and the model's inputs and outputs are
/// matched by position.
///
/// Outputs must be equal bit for bit, but any NaN equals any NaN. With --rtol or --atol a
/// floating-point value passes when |got − want| ≤ atol + rtol·|want|, where the one that is not
/// given is 0.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast test models/node/cast_opset13_FLOAT_to_BFLOAT16
  onnx-cast test models --rtol 1e-4 --atol 1e-5
  onnx-cast test models --json")]
pub(crate) struct Test {
    /// Case folders, or folders that hold them.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Relative tolerance for floating-point outputs.
    #[arg(long, value_name = "R", value_parser = parse_tolerance)]
    rtol: Option<f64>,
    /// Absolute tolerance for floating-point outputs.
    #[arg(long, value_name = "A", value_parser = parse_tolerance)]
    atol: Option<f64>,
    /// Write JUnit's XML, for CI.
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Test {
    /// What the two options mean together; without either, outputs are compared bit for bit.
    fn tolerance(&self) -> Option<Tolerance> {
        let Test { rtol, atol, .. } = *self;
        let either = rtol.is_some() || atol.is_some();
        either.then(|| Tolerance { rtol, atol, ..Tolerance::default() })
    }
}

/// What `--json` prints.
#[derive(Serialize, Default)]
struct TestReport {
    cases: Vec<CaseLine>,
    passed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct CaseLine {
    path: String,
    passed: bool,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Verb for Test {
    type Request = TestRequest;

    /// Runs the cases.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        self.junit.as_deref().map_or(Ok(()), try_file)?;
        let cases = cases::find(&self.paths)?;
        let mut supervisor = Supervisor::new(resources.for_folders());
        let tolerance = self.tolerance();
        let request = |case| TestRequest { case, tolerance };
        let bar = progress_bar(cases.len());
        let mut report = TestReport::default();
        let mut unusable = vec![];
        for case in cases {
            let path = case.path.display().to_string();
            bar.set_message(single_line(&path));
            let (reason, note) = match supervisor.ask(&request(case), |_| {})? {
                RequestOutcome::Done(Tested { failure, note }) => (failure, note),
                RequestOutcome::Unusable(ReportedProblem { kind, message }) => {
                    unusable.push(ReportedProblem { kind, message: format!("{path}: {message}") });
                    (Some(message), None)
                }
            };
            if let Some(note) = &note {
                bar.suspend(|| print_note(&format!("{path}: {note}")));
            }
            let line = CaseLine { path, passed: reason.is_none(), reason, note };
            if !self.json {
                let text = human(&line, output);
                bar.suspend(|| output.line(&text))?;
            }
            bar.inc(1);
            *(if line.passed { &mut report.passed } else { &mut report.failed }) += 1;
            report.cases.push(line);
        }
        bar.finish_and_clear();
        if let Some(path) = &self.junit {
            write_whole(path, of_lines(&report.cases, &unusable)?.as_bytes())?;
        }
        output.line(&if self.json {
            json::document("test", &report)?
        } else {
            format!("{} passed, {} failed", report.passed, report.failed)
        })?;
        match unusable.first() {
            Some(problem) if unusable.len() == report.cases.len() => Err(problem.clone().into()),
            _ => Ok(if report.failed == 0 { Status::Passed } else { Status::Failed }),
        }
    }
}

/// A test for each case.
fn of_lines(lines: &[CaseLine], unusable: &[ReportedProblem]) -> anyhow::Result<String> {
    let unusable: HashSet<&str> = unusable.iter().map(|problem| &*problem.message).collect();
    let is_unusable =
        |line: &CaseLine, reason: &str| unusable.contains(&*format!("{}: {reason}", line.path));
    let mut suite = TestSuite::new("onnx-cast test");
    for line in lines {
        let outcome = match &line.reason {
            None => TestOutcome::Passed,
            Some(reason) if is_unusable(line, reason) => TestOutcome::Unusable(reason.clone()),
            Some(reason) => TestOutcome::Failed(vec![reason.clone()]),
        };
        junit::add(&mut suite, &line.path, outcome, line.note.as_slice());
    }
    junit::written([suite])
}

fn human(line: &CaseLine, output: &Output) -> String {
    let path = single_line(&line.path);
    match &line.reason {
        None => format!("{}   {path}", output.paint(GOOD, "ok")),
        Some(reason) => format!("{} {path}: {reason}", output.paint(BAD, "FAIL")),
    }
}

/// A case to check.
#[derive(Serialize, Deserialize)]
pub(crate) struct TestRequest {
    pub(crate) case: Case,
    /// Without it, outputs must be equal bit for bit.
    pub(crate) tolerance: Option<Tolerance>,
}

/// Whether the outputs are the expected ones.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tested {
    /// Why they are not.
    pub(crate) failure: Option<String>,
    pub(crate) note: Option<String>,
}

impl Request for TestRequest {
    const NAME: &'static str = "test";

    const RUNS_ONCE: bool = true;

    type Answer = Tested;

    fn answer(&self, loader: &Loader) -> TractResult<Tested> {
        let TestRequest { case, tolerance } = self;
        self.of_tensors(loader).or_else(|error| match ModelHeader::of(&case.model) {
            Ok(Some(header)) => {
                let note = (!loader.interprets()).then(|| NO_TENSORS.into());
                Ok(Tested { failure: header.failure((case, loader), *tolerance)?, note })
            }
            _ => Err(error),
        })
    }

    fn model(&self) -> &Path {
        &self.case.model
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.case.set.clone()]
    }
}

/// The note on a case that no plan can be made for.
const NO_TENSORS: &str = "tract has no sequences and no optionals, the model was run node by node";

impl TestRequest {
    /// The answer where all that the model takes and makes is tensors.
    fn of_tensors(&self, loader: &Loader) -> TractResult<Tested> {
        let TestRequest { case, tolerance } = self;
        let model = loader.open(&case.model)?;
        let (tensors, mut notes) = about(ProblemKind::Input, inputs_of(case, &model.takes))?;
        let expected = case.outputs()?;
        ensure!(!expected.is_empty(), "there is no output_*.pb to compare with");
        let RunResult { outputs, note } = model.run_told(tensors)?;
        notes.extend(note);
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(Tested { failure: failure(&outputs, &expected, *tolerance)?, note })
    }
}

/// The case's inputs, which are the model's by position, and notes on those that were cast.
/// Fails when there are not as many, or one is not of the input's type.
fn inputs_of(case: &Case, model: &Declared) -> TractResult<(Tensors, Vec<String>)> {
    let given = case.inputs()?;
    let (files, wanted) = (given.len(), model.inputs.len());
    ensure!(files == wanted, "the case has {}, the model takes {wanted}", counted(files, "input"));
    let mut notes = vec![];
    let load = |(file, input): (&PathBuf, &Input)| {
        let fitting = files::read_tensor_proto(file)?.fitting(input.ty);
        let (tensor, held) = at(format!("input `{}`", input.name), fitting)?;
        notes.extend(held.map(|held| input.cast_from(held)));
        Ok(Arc::new(tensor))
    };
    let tensors = given.iter().zip(&model.inputs).map(load).collect::<TractResult<_>>()?;
    Ok((tensors, notes))
}

/// What distinguishes the outputs from those in the files.
fn failure(
    outputs: &[NamedTensor],
    expected: &[PathBuf],
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    let (made, wanted) = (outputs.len(), expected.len());
    if made != wanted {
        return Ok(Some(format!("the model has {}, expected {wanted}", counted(made, "output"))));
    }
    for (output, file) in outputs.iter().zip(expected) {
        let want = files::read_tensor_proto(file)?;
        if let Some(difference) = differs(output, want, tolerance)? {
            return Ok(Some(format!("output `{}`: {difference}", single_line(&output.name))));
        }
    }
    Ok(None)
}

/// What distinguishes an output from the expected one; another type does too.
fn differs(
    output: &NamedTensor,
    want: Array,
    tolerance: Option<Tolerance>,
) -> TractResult<Option<String>> {
    match want.into_tensor(output.ty) {
        Ok(want) => difference(output.ty, &output.tensor, &want, tolerance),
        Err(error) => Ok(Some(message::one_line(&error))),
    }
}
