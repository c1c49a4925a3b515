//! An input that is followed to the nodes that take it, and what was done to its values on the way.

use onnx_cast_graph::{Graph, ValueId};
use tract_onnx_cast::Family;

use super::Bound;
use super::constants::sizes;
use crate::cli::input::declared::{Declared, Input};

/// What was done to an input's values on the way to a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Way {
    /// What was added to whole numbers.
    pub(super) shift: i64,
    /// Whether the values were multiplied, divided or otherwise changed.
    pub(super) is_scaled: bool,
    /// Whether they were put behind others of their kind.
    pub(super) is_joined: bool,
    /// Whether they were cast to whole numbers.
    pub(super) is_whole: bool,
    /// What they were divided by, as whole numbers.
    pub(super) divided: u64,
}

/// What is being followed.
pub(super) struct Followed<'a> {
    pub(super) input: &'a Input,
    pub(super) takes: &'a Declared,
    /// Whether quantisers tell what they were calibrated with.
    pub(super) is_calibrated: bool,
}

impl Followed<'_> {
    pub(super) fn is_integer(&self) -> bool {
        matches!(self.input.ty.family(), Family::Signed | Family::Unsigned)
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.input.ty.family(), Family::Float(_))
    }

    /// Whether a word is part of the input's name.
    pub(super) fn is_called(&self, word: &str) -> bool {
        self.input.name.to_ascii_lowercase().contains(word)
    }

    /// The bound that an axis of a value sets.
    pub(super) fn bound(&self, graph: &Graph, value: Option<ValueId>, axis: i64) -> Option<Bound> {
        let sizes = sizes(graph, value?, self.takes)?;
        let axis = if axis < 0 { axis + sizes.len() as i64 } else { axis };
        *sizes.get(usize::try_from(axis).ok()?)?
    }
}
