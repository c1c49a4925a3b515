//! Matrices whose elements are made when they are asked for, a part of them if that is enough.
//!
//! The vocabulary of a language model is its largest weight. A `Gather` takes a few rows of it, and
//! the last product takes it, perhaps transposed, in blocks: as a tensor in memory it would be
//! there two or three times. In its file it need not be in memory at all, and in codes of a few
//! bits not as the numbers that they stand for.
//!
//! - `reader`: reads parts of such a matrix into memory that is there

#![forbid(unsafe_code)]

pub(crate) mod reader;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::{ExoticFact, PlainStorage, TensorStorage};

use crate::tensor::memory::Memory;
use crate::tensor::output::{in_pieces, with_axis_moved};

/// From so many bytes on a matrix is made late.
pub(crate) const LATE: usize = 1 << 20;

/// How many bytes are made at once.
pub(super) const PIECE: usize = 1 << 18;

/// The bytes of columns of a transpose: what is read is turned, and taken, while it is in a cache.
const BLOCK_OF_TRANSPOSE: usize = 1 << 20;

/// The bytes, as FLOAT, of columns whose rows are so short that they are read with what stands
/// between them: as many as panels are kept of.
const BLOCK_OF_ROWS: usize = 40 << 20;

/// How many bytes of such rows are read at once.
const ROWS_AT_ONCE: usize = 1 << 18;

/// What holds the elements of a matrix, row by row.
pub(super) trait MatrixSource: fmt::Debug + Send + Sync {
    /// What reads parts of it, one after the other. Fails when it cannot be read.
    fn reader(&self) -> TractResult<PartReader<'_>>;

    /// How many bytes the columns have that are best read at once, behind one another, where all
    /// are taken.
    fn block(&self) -> usize;

    /// Whether parts of so many bytes of each row are better read one by one than all rows, which
    /// have so many.
    fn is_read_by_parts(&self, part: usize, row: usize) -> bool;
}

/// Fills a buffer with the bytes of elements that stand one behind the other, given how many bytes
/// of the matrix are before them.
pub(super) type PartReader<'a> = Box<dyn FnMut(usize, &mut [u8]) -> TractResult<()> + 'a>;

/// What changes bytes of a matrix behind their reading, given how many bytes of the matrix stand
/// before them.
type Alteration = Arc<dyn Fn(usize, &mut [u8]) + Send + Sync>;

/// A matrix of plain numbers, as its source has it.
#[derive(Clone)]
struct SourceMatrix {
    source: Arc<dyn MatrixSource>,
    datum_type: DatumType,
    shape: [usize; 2],
    altered: Option<Alteration>,
    /// Where what is read lies, and what is read next may lie again.
    memory: Memory,
}

/// The memory of a matrix, which is empty until all of it is asked for.
#[derive(Clone)]
struct Late {
    matrix: Arc<SourceMatrix>,
    /// Whether it is the transpose of that.
    is_turned: bool,
    all: OnceLock<Tensor>,
}

/// The matrix of plain numbers that a source holds, of which nothing is read yet.
pub(super) fn matrix(
    source: Arc<dyn MatrixSource>,
    datum_type: DatumType,
    shape: [usize; 2],
    memory: &Memory,
) -> Tensor {
    late(SourceMatrix { source, datum_type, shape, altered: None, memory: memory.clone() })
}

fn late(matrix: SourceMatrix) -> Tensor {
    let (datum_type, shape) = (matrix.datum_type, matrix.shape);
    let late = Late { matrix: Arc::new(matrix), is_turned: false, all: OnceLock::new() };
    Tensor::from_storage(datum_type, &shape, late)
}

/// The transpose of a late matrix; `None` of any other tensor.
pub(crate) fn turned(tensor: &Tensor) -> Option<Tensor> {
    let late = still_late(tensor)?;
    let &[rows, columns] = tensor.shape() else { return None };
    let (matrix, is_turned) = (late.matrix.clone(), !late.is_turned);
    let late = Late { matrix, is_turned, all: OnceLock::new() };
    Some(Tensor::from_storage(tensor.datum_type(), &[columns, rows], late))
}

/// The late matrix ([`read_late`](crate::tensor_proto::read_late)) of which a tensor is the
/// transpose, as a [`Transpose`](crate::interpreter) of it is; `None` of any other tensor.
pub fn untransposed(tensor: &Tensor) -> Option<Tensor> {
    still_late(tensor).filter(|late| late.is_turned).and_then(|_| turned(tensor))
}

/// A late matrix of which `alter` changes what is read; `None` of any other tensor, and of a
/// transpose. It is given some bytes, which are whole elements one behind the other, and how many
/// bytes of the matrix stand before them, and is to make the same of each element whenever that is
/// read.
pub fn altered(
    tensor: &Tensor,
    alter: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
) -> Option<Tensor> {
    let late =
        still_late(tensor).filter(|late| !late.is_turned && late.matrix.altered.is_none())?;
    let matrix = SourceMatrix::clone(&late.matrix);
    Some(self::late(SourceMatrix { altered: Some(Arc::new(alter)), ..matrix }))
}

