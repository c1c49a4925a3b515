//! A pool of output buffers: what a conversion keeps of outputs that nobody uses any more, for the
//! next ones.
//!
//! A fresh allocation of many megabytes costs more than the conversion that fills it: every page is
//! new to the process and faults once. A tensor of strings drops them one by one, and a new one
//! allocates them one by one. So a large output that nobody uses any more is kept, and the next one
//! of its size is made of it. The casts of a model share what they keep, and what is kept goes with
//! them.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::ensure;
use tract_onnx::prelude::{Blob, DatumType, Tensor, TractResult};
use tract_onnx::tract_core::internal::{ExoticFact, PlainStorage, TensorStorage, vector_size};

/// Outputs from this size on, in bytes, are kept. Smaller ones the allocator keeps mapped.
const KEPT_FROM: usize = 1 << 20;

/// What is read in pieces of such sizes is kept as well: zeros are written to new memory, and a
/// piece is read into that of the one before it.
const PIECES: Range<usize> = 1 << 17..1 << 19;

/// Outputs of so many strings are kept: fewer are as fast to allocate as to look for.
const STRINGS_KEPT_FROM: usize = 256;

/// Outputs whose strings have more memory than this on average, in bytes, are not kept, so that
/// none wastes more.
const BYTES_PER_STRING: usize = 40;

/// What Linux calls a huge page on x86-64, and on arm64 with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Outputs that nobody uses any more, shared by the conversions that hold it.
///
/// An output is given back once as many others have been made as there are conversions: each has
/// had its turn then, so that between two runs of a plan no more is kept than what its casts have
/// put out. Of weights, as many others as the layers of a transformer have.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<TensorPool>>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

#[derive(Default)]
struct TensorPool {
    /// How many others are made at least until what is kept is given back.
    least: usize,
    /// How many outputs have been made.
    made: usize,
    /// Buffers and when they were kept, oldest first.
    buffers: VecDeque<(usize, Buffer)>,
    /// Tensors that may still be in use, and when they were made, oldest first.
    strings: VecDeque<(usize, Arc<Tensor>)>,
}

/// Memory of a tensor of plain numbers.
struct Buffer {
    blob: Blob,
    /// Whether every byte has been written, so that anybody may look at them.
    is_written: bool,
}

/// What is kept, which is sound whatever another thread was doing to it when it panicked.
fn kept(memory: &Mutex<TensorPool>) -> MutexGuard<'_, TensorPool> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TensorPool {
    /// The newest buffer of a size, one that has been written if that is asked for.
    fn take_buffer(&mut self, bytes: usize, is_written: bool) -> Option<Buffer> {
        self.made += 1;
        let is_one = |(_, buffer): &(usize, Buffer)| {
            buffer.blob.len() == bytes && (buffer.is_written || !is_written)
        };
        let newest = self.buffers.iter().rposition(is_one)?;
        self.buffers.remove(newest).map(|(_, buffer)| buffer)
    }

    /// Keeps a buffer; what is too old by now is the caller's to free, when others do not wait for
    /// it.
    #[must_use]
    fn keep_buffer(&mut self, buffer: Buffer, home: &Arc<Mutex<TensorPool>>) -> Vec<Buffer> {
        self.buffers.push_back((self.made, buffer));
        let oldest = self.made.saturating_sub(Arc::strong_count(home).max(self.least));
        let too_old = self.buffers.partition_point(|(made, _)| *made < oldest);
        self.buffers.drain(..too_old).map(|(_, buffer)| buffer).collect()
    }

    /// The newest tensor of so many strings that nobody else has.
    fn take_strings(&mut self, elements: usize) -> Option<Arc<Tensor>> {
        self.made += 1;
        let is_free = |(_, tensor): &(usize, Arc<Tensor>)| {
            tensor.len() == elements && Arc::strong_count(tensor) == 1
        };
        let newest = self.strings.iter().rposition(is_free)?;
        self.strings.remove(newest).map(|(_, tensor)| tensor)
    }

    /// As [`TensorPool::keep_buffer`].
    #[must_use]
    fn keep_strings(
        &mut self,
        tensor: Arc<Tensor>,
        home: &Arc<Mutex<TensorPool>>,
    ) -> Vec<Arc<Tensor>> {
        self.strings.push_back((self.made, tensor));
        let oldest = self.made.saturating_sub(Arc::strong_count(home));
        let too_old = self.strings.partition_point(|(made, _)| *made < oldest);
        self.strings.drain(..too_old).map(|(_, tensor)| tensor).collect()
    }
}

