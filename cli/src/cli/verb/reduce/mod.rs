//! `onnx-cast reduce`: the smallest model, or pair of models, that still shows what is wrong.
//!
//! A `part` is a set of nodes between values that are given, which are those that the whole model
//! has there. Of a pair of models (`pair`), that is where the converted model goes wrong. Of one
//! model (`of_command`, `one`), nodes are left out from both ends as long as a command fails.
//! Either way a part is taken out of the bodies that it is `inside` of, a `trial` tells whether it
//! shows what is wrong, `hollow` leaves nodes out of bodies, `shrink` makes its shapes smaller and
//! `simpler` its values, and `case` and `readme` write it. A `side` is a model with its values on a
//! set, `values` are those as they are given to a part, `request` is a reduction that a worker is
//! asked for, and `reduced` what is told of one.

mod case;
mod hollow;
mod inside;
mod of_command;
mod one;
mod pair;
mod part;
mod readme;
mod reduced;
mod request;
mod shrink;
mod side;
mod simpler;
mod trial;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;

use crate::cli::args::report::JsonArgs;
use crate::cli::args::resources::Resources;
use crate::cli::args::tolerance::{ToleranceArgs, parse_output};
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::found::status::Status;
use crate::cli::input::args::SetsArgs;
use crate::cli::input::cases::file_of;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{counted, single_line, size_in_words};
use crate::cli::process::command::Check;
use crate::cli::process::jobs::ask;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::json;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::verb::Verb;
use crate::cli::verb::compare::CompareRequest;
use of_command::OneRequest;
use reduced::Reduced;
use request::{ReduceRequest, ReduceTask};

/// Reduce a model, or a pair of models, to the smallest part that shows the fault.
///
/// Of REFERENCE and CONVERTED, what is left are the nodes of both where they diverge: at the same
/// node, in the same way. With --check, what is left of MODEL are the nodes on which the
/// command still fails: {model} stands for the path of a model, {inputs} for that of a folder of
/// input_*.pb. The part takes the values that the whole model has there, of the one set of inputs
/// that shows it most.
///
/// DIR becomes a test case: model.onnx, reference.onnx of a pair, test_data_set_0, and a README.md
/// to be sent along. It holds the best so far at any time, also after an interruption. Further
/// causes are in DIR/2, DIR/3, and so on.
///
/// The exit status is 1 if there is nothing to show: the outputs agree, or the command does not
/// fail.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast reduce model.onnx model_fp16.onnx -o case --rtol 1e-2
  onnx-cast reduce model.onnx --check 'python try.py {model} {inputs}' -o case
  onnx-cast reduce model.onnx --check 'python try.py {model}' --status 134 -o case
  onnx-cast test case")]
pub(crate) struct Reduce {
    /// The model that is right, or its saved outputs; with --check the model to reduce.
    #[arg(value_name = "REFERENCE")]
    reference: PathBuf,
    /// The conversion to check, or its saved outputs.
    #[arg(value_name = "CONVERTED", required_unless_present = "check", conflicts_with = "check")]
    converted: Option<PathBuf>,
    /// The folder of the case: a new one, or an empty one.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// A command that fails on the model, run without a shell.
    #[arg(long, value_name = "COMMAND", help_heading = "Command")]
    check: Option<String>,
    /// The exit status that it fails with, 128 and its number for a signal [default: any but 0].
    #[arg(long, value_name = "N", requires = "check", help_heading = "Command")]
    status: Option<i32>,
    /// What it has to write to standard error.
    #[arg(long, value_name = "TEXT", requires = "check", help_heading = "Command")]
    stderr: Option<String>,
    /// Have a shell run it.
    #[arg(long, requires = "check", help_heading = "Command")]
    shell: bool,
    /// How long each run of it may take [default: 10 s and five times what it takes on the whole
    /// model].
    #[arg(long, value_name = "SECONDS", requires = "check", help_heading = "Command")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    check_timeout: Option<u64>,
    #[command(flatten, next_help_heading = "Inputs")]
    sets: SetsArgs,
    #[command(flatten, next_help_heading = "Tolerance")]
    tolerance: ToleranceArgs,
    /// The tolerance of a single output.
    #[arg(long, value_name = "NAME:rtol=R,…", value_parser = parse_output, help_heading = "Tolerance")]
    per_output: Vec<(String, Tolerance)>,
    /// Limits for the converted model [default: NAME.tolerance.toml beside NAME.onnx].
    #[arg(long = "tolerance", value_name = "FILE.toml", help_heading = "Tolerance")]
    limits: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Reports")]
    to: JsonArgs,
}

