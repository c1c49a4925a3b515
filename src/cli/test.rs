//! `onnx-cast test`: every case in turn, and the count.

use anyhow::bail;
use serde::Serialize;

use super::message::single_line;
use super::request::{Answer, Request};
use super::supervisor::Supervisor;
use super::terminal::{BAD, GOOD, Output};
use super::{FAILED, TestArgs, cases, jobs};

/// What `--json` prints.
#[derive(Serialize, Default)]
struct Report {
    cases: Vec<Line>,
    passed: usize,
    failed: usize,
}

#[derive(Serialize)]
struct Line {
    path: String,
    passed: bool,
    reason: Option<String>,
}

/// Runs the cases. The result is the exit status.
///
/// # Errors
///
/// When there is no case, or none whose model and inputs can be used.
pub(super) fn run(
    args: &TestArgs,
    supervisor: &mut Supervisor,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let cases = cases::find(&args.paths)?;
    let bar = jobs::progress_bar(cases.len());
    let mut report = Report::default();
    let mut unusable = vec![];
    for case in cases {
        let path = case.path.display().to_string();
        let reason = match supervisor.ask(&Request::Check(case, args.tolerance()))? {
            Answer::Passed | Answer::Shown(_) | Answer::Facts(_) => None,
            Answer::Failed(reason) => Some(reason),
            Answer::Unusable(reason) => {
                unusable.push(format!("{path}: {reason}"));
                Some(reason)
            }
        };
        let line = Line { path, passed: reason.is_none(), reason };
        if !args.json {
            let text = human(&line, output);
            bar.suspend(|| output.line(&text))?;
        }
        bar.inc(1);
        *(if line.passed { &mut report.passed } else { &mut report.failed }) += 1;
        report.cases.push(line);
    }
    bar.finish_and_clear();
    output.line(&match args.json {
        true => serde_json::to_string(&report)?,
        false => format!("{} passed, {} failed", report.passed, report.failed),
    })?;
    match unusable.first() {
        Some(problem) if unusable.len() == report.cases.len() => bail!("{problem}"),
        _ => Ok(if report.failed == 0 { 0 } else { FAILED }),
    }
}

fn human(line: &Line, output: &Output) -> String {
    let path = single_line(&line.path);
    match &line.reason {
        None => format!("{}   {path}", output.paint(GOOD, "ok")),
        Some(reason) => format!("{} {path}: {reason}", output.paint(BAD, "FAIL")),
    }
}
