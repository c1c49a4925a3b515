//! What no run has reached.

use serde::{Deserialize, Serialize};

use super::finding::{Code, FindingRow};

/// A part of a model that no run has reached: of that, equal outputs say nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Unexercised {
    pub(crate) kind: UnexercisedKind,
    /// The table, or the node.
    pub(crate) name: String,
    /// How many rows were read, or values passed, of how many; a branch that ran has one.
    pub(crate) seen: u64,
    pub(crate) total: Option<u64>,
    /// The same in words.
    pub(crate) text: String,
}

/// A part of a model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnexercisedKind {
    /// Rows of a table.
    Rows,
    /// A branch of an If.
    Branch,
    Cast,
}

impl Unexercised {
    /// The row that tells of it.
    pub(crate) fn finding(&self) -> FindingRow {
        FindingRow::new(Code::NotExercised, self.text.clone())
    }
}
