//! Reads parts of late matrices into memory that is there.

#![forbid(unsafe_code)]

use tract_onnx::prelude::*;

use super::{Late, PartReader, SourceMatrix, still_late};
use crate::error::{Error, Result};

/// What reads rows of a late matrix as its source has them, one part after the other.
pub(crate) struct RowReader<'a> {
    matrix: &'a SourceMatrix,
    read: PartReader<'a>,
    /// Whether the rows are columns of the tensor.
    pub(crate) is_turned: bool,
}

/// A reader of the rows of a late matrix; `None` of any other tensor. Fails when its source cannot
/// be read.
pub(crate) fn row_reader(tensor: &Tensor) -> TractResult<Option<RowReader<'_>>> {
    let Some(Late { matrix, is_turned, .. }) = still_late(tensor) else { return Ok(None) };
    let read = matrix.source.reader()?;
    Ok(Some(RowReader { matrix, read, is_turned: *is_turned }))
}

/// The same of a late matrix whose rows these are; `None` of a transpose as well.
pub(crate) fn upright_reader(tensor: &Tensor) -> TractResult<Option<RowReader<'_>>> {
    Ok(row_reader(tensor)?.filter(|rows| !rows.is_turned))
}

impl RowReader<'_> {
    /// How many rows the source has, and how many elements each.
    pub(crate) fn shape(&self) -> [usize; 2] {
        self.matrix.shape
    }

    /// Fills a buffer with elements that stand one behind the other in these rows, from one on.
    /// Fails when they cannot be read.
    pub(crate) fn read(&mut self, first: usize, bytes: &mut [u8]) -> TractResult<()> {
        let before = first * self.matrix.datum_type.size_of();
        self.matrix.read_part(&mut self.read, before, bytes)
    }
}

/// Reads elements of a late matrix ([`read_late`](crate::tensor_proto::read_late)), many times into
/// the same memory.
pub struct LateReader<'a>(RowReader<'a>);

impl LateReader<'_> {
    /// What reads a late matrix; `None` of any other tensor, of one whose elements are in memory by
    /// now or in another shape, and of a transpose
    /// ([`untransposed`](crate::tensor_proto::untransposed)). Fails when its file cannot be opened.
    pub fn of(tensor: &Tensor) -> Result<Option<LateReader<'_>>> {
        Ok(upright_reader(tensor).map_err(Error::of)?.map(LateReader))
    }

    /// Fills a buffer with elements that stand one behind the other in row-major order, from the
    /// one at `first` on, each of the bytes that it has in the tensor. Fails when they cannot be
    /// read, or the matrix has fewer.
    pub fn read(&mut self, first: usize, bytes: &mut [u8]) -> Result<()> {
        let [rows, columns] = self.0.shape();
        let count = bytes.len().div_ceil(self.0.matrix.datum_type.size_of().max(1));
        let is_there = first.checked_add(count).is_some_and(|end| end <= rows * columns);
        if !is_there {
            return Err(Error::argument("the matrix has fewer elements".into()));
        }
        self.0.read(first, bytes).map_err(Error::of)
    }
}
