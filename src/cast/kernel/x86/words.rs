//! 64-bit words, and FLOATs to 32 bits without a sign, by AVX2, which converts neither.
//!
//! Between −2^51 and 2^51 an integer n and the bits of the DOUBLE 1.5 · 2^52 + n differ by the same
//! constant: there an addition is the conversion. Blocks with other numbers are left to the kernel
//! that converts every number.

#![expect(unsafe_code, reason = "blocks ask for their instructions")]

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use bytemuck::Pod;
use half::{bf16, f16};

use super::blocks::{Block, Floats, canonical, load, store, store_half};

const INTEGERS: f64 = 1.5 * (1u64 << 52) as f64;
const LIMIT: f64 = (1u64 << 51) as f64;

/// Eight numbers.
type EightDoubles = [__m256d; 2];

/// A type whose elements are DOUBLEs.
pub(super) trait Doubles: Pod + Send + Sync {
    /// Eight of them, without fractions if they had any; `None` if one is not a number between
    /// −2^51 and 2^51.
    ///
    /// # Safety
    ///
    /// The CPU has AVX2 and F16C.
    unsafe fn integers(src: &[Self]) -> Option<EightDoubles>;
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen(x: __m256) -> EightDoubles {
    [_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(x))]
}

/// # Safety
///
/// The CPU has AVX2 and F16C.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn truncated<S: Floats>(src: &[S]) -> Option<EightDoubles> {
    // SAFETY: as the caller promises.
    let x = unsafe { S::eight(src, 0) };
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let is_less = _mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(LIMIT as f32));
    let integers = _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
    (_mm256_movemask_ps(is_less) == 0xFF).then(|| widen(integers))
}

macro_rules! doubles {
    ($($of:ty: |$src:ident| $integers:expr;)*) => {$(
        impl Doubles for $of {
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn integers($src: &[$of]) -> Option<EightDoubles> {
                $integers
            }
        }
    )*};
}

doubles! {
    // SAFETY: as the caller promises.
    f32: |src| unsafe { truncated(src) };
    // SAFETY: as the caller promises.
    f16: |src| unsafe { truncated(src) };
    // SAFETY: as the caller promises.
    bf16: |src| unsafe { truncated(src) };
    f64: |src| {
        let mut is_less = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
        let mut integers = [is_less; 2];
        for (at, integers) in integers.iter_mut().enumerate() {
            let x = _mm256_castsi256_pd(load(src, 4 * at));
            let magnitude = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
            let one = _mm256_cmp_pd::<_CMP_LT_OQ>(magnitude, _mm256_set1_pd(LIMIT));
            is_less = _mm256_and_pd(is_less, one);
            *integers = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
        }
        (_mm256_movemask_pd(is_less) == 0xF).then_some(integers)
    };
    i64: |src| {
        let limit = _mm256_set1_epi64x(1 << 51);
        let (one, other) = (load(src, 0), load(src, 4));
        let above = |x| _mm256_srli_epi64::<52>(_mm256_add_epi64(x, limit));
        let beyond = _mm256_or_si256(above(one), above(other));
        (_mm256_testz_si256(beyond, beyond) == 1).then(|| [of_integers(one), of_integers(other)])
    };
    u64: |src| {
        let (one, other) = (load(src, 0), load(src, 4));
        let beyond = _mm256_srli_epi64::<51>(_mm256_or_si256(one, other));
        (_mm256_testz_si256(beyond, beyond) == 1).then(|| [of_integers(one), of_integers(other)])
    };
}

/// DOUBLEs of integers between −2^51 and 2^51.
#[inline]
#[target_feature(enable = "avx2")]
fn of_integers(n: __m256i) -> __m256d {
    let constant = _mm256_set1_pd(INTEGERS);
    let sum = _mm256_add_epi64(n, _mm256_castpd_si256(constant));
    _mm256_sub_pd(_mm256_castsi256_pd(sum), constant)
}

/// The bits of the sums that are integers of 64 bits but for a constant whose low 32 bits are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn sums(integers: EightDoubles) -> [__m256i; 2] {
    let constant = _mm256_set1_pd(INTEGERS);
    let [one, other] = integers;
    [
        _mm256_castpd_si256(_mm256_add_pd(one, constant)),
        _mm256_castpd_si256(_mm256_add_pd(other, constant)),
    ]
}