/// Some rows of a late matrix, in the order in which they are asked for; `None` of any other
/// tensor, and where it has no such row. Fails when they cannot be read.
pub(crate) fn rows(tensor: &Tensor, wanted: &[usize]) -> TractResult<Option<Tensor>> {
    let Some(late) = still_late(tensor).filter(|late| !late.is_turned) else { return Ok(None) };
    let [rows, columns] = late.matrix.shape;
    if wanted.iter().any(|row| *row >= rows) {
        return Ok(None);
    }
    let row = late.matrix.row_bytes().max(1);
    let at = |place: usize| wanted.get(place / row).copied().unwrap_or_default() * row;
    late.matrix.read([wanted.len(), columns], row, at).map(Some)
}

/// Whether nothing has asked for all of a late matrix: parts of it ([`Tensor::slice`]) are made
/// when they are asked for.
pub(crate) fn is_late(tensor: &Tensor) -> bool {
    still_late(tensor).is_some()
}

/// How many bytes the columns of a late matrix have, as FLOAT, that are best taken at once; `None`
/// of any other tensor.
pub(crate) fn block(tensor: &Tensor) -> Option<usize> {
    let Late { matrix, is_turned, .. } = still_late(tensor)?;
    let block = matrix.source.block();
    let [rows, _] = matrix.shape;
    let columns = block / rows.saturating_mul(size_of::<f32>()).max(1);
    let part = columns * matrix.datum_type.size_of();
    Some(match is_turned {
        true => BLOCK_OF_TRANSPOSE,
        false if matrix.source.is_read_by_parts(part, matrix.row_bytes()) => block,
        false => BLOCK_OF_ROWS,
    })
}

/// What a tensor is of, if nothing has asked for all of it. tract's reshapes change a tensor's
/// shape alone, and what has another than the matrix is read as a whole.
fn still_late(tensor: &Tensor) -> Option<&Late> {
    tensor.storage_as::<Late>().filter(|late| late.is_still_late(tensor.shape()))
}

/// Some columns of a late matrix, of which nothing is read yet either; `None` of any other tensor.
pub(crate) fn columns(tensor: &Tensor, start: usize, end: usize) -> Option<Tensor> {
    let Late { matrix, is_turned, .. } = still_late(tensor)?;
    let ([rows, columns], stride) = (matrix.shape, matrix.row_bytes());
    let count = end.checked_sub(start).filter(|_| tensor.shape().last() >= Some(&end))?;
    let (shape, first, row) = if *is_turned {
        ([count, columns], start * stride, stride)
    } else {
        let width = matrix.datum_type.size_of();
        ([rows, count], start * width, count * width)
    };
    let source = Arc::new(Window { matrix: matrix.clone(), first, row });
    let window = late(SourceMatrix { source, shape, altered: None, ..SourceMatrix::clone(matrix) });
    if *is_turned { turned(&window) } else { Some(window) }
}

/// Columns of a matrix that stand beside one another, or rows.
#[derive(Debug)]
struct Window {
    matrix: Arc<SourceMatrix>,
    /// How many bytes of the matrix are before the first row, and how many of each row are in it.
    first: usize,
    row: usize,
}

impl MatrixSource for Window {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        let Window { matrix, first, row } = self;
        let (mut read, stride) = (matrix.source.reader()?, matrix.row_bytes());
        if *row < stride && !matrix.source.is_read_by_parts(*row, stride) {
            let mut rows = vec![];
            return Ok(Box::new(move |before, bytes| {
                self.read_rows(&mut read, &mut rows, (before, bytes))
            }));
        }
        Ok(Box::new(move |before, mut bytes| {
            let mut before = before;
            while !bytes.is_empty() {
                let within = before % row;
                let length = if *row == stride { bytes.len() } else { row - within };
                let (part, rest) = bytes.split_at_mut(length.min(bytes.len()));
                matrix.read_part(&mut read, first + before / row * stride + within, part)?;
                (before, bytes) = (before + part.len(), rest);
            }
            Ok(())
        }))
    }

    fn block(&self) -> usize {
        self.matrix.source.block()
    }

    fn is_read_by_parts(&self, part: usize, _: usize) -> bool {
        self.matrix.source.is_read_by_parts(part, self.matrix.row_bytes())
    }
}

