//! Matrices that stay beside the model, and ones whose transposes do: they are turned while they
//! are read.
//!
//! A `MatMulNBits` has the codes of a column of its weight behind one another, and
//! `DequantizeLinear` takes them by rows. Written out in memory they would be all that a model of
//! codes has in its file.
//!
//! - `turned`: rows that become columns

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;
mod turned;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use tract_onnx::pb::{StringStringEntryProto, TensorProto};
use tract_onnx::prelude::{Tensor, TractResult};

use self::turned::Rows;
use super::TensorReader;
use super::external::{ExternalPlace, FileData, Resolver, TRANSPOSED, is_external, is_transposed};
use super::packed::unpack_from;
use crate::cast::element_type::ElementType;
use crate::cast::squares::SIDE;
use crate::tensor::late::{self, LATE, MatrixSource, PartReader};
use crate::tensor::memory::Memory;

/// A tensor of `columns` by `rows` elements of a type: the transpose of the matrix of `rows` that
/// the external data of `stored` is, of each of which the first `columns` elements count. `None`
/// where `stored` has its data elsewhere, or its bytes are no such rows.
///
/// What reads tensors here reads it, and nothing else does: it is for models that are made to run.
pub fn transposed(
    stored: &TensorProto,
    name: &str,
    ty: ElementType,
    [columns, rows]: [usize; 2],
) -> Option<TensorProto> {
    let mut dims = stored.dims.iter().map(|dim| usize::try_from(*dim).ok());
    let elements = dims.try_fold(1usize, |count, dim| count.checked_mul(dim?))?;
    let bits = ElementType::from_id(stored.data_type)?.bits() as usize;
    let bytes = elements.checked_mul(bits)?.checked_div(8)?;
    let stride = bytes.checked_div(rows)?;
    let is_of_rows = stride.checked_mul(rows)? == bytes && bits >= 8;
    let is_in_pairs = ty.bits() != 4 || columns.is_multiple_of(2);
    let has_columns = columns.checked_mul(ty.bits() as usize)?.div_ceil(8) <= stride;
    let is_turned = matches!(ty.bits(), 4 | 8 | 32) && ty != ElementType::Bool;
    if !(is_external(stored) && is_of_rows && is_in_pairs && has_columns && is_turned) {
        return None;
    }
    let (key, value) = (TRANSPOSED.into(), stride.to_string());
    let own = StringStringEntryProto { key, value };
    let dims = [columns, rows].map(|dim| i64::try_from(dim).ok());
    Some(TensorProto {
        name: name.into(),
        data_type: ty as i32,
        dims: dims.into_iter().collect::<Option<_>>()?,
        data_location: stored.data_location,
        external_data: stored.external_data.iter().cloned().chain([own]).collect(),
        ..TensorProto::default()
    })
}

/// A matrix of which the rows of the transpose are in a file.
pub(super) struct TransposedPlace {
    place: ExternalPlace,
    ty: ElementType,
    /// How many rows the file has, and how many bytes each.
    rows: usize,
    stride: usize,
    /// How many bytes of each count.
    width: usize,
    read: Mutex<Option<Turned>>,
}

/// What was read of a file, and some of it turned.
#[derive(Default)]
struct Turned {
    /// The rows of the file, or some of them.
    stored: Vec<u8>,
    /// Whether that is all of them.
    has_all: bool,
    /// Which bytes of each row `columns` is made of.
    within: Range<usize>,
    columns: Vec<u8>,
    /// Where the bytes begin that were turned last, or were to be.
    last: usize,
}

/// So many bytes of each row are turned at once: a line of the cache.
const AT_ONCE: usize = 64;

/// From so many bytes on a file is read anew, some rows at a time, for each part that its rows are
/// turned in, as long as those are asked for in their order: that takes less than memory for all.
const LARGE: usize = 4 << 20;

/// How many bytes such a part has, and the rows that are read at once.
const PART: usize = 16 << 20;
const ROWS_AT_ONCE: usize = 1 << 20;

impl TransposedPlace {
    /// Of a matrix of so many columns and rows. Fails where the file has other rows than these.
    pub(super) fn new(
        place: ExternalPlace,
        ty: ElementType,
        ([columns, rows], stride): ([usize; 2], usize),
    ) -> TractResult<TransposedPlace> {
        let bits = ty.bits();
        let is_in_bytes = matches!(bits, 8 | 32) || bits == 4 && columns.is_multiple_of(2);
        let width = columns.checked_mul(bits as usize).map(|bits| bits / 8);
        let width = width.filter(|width| is_in_bytes && *width <= stride);
        let width = width.context("external data has rows of other bytes")?;
        Ok(TransposedPlace { place, ty, rows, stride, width, read: Mutex::default() })
    }

