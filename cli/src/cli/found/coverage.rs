//! What no run has reached.

use serde::{Deserialize, Serialize};

/// A part of a model that no run has reached: of that, equal outputs say nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Unexercised {
    /// `rows` of a table, a `branch` of an If, or a `cast`.
    pub(crate) kind: String,
    /// The table, or the node.
    pub(crate) name: String,
    /// How many rows were read, or values passed, of how many; a branch that ran has one.
    pub(crate) seen: u64,
    pub(crate) total: Option<u64>,
    /// The same in words.
    pub(crate) text: String,
}
