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
    /// What became of each of them, if it is one line for all.
    pub(super) line: Option<Line>,
}

/// A straight line: what was done to an input on the way to a node, where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Line {
    times: u64,
    plus: u64,
}

impl Line {
    pub(super) const NONE: Line = Line { times: 1f64.to_bits(), plus: 0f64.to_bits() };

    fn of(times: f64, plus: f64) -> Option<Line> {
        let is_known = times.is_normal() && plus.is_finite();
        is_known.then(|| Line { times: times.to_bits(), plus: plus.to_bits() })
    }

    /// What an operator makes of it, with a number at its other place.
    pub(super) fn behind(self, op: &str, place: usize, other: f64) -> Option<Line> {
        let (times, plus) = (f64::from_bits(self.times), f64::from_bits(self.plus));
        match (op, place) {
            ("Add", _) => Line::of(times, plus + other),
            ("Sub", 0) => Line::of(times, plus - other),
            ("Sub", _) => Line::of(-times, other - plus),
            ("Mul", _) => Line::of(times * other, plus * other),
            ("Div", 0) => Line::of(times / other, plus / other),
            _ => None,
        }
    }

    /// Where it reaches a number.
    pub(super) fn reaches(self, number: f64) -> f64 {
        (number - f64::from_bits(self.plus)) / f64::from_bits(self.times)
    }
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
        self.input.ty.is_float()
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
