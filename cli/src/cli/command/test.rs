//! `onnx-cast test`: every case in turn, and the count.

use std::collections::HashSet;

use serde::Serialize;

use crate::cli::args::test::TestArgs;
use crate::cli::input::cases;
use crate::cli::judge::status::Status;
use crate::cli::message::{Problem, single_line};
use crate::cli::output_file::write_whole;
use crate::cli::process::protocol::Outcome;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::junit::{self, Suite, TestCase, TestOutcome};
use crate::cli::report::progress::progress_bar;
use crate::cli::report::terminal::{BAD, GOOD, Output, print_note};
use crate::cli::work::check::{CheckRequest, Checked};

/// The version of what `--json` prints, which docs/report-format.md describes.
const SCHEMA: &str = "onnx-cast/test/1";

/// What `--json` prints.
#[derive(Serialize, Default)]
struct Report {
    schema: &'static str,
    cases: Vec<Line>,
    passed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct Line {
    path: String,
    passed: bool,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Runs the cases.
///
/// # Errors
///
/// When there is no case, or none whose model and inputs can be used.
pub(crate) fn test(
    args: TestArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let cases = cases::find(&args.paths)?;
    let mut supervisor = Supervisor::new(max_memory);
    let tolerance = args.tolerance();
    let bar = progress_bar(cases.len());
    let mut report = Report { schema: SCHEMA, ..Report::default() };
    let mut unusable = vec![];
    for case in cases {
        let path = case.path.display().to_string();
        bar.set_message(single_line(&path));
        let (reason, note) = match supervisor.ask(&CheckRequest { case, tolerance })? {
            Outcome::Done(Checked { failure, note }) => (failure, note),
            Outcome::Unusable(Problem { kind, message }) => {
                unusable.push(Problem { kind, message: format!("{path}: {message}") });
                (Some(message), None)
            }
        };
        if let Some(note) = &note {
            bar.suspend(|| print_note(&format!("{path}: {note}")));
        }
        let line = Line { path, passed: reason.is_none(), reason, note };
        if !args.json {
            let text = human(&line, output);
            bar.suspend(|| output.line(&text))?;
        }
        bar.inc(1);
        *(if line.passed { &mut report.passed } else { &mut report.failed }) += 1;
        report.cases.push(line);
    }
    bar.finish_and_clear();
    if let Some(path) = &args.junit {
        write_whole(path, of_lines(&report.cases, &unusable).as_bytes())?;
    }
    output.line(&match args.json {
        true => serde_json::to_string(&report)?,
        false => format!("{} passed, {} failed", report.passed, report.failed),
    })?;
    match unusable.first() {
        Some(problem) if unusable.len() == report.cases.len() => Err(problem.clone().into()),
        _ => Ok(if report.failed == 0 { Status::Passed } else { Status::Failed }),
    }
}

/// A test for each case.
fn of_lines(lines: &[Line], unusable: &[Problem]) -> String {
    let unusable: HashSet<&str> = unusable.iter().map(|problem| &*problem.message).collect();
    let is_unusable =
        |line: &Line, reason: &str| unusable.contains(&*format!("{}: {reason}", line.path));
    let case = |line: &Line| TestCase {
        name: line.path.clone(),
        outcome: match &line.reason {
            None => TestOutcome::Passed,
            Some(reason) if is_unusable(line, reason) => TestOutcome::Unusable(reason.clone()),
            Some(reason) => TestOutcome::Failed(vec![reason.clone()]),
        },
        notes: line.note.iter().cloned().collect(),
    };
    let cases = lines.iter().map(case).collect();
    junit::written(&[Suite { name: "onnx-cast test".into(), cases }])
}

fn human(line: &Line, output: &Output) -> String {
    let path = single_line(&line.path);
    match &line.reason {
        None => format!("{}   {path}", output.paint(GOOD, "ok")),
        Some(reason) => format!("{} {path}: {reason}", output.paint(BAD, "FAIL")),
    }
}
