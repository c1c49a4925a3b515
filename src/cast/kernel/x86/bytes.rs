//! FLOATs to types of at most 16 bits by AVX2.

#![expect(unsafe_code, reason = "blocks ask for their instructions")]

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::blocks::{Block, Floats, canonical, store, store_half};
use crate::cast::kernel::round::{Narrow, Scale};

/// Elements that become a vector of bytes.
const BYTES: usize = 32;

/// Four vectors of eight numbers, to be one of 32.
type Four = [__m256i; 4];

/// Numbers of at most 16 bits as bytes, those beyond a byte as the largest. In the order that
/// [`in_order`] mends.
#[inline]
#[target_feature(enable = "avx2")]
fn saturated([a, b, c, d]: Four) -> __m256i {
    _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d))
}

/// Bytes whose top bits are the numbers' signs: of a mask, which is −1 or 0, all bits. In the order
/// that [`in_order`] mends.
#[inline]
#[target_feature(enable = "avx2")]
fn signs([a, b, c, d]: Four) -> __m256i {
    _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
}

/// Packing takes from both operands' lower halves first.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(bytes: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Whether one is NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn has_nan(x: &[__m256; 4]) -> bool {
    let one = _mm256_cmp_ps::<_CMP_UNORD_Q>(x[0], x[1]);
    let other = _mm256_cmp_ps::<_CMP_UNORD_Q>(x[2], x[3]);
    _mm256_movemask_ps(_mm256_or_ps(one, other)) != 0
}

/// Which are NaN, as bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nans(x: &[__m256; 4]) -> __m256i {
    let mut masks = [_mm256_setzero_si256(); 4];
    for (mask, x) in masks.iter_mut().zip(x) {
        *mask = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(*x, *x));
    }
    signs(masks)
}

/// Thirty-two elements as FLOATs.
///
/// # Safety
///
/// The CPU has AVX2 and F16C.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn floats<S: Floats>(src: &[S]) -> [__m256; 4] {
    // SAFETY: as the caller promises.
    unsafe { [S::eight(src, 0), S::eight(src, 8), S::eight(src, 16), S::eight(src, 24)] }
}

/// To the low bits of an integer of at most 8 bits; a number that an INT32 cannot hold is 0, whose
/// bits are the low ones of what the conversion instruction makes of it.
pub(super) struct LowBits<S> {
    /// The bits that there are.
    mask: u8,
    /// The topmost of them, if it is a sign.
    sign: u8,
    source: PhantomData<fn(S)>,
}

impl<S> LowBits<S> {
    pub(super) fn new(bits: u32, is_signed: bool) -> LowBits<S> {
        let mask = 0xFF >> (8 - bits);
        let sign = if is_signed { 1 << (bits - 1) } else { 0 };
        LowBits { mask, sign, source: PhantomData }
    }
}

impl<S: Floats> Block for LowBits<S> {
    type From = S;
    type To = u8;
    const ELEMENTS: usize = BYTES;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u8>]) -> bool {
        // SAFETY: as the caller promises.
        let x = unsafe { floats(src) };
        let mut low = [_mm256_set1_epi32(self.mask.into()); 4];
        for (low, x) in low.iter_mut().zip(x) {
            *low = _mm256_and_si256(*low, _mm256_cvttps_epi32(x));
        }
        let mut bytes = in_order(saturated(low));
        if self.mask != 0xFF {
            let sign = _mm256_set1_epi8(self.sign as i8);
            bytes = _mm256_sub_epi8(_mm256_xor_si256(bytes, sign), sign);
        }
        store(bytes, dst, 0);
        true
    }
}

/// To the low 16 bits.
pub(super) struct Low16Bits<S>(pub(super) PhantomData<fn(S)>);

impl<S: Floats> Block for Low16Bits<S> {
    type From = S;
    type To = u16;
    const ELEMENTS: usize = 16;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u16>]) -> bool {
        // SAFETY: as the caller promises.
        let (one, other) = unsafe { (S::eight(src, 0), S::eight(src, 8)) };
        let zero = _mm256_setzero_si256();
        let one = _mm256_blend_epi16::<0xAA>(_mm256_cvttps_epi32(one), zero);
        let other = _mm256_blend_epi16::<0xAA>(_mm256_cvttps_epi32(other), zero);
        let low = _mm256_packus_epi32(one, other);
        store(_mm256_permute4x64_epi64::<0xD8>(low), dst, 0);
        true
    }
}