    /// Fills a buffer with elements, given how many bytes of a tensor's memory stand before them.
    fn read(&self, mut before: usize, mut bytes: &mut [u8]) -> TractResult<()> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let turned = read.get_or_insert_default();
        let at_once = self.at_once();
        // A byte of a row is so many elements, each of which begins a column of so many bytes.
        let of_byte = self.rows * 8 / self.ty.bits().min(8) as usize;
        while !bytes.is_empty() {
            let place = before / of_byte;
            ensure!(place < self.width, "the matrix has fewer elements");
            if !turned.within.contains(&place) {
                let left = place / at_once * at_once;
                turned.turn(self, left..self.width.min(left + at_once))?;
            }
            let first = turned.within.start * of_byte;
            let count = bytes.len().min(turned.within.end * of_byte - before);
            let (part, rest) = bytes.split_at_mut(count);
            self.unpack(&turned.columns, before - first, part)?;
            (before, bytes) = (before + count, rest);
        }
        // What has been read to its end is seldom read again.
        if before == self.width * of_byte {
            *read = None;
        }
        Ok(())
    }

    /// Whether the file is not held as a whole.
    fn is_large(&self) -> bool {
        self.rows.saturating_mul(self.stride) >= LARGE
    }

    /// How many bytes of each row are turned at once.
    fn at_once(&self) -> usize {
        let part = if self.is_large() { PART / self.rows.max(1) } else { AT_ONCE };
        (part / AT_ONCE).max(1) * AT_ONCE
    }

    /// Elements of columns as memory has them, given how many bytes of it stand before them.
    fn unpack(&self, columns: &[u8], before: usize, made: &mut [u8]) -> TractResult<()> {
        if self.ty.bits() < 8 {
            return unpack_from(columns, self.ty, before, made);
        }
        let held = columns.get(before..).and_then(|held| held.get(..made.len()));
        made.copy_from_slice(held.context("the matrix has fewer elements")?);
        Ok(())
    }
}

impl Turned {
    /// Turns some bytes of each row. Fails when the file cannot be read.
    fn turn(&mut self, place: &TransposedPlace, within: Range<usize>) -> TractResult<()> {
        let (rows, stride) = (place.rows, place.stride);
        let mut at_once = rows;
        // Whoever goes back will do so again.
        if place.is_large() && !self.has_all && self.last <= within.start {
            at_once = (ROWS_AT_ONCE / stride.max(1)).max(1).next_multiple_of(2 * SIDE);
        }
        (self.within, self.last) = (0..0, within.start);
        let columns = rows.checked_mul(within.len()).context("columns without end")?;
        self.columns.resize(columns, 0);
        let mut read = (!self.has_all).then(|| place.place.reader()).transpose()?;
        for first in (0..rows).step_by(at_once.max(1)) {
            // A pair of codes may be of the last row and the one behind it.
            let end = rows.min(first + at_once + 1);
            if let Some(read) = &mut read {
                self.has_all = false;
                self.stored.resize((end - first) * stride, 0);
                read(first * stride, &mut self.stored)?;
                self.has_all = end - first == rows;
            }
            let bytes = &*self.stored;
            let some = Rows { bytes, stride, within: within.clone(), first, rows };
            let turned = match place.ty.bits() {
                4 => some.turned_pairs(&mut self.columns),
                8 => some.turned::<1>(&mut self.columns),
                _ => some.turned::<4>(&mut self.columns),
            };
            turned.context("the rows have fewer bytes")?;
            if end == rows {
                break;
            }
        }
        self.within = within;
        Ok(())
    }
}

impl TensorReader<'_> {
    /// A large matrix of external data, which stays in its file, or one whose transpose does;
    /// `None` of any other tensor.
    pub(super) fn late_matrix(
        &self,
        folder: Option<&Path>,
        (resolver, memory): (&Resolver, &Memory),
    ) -> TractResult<Option<(ElementType, Tensor)>> {
        let &[rows, columns] = &*self.shape else { return Ok(None) };
        let is_large = self.is_copied() && self.packed_bytes()? >= LATE;
        if !is_external(self.proto) || !is_large && !is_transposed(self.proto) {
            return Ok(None);
        }
        let FileData { path, offset, bytes, stride } = self.external_data(folder)?;
        let last = offset.saturating_add(bytes.saturating_sub(1));
        let mut end = [0; 1];
        let end = if bytes == 0 { &mut end[..0] } else { &mut end[..] };
        self.in_file(resolver.open(&path).and_then(|mut file| file.read(last, end)))?;
        let place = ExternalPlace { resolver: resolver.clone(), path, offset };
        let (datum_type, shape) = (self.ty.datum_type(), [rows, columns]);
        let source: Arc<dyn MatrixSource> = match stride {
            Some(stride) => {
                let turned = TransposedPlace::new(place, self.ty, (shape, stride));
                Arc::new(self.in_file(turned)?)
            }
            None => Arc::new(place),
        };
        Ok(Some((self.ty, late::matrix(source, datum_type, shape, memory))))
    }
}

impl MatrixSource for TransposedPlace {
    fn reader(&self) -> TractResult<PartReader<'_>> {
        Ok(Box::new(|before, bytes| self.read(before, bytes)))
    }

    fn block(&self) -> usize {
        // It fits into a cache.
        1 << 18
    }

    fn is_read_by_parts(&self, _: usize, _: usize) -> bool {
        true
    }
}

impl fmt::Debug for TransposedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transpose of {} rows, {:?}", self.rows, self.place)
    }
}
