//! What mending has changed.

use std::fmt;

/// Something that was changed in a model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// What kind of thing.
    pub kind: ChangeKind,
    /// The node or the value; below the main graph and in functions, with the path to it in front.
    pub place: String,
    /// What was there: an element type, or the name of a value.
    pub from: String,
    /// What is there in its place.
    pub to: String,
}

/// What of a model's file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The attribute `to` of a `Cast`: from one element type to another.
    To,
    /// The type that is declared of an inner value.
    ValueInfo,
    /// The type that is declared of a graph's output.
    Output,
    /// A node's input: from one value to another.
    Input,
    /// A `Cast` was added: from one element type to another.
    Added,
    /// A `Cast` was removed: from its output to the value that stands for it.
    Removed,
}

impl ChangeKind {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ChangeKind::To => "to",
            ChangeKind::ValueInfo => "value_info",
            ChangeKind::Output => "output",
            ChangeKind::Input => "input",
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
