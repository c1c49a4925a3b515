//! Where outputs live.
//!
//! A fresh allocation of many megabytes costs more than the conversion that fills it: every page is new to the process
//! and faults once. So large outputs return to a pool when tract drops them, and the next output of the same size is
//! made of one. The pool holds no more than [`POOL_LIMIT`] bytes; [`set_output_pool`] turns it off.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tract_onnx::prelude::{Blob, DatumType, Tensor, TractResult};
use tract_onnx::tract_core::internal::{ExoticFact, PlainStorage, TensorStorage, vector_size};

/// Outputs from this size on, in bytes, come from the pool and go back to it. Smaller ones the allocator keeps mapped.
const POOLED_FROM: usize = 1 << 20;

/// The most that the pool holds, in bytes, of buffers that no tensor uses.
const POOL_LIMIT: usize = 512 << 20;

/// What Linux calls a huge page on x86-64, and on arm64 with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

static ENABLED: AtomicBool = AtomicBool::new(true);
static POOL: Mutex<Pool> = Mutex::new(Pool { buffers: vec![], bytes: 0 });

/// Whether large outputs of casts are recycled, as they are from the start: a buffer of a mebibyte or more goes to a pool
/// when its tensor is dropped, which holds up to 512 MiB of them, and serves the next output of the same size.
///
/// Outputs of 256 strings or more are recycled by a reference that stays behind, to up to 16 of them and 128 MiB: a plan
/// whose output nobody holds any more writes the next one over it. Whoever makes such an output its own, by
/// `into_tensor`, copies it.
///
/// Turned off, the pool gives back what it holds, and takes no more.
pub fn set_output_pool(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
    if !enabled {
        pool(|pool| *pool = Pool { buffers: vec![], bytes: 0 });
        super::pool_strings::forget();
    }
}

pub(super) fn is_pool_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

struct Pool {
    /// Oldest first.
    buffers: Vec<Blob>,
    bytes: usize,
}

impl Pool {
    fn take(&mut self, bytes: usize) -> Option<Blob> {
        let newest = self.buffers.iter().rposition(|buffer| buffer.len() == bytes)?;
        self.bytes -= bytes;
        Some(self.buffers.remove(newest))
    }

    fn put(&mut self, buffer: Blob) {
        self.bytes += buffer.len();
        self.buffers.push(buffer);
        while self.bytes > POOL_LIMIT {
            self.bytes -= self.buffers.remove(0).len();
        }
    }
}

