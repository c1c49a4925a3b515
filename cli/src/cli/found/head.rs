//! What reports say of an audit and of a comparison alike.

use serde::{Deserialize, Serialize};

use super::coverage::Unexercised;
use super::finding::{Code, FindingRow, Severity};
use super::inputs::Inputs;
use super::samples::SampleResult;
use super::status::Status;
use super::weights::ComparedWeights;
use crate::cli::message::ReportedProblem;

/// How it went, on what, and what was found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) status: Status,
    /// Why there is no more to say.
    pub(crate) error: Option<ReportedProblem>,
    /// Sets of inputs that it ran on.
    pub(crate) sets: usize,
    pub(crate) inputs: Inputs,
    pub(crate) tolerance_file: Option<String>,
    /// Everything that was found, the notes first and the warnings last.
    pub(crate) rows: Vec<FindingRow>,
    /// What the conversion did to the constants.
    pub(crate) weights: ComparedWeights,
    /// How each set fared where there are several, the worst first.
    #[serde(default)]
    pub(crate) samples: Vec<SampleResult>,
    /// What no run has reached.
    pub(crate) unexercised: Vec<Unexercised>,
}

impl Head {
    /// Where there is nothing but an error.
    pub(crate) fn unusable(problem: ReportedProblem) -> Head {
        Head { status: Status::Unusable, error: Some(problem), ..Head::default() }
    }

    /// Why there is no more to say, in words.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.error.as_ref().map(|problem| problem.message.as_str())
    }

    /// The rows of a severity.
    pub(crate) fn of(&self, severity: Severity) -> impl Iterator<Item = &FindingRow> {
        self.rows.iter().filter(move |row| row.severity == severity)
    }

    /// The sentences of the rows of a severity, with what they are about.
    pub(crate) fn sentences(&self, severity: Severity) -> Vec<String> {
        self.of(severity).map(FindingRow::in_words).collect()
    }

    /// The sentences of the rows of one code.
    pub(crate) fn sentences_of(&self, code: Code) -> Vec<String> {
        self.rows.iter().filter(|row| row.code == code).map(FindingRow::in_words).collect()
    }
}