/// Conversions of eight elements of a kind at a time: to which type, and what is done with the
/// elements and their places.
macro_rules! eights {
    ($(
        $(#[$doc:meta])*
        $name:ident<$of:ident> -> $to:ty: |$src:ident, $dst:ident| $convert:block
    )*) => {$(
        $(#[$doc])*
        pub(super) struct $name<S>(pub(super) PhantomData<fn(S)>);

        impl<S: $of> Block for $name<S> {
            type From = S;
            type To = $to;
            const ELEMENTS: usize = 8;

            #[inline]
            #[target_feature(enable = "avx2,f16c,fma")]
            unsafe fn convert(&self, $src: &[S], $dst: &mut [MaybeUninit<$to>]) -> bool {
                $convert
            }
        }
    )*};
}

eights! {
    /// To INT64 and UINT64, which are the same bits here.
    ToWords<Doubles> -> u64: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(integers) = (unsafe { S::integers(src) }) else { return false };
        let constant = _mm256_castpd_si256(_mm256_set1_pd(INTEGERS));
        for (at, sum) in sums(integers).into_iter().enumerate() {
            store(_mm256_sub_epi64(sum, constant), dst, 4 * at);
        }
        true
    }

    /// To the low 32 bits of them, which are UINT32.
    LowWords<Doubles> -> u32: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(integers) = (unsafe { S::integers(src) }) else { return false };
        let [one, other] = sums(integers);
        let [one, other] = [_mm256_castsi256_ps(one), _mm256_castsi256_ps(other)];
        let low = _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(one, other));
        store(_mm256_permute4x64_epi64::<0xD8>(low), dst, 0);
        true
    }
}

/// FLOATs to integers of 32 bits, and those to a wider type or one without a sign; where one is
/// beyond INT32, another block converts.
pub(super) struct Integers<S, B>(pub(super) B, pub(super) PhantomData<fn(S)>);

impl<S: Floats, B: Block<From = S>> Block for Integers<S, B>
where
    B::To: Extended,
{
    type From = S;
    type To = B::To;
    const ELEMENTS: usize = 16;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<B::To>]) -> bool {
        // SAFETY: as the caller promises.
        let x = unsafe { [S::eight(src, 0), S::eight(src, 8)] };
        let [one, other] = [_mm256_cvttps_epi32(x[0]), _mm256_cvttps_epi32(x[1])];
        // What the instruction makes of all that it cannot convert.
        let least = _mm256_set1_epi32(i32::MIN);
        let [no, nor] = [_mm256_cmpeq_epi32(one, least), _mm256_cmpeq_epi32(other, least)];
        let beyond = _mm256_or_si256(no, nor);
        if _mm256_testz_si256(beyond, beyond) == 0 {
            let halves = src.chunks_exact(8).zip(dst.chunks_exact_mut(8));
            // SAFETY: as the caller promises.
            return halves.fold(true, |all, (src, dst)| unsafe { all && self.0.convert(src, dst) });
        }
        // SAFETY: as the caller promises.
        unsafe {
            B::To::store(one, dst, 0);
            B::To::store(other, dst, 8);
        }
        true
    }
}

/// A type that INT32 is extended to.
pub(super) trait Extended: Pod {
    /// Writes eight from `at` on.
    ///
    /// # Safety
    ///
    /// The CPU has AVX2.
    unsafe fn store(integers: __m256i, dst: &mut [MaybeUninit<Self>], at: usize);
}

impl Extended for u32 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(integers: __m256i, dst: &mut [MaybeUninit<u32>], at: usize) {
        store(integers, dst, at);
    }
}

impl Extended for u64 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(integers: __m256i, dst: &mut [MaybeUninit<u64>], at: usize) {
        let one = _mm256_castsi256_si128(integers);
        let other = _mm256_extracti128_si256::<1>(integers);
        store(_mm256_cvtepi32_epi64(one), dst, at);
        store(_mm256_cvtepi32_epi64(other), dst, at + 4);
    }
}

eights! {
    /// FLOATs to INT32, whose rule is the instruction's.
    ToInt32<Floats> -> i32: |src, dst| {
        // SAFETY: as the caller promises.
        store(_mm256_cvttps_epi32(unsafe { S::eight(src, 0) }), dst, 0);
        true
    }
}

/// Eight DOUBLEs as the FLOATs that they round to.
#[inline]
#[target_feature(enable = "avx2")]
fn rounded([one, other]: EightDoubles) -> __m256 {
    _mm256_set_m128(_mm256_cvtpd_ps(other), _mm256_cvtpd_ps(one))
}

eights! {
    /// Integers to FLOAT.
    WordsToFloat<Doubles> -> f32: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(doubles) = (unsafe { S::integers(src) }) else { return false };
        store(_mm256_castps_si256(rounded(doubles)), dst, 0);
        true
    }

    /// Integers to DOUBLE.
    WordsToDouble<Doubles> -> f64: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(doubles) = (unsafe { S::integers(src) }) else { return false };
        for (at, doubles) in doubles.into_iter().enumerate() {
            store(_mm256_castpd_si256(doubles), dst, 4 * at);
        }
        true
    }
}

