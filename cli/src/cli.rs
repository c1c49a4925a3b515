//! The command line: from what was typed to an exit status.
//!
//! Modules use those to the right of them only:
//!
//! ```text
//! command → process → work → { input, judge }
//! command → report → judge
//! ```
//!
//! `args` is what was typed, from which requests and inputs are made; `message` makes one line of an error, `output_file`
//! writes files, `phase` says what the work is at, and `tensor` is what `input` reads and `judge` compares.
//!
//! The way of a request: a file of `command` makes a `Request` of what was typed, say an `AuditRequest` of `AuditArgs`, and has
//! its `Supervisor` ask it. The supervisor starts this program once more, as a worker, and writes the request to its
//! standard input. The worker reads it by its kind, does the work, and writes the `Answer` that belongs to this type of
//! request, here `Audited`. What comes back is an `Outcome`: the answer, or why there is none, be it an error, a panic or
//! the worker's death. The command has `report` show it, and says how it went: the `Status` becomes the exit status.

mod args;
mod command;
pub(crate) mod input;
pub(crate) mod judge;
mod message;
pub(crate) mod output_file;
mod phase;
pub(crate) mod process;
mod report;
mod tensor;
pub(crate) mod work;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use args::{Cli, Command};
use judge::status::Status;
use message::{ErrorKind, Problem};
use process::{signals, supervisor, worker};
use report::json;
use report::terminal::{self, Output};

/// The program, in either of its two roles.
pub(crate) fn main() -> ExitCode {
    if worker::is_this_process() {
        return worker::serve();
    }
    signals::tidy_up_when_interrupted();
    let mut output = Output::stdout();
    let words = args::report::joined(std::env::args_os());
    let status = match Cli::try_parse_from(&words) {
        Ok(cli) => execute(cli, &mut output),
        Err(error) => explain_usage(&error, &mut output),
    };
    let status = status.and_then(|status| output.flush().map(|()| status));
    let status = status.unwrap_or_else(|error| {
        let problem = Problem::of(&error, ErrorKind::Call);
        if args::report::asks_for_json(&words) && !output.is_used() {
            // If this cannot be written either, the line below says what there is to say.
            let _ = json::of_problem(&problem)
                .map_err(anyhow::Error::from)
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

fn execute(cli: Cli, output: &mut Output) -> anyhow::Result<Status> {
    let Cli { command, max_memory, max_nodes, timeout } = cli;
    supervisor::set_timeout(timeout.map(Duration::from_secs));
    supervisor::set_nodes(max_nodes);
    match command {
        Command::Run(args) => command::run::run(args, max_memory, output),
        Command::Test(args) => command::test::test(args, max_memory, output),
        Command::Inspect(args) => command::inspect::inspect(args, max_memory, output),
        Command::Audit(args) => command::audit::audit(args, max_memory, output),
        Command::Compare(args) => command::compare::compare(args, max_memory, output),
        Command::Record(args) => command::record::record(args, max_memory, output),
        Command::Fix(args) => command::fix::fix(args, max_memory, output),
        Command::Keep(args) => command::keep::keep(args, max_memory, output),
        Command::Rerecord(args) => command::rerecord::rerecord(args, max_memory, output),
    }
}

/// `--help` and `--version` go to standard output; what clap has to say about a wrong call is
/// reduced to its first paragraph and its first tip.
fn explain_usage(error: &clap::Error, output: &mut Output) -> anyhow::Result<Status> {
    if !error.use_stderr() {
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
