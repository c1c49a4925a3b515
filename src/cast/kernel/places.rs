//! Memory that is still to be written: a kernel's target, seen as elements.

#![expect(unsafe_code, reason = "memory that is not initialised has no safe casts")]

use std::mem::MaybeUninit;

use bytemuck::Pod;

/// Bytes as places for elements.
///
/// Panics when they do not begin where such an element may, or end within one: who makes the bytes
/// sees to both.
#[inline(always)]
pub(crate) fn places<D: Pod>(bytes: &mut [MaybeUninit<u8>]) -> &mut [MaybeUninit<D>] {
    // SAFETY: a `MaybeUninit` of a type without padding may hold any bytes, initialised or not.
    let (before, places, after) = unsafe { bytes.align_to_mut::<MaybeUninit<D>>() };
    assert!(before.is_empty() && after.is_empty(), "the places are not those of whole elements");
    places
}

/// Memory that can only be written, with what is initialised: so it does not matter whether it is.
pub(crate) struct TargetBytes<'a>(&'a mut [MaybeUninit<u8>]);

impl<'a> TargetBytes<'a> {
    /// Memory that may not be initialised.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a mut [MaybeUninit<u8>]) -> TargetBytes<'a> {
        TargetBytes(bytes)
    }

    /// Memory that has been written before.
    #[inline(always)]
    pub(crate) fn over(bytes: &'a mut [u8]) -> TargetBytes<'a> {
        // SAFETY: all that writes through a target writes elements of types without padding, or is
        // a kernel.
        TargetBytes(unsafe { unwritten(bytes) })
    }

    /// The bytes, for kernels, which write all of them.
    #[inline(always)]
    pub(in crate::cast) fn into_bytes(self) -> &'a mut [MaybeUninit<u8>] {
        self.0
    }

    /// Parts of so many bytes, the last one possibly shorter.
    pub(crate) fn chunks(self, bytes: usize) -> impl Iterator<Item = TargetBytes<'a>> {
        self.0.chunks_mut(bytes).map(TargetBytes)
    }

    /// Writes elements, up to the first that is none; its index is the error.
    #[inline(always)]
    pub(crate) fn try_fill<D: Pod>(
        self,
        elements: impl Iterator<Item = Option<D>>,
    ) -> Result<(), usize> {
        for (index, (place, element)) in places(self.0).iter_mut().zip(elements).enumerate() {
            place.write(element.ok_or(index)?);
        }
        Ok(())
    }
}

/// Initialised memory as memory that is to be written.
///
/// # Safety
///
/// Nothing but initialised bytes is written through the result.
#[inline(always)]
unsafe fn unwritten<T>(written: &mut [T]) -> &mut [MaybeUninit<T>] {
    let (start, length) = (written.as_mut_ptr().cast(), written.len());
    // SAFETY: the same memory, as exclusively borrowed; a `MaybeUninit` has the layout of what it
    // may hold, and the caller promises that the memory stays initialised.
    unsafe { std::slice::from_raw_parts_mut(start, length) }
}

/// Copies bytes. Panics when there are not as many places as bytes.
#[inline(always)]
pub(crate) fn copy(src: &[u8], dst: &mut [MaybeUninit<u8>]) {
    assert_eq!(src.len(), dst.len(), "a copy is as long as what is copied");
    // SAFETY: `src` is initialised, both are as long, and `dst` is exclusively borrowed, so they do
    // not overlap.
    unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst.as_mut_ptr().cast(), src.len()) };
}
