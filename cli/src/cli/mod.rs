//! The command line: from what was typed to an exit status.
//!
//! Modules use those to the right of them only (`tests/models/circles.rs` holds it); what `measure`
//! finds out is a part of what is `found`, and both are one layer:
//!
//! ```text
//! verb → process → report → args → work → input → { found, measure }
//! ```
//!
//! - `verb`: the verbs, a file or a folder each
//! - `process`: the supervisor, and the worker that does what may crash
//! - `report`: what was found, in the terminal, JSON, Markdown, JUnit, Model Explorer or a page
//! - `args`: what several verbs take
//! - `work`: models at work in a worker
//! - `input`: what they run on
//! - `found`: what was found, as plain data; `measure`: how far tensors are apart
//! - `progress`: what a worker says while it works; `caller`: who has called; `message`: one line
//!   of an error; `input_file` opens files, `output_file` writes them; `tensor` is what `input`
//!   reads and `measure` compares
//!
//! The way of a request: a file of `verb` makes a `Request` of what was typed, say an
//! `AuditRequest` of `Audit`, and has a `Supervisor` ask it. The supervisor starts this program
//! once more, as a worker, and writes the request to its standard input. The worker finds its name
//! in the list of `verb`, does the work, and writes the `Answer` that belongs to this type of
//! request, here `Audited`. What comes back is a `RequestOutcome`: the answer, or why there is
//! none, be it an error, a panic or the worker's death. The verb has `report` show it, and says how
//! it went: the `Status` becomes the exit status.

mod args;
mod caller;
pub(crate) mod found;
pub(crate) mod input;
mod input_file;
pub(crate) mod measure;
mod message;
pub(crate) mod output_file;
pub(crate) mod process;
pub(crate) mod progress;
mod report;
mod tensor;
pub(crate) mod verb;
pub(crate) mod work;

use std::process::ExitCode;

use clap::error::ErrorKind as UsageKind;
use clap::{CommandFactory, Parser};

use args::resources::Resources;
use found::status::Status;
use message::{ProblemKind, ReportedProblem};
use process::{signals, worker};
use report::json;
use report::terminal::{self, Output};
use verb::{ANSWERERS, AnyVerb};

/// Find out whether the conversion of an ONNX model is right, and which node breaks it.
#[derive(Parser)]
#[command(name = "onnx-cast", version, arg_required_else_help = true, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    verb: AnyVerb,
    #[command(flatten, next_help_heading = "Limits")]
    resources: Resources,
}

const EXIT_STATUS: &str = "\
Exit status: 0 done, and every case passed; 1 a case failed, or something is beyond its limits or \
tolerance; 2 the model, an input or the call cannot be used, which one line on standard error \
explains.

Examples:
  onnx-cast compare model.onnx model_fp16.onnx
  onnx-cast keep model.onnx --to FLOAT16
  onnx-cast convert model.onnx --to FLOAT16 -o model_fp16.onnx
  onnx-cast reduce model.onnx model_fp16.onnx -o case
  onnx-cast audit model.onnx --report audit.html
  onnx-cast fix model_fp16.onnx -o fixed.onnx
  onnx-cast run model.onnx
  onnx-cast test models/
  onnx-cast inspect model.onnx
  onnx-cast record model.onnx goldens/model
  onnx-cast rerecord goldens/model";

/// The command line, as shells and manuals describe it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// The program, in either of its two roles.
pub(crate) fn main() -> ExitCode {
    if worker::is_this_process() {
        return worker::serve(ANSWERERS);
    }
    signals::tidy_up_when_interrupted();
    let mut output = Output::stdout();
    let words = args::report::joined(std::env::args_os());
    let status = match Cli::try_parse_from(&words) {
        Ok(Cli { verb, resources }) => verb.run(resources, &mut output),
        Err(error) => explain_usage(&error, &mut output),
    };
    let status = status.and_then(|status| output.flush().map(|()| status));
    let status = status.unwrap_or_else(|error| {
        let problem = ReportedProblem::of(&error, ProblemKind::Call);
        if args::report::asks_for_json(&words) && !output.is_used() {
            // If this cannot be written either, the line below says what there is to say.
            let _ = json::of_problem(&problem)
                .and_then(|json| output.line(&json).and_then(|()| output.flush()));
        }
        terminal::print_error(&problem.message);
        Status::Unusable
    });
    ExitCode::from(match status {
        Status::Passed => 0,
        Status::Failed => 1,
        Status::Unusable => 2,
    })
}

/// `--help` and `--version` go to standard output; what clap has to say about a wrong call is
/// reduced to its first paragraph and its first tip.
fn explain_usage(error: &clap::Error, output: &mut Output) -> anyhow::Result<Status> {
    let is_bare = error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_bare || !error.use_stderr() {
        output.line(error.to_string().trim_end())?;
        return Ok(Status::Passed);
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let mut tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let tip = tips.next().map_or(String::new(), |tip| format!(" ({tip})"));
    anyhow::bail!("{first}{tip}")
}