/// Does something to the pool, which is sound whatever another thread was doing to it when it panicked.
fn pool<R>(act: impl FnOnce(&mut Pool) -> R) -> R {
    act(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A new tensor whose bytes `fill` writes, every one unless it fails. `datum_type` is numeric or bool, and for bool `fill`
/// writes 0 or 1.
#[inline]
pub(crate) fn fill_output(
    datum_type: DatumType,
    shape: &[usize],
    fill: impl FnOnce(&mut [u8]) -> TractResult<()>,
) -> TractResult<Tensor> {
    debug_assert!(datum_type.is_copy());
    let multiply = |product: usize, dim: &usize| product.checked_mul(*dim);
    let bytes = shape.iter().try_fold(datum_type.size_of(), multiply);
    let is_pooled = |bytes: &usize| *bytes >= POOLED_FROM && is_pool_enabled();
    let mut output = match bytes.filter(is_pooled) {
        Some(bytes) => Tensor::from_storage(datum_type, shape, Recycled::new(bytes)),
        None => {
            #[expect(unsafe_code, reason = "zeroing first would cost as much as the conversion")]
            // SAFETY: elements of a copy type are plain bytes without a destructor, and `fill` writes them before they
            // are read: if it fails, the tensor is dropped.
            unsafe {
                Tensor::uninitialized_dt(datum_type, shape)?
            }
        }
    };
    fill(output.as_bytes_mut())?;
    Ok(output)
}

/// Whether a tensor's bytes are all there is of it: not a copy of what is on a device.
pub(crate) fn owns_its_bytes(tensor: &Tensor) -> bool {
    tensor.has_plain_ram_storage() || tensor.storage_as::<Recycled>().is_some()
}

/// The tensor's own buffer as one of another type, its elements as wide, its bytes rewritten by `rewrite`. Both types are
/// numeric or bool, and for bool `rewrite` leaves 0 or 1.
pub(crate) fn rewrite_in_place(
    mut tensor: Tensor,
    datum_type: DatumType,
    rewrite: impl FnOnce(&mut [u8]),
) -> Tensor {
    debug_assert_eq!(tensor.datum_type().size_of(), datum_type.size_of());
    rewrite(tensor.as_bytes_mut());
    #[expect(unsafe_code, reason = "tract has no safe way to keep a buffer and change its type")]
    // SAFETY: both types are copy types of the same size, and so of the same alignment, and `rewrite` has left bytes that
    // are valid for the new one.
    unsafe {
        tensor.set_datum_type(datum_type)
    };
    tensor
}

/// Plain memory that goes back to the pool.
struct Recycled(PlainStorage);

impl Recycled {
    fn new(bytes: usize) -> Recycled {
        let used = pool(|pool| pool.take(bytes));
        Recycled(used.map_or_else(|| PlainStorage::from(fresh(bytes)), PlainStorage::from))
    }
}

fn fresh(bytes: usize) -> Blob {
    let align = if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { vector_size() };
    #[expect(unsafe_code, reason = "zeroing first would cost as much as the conversion")]
    // SAFETY: the alignment is a power of two, and the bytes, which are no more than a tensor may have, are written before
    // they are read, by the only caller's `fill`.
    let blob = unsafe { Blob::new_for_size_and_align(bytes, align) };
    #[cfg(target_os = "linux")]
    if align == HUGE_PAGE {
        ask_for_huge_pages(&blob);
    }
    blob
}

/// A large buffer in huge pages faults 512 times less often, and its pages are found faster. Where Linux has none to give,
/// nothing changes.
#[cfg(target_os = "linux")]
fn ask_for_huge_pages(blob: &Blob) {
    let whole = blob.len() / HUGE_PAGE * HUGE_PAGE;
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: these are pages of the blob, aligned as pages are, and the advice changes no content.
    unsafe {
        libc::madvise(blob.as_ptr().cast_mut().cast(), whole, libc::MADV_HUGEPAGE);
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0).into_blob();
        if buffer.len() >= POOLED_FROM && is_pool_enabled() {
            pool(|pool| pool.put(buffer));
        }
    }
}

impl fmt::Debug for Recycled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Recycled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl PartialEq for Recycled {
    fn eq(&self, other: &Recycled) -> bool {
        self.0 == other.0
    }
}

impl Eq for Recycled {}

impl TensorStorage for Recycled {
    fn byte_len(&self) -> usize {
        self.0.byte_len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn deep_clone(&self) -> Box<dyn TensorStorage> {
        self.0.deep_clone()
    }

    fn as_plain_ram(&self) -> Option<&PlainStorage> {
        Some(&self.0)
    }

    fn as_plain_ram_mut(&mut self) -> Option<&mut PlainStorage> {
        Some(&mut self.0)
    }

    /// The buffer leaves for good: what takes it keeps it.
    fn into_plain_ram(mut self: Box<Self>) -> Option<PlainStorage> {
        Some(std::mem::take(&mut self.0))
    }

    fn dyn_hash(&self, state: &mut dyn std::hash::Hasher) {
        self.0.dyn_hash(state)
    }

    fn exotic_fact(&self, shape: &[usize]) -> TractResult<Option<Box<dyn ExoticFact>>> {
        self.0.exotic_fact(shape)
    }

    fn is_exotic(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_output_is_made_of_the_last_one_of_its_size() {
        // A size that no other test has, which shares the pool.
        let shape = [POOLED_FROM + 12_345];
        let address = |tensor: &Tensor| tensor.as_bytes().as_ptr() as usize;
        let fill = |bytes: &mut [u8]| {
            bytes.fill(1);
            Ok(())
        };
        let make = || fill_output(DatumType::U8, &shape, fill).expect("a tensor");
        let (first, second) = (make(), make());
        let (one, other) = (address(&first), address(&second));
        assert_ne!(one, other);
        drop(first);
        assert_eq!(address(&make()), one);
        drop(second);
        let (third, fourth) = (make(), make());
        assert_eq!((address(&third), address(&fourth)), (other, one));
    }
}
