//! Outputs too large for the caches. An ordinary store first reads the line that it writes to; a streaming one does
//! not, which saves up to a third of what such a cast moves. So the kernel writes tiles that stay in the first-level
//! cache, and the tiles stream out.

use std::mem::MaybeUninit;

use super::level::Level;
use super::loops::Kernel;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// Casts that read and write so much, in bytes, are streamed: little of it would be left in a cache for the next reader.
const STREAMED_FROM: usize = 64 << 20;

/// Runs a kernel, which writes every byte of `dst`, over elements of `read` bytes that become elements of `written`
/// bytes, as part of a cast of so many `elements`.
#[inline]
pub(crate) fn run(
    kernel: &dyn Kernel,
    level: Level,
    (src, read): (&[u8], usize),
    (dst, written): (&mut [MaybeUninit<u8>], usize),
    elements: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if elements * (read + written) >= STREAMED_FROM && x86::stream::can_stream_to(dst) {
        return x86::stream::run(kernel, level, (src, read), (dst, written));
    }
    let _ = (read, written, elements, STREAMED_FROM);
    kernel.run(level, src, dst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::element_type::ElementType::{Double, Float, Float8E4M3FN, Int64};
    use crate::cast::kernel::places::Target;
    use crate::cast::kernel::select::select;
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
                    let dst = Target::over(dst).into_bytes();
                    run(kernel.as_ref(), level, (bytes, 4), (dst, written), elements);
                    lines
                };
                assert!(output(STREAMED_FROM) == output(0), "{to} at {level:?}");
            }
        }
    }
}
