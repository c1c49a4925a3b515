//! Constants that stay in their file: what is read of one is what is asked for, rows of it if those are enough.
//!
//! The vocabulary of a language model is its largest weight. A `Gather` takes a few rows of it, and the last product takes it,
//! transposed, in blocks: as a tensor in memory it would be there two or three times.

#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tract_onnx::data_resolver::ModelDataResolver;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::{ExoticFact, PlainStorage, TensorStorage};

use crate::tensor::output::{in_pieces, with_axis_moved};

/// How many bytes of a file are read at once.
pub(super) const PIECE: usize = 1 << 20;

/// Of rows that are shorter than `LEAST_ROW`, and whose parts are shorter than this, all is read at once: each part is a call of
/// the system's.
const LEAST_PIECE: usize = 1 << 12;
const LEAST_ROW: usize = 1 << 14;

/// How external data is read.
pub(crate) type Resolver = Arc<dyn ModelDataResolver + Send + Sync>;

/// What changes bytes of a matrix behind their reading, given how many bytes of the matrix stand before them.
type Alteration = Arc<dyn Fn(usize, &mut [u8]) + Send + Sync>;

/// Where the elements of a tensor are, one behind the other.
#[derive(Clone)]
pub(super) struct ExternalPlace {
    pub(super) resolver: Resolver,
    pub(super) path: PathBuf,
    /// In bytes.
    pub(super) offset: usize,
    pub(super) datum_type: DatumType,
    pub(super) shape: [usize; 2],
    pub(super) altered: Option<Alteration>,
}

/// The memory of a matrix that is in a file until all of it is asked for.
#[derive(Clone)]
struct Late {
    place: Arc<ExternalPlace>,
    /// Whether the matrix is the transpose of what the file holds.
    is_turned: bool,
    all: OnceLock<PlainStorage>,
}

/// The matrix of plain numbers at a place, of which nothing is read yet.
pub(super) fn matrix(place: ExternalPlace) -> Tensor {
    let (datum_type, shape) = (place.datum_type, place.shape);
    let late = Late { place: Arc::new(place), is_turned: false, all: OnceLock::new() };
    Tensor::from_storage(datum_type, &shape, late)
}

/// The transpose of a matrix that is in its file; `None` of any other tensor.
pub(crate) fn turned(tensor: &Tensor) -> Option<Tensor> {
    let late = still_late(tensor)?;
    let &[rows, columns] = tensor.shape() else { return None };
    let (place, is_turned) = (late.place.clone(), !late.is_turned);
    let late = Late { place, is_turned, all: OnceLock::new() };
    Some(Tensor::from_storage(tensor.datum_type(), &[columns, rows], late))
}

/// The matrix that is in a file of which nobody has asked for all, of a tensor that is its transpose, as a
/// [`Transpose`](crate::interpreter) of it is; `None` of any other tensor.
pub fn untransposed(tensor: &Tensor) -> Option<Tensor> {
    still_late(tensor).filter(|late| late.is_turned).and_then(|_| turned(tensor))
}

/// A matrix that is in its file, of which `alter` changes what is read; `None` of any other tensor, and of a transpose. It is
/// given some bytes, which are whole elements one behind the other, and how many bytes of the matrix stand before them, and is to
/// make the same of each element whenever that is read.
pub fn altered(
    tensor: &Tensor,
    alter: impl Fn(usize, &mut [u8]) + Send + Sync + 'static,
) -> Option<Tensor> {
    let late = still_late(tensor).filter(|late| !late.is_turned && late.place.altered.is_none())?;
    let place =
        ExternalPlace { altered: Some(Arc::new(alter)), ..ExternalPlace::clone(&late.place) };
    Some(matrix(place))
}

