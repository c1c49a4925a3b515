//! Outputs too large for the caches. An ordinary store first reads the line that it writes to; a streaming one does not,
//! which saves up to a third of what such a cast moves. So the kernel writes tiles that stay in the first-level cache, and
//! the tiles stream out.

use super::{Kernel, Level};

/// Casts that read and write so much, in bytes, are streamed: little of it would be left in a cache for the next reader.
const STREAMED_FROM: usize = 64 << 20;

/// Runs a kernel over elements of `read` bytes that become elements of `written` bytes, as part of a cast of so many
/// `elements`.
#[inline]
pub(crate) fn run(
    kernel: &dyn Kernel,
    level: Level,
    (src, read): (&[u8], usize),
    (dst, written): (&mut [u8], usize),
    elements: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if elements * (read + written) >= STREAMED_FROM && x86::can_stream_to(dst) {
        return x86::run(kernel, level, (src, read), (dst, written));
    }
    let _ = (read, written, elements, STREAMED_FROM);
    kernel.run(level, src, dst);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #![expect(unsafe_code, reason = "streaming stores are instructions")]

    use std::arch::x86_64::*;

    use crate::cast::kernel::{Kernel, Level};

    /// Bytes of a tile, which are whole elements of every width.
    const TILE: usize = 2 << 10;

    /// The most that is read for one, in bytes.
    const SOURCE_TILE: usize = 4 << 10;

    const LINE: usize = 64;

    #[repr(align(64))]
    struct Tile([u8; TILE]);

    pub(super) fn can_stream_to(dst: &[u8]) -> bool {
        dst.as_ptr().addr().is_multiple_of(LINE)
    }

    /// Apart from its caller, so that a small cast does not pay for a tile on the stack.
    #[inline(never)]
    pub(super) fn run(
        kernel: &dyn Kernel,
        level: Level,
        (src, read): (&[u8], usize),
        (dst, written): (&mut [u8], usize),
    ) {
        let mut tile = Tile([0; TILE]);
        let elements = (TILE / written).min(SOURCE_TILE / read);
        let step = elements * read;
        for (index, (part, dst)) in
            src.chunks(step).zip(dst.chunks_mut(elements * written)).enumerate()
        {
            // The CPU's own prefetching stops at the end of a page.
            prefetch(src.get((index + 2) * step..).unwrap_or_default(), step);
            let tile = &mut tile.0[..dst.len()];
            kernel.run(level, part, tile);
            copy(level, tile, dst);
        }
        // SAFETY: every x86-64 has it. It makes the streamed bytes visible to other threads in the order of the program.
        unsafe { _mm_sfence() };
    }

    fn prefetch(src: &[u8], bytes: usize) {
        for line in src[..bytes.min(src.len())].chunks(LINE) {
            // SAFETY: every x86-64 has it, and it is a hint about any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }

    /// Copies without reading what it writes over. `dst` begins at a cache line.
    fn copy(level: Level, tile: &[u8], dst: &mut [u8]) {
        let (lines, rest) = dst.split_at_mut(dst.len() / LINE * LINE);
        let (whole, remainder) = tile.split_at(lines.len());
        assert!(can_stream_to(whole) && can_stream_to(lines));
        // SAFETY: both are lines of 64 bytes and aligned to as many, as was just asserted. The level says that the CPU has
        // the instructions of AVX-512; those of the other every x86-64 has.
        unsafe {
            match level.avx512() {
                Some(_) => copy_avx512(whole, lines),
                None => copy_sse2(whole, lines),
            }
        }
        rest.copy_from_slice(remainder);
    }

    /// # Safety
    ///
    /// Both slices are aligned to 64 bytes.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_avx512(tile: &[u8], dst: &mut [u8]) {
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
    unsafe fn copy_sse2(tile: &[u8], dst: &mut [u8]) {
        for (from, to) in tile.chunks_exact(16).zip(dst.chunks_exact_mut(16)) {
            // SAFETY: both chunks are of 16 bytes, and aligned as the caller promises.
            unsafe {
                let quarter = _mm_load_si128(from.as_ptr().cast());
                _mm_stream_si128(to.as_mut_ptr().cast(), quarter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::element_type::ElementType::{Double, Float, Float8E4M3FN, Int64};
    use crate::cast::kernel::select;
    use crate::cast::rules::Rules;

    #[derive(Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C, align(64))]
    struct Line([u8; 64]);

    #[test]
    fn a_streamed_output_is_the_same() {
        let numbers: Vec<f32> = (0..10_007).map(|i| i as f32 * 0.37 - 1000.0).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&numbers);
        for to in [Float8E4M3FN, Float, Int64, Double] {
            let kernel = select(Float, to, Rules::default());
            let written = to.carrier_bytes().expect("a number");
            for level in Level::available() {
                let output = |elements| {
                    // Streaming needs a buffer that begins at a cache line.
                    let mut lines = vec![Line([0; 64]); (numbers.len() * written).div_ceil(64)];
                    let dst = &mut bytemuck::cast_slice_mut(&mut lines)[..numbers.len() * written];
                    run(kernel.as_ref(), level, (bytes, 4), (dst, written), elements);
                    lines
                };
                assert!(output(STREAMED_FROM) == output(0), "{to} at {level:?}");
            }
        }
    }
}