/// To a small float with a sign.
///
/// To |x| is added a number whose unit in the last place is that of x in the format, for a
/// subnormal its smallest number: the sum is rounded as x is to be, and ends in how many units that
/// is. Below the code of a number of the same exponent there are as many codes as units for each
/// exponent. So the sum's exponent, and the units under it, are the code but for a constant, which
/// the number that is added has in its last 16 bits: it is one part in 128 more than a power of
/// two, and so many units less. Nothing is carried out of these bits, since the units are few, and
/// they are an even number, so that ties go where they would.
pub(super) struct Small<S, const SIGNS_ZERO: bool> {
    /// The format's smallest exponent, in its place in a FLOAT.
    smallest: u32,
    /// From a power of two to the number that is added.
    units: f32,
    /// By these the lower and the upper half of a FLOAT are multiplied, to be added up.
    weights: u32,
    /// The bits below the code in that sum.
    below: i32,
    /// The largest code without its sign that a number becomes.
    largest: u8,
    nan: u8,
    sign: u8,
    source: PhantomData<fn(S)>,
}

impl<S, const SIGNS_ZERO: bool> Small<S, SIGNS_ZERO> {
    pub(super) fn new(narrow: &Narrow) -> Self {
        const EXPONENT_IN_UPPER_HALF: u32 = 7;
        let Narrow { shift, smallest_normal: smallest, .. } = *narrow;
        let last = if narrow.saturates() {
            narrow.code::<true, true>(f32::INFINITY)
        } else {
            narrow.code::<false, true>(f32::INFINITY)
        };
        let below = EXPONENT_IN_UPPER_HALF - (23 - shift);
        let constant = ((smallest >> 23) + shift) << (23 - shift);
        let power = (1u32 << shift) as f32;
        Small {
            smallest,
            units: f32::from_bits(power.to_bits() + (1 << 16) - constant),
            weights: 1 << 16 | 1 << below,
            below: below as i32,
            largest: last as u8,
            nan: narrow.nan as u8,
            sign: (narrow.magnitude_mask + 1) as u8,
            source: PhantomData,
        }
    }
}

impl<S: Floats, const SIGNS_ZERO: bool> Block for Small<S, SIGNS_ZERO> {
    type From = S;
    type To = u8;
    const ELEMENTS: usize = BYTES;
    const ALWAYS: bool = true;

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u8>]) -> bool {
        // SAFETY: as the caller promises.
        let x = unsafe { floats(src) };
        let magnitude = _mm256_set1_ps(f32::from_bits(0x7FFF_FFFF));
        let exponent = _mm256_set1_ps(f32::from_bits(0x7F80_0000));
        let smallest = _mm256_set1_epi32(self.smallest as i32);
        let (mut sums, mut rounded) = ([smallest; 4], x);
        for (sum, rounded) in sums.iter_mut().zip(&mut rounded) {
            let power = _mm256_castps_si256(_mm256_and_ps(*rounded, exponent));
            let power = _mm256_castsi256_ps(_mm256_max_epi32(power, smallest));
            let units = _mm256_set1_ps(self.units);
            *rounded = _mm256_fmadd_ps(power, units, _mm256_and_ps(*rounded, magnitude));
            let weights = _mm256_set1_epi32(self.weights as i32);
            *sum = _mm256_madd_epi16(_mm256_castps_si256(*rounded), weights);
        }
        let below = _mm_cvtsi32_si128(self.below);
        let [a, b, c, d] = sums;
        let one = _mm256_srl_epi16(_mm256_packus_epi32(a, b), below);
        let other = _mm256_srl_epi16(_mm256_packus_epi32(c, d), below);
        let bytes = _mm256_packus_epi16(one, other);
        let mut code = _mm256_min_epu8(bytes, _mm256_set1_epi8(self.largest as i8));
        // The sums are positive and far from 0, so this one is NaN only if one of them is.
        let [one, other, third, last] = rounded;
        let any = _mm256_fmadd_ps(one, other, third);
        if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(any, last)) != 0 {
            code = _mm256_blendv_epi8(code, _mm256_set1_epi8(self.nan as i8), nans(&rounded));
        }
        let mut sign = signs(x.map(|x| _mm256_castps_si256(x)));
        if self.sign != 0x80 {
            // From the top of a byte down to the format's sign.
            let unused = _mm_cvtsi32_si128(self.sign.leading_zeros() as i32);
            sign = _mm256_srl_epi16(sign, unused);
        }
        sign = _mm256_and_si256(sign, _mm256_set1_epi8(self.sign as i8));
        if !SIGNS_ZERO {
            // Neither a zero nor NaN, the sign alone, takes one; of a whole byte both are no more
            // than 0.
            sign = _mm256_and_si256(sign, _mm256_cmpgt_epi8(code, _mm256_setzero_si256()));
        }
        store(in_order(_mm256_xor_si256(code, sign)), dst, 0);
        true
    }
}

