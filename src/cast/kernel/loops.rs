//! What a kernel is, and the loop that most of them are.

#![expect(unsafe_code, reason = "the trait's promise")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use bytemuck::Pod;

use super::level::Level;
use super::places::{self, TargetBytes, places};

/// A conversion of whole slices. Both hold elements of machine types back to back, aligned as those
/// ask.
///
/// # Safety
///
/// If `dst` has places for exactly as many elements as `src` holds, [`Kernel::run`] writes every
/// byte of it, of a BOOL 0 or 1; and it never writes a byte that is not initialised.
pub(crate) unsafe trait Kernel: Send + Sync {
    /// Converts `src` into `dst`, which has places for exactly as many elements.
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]);

    /// As [`Kernel::run`], over what has been written before.
    fn overwrite(&self, level: Level, src: &[u8], dst: &mut [u8]) {
        self.write(level, src, TargetBytes::over(dst));
    }

    /// As [`Kernel::run`], to memory that may have been written before.
    fn write(&self, level: Level, src: &[u8], target: TargetBytes) {
        self.run(level, src, target.into_bytes());
    }
}

/// A kernel that is one loop, compiled for each level of the CPU.
///
/// # Safety
///
/// That of [`Kernel`]. Besides, `run` is `#[inline(always)]`, so that each level compiles it with
/// its own instructions.
pub(super) unsafe trait Body {
    fn run(&self, src: &[u8], dst: &mut [MaybeUninit<u8>]);
}

/// What a vector of the baseline holds, in bytes.
const ONE_VECTOR: usize = 16;

// SAFETY: a body makes the same promise.
unsafe impl<B: Body + Send + Sync> Kernel for B {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        // So few bytes do not repay waking the wide registers.
        let level = if dst.len() <= ONE_VECTOR { Level::BASELINE } else { level };
        level.run_loop(
            self,
            src,
            dst,
            #[inline(always)]
            |body, src, dst| Body::run(body, src, dst),
        );
    }
}

/// One function, element by element.
pub(super) struct Map<S, D, F>(F, PhantomData<fn(S) -> D>);

pub(super) fn map<S: Pod, D: Pod, F: Fn(S) -> D + Send + Sync>(f: F) -> Map<S, D, F> {
    Map(f, PhantomData)
}

// SAFETY: one element is written for each that is read; `bytemuck` vouches that it has no byte that
// is not initialised. BOOL is made by functions that return 0 or 1.
unsafe impl<S: Pod, D: Pod, F: Fn(S) -> D> Body for Map<S, D, F> {
    #[inline(always)]
    fn run(&self, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let src: &[S] = bytemuck::cast_slice(src);
        for (place, element) in places::<D>(dst).iter_mut().zip(src) {
            place.write((self.0)(*element));
        }
    }
}

/// The same bits.
pub(super) struct CopyBody;

// SAFETY: all that is read is written. A BOOL is 0 or 1 as tensors hold it.
unsafe impl Body for CopyBody {
    #[inline(always)]
    fn run(&self, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        places::copy(src, dst);
    }
}
