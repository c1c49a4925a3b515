//! The loops: a kernel converts a slice of carrier elements to a slice of carrier elements. Which one is chosen once,
//! when a conversion is made; nothing inside a loop looks at types or attributes.
//!
//! - `half`: FLOAT ↔ FLOAT16 by the CPU's own instructions
//! - `level`: how far this CPU goes, and the shims that compile every loop once per level
//! - `lookup`: tables for sources of at most 8 bits
//! - `round_to_odd`: 64-bit words on their way to small floats
//! - `read`: what tract's 12 numeric types, and BFLOAT16, offer to the loops
//! - `stream`: outputs too large for the caches
//! - `round`: rounding to the small floats, whose constants come from the format record
//! - `compose`: two kernels in a row
//! - `select`: (from, to, rules) → kernel; the only file where two types meet

mod compose;
mod half;
mod level;
mod lookup;
mod read;
mod round;
mod round_to_odd;
mod select;
pub(crate) mod stream;

pub use level::Level;
pub(crate) use round::odd_from_f64;
pub(crate) use select::select;

use std::marker::PhantomData;

use bytemuck::Pod;

/// A conversion of whole slices. Both are carrier elements back to back, aligned as tract aligns tensors.
pub(crate) trait Kernel: Send + Sync {
    /// Converts `src` into `dst`, which has room for exactly as many elements.
    fn run(&self, level: Level, src: &[u8], dst: &mut [u8]);
}

/// The body of a kernel. `run` must be `#[inline(always)]`, so that each level's shim compiles it with its own
/// instructions.
pub(crate) trait Body {
    fn run(&self, src: &[u8], dst: &mut [u8]);
}

impl<B: Body + Send + Sync> Kernel for B {
    fn run(&self, level: Level, src: &[u8], dst: &mut [u8]) {
        level.run(self, src, dst)
    }
}

/// One function, element by element.
struct Map<S, D, F>(F, PhantomData<fn(S) -> D>);

fn map<S: Pod, D: Pod, F: Fn(S) -> D + Send + Sync>(f: F) -> Map<S, D, F> {
    Map(f, PhantomData)
}

impl<S: Pod, D: Pod, F: Fn(S) -> D> Body for Map<S, D, F> {
    #[inline(always)]
    fn run(&self, src: &[u8], dst: &mut [u8]) {
        let src: &[S] = bytemuck::cast_slice(src);
        let dst: &mut [D] = bytemuck::cast_slice_mut(dst);
        for (d, s) in dst.iter_mut().zip(src) {
            *d = (self.0)(*s);
        }
    }
}

/// The same bits.
struct Copy;

impl Body for Copy {
    #[inline(always)]
    fn run(&self, src: &[u8], dst: &mut [u8]) {
        dst.copy_from_slice(src);
    }
}
