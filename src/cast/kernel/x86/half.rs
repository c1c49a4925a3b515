//! FLOAT ↔ FLOAT16, DOUBLE to FLOAT16, and FLOAT rounded to FLOAT16, by F16C and AVX-512.

#![expect(unsafe_code, reason = "vector loads and stores, and calls that need their instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::blocks;
use crate::cast::kernel::level::Level;
use crate::cast::kernel::loops::Kernel;
use crate::cast::kernel::places::places;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// Elements of the shortest vector.
const NARROWEST: usize = 8;

/// Converts as many elements as fill vectors, and returns how many; as many are written.
pub(in crate::cast::kernel) fn to_half(
    level: Level,
    src: &[f32],
    dst: &mut [MaybeUninit<u16>],
) -> usize {
    assert_eq!(src.len(), dst.len());
    if level.avx512().is_none() {
        return 0;
    }
    // SAFETY: the level says that the CPU has the instructions.
    unsafe { to_half_avx512(src, dst) };
    src.len()
}

/// Converts as many elements as fill vectors, and returns how many; as many are written.
pub(in crate::cast::kernel) fn from_half(
    level: Level,
    src: &[u16],
    dst: &mut [MaybeUninit<f32>],
) -> usize {
    assert_eq!(src.len(), dst.len());
    if level.avx512().is_some() {
        // SAFETY: the level says that the CPU has the instructions.
        unsafe { from_half_avx512(src, dst) };
        src.len()
    } else if src.len() >= NARROWEST && level.avx2().is_some() {
        // SAFETY: as above.
        unsafe { from_half_avx2(src, dst) };
        src.len() / 8 * 8
    } else {
        0
    }
}

/// Rounds as many elements as fill vectors to FLOAT16 and holds them as FLOAT, and returns how
/// many.
pub(in crate::cast::kernel) fn round_to_half(level: Level, floats: &mut [f32]) -> usize {
    if floats.len() < NARROWEST {
        0
    } else if level.avx512().is_some() {
        // SAFETY: the level says that the CPU has the instructions.
        unsafe { round_to_half_avx512(floats) };
        floats.len() / 16 * 16
    } else if level.avx2().is_some() {
        // SAFETY: as above.
        unsafe { round_to_half_avx2(floats) };
        floats.len() / 8 * 8
    } else {
        0
    }
}

#[target_feature(enable = "avx512f")]
fn round_to_half_avx512(floats: &mut [f32]) {
    for place in floats.chunks_exact_mut(16) {
        // SAFETY: the chunk is of 16 elements.
        let x = unsafe { _mm512_loadu_ps(place.as_ptr()) };
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let mut y = _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtps_ph::<NEAREST>(x)));
        if nan != 0 {
            let sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MIN));
            let canonical = _mm512_or_si512(sign, _mm512_set1_epi32(0x7FC0_0000));
            y = _mm512_mask_mov_epi32(y, nan, canonical);
        }
        // SAFETY: the chunk is of 16 elements.
        unsafe { _mm512_storeu_ps(place.as_mut_ptr(), _mm512_castsi512_ps(y)) };
    }
}

#[target_feature(enable = "avx2,f16c")]
fn round_to_half_avx2(floats: &mut [f32]) {
    for place in floats.chunks_exact_mut(8) {
        // SAFETY: the chunk is of 8 elements.
        let x = unsafe { _mm256_loadu_ps(place.as_ptr()) };
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
        let mut y = _mm256_cvtph_ps(_mm256_cvtps_ph::<NEAREST>(x));
        if _mm256_movemask_ps(nan) != 0 {
            let sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0));
            let canonical = _mm256_or_ps(sign, _mm256_set1_ps(f32::from_bits(0x7FC0_0000)));
            y = _mm256_blendv_ps(y, canonical, nan);
        }
        // SAFETY: the chunk is of 8 elements.
        unsafe { _mm256_storeu_ps(place.as_mut_ptr(), y) };
    }
}

/// FLOAT16s in which a NaN, whose quiet bit is set, is the canonical one with its sign: without
/// that, it is this one or above it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn canonical(half: __m256i) -> __m256i {
    let sign = _mm256_set1_epi16(i16::MIN);
    let magnitude = _mm256_min_epu16(_mm256_andnot_si256(sign, half), _mm256_set1_epi16(0x7E00));
    _mm256_or_si256(_mm256_and_si256(sign, half), magnitude)
}

