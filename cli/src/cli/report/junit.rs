//! Reports as JUnit's XML, which CI systems read.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::verdict;
use crate::cli::found::audited::Audited;
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::finding::Severity;
use crate::cli::found::status::Status;
use crate::cli::message::single_line;

/// How a test went, with a line for each thing that is wrong.
pub(crate) enum TestOutcome {
    Passed,
    Failed(Vec<String>),
    /// The model or an input cannot be used.
    Unusable(String),
}

/// A test for each model.
pub(crate) fn of_audits(models: &[Audited]) -> anyhow::Result<String> {
    let mut suite = TestSuite::new("onnx-cast audit");
    for audited in models {
        let Audited { model, head, .. } = audited;
        let outcome = match (head.problem(), head.status) {
            (Some(problem), _) => TestOutcome::Unusable(problem.into()),
            (None, Status::Passed) => TestOutcome::Passed,
            (None, _) => {
                let mut lines = head.sentences(Severity::Error);
                lines.extend(verdict::of_audit(audited).into_iter().flat_map(<[String; 2]>::from));
                TestOutcome::Failed(lines)
            }
        };
        let notes = [Severity::Warning, Severity::Note].map(|severity| head.sentences(severity));
        add(&mut suite, model, outcome, &notes.concat());
    }
    written([suite])
}

/// A suite for each comparison, with a test for each output.
pub(crate) fn of_comparisons(pairs: &[Compared]) -> anyhow::Result<String> {
    written(pairs.iter().map(suite))
}

fn suite(pair: &Compared) -> TestSuite {
    let name = format!("onnx-cast compare {} against {}", pair.converted, pair.reference);
    let mut suite = TestSuite::new(single_line(&name));
    let told = |(what, place)| format!("{what}: {}", verdict::divergence_in_words(place));
    let mut notes = pair.head.sentences(Severity::Warning);
    notes.extend(verdict::divergences(pair).map(told));
    let outcome = |output: &ComparedTensor| {
        if output.passed {
            TestOutcome::Passed
        } else {
            // CI systems show the first line, in which the cause must be.
            let cause = verdict::cause(pair).map(|cause| format!("; {cause}"));
            let first = format!("{}{}", output.difference(), cause.unwrap_or_default());
            let next = verdict::next_step(pair).map(|next| match next.command {
                Some(command) => format!("{} {command}", next.words),
                None => next.words,
            });
            TestOutcome::Failed([first].into_iter().chain(next).collect())
        }
    };
    for output in &pair.outputs {
        let notes = std::mem::take(&mut notes);
        add(&mut suite, &output.name, outcome(output), &notes);
    }
    let failed = pair.outputs.iter().any(|output| !output.passed);
    let whole = match (pair.head.problem(), pair.head.status) {
        (Some(problem), _) => Some(TestOutcome::Unusable(problem.into())),
        // What fails as a whole belongs to no output.
        (None, Status::Failed) if !failed => {
            Some(TestOutcome::Failed(vec![verdict::verdict(pair).1]))
        }
        (None, Status::Passed) if pair.is_of_weights => Some(TestOutcome::Passed),
        _ => None,
    };
    whole.into_iter().for_each(|outcome| add(&mut suite, "the comparison", outcome, &notes));
    suite
}

/// Adds a test to a suite.
pub(crate) fn add(suite: &mut TestSuite, name: &str, outcome: TestOutcome, notes: &[String]) {
    let (kind, lines) = match outcome {
        TestOutcome::Passed => (None, vec![]),
        TestOutcome::Failed(lines) => (Some(NonSuccessKind::Failure), lines),
        TestOutcome::Unusable(problem) => (Some(NonSuccessKind::Error), vec![problem]),
    };
    let lines: Vec<String> = lines.iter().map(|line| single_line(line)).collect();
    let mut status = kind.map_or_else(TestCaseStatus::success, TestCaseStatus::non_success);
    if kind.is_some() {
        status.set_message(lines.first().map_or("", String::as_str));
        status.set_description(lines.join("\n"));
    }
    let mut case = TestCase::new(single_line(name), status);
    case.set_classname(suite.name.clone());
    if !notes.is_empty() {
        let notes: Vec<String> = notes.iter().map(|note| single_line(note)).collect();
        case.set_system_out(notes.join("\n"));
    }
    suite.add_test_case(case);
}

/// The XML. Fails when it cannot be made, which depends on nothing that a model says.
pub(crate) fn written(suites: impl IntoIterator<Item = TestSuite>) -> anyhow::Result<String> {
    let mut report = Report::new("onnx-cast");
    report.add_test_suites(suites);
    Ok(report.to_string()?)
}