impl Memory {
    /// For weights that are read one after the other: those of a layer are as large as those of the
    /// one before it.
    pub(crate) fn of_weights() -> Memory {
        const IN_A_LAYER: usize = 8;
        Memory(Arc::new(Mutex::new(TensorPool { least: IN_A_LAYER, ..TensorPool::default() })))
    }

    /// A tensor whose bytes are still to be written, of numbers or truth values.
    ///
    /// # Safety
    ///
    /// The type is one of plain bytes, and they are written before they are read: 0 or 1 for a
    /// truth value.
    #[expect(unsafe_code, reason = "zeroing first would cost as much as the conversion")]
    pub(super) unsafe fn unwritten(
        &self,
        datum_type: DatumType,
        shape: &[usize],
    ) -> TractResult<Tensor> {
        debug_assert!(datum_type.is_copy());
        match kept_bytes(datum_type, shape).filter(|bytes| *bytes >= KEPT_FROM) {
            Some(bytes) => {
                let used = kept(&self.0).take_buffer(bytes, false);
                let blob = used.map_or_else(|| fresh(bytes), |buffer| buffer.blob);
                Ok(self.tensor(datum_type, shape, Buffer { blob, is_written: false }))
            }
            // SAFETY: that of this function.
            None => unsafe { Tensor::uninitialized_dt(datum_type, shape) },
        }
    }

    /// A tensor of numbers, whose bytes are zeros or what another one had.
    pub(crate) fn written(&self, datum_type: DatumType, shape: &[usize]) -> TractResult<Tensor> {
        ensure!(datum_type.is_number(), "{datum_type:?} is no number");
        let Some(bytes) = kept_bytes(datum_type, shape) else {
            return Tensor::zero_dt(datum_type, shape);
        };
        let used = kept(&self.0).take_buffer(bytes, true);
        let buffer = used.unwrap_or_else(|| {
            let mut blob = fresh(bytes);
            blob.fill(0);
            Buffer { blob, is_written: true }
        });
        Ok(self.tensor(datum_type, shape, buffer))
    }

    fn tensor(&self, datum_type: DatumType, shape: &[usize], buffer: Buffer) -> Tensor {
        let Buffer { blob, is_written } = buffer;
        let home = Arc::downgrade(&self.0);
        let storage = Recycled { storage: PlainStorage::from(blob), is_written, home };
        Tensor::from_storage(datum_type, shape, storage)
    }

    /// A tensor of strings, which `fill` writes over whatever they are, every one. A large one is
    /// shared with what is kept here, and so copied by whoever wants it as its own.
    #[inline]
    pub(super) fn strings(
        &self,
        shape: &[usize],
        fill: impl FnOnce(&mut [String]),
    ) -> TractResult<Arc<Tensor>> {
        let elements = shape.iter().product();
        if elements < STRINGS_KEPT_FROM {
            return new_strings(shape, fill).map(Arc::new);
        }
        self.kept_strings(shape, elements, fill)
    }

    /// Apart from its caller, so that few strings do not pay for it.
    #[inline(never)]
    fn kept_strings(
        &self,
        shape: &[usize],
        elements: usize,
        fill: impl FnOnce(&mut [String]),
    ) -> TractResult<Arc<Tensor>> {
        let used = kept(&self.0).take_strings(elements);
        let mut shared = match used {
            Some(tensor) => tensor,
            None => Arc::new(new_strings(shape, |_| ())?),
        };
        let Some(output) = Arc::get_mut(&mut shared) else {
            return new_strings(shape, fill).map(Arc::new);
        };
        output.set_shape(shape)?;
        let mut view = output.try_as_plain_ram_mut()?;
        let texts: &mut [String] = view.as_slice_mut()?;
        fill(texts);
        let capacity: usize = texts.iter().map(String::capacity).sum();
        if capacity <= elements * BYTES_PER_STRING {
            let too_old = kept(&self.0).keep_strings(shared.clone(), &self.0);
            drop(too_old);
        }
        Ok(shared)
    }
}

