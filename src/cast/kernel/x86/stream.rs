//! Streaming stores, of SSE2 and of AVX-512.

#![expect(unsafe_code, reason = "streaming stores are instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places;

/// Bytes of a tile, which are whole elements of every width.
const TILE: usize = 2 << 10;

/// The most that is read for one, in bytes.
const SOURCE_TILE: usize = 4 << 10;

const LINE: usize = 64;

#[repr(align(64))]
struct StreamTile([u8; TILE]);

pub(in crate::cast::kernel) fn can_stream_to<T>(dst: &[T]) -> bool {
    dst.as_ptr().addr().is_multiple_of(LINE)
}

/// Apart from its caller, so that a small cast does not pay for a tile on the stack.
#[inline(never)]
pub(in crate::cast::kernel) fn run(
    kernel: &dyn Kernel,
    level: Level,
    (src, read): (&[u8], usize),
    (dst, written): (&mut [MaybeUninit<u8>], usize),
) {
    let mut tile = StreamTile([0; TILE]);
    let elements = (TILE / written).min(SOURCE_TILE / read);
    let step = elements * read;
    for (index, (part, dst)) in src.chunks(step).zip(dst.chunks_mut(elements * written)).enumerate()
    {
        // The CPU's own prefetching stops at the end of a page.
        prefetch(src.get((index + 2) * step..).unwrap_or_default(), step);
        let tile = &mut tile.0[..dst.len()];
        kernel.overwrite(level, part, tile);
        copy(level, tile, dst);
    }
    // SAFETY: every x86-64 has it. It makes the streamed bytes visible to other threads in the
    // order of the program.
    unsafe { _mm_sfence() };
}

fn prefetch(src: &[u8], bytes: usize) {
    for line in src[..bytes.min(src.len())].chunks(LINE) {
        // SAFETY: every x86-64 has it, and it is a hint about any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Copies without reading what it writes over, every byte. `dst` begins at a cache line.
fn copy(level: Level, tile: &[u8], dst: &mut [MaybeUninit<u8>]) {
    let (lines, rest) = dst.split_at_mut(dst.len() / LINE * LINE);
    let (whole, remainder) = tile.split_at(lines.len());
    assert!(can_stream_to(whole) && can_stream_to(lines));
    // SAFETY: both are lines of 64 bytes and aligned to as many, as was just asserted. The level
    // says that the CPU has the instructions of AVX-512; those of the other every x86-64 has.
    unsafe {
        match level.avx512() {
            Some(_) => copy_avx512(whole, lines),
            None => copy_sse2(whole, lines),
        }
    }
    places::copy(remainder, rest);
}

/// # Safety
///
/// Both slices are aligned to 64 bytes.
#[target_feature(enable = "avx512f")]
unsafe fn copy_avx512(tile: &[u8], dst: &mut [MaybeUninit<u8>]) {
    for (from, to) in tile.chunks_exact(LINE).zip(dst.chunks_exact_mut(LINE)) {
        // SAFETY: both chunks are of 64 bytes, and aligned as the caller promises.
        unsafe {
            let line = _mm512_load_si512(from.as_ptr().cast());
            _mm512_stream_si512(to.as_mut_ptr().cast(), line);
        }
    }
}

/// # Safety
///
/// Both slices are aligned to 64 bytes.
unsafe fn copy_sse2(tile: &[u8], dst: &mut [MaybeUninit<u8>]) {
    for (from, to) in tile.chunks_exact(16).zip(dst.chunks_exact_mut(16)) {
        // SAFETY: both chunks are of 16 bytes, and aligned as the caller promises.
        unsafe {
            let quarter = _mm_load_si128(from.as_ptr().cast());
            _mm_stream_si128(to.as_mut_ptr().cast(), quarter);
        }
    }
}