#[target_feature(enable = "f16c,avx512f,avx512bw,avx512vl")]
fn to_half_avx512(src: &[f32], dst: &mut [MaybeUninit<u16>]) {
    for (x, out) in src.chunks_exact(16).zip(dst.chunks_exact_mut(16)) {
        // SAFETY: the chunk is of 16 elements.
        let x = unsafe { _mm512_loadu_ps(x.as_ptr()) };
        let half = canonical(_mm512_cvtps_ph::<NEAREST>(x));
        // SAFETY: the chunk is of 16 elements.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
    }
    let done = src.len() / 16 * 16;
    for (x, out) in src[done..].chunks(8).zip(dst[done..].chunks_mut(8)) {
        let some = first(x.len());
        // SAFETY: the mask is of as many elements as the chunk has.
        let x = unsafe { _mm256_maskz_loadu_ps(some, x.as_ptr()) };
        let half = _mm256_cvtps_ph::<NEAREST>(x);
        let half = _mm256_castsi256_si128(canonical(_mm256_castsi128_si256(half)));
        // SAFETY: as above.
        unsafe { _mm_mask_storeu_epi16(out.as_mut_ptr().cast(), some, half) };
    }
}

/// A mask of the first elements, of which there are at most 8.
fn first(elements: usize) -> __mmask8 {
    ((1u16 << elements) - 1) as __mmask8
}

/// DOUBLE to FLOAT16 by AVX-512, in registers; the rest, and all at other levels, by another
/// kernel.
pub(super) struct FromDoubles(pub(super) Arc<dyn Kernel>);

// SAFETY: what whole vectors do not write, the other kernel does.
unsafe impl Kernel for FromDoubles {
    fn run(&self, level: Level, src: &[u8], dst: &mut [MaybeUninit<u8>]) {
        let mut done = 0;
        if level.avx512().is_some() {
            // SAFETY: the level says that the CPU has the instructions.
            unsafe { from_doubles_avx512(bytemuck::cast_slice(src), places(dst)) };
            done = src.len() / size_of::<f64>() / 16 * 16;
        }
        self.0.run(level, &src[8 * done..], &mut dst[2 * done..]);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn from_doubles_avx512(src: &[f64], dst: &mut [MaybeUninit<u16>]) {
    for (x, out) in src.chunks_exact(16).zip(dst.chunks_exact_mut(16)) {
        let [one, other] = [&x[..8], &x[8..]].map(|x| {
            // SAFETY: there are 8 elements.
            odd(unsafe { _mm512_loadu_pd(x.as_ptr()) })
        });
        let x = _mm512_insertf32x8::<1>(_mm512_castps256_ps512(one), other);
        let half = canonical(_mm512_cvtps_ph::<NEAREST>(x));
        // SAFETY: the chunk is of 16 elements.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), half) };
    }
}

/// FLOATs rounded to odd, but for those below FLOAT's smallest normal number: the bits that a FLOAT
/// has not carry into the last bit that stays, if any of them is set.
#[inline]
#[target_feature(enable = "avx512f")]
fn odd(x: __m512d) -> __m256 {
    let bits = _mm512_castpd_si512(x);
    let lost = _mm512_set1_epi64((1 << 29) - 1);
    let sticky = _mm512_add_epi64(_mm512_and_si512(bits, lost), lost);
    let odd = _mm512_andnot_si512(lost, _mm512_or_si512(bits, sticky));
    _mm512_cvtpd_ps(_mm512_castsi512_pd(odd))
}

#[target_feature(enable = "f16c,avx512f,avx512bw,avx512vl")]
fn from_half_avx512(src: &[u16], dst: &mut [MaybeUninit<f32>]) {
    for (half, out) in src.chunks_exact(16).zip(dst.chunks_exact_mut(16)) {
        // SAFETY: the chunk is of 16 elements.
        let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
        let x = _mm512_cvtph_ps(half);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MIN));
        let canonical = _mm512_or_si512(sign, _mm512_set1_epi32(0x7FC0_0000));
        let x = _mm512_mask_mov_epi32(_mm512_castps_si512(x), nan, canonical);
        // SAFETY: the chunk is of 16 elements.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr().cast(), _mm512_castsi512_ps(x)) };
    }
    let done = src.len() / 16 * 16;
    for (half, out) in src[done..].chunks(8).zip(dst[done..].chunks_mut(8)) {
        let some = first(half.len());
        // SAFETY: the mask is of as many elements as the chunk has.
        let half = unsafe { _mm_maskz_loadu_epi16(some, half.as_ptr().cast()) };
        let x = blocks::canonical(_mm256_cvtph_ps(half));
        // SAFETY: as above.
        unsafe { _mm256_mask_storeu_ps(out.as_mut_ptr().cast(), some, x) };
    }
}

#[target_feature(enable = "avx2,f16c")]
fn from_half_avx2(src: &[u16], dst: &mut [MaybeUninit<f32>]) {
    for (half, out) in src.chunks_exact(8).zip(dst.chunks_exact_mut(8)) {
        // SAFETY: the chunk is of 8 elements.
        let x = _mm256_cvtph_ps(unsafe { _mm_loadu_si128(half.as_ptr().cast()) });
        // SAFETY: the chunk is of 8 elements.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr().cast(), blocks::canonical(x)) };
    }
}