/// How many bytes a tensor has whose memory may be kept; `None` of one of another size, or too
/// large for any memory.
fn kept_bytes(datum_type: DatumType, shape: &[usize]) -> Option<usize> {
    let multiply = |product: usize, dim: &usize| product.checked_mul(*dim);
    let bytes = shape.iter().try_fold(datum_type.size_of(), multiply);
    bytes.filter(|bytes| *bytes >= KEPT_FROM || PIECES.contains(bytes))
}

/// A new tensor of strings, empty ones until `fill` writes them.
#[inline]
pub(super) fn new_strings(
    shape: &[usize],
    fill: impl FnOnce(&mut [String]),
) -> TractResult<Tensor> {
    #[expect(unsafe_code, reason = "the only constructor of strings that does not copy them")]
    // SAFETY: of strings, tract leaves none uninitialised: it makes them empty.
    let mut output = unsafe { Tensor::uninitialized_dt(DatumType::String, shape)? };
    fill(output.try_as_plain_ram_mut()?.as_slice_mut()?);
    Ok(output)
}

/// Whether a tensor's bytes are all there is of it: not a copy of what is on a device.
pub(super) fn owns_its_bytes(tensor: &Tensor) -> bool {
    tensor.has_plain_ram_storage() || tensor.storage_as::<Recycled>().is_some()
}

/// Plain memory of a tensor, which goes back to where it has come from, if that is still there.
struct Recycled {
    storage: PlainStorage,
    /// As of a [`Buffer`].
    is_written: bool,
    home: Weak<Mutex<TensorPool>>,
}

fn fresh(bytes: usize) -> Blob {
    let align = if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { vector_size() };
    #[expect(unsafe_code, reason = "zeroing first would cost as much as the conversion")]
    // SAFETY: the alignment is a power of two, and whoever makes a tensor of the blob writes its
    // bytes before they are read.
    let blob = unsafe { Blob::new_for_size_and_align(bytes, align) };
    #[cfg(target_os = "linux")]
    if align == HUGE_PAGE {
        ask_for_huge_pages(&blob);
    }
    blob
}

/// A large buffer in huge pages faults 512 times less often, and its pages are found faster. Where
/// Linux has none to give, or is too old to put small pages together that the allocator has used
/// before, nothing changes.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(blob: &Blob) {
    let whole = blob.len() / HUGE_PAGE * HUGE_PAGE;
    #[expect(unsafe_code, reason = "system calls")]
    // SAFETY: these are pages of the blob, aligned as pages are, and neither advice changes their
    // content.
    unsafe {
        libc::madvise(blob.as_ptr().cast_mut().cast(), whole, libc::MADV_HUGEPAGE);
        libc::madvise(blob.as_ptr().cast_mut().cast(), whole, libc::MADV_COLLAPSE);
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let blob = std::mem::take(&mut self.storage).into_blob();
        // A tensor that was taken apart has left its buffer elsewhere.
        if !blob.is_empty() {
            let buffer = Buffer { blob, is_written: self.is_written };
            let too_old = kept(&home).keep_buffer(buffer, &home);
            drop(too_old);
        }
    }
}

impl fmt::Debug for Recycled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.storage, f)
    }
}

impl fmt::Display for Recycled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.storage, f)
    }
}

impl PartialEq for Recycled {
    fn eq(&self, other: &Recycled) -> bool {
        self.storage == other.storage
    }
}

impl Eq for Recycled {}

impl TensorStorage for Recycled {
    fn byte_len(&self) -> usize {
        self.storage.byte_len()
    }

    fn is_empty(&self) -> bool {
        self.storage.is_empty()
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        self.storage.deep_clone()
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        Some(&self.storage)
    }

    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        Some(&mut self.storage)
    }

    /// The buffer leaves for good: what takes it keeps it.
    fn into_plain_ram(mut self: Box<Self>) -> Option<PlainStorage> {
        Some(std::mem::take(&mut self.storage))
    }

    fn dyn_hash(&self, state: &mut dyn std::hash::Hasher) {
        self.storage.dyn_hash(state)
    }

    fn exotic_fact(&self, shape: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        self.storage.exotic_fact(shape)
    }

    fn is_exotic(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
