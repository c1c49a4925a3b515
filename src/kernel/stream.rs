//! Outputs too large for the caches. An ordinary store first reads the line that it writes to; a streaming one does not,
//! which saves up to a third of what such a cast moves. So the kernel writes tiles that stay in the first-level cache, and
//! the tiles stream out.

use super::{Kernel, Level};

/// Outputs from this size on, in bytes, are streamed: nothing of them would be left in a cache for the next reader.
const STREAMED_FROM: usize = 16 << 20;

/// Runs a kernel over elements of `read` bytes that become elements of `written` bytes, as part of an output of `whole`
/// bytes.
pub(crate) fn run(
    kernel: &dyn Kernel,
    level: Level,
    (src, read): (&[u8], usize),
    (dst, written): (&mut [u8], usize),
    whole: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if whole >= STREAMED_FROM && x86::can_stream_to(dst) {
        return x86::run(kernel, level, (src, read), (dst, written));
    }
    let _ = (read, written, whole, STREAMED_FROM);
    kernel.run(level, src, dst);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #![expect(unsafe_code, reason = "streaming stores are instructions")]

    use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_sfence, _mm_stream_si128};

    use crate::kernel::{Kernel, Level};

    /// Bytes of a tile, which are whole elements of every width.
    const TILE: usize = 8 << 10;

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
        for (src, dst) in src.chunks(TILE / written * read).zip(dst.chunks_mut(TILE)) {
            let tile = &mut tile.0[..dst.len()];
            kernel.run(level, src, tile);
            copy(tile, dst);
        }
        // SAFETY: every x86-64 has it. It makes the streamed bytes visible to other threads in the order of the program.
        unsafe { _mm_sfence() };
    }

    /// Copies without reading what it writes over. `dst` begins at a cache line.
    fn copy(tile: &[u8], dst: &mut [u8]) {
        assert!(tile.len() == dst.len() && can_stream_to(tile) && can_stream_to(dst));
        let (lines, rest) = dst.split_at_mut(dst.len() / LINE * LINE);
        for (from, to) in tile.chunks_exact(LINE).zip(lines.chunks_exact_mut(LINE)) {
            for at in (0..LINE).step_by(size_of::<__m128i>()) {
                // SAFETY: both are lines of 64 bytes, aligned to as many, so that each of their quarters is aligned to the
                // 16 bytes that are read or written. Every x86-64 has the instructions.
                unsafe {
                    let quarter = _mm_load_si128(from.as_ptr().add(at).cast());
                    _mm_stream_si128(to.as_mut_ptr().add(at).cast(), quarter);
                }
            }
        }
        rest.copy_from_slice(&tile[lines.len()..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_type::ElementType::{Double, Float, Float8E4M3FN, Int64};
    use crate::kernel::{fill_output, select};
    use crate::rules::Rules;

    #[test]
    fn a_streamed_output_is_the_same() {
        let numbers: Vec<f32> = (0..10_007).map(|i| i as f32 * 0.37 - 1000.0).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&numbers);
        for to in [Float8E4M3FN, Float, Int64, Double] {
            let kernel = select(Float, to, Rules::default());
            let written = to.carrier_bytes().expect("a number");
            for level in Level::available() {
                let output = |whole| {
                    let convert = |dst: &mut [u8]| {
                        run(kernel.as_ref(), level, (bytes, 4), (dst, written), whole)
                    };
                    fill_output(to.datum_type(), &[numbers.len()], convert)
                };
                assert_eq!(output(STREAMED_FROM).expect("a tensor"), output(0).expect("a tensor"));
            }
        }
    }
}
