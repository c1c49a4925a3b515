//! Rounding 64-bit words to odd by AVX-512.

#![expect(unsafe_code, reason = "vector loads and stores, and calls that need their instructions")]

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::cast::kernel::level::Level;
use crate::cast::kernel::round_to_odd::VectorSource;

macro_rules! word {
    ($($word:ty, $load:ident, $convert:ident, $differs:expr;)*) => {$(
        impl VectorSource for $word {
            fn whole_vectors(level: Level, src: &[$word], dst: &mut [MaybeUninit<f32>]) -> usize {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512(src: &[$word], dst: &mut [MaybeUninit<f32>]) {
                    for (x, out) in src.chunks_exact(8).zip(dst.chunks_exact_mut(8)) {
                        // SAFETY: the chunk is of 8 elements.
                        let x = unsafe { $load(x.as_ptr().cast()) };
                        let cut = $convert::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(x);
                        let inexact: __mmask8 = $differs(x, cut);
                        let bits = _mm256_castps_si256(cut);
                        let odd = _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
                        // SAFETY: the chunk is of 8 elements.
                        unsafe { _mm256_storeu_ps(out.as_mut_ptr().cast(), _mm256_castsi256_ps(odd)) };
                    }
                }

                if level.avx512().is_none() {
                    return 0;
                }
                // SAFETY: the level says that the CPU has the instructions.
                unsafe { avx512(src, dst) };
                src.len() / 8 * 8
            }
        }
    )*};
}

word! {
    f64, _mm512_loadu_pd, _mm512_cvt_roundpd_ps,
        |x, cut| _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(x, _mm512_cvtps_pd(cut));
    i64, _mm512_loadu_si512, _mm512_cvt_roundepi64_ps,
        |x, cut| _mm512_cmpneq_epi64_mask(x, _mm512_cvttps_epi64(cut));
    u64, _mm512_loadu_si512, _mm512_cvt_roundepu64_ps,
        |x, cut| _mm512_cmpneq_epi64_mask(x, _mm512_cvttps_epu64(cut));
}
