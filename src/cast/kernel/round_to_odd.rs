//! Rounding 64-bit words to odd FLOATs, the first half of their way to small floats (see
//! [`SourceElement::to_odd`]). AVX-512 can truncate as it converts; what it cut off then sets the
//! last bit. arm64 rounds a DOUBLE so by an instruction.

#![expect(unsafe_code, reason = "the promise of a kernel")]

use std::mem::MaybeUninit;

use super::level::Level;
use super::loops::{Kernel, map};
use super::places::places;
use super::read::SourceElement;

/// From 64-bit words.
pub(super) struct ToOdd<S>(std::marker::PhantomData<fn(S)>);

impl<S> ToOdd<S> {
    pub(super) fn new() -> ToOdd<S> {
        ToOdd(std::marker::PhantomData)
    }
}

/// A 64-bit source whose vectors have an instruction of their own.
pub(super) trait VectorSource: SourceElement {
    /// Converts as many elements as fill vectors, and returns how many; as many are written.
    fn whole_vectors(level: Level, src: &[Self], dst: &mut [MaybeUninit<f32>]) -> usize;
}

// SAFETY: what whole vectors do not write, one element at a time does.
unsafe impl<S: VectorSource> Kernel for ToOdd<S> {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let done = S::whole_vectors(level, bytemuck::cast_slice(src), places(dst));
        map(S::to_odd).run(level, &src[8 * done..], &mut dst[4 * done..]);
    }
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! word {
    ($($word:ty),*) => {$(
        impl VectorSource for $word {
            fn whole_vectors(_: Level, _: &[$word], _: &mut [MaybeUninit<f32>]) -> usize {
                0
            }
        }
    )*};
}

#[cfg(not(target_arch = "x86_64"))]
word!(i64, u64);
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
word!(f64);

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
impl VectorSource for f64 {
    fn whole_vectors(level: Level, src: &[f64], dst: &mut [MaybeUninit<f32>]) -> usize {
        super::half::arm64::odd_from_doubles(level, src, dst)
    }
}
