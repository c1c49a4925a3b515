//! Reports as JUnit's XML, which CI systems read.

use crate::cli::found::audited::Audited;
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::status::Status;
use crate::cli::message::single_line;
use crate::cli::report::phrases;

/// A suite of tests: a comparison, or all models of an audit.
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) cases: Vec<TestCase>,
}

/// One test.
pub(crate) struct TestCase {
    pub(crate) name: String,
    pub(crate) outcome: TestOutcome,
    /// What else there is to know.
    pub(crate) notes: Vec<String>,
}

/// How it went, with a line for each thing that is wrong.
pub(crate) enum TestOutcome {
    Passed,
    Failed(Vec<String>),
    /// The model or an input cannot be used.
    Unusable(String),
}

/// A test for each model.
pub(crate) fn of_audits(models: &[Audited]) -> String {
    let case = |model: &Audited| TestCase {
        name: model.model.clone(),
        outcome: match (&model.problem, model.status) {
            (Some(problem), _) => TestOutcome::Unusable(problem.clone()),
            (None, Status::Passed) => TestOutcome::Passed,
            (None, _) => TestOutcome::Failed(model.exceeded.clone()),
        },
        notes: model.warnings.iter().chain(&model.notes).cloned().collect(),
    };
    written(&[Suite { name: "onnx-cast audit".into(), cases: models.iter().map(case).collect() }])
}

/// A suite for each comparison, with a test for each output.
pub(crate) fn of_comparisons(pairs: &[Compared]) -> String {
    written(&pairs.iter().map(suite).collect::<Vec<_>>())
}

fn suite(pair: &Compared) -> Suite {
    let name = format!("onnx-cast compare {} against {}", pair.converted, pair.reference);
    let whole = |outcome| TestCase { name: "the comparison".into(), outcome, notes: vec![] };
    let output = |output: &ComparedTensor| TestCase {
        name: output.name.clone(),
        outcome: match output.passed {
            true => TestOutcome::Passed,
            false => TestOutcome::Failed(vec![phrases::difference(output)]),
        },
        notes: vec![],
    };
    let mut cases: Vec<TestCase> = pair.outputs.iter().map(output).collect();
    let failed = pair.outputs.iter().any(|output| !output.passed);
    match (&pair.problem, pair.status) {
        (Some(problem), _) => cases.push(whole(TestOutcome::Unusable(problem.clone()))),
        // What fails as a whole belongs to no output.
        (None, Status::Failed) if !failed => {
            cases.push(whole(TestOutcome::Failed(vec![phrases::verdict(pair).1])));
        }
        _ => {}
    }
    if let Some(case) = cases.first_mut() {
        let partings = phrases::partings(pair)
            .map(|(what, parting)| format!("{what}: {}", phrases::parting_in_words(parting)));
        case.notes.extend(pair.warnings.iter().cloned().chain(partings));
    }
    Suite { name, cases }
}

/// The XML.
pub(crate) fn written(suites: &[Suite]) -> String {
    let cases = || suites.iter().flat_map(|suite| &suite.cases);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml += &format!("<testsuites name=\"onnx-cast\" {}>\n", counts(cases()));
    for Suite { name, cases } in suites {
        xml += &format!("  <testsuite name=\"{}\" {}>\n", escaped(name), counts(cases.iter()));
        cases.iter().for_each(|case| xml += &testcase(name, case));
        xml += "  </testsuite>\n";
    }
    xml + "</testsuites>\n"
}

fn counts<'a>(cases: impl Iterator<Item = &'a TestCase>) -> String {
    let (mut tests, mut failures, mut errors) = (0, 0, 0);
    for case in cases {
        tests += 1;
        match case.outcome {
            TestOutcome::Passed => {}
            TestOutcome::Failed(_) => failures += 1,
            TestOutcome::Unusable(_) => errors += 1,
        }
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"")
}

fn testcase(suite: &str, case: &TestCase) -> String {
    let mut inner = String::new();
    let mut element = |name: &str, lines: &[String]| {
        let message = escaped(lines.first().map_or("", String::as_str));
        let text: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
        inner += &format!("      <{name} message=\"{message}\">{}</{name}>\n", text.join("\n"));
    };
    match &case.outcome {
        TestOutcome::Passed => {}
        TestOutcome::Failed(lines) => element("failure", lines),
        TestOutcome::Unusable(problem) => element("error", std::slice::from_ref(problem)),
    }
    if !case.notes.is_empty() {
        let notes: Vec<String> = case.notes.iter().map(|note| escaped(note)).collect();
        inner += &format!("      <system-out>{}</system-out>\n", notes.join("\n"));
    }
    let (name, class) = (escaped(&case.name), escaped(suite));
    format!("    <testcase classname=\"{class}\" name=\"{name}\">\n{inner}    </testcase>\n")
}

/// Text in which nothing means anything to XML, and nothing is that XML does not allow.
fn escaped(text: &str) -> String {
    let mut xml = String::new();
    for c in single_line(text).chars() {
        match c {
            '<' => xml += "&lt;",
            '>' => xml += "&gt;",
            '&' => xml += "&amp;",
            '"' => xml += "&quot;",
            '\u{fffe}' | '\u{ffff}' => xml.push(char::REPLACEMENT_CHARACTER),
            c => xml.push(c),
        }
    }
    xml
}
