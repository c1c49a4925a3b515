//! Kernels that have vector code of their own for AVX2; with AVX-512 the compiler's loops are as
//! good for most.

#![expect(unsafe_code, reason = "vector loads and stores, and calls that need their instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::Arc;

use bytemuck::Pod;
use half::{bf16, f16};

use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places::places;

/// A conversion of so many elements at a time.
pub(super) trait Block: Send + Sync + 'static {
    type From: Pod;
    type To: Pod;
    const ELEMENTS: usize;
    /// Whether it is faster than what the compiler makes of a loop with AVX-512, too.
    const ALWAYS: bool = false;

    /// Converts a block, all of which is written; or returns false where one of the elements is not
    /// among those that this is for.
    ///
    /// # Safety
    ///
    /// The CPU has AVX2, F16C and FMA.
    unsafe fn convert(&self, src: &[Self::From], dst: &mut [MaybeUninit<Self::To>]) -> bool;
}

/// A block's conversion, and another kernel of the same pair for what it does not convert.
struct Blocks<B> {
    block: B,
    rest: Arc<dyn Kernel>,
}

pub(super) fn blocks(block: impl Block, rest: Arc<dyn Kernel>) -> Arc<dyn Kernel> {
    Arc::new(Blocks { block, rest })
}

// SAFETY: what blocks do not write, the other kernel does.
unsafe impl<B: Block> Kernel for Blocks<B> {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let (read, written) = (size_of::<B::From>(), size_of::<B::To>());
        let has_code = level.avx2().is_some() && (B::ALWAYS || level.avx512().is_none());
        if !has_code || src.len() < B::ELEMENTS * read {
            return self.rest.run(level, src, dst);
        }
        let elements = src.len() / read;
        let mut done = 0;
        while done < elements {
            // SAFETY: the level says that the CPU has the instructions.
            done += unsafe {
                run(
                    &self.block,
                    bytemuck::cast_slice(&src[done * read..]),
                    places(&mut dst[done * written..]),
                )
            };
            // The end, or a block that is not for this.
            let end = (done + B::ELEMENTS).min(elements);
            if done < end {
                self.rest.run(
                    level,
                    &src[done * read..end * read],
                    &mut dst[done * written..end * written],
                );
            }
            done = end;
        }
    }
}

/// Converts blocks, up to the first that is not for this, and returns how many elements; as many
/// are written.
#[target_feature(enable = "avx2,f16c,fma")]
fn run<B: Block>(block: &B, src: &[B::From], dst: &mut [MaybeUninit<B::To>]) -> usize {
    let mut done = 0;
    for (src, dst) in src.chunks_exact(B::ELEMENTS).zip(dst.chunks_exact_mut(B::ELEMENTS)) {
        // SAFETY: the CPU has the instructions, or this would not have been called.
        if !unsafe { block.convert(src, dst) } {
            break;
        }
        done += B::ELEMENTS;
    }
    done
}

/// A vector's elements from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load<T: Pod>(src: &[T], at: usize) -> __m256i {
    let part = &src[at..at + 32 / size_of::<T>()];
    // SAFETY: the part is of 32 bytes.
    unsafe { _mm256_loadu_si256(part.as_ptr().cast()) }
}

/// Half a vector's.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_half<T: Pod>(src: &[T], at: usize) -> __m128i {
    let part = &src[at..at + 16 / size_of::<T>()];
    // SAFETY: the part is of 16 bytes.
    unsafe { _mm_loadu_si128(part.as_ptr().cast()) }
}

/// A quarter of a vector's, in the lower half of what is returned.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_quarter<T: Pod>(src: &[T], at: usize) -> __m128i {
    let part = &src[at..at + 8 / size_of::<T>()];
    // SAFETY: the part is of 8 bytes.
    unsafe { _mm_loadl_epi64(part.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store<T: Pod>(vector: __m256i, dst: &mut [MaybeUninit<T>], at: usize) {
    let part = &mut dst[at..at + 32 / size_of::<T>()];
    // SAFETY: the part is of 32 bytes.
    unsafe { _mm256_storeu_si256(part.as_mut_ptr().cast(), vector) };
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_half<T: Pod>(vector: __m128i, dst: &mut [MaybeUninit<T>], at: usize) {
    let part = &mut dst[at..at + 16 / size_of::<T>()];
    // SAFETY: the part is of 16 bytes.
    unsafe { _mm_storeu_si128(part.as_mut_ptr().cast(), vector) };
}

/// A type whose elements are FLOATs.
pub(super) trait Floats: Pod + Send + Sync {
    const HAS_NAN: bool;

    /// Eight of them from `at` on; a NaN is one with the same sign.
    ///
    /// # Safety
    ///
    /// The CPU has AVX2 and F16C.
    unsafe fn eight(src: &[Self], at: usize) -> __m256;
}

macro_rules! floats {
    ($($of:ty, $has_nan:literal: |$src:ident, $at:ident| $eight:expr;)*) => {$(
        impl Floats for $of {
            const HAS_NAN: bool = $has_nan;

            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn eight($src: &[$of], $at: usize) -> __m256 {
                $eight
            }
        }
    )*};
}

floats! {
    f32, true: |src, at| _mm256_castsi256_ps(load(src, at));
    f16, true: |src, at| _mm256_cvtph_ps(load_half(src, at));
    bf16, true: |src, at| {
        let wide = _mm256_cvtepu16_epi32(load_half(src, at));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    };
    u8, false: |src, at| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_quarter(src, at)));
    i8, false: |src, at| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_quarter(src, at)));
    u16, false: |src, at| _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(load_half(src, at)));
    i16, false: |src, at| _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(load_half(src, at)));
}

/// FLOATs in which a NaN is the canonical one with its sign.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn canonical(x: __m256) -> __m256 {
    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
    let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
    let canonical = _mm256_or_ps(sign, _mm256_set1_ps(f32::from_bits(0x7FC0_0000)));
    _mm256_blendv_ps(x, canonical, nan)
}