/// DOUBLE to FLOAT.
pub(super) struct DoubleToFloat;

impl Block for DoubleToFloat {
    type From = f64;
    type To = f32;
    const ELEMENTS: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[f64], dst: &mut [MaybeUninit<f32>]) -> bool {
        let x = [_mm256_castsi256_pd(load(src, 0)), _mm256_castsi256_pd(load(src, 4))];
        store(_mm256_castps_si256(canonical(rounded(x))), dst, 0);
        true
    }
}

/// FLOAT to DOUBLE.
pub(super) struct FloatToDouble;

impl Block for FloatToDouble {
    type From = f32;
    type To = f64;
    const ELEMENTS: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[f32], dst: &mut [MaybeUninit<f64>]) -> bool {
        let x = canonical(_mm256_castsi256_ps(load(src, 0)));
        for (at, x) in widen(x).into_iter().enumerate() {
            store(_mm256_castpd_si256(x), dst, 4 * at);
        }
        true
    }
}

/// Eight DOUBLEs as FLOATs rounded to odd; `None` where one of them is not zero and less than
/// FLOAT's smallest normal number, or if not `EVERYWHERE`, one that may be even there.
#[inline]
#[target_feature(enable = "avx2")]
fn odd<const EVERYWHERE: bool>(x: EightDoubles) -> Option<__m256> {
    // Bits of a DOUBLE that a FLOAT has not.
    let lost = _mm256_set1_epi64x((1 << 29) - 1);
    let normal = _mm256_set1_pd(f32::MIN_POSITIVE.into());
    let mut is_small = _mm256_setzero_pd();
    let mut odd = x;
    for x in &mut odd {
        let bits = _mm256_castpd_si256(*x);
        if EVERYWHERE {
            let magnitude = _mm256_andnot_pd(_mm256_set1_pd(-0.0), *x);
            let is_less = _mm256_cmp_pd::<_CMP_LT_OQ>(magnitude, normal);
            is_small = _mm256_or_pd(is_small, _mm256_and_pd(magnitude, is_less));
        }
        // Carries into the last bit that stays, if any of those is set.
        let sticky = _mm256_add_epi64(_mm256_and_si256(bits, lost), lost);
        *x = _mm256_castsi256_pd(_mm256_andnot_si256(lost, _mm256_or_si256(bits, sticky)));
    }
    let small = _mm256_castpd_si256(is_small);
    (!EVERYWHERE || _mm256_testz_si256(small, small) == 1).then(|| rounded(odd))
}

/// A 64-bit word that is rounded to odd on its way to a small float.
pub(super) trait RoundedToOdd: Doubles {
    /// Eight of them; `None` where this is not for one of them. Unless `EVERYWHERE`, those that are
    /// less than FLOAT's smallest normal number may be even.
    ///
    /// # Safety
    ///
    /// The CPU has AVX2 and F16C.
    unsafe fn odd<const EVERYWHERE: bool>(src: &[Self]) -> Option<__m256>;
}

macro_rules! word {
    ($($of:ty: |$src:ident| $doubles:expr;)*) => {$(
        impl RoundedToOdd for $of {
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn odd<const EVERYWHERE: bool>($src: &[$of]) -> Option<__m256> {
                odd::<EVERYWHERE>($doubles)
            }
        }
    )*};
}

word! {
    f64: |src| [_mm256_castsi256_pd(load(src, 0)), _mm256_castsi256_pd(load(src, 4))];
    // SAFETY: as the caller promises.
    i64: |src| unsafe { i64::integers(src) }?;
    // SAFETY: as the caller promises.
    u64: |src| unsafe { u64::integers(src) }?;
}

eights! {
    /// To FLOAT, rounded to odd.
    Avx2ToOdd<RoundedToOdd> -> f32: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(x) = (unsafe { S::odd::<true>(src) }) else { return false };
        store(_mm256_castps_si256(x), dst, 0);
        true
    }

    /// To FLOAT16 by way of it, where what is less than FLOAT's smallest normal number is zero.
    OddToHalf<RoundedToOdd> -> u16: |src, dst| {
        // SAFETY: as the caller promises.
        let Some(mut x) = (unsafe { S::odd::<false>(src) }) else { return false };
        if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)) != 0 {
            x = canonical(x);
        }
        store_half(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x), dst, 0);
        true
    }
}