/// To FLOAT8E8M0.
pub(super) struct ToScale<S> {
    scale: Scale,
    source: PhantomData<fn(S)>,
}

impl<S> ToScale<S> {
    pub(super) fn new(scale: Scale) -> ToScale<S> {
        ToScale { scale, source: PhantomData }
    }
}

impl<S: Floats> Block for ToScale<S> {
    type From = S;
    type To = u8;
    const ELEMENTS: usize = BYTES;
    const ALWAYS: bool = true;

    /// A code is an exponent. As signed numbers, what is negative or too small for the second code
    /// is less than that.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u8>]) -> bool {
        // SAFETY: as the caller promises.
        let x = unsafe { floats(src) };
        let increment = _mm256_set1_epi32(self.scale.increment as i32);
        let last_of_first = _mm256_set1_epi32(self.scale.second_from as i32 - 1);
        let mut exponents = [increment; 4];
        for (exponent, x) in exponents.iter_mut().zip(x) {
            let bits = _mm256_castps_si256(x);
            let rounded = _mm256_srli_epi32::<23>(_mm256_add_epi32(bits, increment));
            *exponent = _mm256_and_si256(rounded, _mm256_cmpgt_epi32(bits, last_of_first));
        }
        let last = _mm256_set1_epi8(self.scale.above as i8);
        let mut code = _mm256_min_epu8(saturated(exponents), last);
        let nan = _mm256_set1_epi8(self.scale.nan as i8);
        if !self.scale.saturates() {
            let mut beyond = [increment; 4];
            for (beyond, x) in beyond.iter_mut().zip(x) {
                let bits = _mm256_castps_si256(x);
                *beyond = _mm256_or_si256(
                    _mm256_cmpgt_epi32(_mm256_set1_epi32(Scale::SMALLEST), bits),
                    _mm256_cmpgt_epi32(bits, _mm256_set1_epi32(Scale::LARGEST as i32)),
                );
            }
            code = _mm256_blendv_epi8(code, nan, signs(beyond));
        }
        if has_nan(&x) {
            code = _mm256_blendv_epi8(code, nan, nans(&x));
        }
        store(in_order(code), dst, 0);
        true
    }
}

/// To FLOAT16: of an integer of at most 16 bits, and of a BFLOAT16, by way of a FLOAT that is the
/// same number.
pub(super) struct Avx2ToHalf<S>(pub(super) PhantomData<fn(S)>);

impl<S: Floats> Block for Avx2ToHalf<S> {
    type From = S;
    type To = u16;
    const ELEMENTS: usize = 16;
    // FLOAT has instructions of its own there, and of a byte there are few values.
    const ALWAYS: bool = size_of::<S>() == size_of::<u16>();

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u16>]) -> bool {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        // SAFETY: as the caller promises.
        let (mut one, mut other) = unsafe { (S::eight(src, 0), S::eight(src, 8)) };
        let unordered = _mm256_cmp_ps::<_CMP_UNORD_Q>(one, other);
        if S::HAS_NAN && _mm256_movemask_ps(unordered) != 0 {
            // It has no more than the quiet bit of a payload then, which the conversion keeps.
            (one, other) = (canonical(one), canonical(other));
        }
        store_half(_mm256_cvtps_ph::<NEAREST>(one), dst, 0);
        store_half(_mm256_cvtps_ph::<NEAREST>(other), dst, 8);
        true
    }
}

/// To BFLOAT16.
pub(super) struct UpperHalf<S>(pub(super) PhantomData<fn(S)>);

impl<S: Floats> Block for UpperHalf<S> {
    type From = S;
    type To = u16;
    const ELEMENTS: usize = 16;
    const ALWAYS: bool = true;

    /// Carries run into the exponent by themselves.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn convert(&self, src: &[S], dst: &mut [MaybeUninit<u16>]) -> bool {
        // SAFETY: as the caller promises.
        let mut x = unsafe { [S::eight(src, 0), S::eight(src, 8)] };
        let unordered = _mm256_cmp_ps::<_CMP_UNORD_Q>(x[0], x[1]);
        if S::HAS_NAN && _mm256_movemask_ps(unordered) != 0 {
            x = [canonical(x[0]), canonical(x[1])];
        }
        let (below_half, one) = (_mm256_set1_epi32(0x7FFF), _mm256_set1_epi32(1));
        let mut upper = [one; 2];
        for (upper, x) in upper.iter_mut().zip(x) {
            let bits = _mm256_castps_si256(x);
            let is_odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), one);
            let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, below_half), is_odd);
            *upper = _mm256_srli_epi32::<16>(rounded);
        }
        let halves = _mm256_packus_epi32(upper[0], upper[1]);
        store(_mm256_permute4x64_epi64::<0xD8>(halves), dst, 0);
        true
    }
}