impl Verb for Reduce {
    type Request = ReduceRequest;

    /// Writes the case, and says what is left.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let read = [&self.reference].into_iter().chain(&self.converted).chain(&self.limits);
        let written = [("--json", self.to.json.as_ref())];
        check_files(&written, &self.sets.input, read.map(PathBuf::as_path))?;
        check_free(&self.output)?;
        let request = ReduceRequest { output: self.output.clone(), of: self.of()? };
        let reduced = ask(&request, resources)?;
        print_notes(&self.reference, &reduced.notes);
        write_json(&self.to, &|| json::document("reduce", &reduced), &lines(&reduced), output)?;
        Ok(if reduced.cases.is_empty() { Status::Failed } else { Status::Passed })
    }
}

impl Reduce {
    fn of(&self) -> anyhow::Result<ReduceTask> {
        let input = self.sets.input();
        let (Some(converted), None) = (&self.converted, &self.check) else {
            let check = Check {
                command: self.check.clone().unwrap_or_default(),
                is_shell: self.shell,
                status: self.status,
                stderr: self.stderr.clone(),
                seconds: self.check_timeout,
            };
            check.words()?;
            let given = self.tolerance.of_every_output() != Tolerance::default();
            let is_judged = given || !self.per_output.is_empty() || self.limits.is_some();
            ensure!(!is_judged, "--check: the command judges, so there is no tolerance");
            let request = OneRequest { model: self.reference.clone(), input, check };
            return Ok(ReduceTask::Command(Box::new(request)));
        };
        let (mut limits, limits_file) =
            ToleranceLimits::of(&file_of(converted), self.limits.as_deref())?;
        limits.judge_by(self.tolerance.of_every_output(), &self.per_output);
        let pair = CompareRequest::of(&self.reference, converted);
        let pair = CompareRequest { input, limits, limits_file, has_verdict: false, ..pair };
        Ok(ReduceTask::Pair(Box::new(pair)))
    }
}

/// Refuses a folder with something in it.
fn check_free(folder: &Path) -> anyhow::Result<()> {
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    let name = folder.display();
    ensure!(folder.is_dir(), "-o: {name} is there and no folder");
    let entries = fs::read_dir(folder).with_context(|| name.to_string())?;
    ensure!(entries.count() == 0, "-o: the folder {name} is not empty");
    Ok(())
}

fn lines(reduced: &Reduced) -> Vec<String> {
    let Reduced { model, nodes, runs, seconds, cases, problem, .. } = reduced;
    if let Some(problem) = problem {
        return vec![format!("{model}: nothing to show: {problem} ({})", counted(runs, "run"))];
    }
    let mut lines = vec![];
    for case in cases {
        let left = case.left.len();
        let folder = single_line(&case.folder);
        lines.push(format!(
            "{folder}: {left} of {}, {}",
            counted(nodes, "node"),
            size_in_words(case.bytes)
        ));
        lines.push(format!("  {}", single_line(&case.finding)));
        let shown = case.left.iter().take(SHOWN);
        lines.extend(shown.map(|(node, op)| format!("  {op} `{}`", single_line(node))));
        if left > SHOWN {
            lines.push(format!("  and {} more", left - SHOWN));
        }
    }
    lines.push(format!("{}, {seconds:.1} s", counted(runs, "run")));
    lines
}

/// How many nodes are listed.
const SHOWN: usize = 10;
