//! What `reduce` prints of a reduction that is done: the models, their sizes, and what they show.

use serde::{Deserialize, Serialize};

/// What became of a model, as `--json` prints it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Reduced {
    /// The model; of a pair the converted one.
    pub(super) model: String,
    pub(super) reference: Option<String>,
    /// How many nodes it has, those in bodies and functions included.
    pub(super) nodes: usize,
    /// How often models, parts or the command were run.
    pub(super) runs: usize,
    /// How many of these were of further sets of inputs, to find the one that shows it most.
    #[serde(skip)]
    pub(super) of_sets: usize,
    pub(super) seconds: f64,
    /// The cases that were written, the gravest first.
    pub(super) cases: Vec<ReducedCase>,
    /// Why there is none.
    pub(super) problem: Option<String>,
    pub(super) notes: Vec<String>,
}

/// A case that was written.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReducedCase {
    pub(super) folder: String,
    /// The node of the whole model that is blamed; of a command's case the last node.
    pub(super) node: String,
    pub(super) op: String,
    /// `overflow`, `nan`, `shape`, `tolerance`, `broken`, `imprecise` or `command`.
    pub(super) kind: String,
    /// What is wrong, in words.
    pub(super) finding: String,
    /// The nodes that are left, each with its operator.
    pub(super) left: Vec<(String, String)>,
    pub(super) inputs: usize,
    pub(super) bytes: u64,
}

impl Reduced {
    /// The runs that count for the first case.
    pub(super) fn counted(&self) -> usize {
        self.runs.saturating_sub(self.of_sets)
    }
}
