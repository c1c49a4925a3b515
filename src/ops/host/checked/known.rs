//! What is known of a node's operands and results.

use std::sync::Arc;

use tract_onnx::prelude::*;

/// What is known of the operands and results of a node, by their places in the file; nothing, where
/// it is not told.
pub(crate) trait KnownOperands {
    /// The dimensions of an input whose rank is known, as far as they are numbers.
    fn shape(&self, _place: usize) -> Option<TVec<Option<i64>>> {
        None
    }

    /// The rank of an output.
    fn output_rank(&self, _place: usize) -> Option<usize> {
        None
    }

    /// An input that is a constant.
    fn constant(&self, _place: usize) -> Option<Arc<Tensor>> {
        None
    }
}

/// Nothing is known.
impl KnownOperands for () {}