/// Some rows of a matrix that is in its file, in the order in which they are asked for; `None` of any other tensor, and where
/// it has no such row. Fails when they cannot be read.
pub(crate) fn rows(tensor: &Tensor, wanted: &[usize]) -> TractResult<Option<Tensor>> {
    let Some(late) = still_late(tensor).filter(|late| !late.is_turned) else { return Ok(None) };
    let [rows, columns] = late.place.shape;
    if wanted.iter().any(|row| *row >= rows) {
        return Ok(None);
    }
    let row = late.place.row_bytes().max(1);
    let at = |place: usize| wanted.get(place / row).copied().unwrap_or_default() * row;
    late.place.read([wanted.len(), columns], row, at).map(Some)
}

/// Whether nothing has asked for all of a matrix that is in its file: rows of it ([`Tensor::slice`]) are read when they are asked
/// for.
pub(crate) fn is_late(tensor: &Tensor) -> bool {
    still_late(tensor).is_some()
}

fn still_late(tensor: &Tensor) -> Option<&Late> {
    tensor.storage_as::<Late>().filter(|late| late.all.get().is_none())
}

impl ExternalPlace {
    fn row_bytes(&self) -> usize {
        let [_, columns] = self.shape;
        columns * self.datum_type.size_of()
    }

    /// A tensor of so many rows, read in pieces of so many bytes, of which `at` says where they are, from the first element on.
    fn read(
        &self,
        shape: [usize; 2],
        piece: usize,
        at: impl Fn(usize) -> usize,
    ) -> TractResult<Tensor> {
        in_pieces(self.datum_type, &shape, piece, |bytes, place, length| {
            bytes.clear();
            let before = at(place);
            let at = self.offset.saturating_add(before);
            self.resolver.read_bytes_from_path(bytes, &self.path, at, Some(length))?;
            self.altered.iter().for_each(|alter| alter(before, bytes));
            Ok(())
        })
    }
}

impl Late {
    /// The matrix of the rows of the file from one to another, as this one is laid out.
    fn part(&self, start: usize, end: usize) -> TractResult<Tensor> {
        let [_, columns] = self.place.shape;
        let before = start * self.place.row_bytes();
        let part = self.place.read([end - start, columns], PIECE, |place| before + place)?;
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
        let [rows, _] = self.place.shape;
        rows * self.place.row_bytes()
    }

    fn is_empty(&self) -> bool {
        self.byte_len() == 0
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        Box::new(self.clone())
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        self.all.get()
    }

    /// Whoever changes a tensor changes its own copy: what is in the file is read for it.
    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        self.materialize_plain_ram().ok()?;
        self.all.get_mut()
    }

    fn into_plain_ram(self: Box<Self>) -> Option<PlainStorage> {
        self.materialize_plain_ram().ok()?;
        self.all.into_inner()
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        self.place.path.hash(&mut state);
        self.place.offset.hash(&mut state);
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
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let [rows, _] = self.place.shape;
        let read = PlainStorage::from(self.part(0, rows)?.into_blob()?);
        Ok(self.all.get_or_init(|| read))
    }

    fn slice(
        &self,
        _: DatumType,
        _: &[usize],
        axis: usize,
        start: usize,
        end: usize,
    ) -> TractResult<Option<Tensor>> {
        if self.all.get().is_some() {
            return Ok(None);
        }
        let is_of_rows = (axis == 1) == self.is_turned;
        if is_of_rows {
            return self.part(start, end).map(Some);
        }
        let (place, [rows, _]) = (&self.place, self.place.shape);
        let width = place.datum_type.size_of();
        let piece = (end - start) * width;
        if self.is_turned || piece < LEAST_PIECE && place.row_bytes() < LEAST_ROW {
            return Ok(None);
        }
        let at = |made: usize| made / piece * place.row_bytes() + start * width;
        place.read([rows, end - start], piece, at).map(Some)
    }
}

impl PartialEq for Late {
    fn eq(&self, other: &Late) -> bool {
        let same = Arc::ptr_eq(&self.place, &other.place) && self.is_turned == other.is_turned;
        let all = |late| TensorStorage::materialize_plain_ram(late).ok();
        same || all(self).zip(all(other)).is_some_and(|(one, other)| one == other)
    }
}

impl Eq for Late {}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.place.path.display(), self.place.offset)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
