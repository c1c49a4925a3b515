//! What is known of a node's operands and results.

use std::sync::Arc;

use tract_onnx::prelude::*;

/// What is known of the operands and results of a node, by their places in the file.
pub(crate) trait KnownOperands {
    /// The dimensions of an input whose rank is known, as far as they are numbers.
    fn shape(&self, place: usize) -> Option<TVec<Option<i64>>>;

    /// The rank of an output.
    fn output_rank(&self, place: usize) -> Option<usize>;

    /// An input that is a constant.
    fn constant(&self, place: usize) -> Option<Arc<Tensor>>;
}

/// Nothing is known.
impl KnownOperands for () {
    fn shape(&self, _: usize) -> Option<TVec<Option<i64>>> {
        None
    }

    fn output_rank(&self, _: usize) -> Option<usize> {
        None
    }

    fn constant(&self, _: usize) -> Option<Arc<Tensor>> {
        None
    }
}