impl Window {
    /// Reads elements of short rows, of which many are read whole at once.
    fn read_rows(
        &self,
        read: &mut PartReader,
        rows: &mut Vec<u8>,
        (before, mut bytes): (usize, &mut [u8]),
    ) -> TractResult<()> {
        let Window { matrix, first, row } = self;
        let (stride, mut before) = (matrix.row_bytes(), before);
        let at_once = (ROWS_AT_ONCE / stride).max(1);
        while !bytes.is_empty() {
            let (start, mut within) = (before / row, before % row);
            let count = (within + bytes.len()).div_ceil(*row).min(at_once);
            rows.resize(count * stride, 0);
            matrix.read_part(read, start * stride, rows)?;
            for held in rows.chunks_exact(stride) {
                let length = (row - within).min(bytes.len());
                let (part, rest) = bytes.split_at_mut(length);
                part.copy_from_slice(&held[first + within..first + within + length]);
                (before, bytes, within) = (before + length, rest, 0);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SourceMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl SourceMatrix {
    fn row_bytes(&self) -> usize {
        let [_, columns] = self.shape;
        columns * self.datum_type.size_of()
    }

    /// Fills a buffer with elements that stand one behind the other, given how many bytes are
    /// before them.
    fn read_part(&self, read: &mut PartReader, before: usize, bytes: &mut [u8]) -> TractResult<()> {
        read(before, bytes)?;
        self.altered.iter().for_each(|alter| alter(before, bytes));
        Ok(())
    }

    /// A tensor of so many rows, read in pieces of so many bytes, of which `at` says where they
    /// are, from the first element on.
    fn read(
        &self,
        shape: [usize; 2],
        piece: usize,
        at: impl Fn(usize) -> usize,
    ) -> TractResult<Tensor> {
        let mut read = self.source.reader()?;
        in_pieces((self.datum_type, &shape), piece, &self.memory, |place, bytes| {
            self.read_part(&mut read, at(place), bytes)
        })
    }
}

impl Late {
    /// Whether nothing has asked for all of it, of a tensor of a shape.
    fn is_still_late(&self, shape: &[usize]) -> bool {
        let [rows, columns] = self.matrix.shape;
        let own = if self.is_turned { [columns, rows] } else { [rows, columns] };
        self.all.get().is_none() && *shape == own
    }

    /// The matrix of the source's rows from one to another, as this one is laid out.
    fn part(&self, start: usize, end: usize) -> TractResult<Tensor> {
        let [_, columns] = self.matrix.shape;
        let before = start * self.matrix.row_bytes();
        let part = self.matrix.read([end - start, columns], PIECE, |place| before + place)?;
        if !self.is_turned {
            return Ok(part);
        }
        match with_axis_moved(&part, 0, 1)? {
            Some(turned) => Ok(turned),
            None => part.permute_axes(&[1, 0]),
        }
    }
}

impl TensorStorage for Late {
    fn byte_len(&self) -> usize {
        let [rows, _] = self.matrix.shape;
        rows * self.matrix.row_bytes()
    }

    fn is_empty(&self) -> bool {
        self.byte_len() == 0
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        Box::new(self.clone())
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        self.all.get()?.as_plain_ram_storage()
    }

    /// Whoever changes a tensor changes its own copy, for which all is read.
    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        self.materialize_plain_ram().ok()?;
        self.all.get_mut()?.as_plain_ram_storage_mut()
    }

    fn into_plain_ram(self: Box<Self>) -> Option<PlainStorage> {
        self.materialize_plain_ram().ok()?;
        Some(PlainStorage::from(self.all.into_inner()?.into_blob().ok()?))
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        self.matrix.shape.hash(&mut state);
    }

    fn exotic_fact(&self, _: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        Ok(None)
    }

    fn is_exotic(&self) -> bool {
        false
    }

    fn in_ram(&self) -> bool {
        self.all.get().is_some()
    }

    fn materialize_plain_ram(&self) -> TractResult<&PlainStorage> {
        let [rows, _] = self.matrix.shape;
        let all = match self.all.get() {
            Some(all) => all,
            None => {
                let read = self.part(0, rows)?;
                self.all.get_or_init(|| read)
            }
        };
        all.as_plain_ram_storage().context("numbers are plain memory")
    }

    fn slice(
        &self,
        _: DatumType,
        shape: &[usize],
        axis: usize,
        start: usize,
        end: usize,
    ) -> TractResult<Option<Tensor>> {
        if !self.is_still_late(shape) {
            return Ok(None);
        }
        let is_of_rows = (axis == 1) == self.is_turned;
        if is_of_rows {
            return self.part(start, end).map(Some);
        }
        let (matrix, [rows, _]) = (&self.matrix, self.matrix.shape);
        let width = matrix.datum_type.size_of();
        let piece = (end - start) * width;
        if self.is_turned || !matrix.source.is_read_by_parts(piece, matrix.row_bytes()) {
            return Ok(None);
        }
        let at = |made: usize| made / piece * matrix.row_bytes() + start * width;
        matrix.read([rows, end - start], piece, at).map(Some)
    }
}

impl PartialEq for Late {
    fn eq(&self, other: &Late) -> bool {
        let same = Arc::ptr_eq(&self.matrix, &other.matrix) && self.is_turned == other.is_turned;
        let all = |late| TensorStorage::materialize_plain_ram(late).ok();
        same || all(self).zip(all(other)).is_some_and(|(one, other)| one == other)
    }
}

impl Eq for Late {}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.matrix.source)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
