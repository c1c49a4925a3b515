//! Outputs too large for the caches. An ordinary store first reads the line that it writes to; a
//! streaming one does not, which saves up to a third of what such a cast moves. So the kernel
//! writes tiles that stay in the first-level cache, and the tiles stream out.

use std::mem::MaybeUninit;

use super::level::Level;
use super::loops::Kernel;
#[cfg(target_arch = "x86_64")]
use super::x86;

/// Casts that read and write so much, in bytes, are streamed: little of it would be left in a cache
/// for the next reader.
const STREAMED_FROM: usize = 64 << 20;

/// Runs a kernel, which writes every byte of `dst`, over elements of `read` bytes that become
/// elements of `written` bytes, as part of a cast of so many `elements`.
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
mod tests;
