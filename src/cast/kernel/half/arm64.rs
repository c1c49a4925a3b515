//! The conversion instructions that every arm64 has: FLOAT ↔ FLOAT16, and DOUBLE to FLOAT rounded
//! to odd.

#![expect(
    unsafe_code,
    reason = "vector loads and stores, and instructions that Rust has no name for"
)]

use std::arch::aarch64::*;
use std::arch::asm;
use std::mem::MaybeUninit;

use super::Level;

/// Elements that are converted at a time.
const ELEMENTS: usize = 8;

/// As many FLOATs.
type EightFloats = [float32x4_t; 2];

/// Loops over whole vectors, which return how many elements they have converted; as many are
/// written.
macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident: $from:ty => $to:ty, |$x:ident, $out:ident| $body:block)*) => {$(
        $(#[$doc])*
        pub(in crate::cast::kernel) fn $name(
            _: Level,
            src: &[$from],
            dst: &mut [MaybeUninit<$to>],
        ) -> usize {
            #[target_feature(enable = "neon")]
            fn vectors(src: &[$from], dst: &mut [MaybeUninit<$to>]) {
                let places = dst.chunks_exact_mut(ELEMENTS);
                for ($x, $out) in src.chunks_exact(ELEMENTS).zip(places) $body
            }

            assert_eq!(src.len(), dst.len());
            // SAFETY: every arm64 that Rust's library is for has the instructions.
            unsafe { vectors(src, dst) };
            src.len() / ELEMENTS * ELEMENTS
        }
    )*};
}

loops! {
    to_half: f32 => u16, |x, out| {
        let half = narrow(load(x));
        // The instruction sets the quiet bit of a NaN, which without its sign is the canonical one
        // then, or above it.
        let magnitude = vbicq_u16(half, vdupq_n_u16(0x8000));
        let magnitude = vminq_u16(magnitude, vdupq_n_u16(0x7E00));
        let half = vbslq_u16(vdupq_n_u16(0x8000), half, magnitude);
        // SAFETY: the chunk is of 8 elements.
        unsafe { vst1q_u16(out.as_mut_ptr().cast(), half) };
    }
    from_half: u16 => f32, |half, out| {
        // SAFETY: the chunk is of 8 elements.
        let half = unsafe { vld1q_u16(half.as_ptr()) };
        let sign = vdupq_n_u16(0x8000);
        let is_nan = vcgtq_u16(vbicq_u16(half, sign), vdupq_n_u16(0x7C00));
        let half = vbslq_u16(vbicq_u16(is_nan, sign), vdupq_n_u16(0x7E00), half);
        store(widen(half), out);
    }
    /// Rounded to odd.
    odd_from_doubles: f64 => f32, |x, out| {
        let odd = [&x[..4], &x[4..]].map(|four| {
            // SAFETY: there are two elements in each half.
            let (one, other) =
                unsafe { (vld1q_f64(four.as_ptr()), vld1q_f64(four[2..].as_ptr())) };
            vcvtx_high_f32_f64(vcvtx_f32_f64(one), other)
        });
        store(odd, out);
    }
}

/// Rounds as many elements as fill vectors to FLOAT16 and holds them as FLOAT, and returns how
/// many.
pub(in crate::cast::kernel) fn round_to_half(_: Level, floats: &mut [f32]) -> usize {
    #[target_feature(enable = "neon")]
    fn vectors(floats: &mut [f32]) {
        let sign = vdupq_n_u32(1 << 31);
        for place in floats.chunks_exact_mut(ELEMENTS) {
            let rounded = widen(narrow(load(place))).map(|x| {
                let bits = vreinterpretq_u32_f32(x);
                let magnitude = vminq_u32(vbicq_u32(bits, sign), vdupq_n_u32(0x7FC0_0000));
                vreinterpretq_f32_u32(vbslq_u32(sign, bits, magnitude))
            });
            store(rounded, place);
        }
    }

    // SAFETY: every arm64 that Rust's library is for has the instructions.
    unsafe { vectors(floats) };
    floats.len() / ELEMENTS * ELEMENTS
}

#[inline]
#[target_feature(enable = "neon")]
fn load(src: &[f32]) -> EightFloats {
    let src = &src[..ELEMENTS];
    // SAFETY: there are four elements in each half.
    unsafe { [vld1q_f32(src.as_ptr()), vld1q_f32(src[4..].as_ptr())] }
}

/// A FLOAT, or a place for one.
trait Float {}
impl Float for f32 {}
impl Float for MaybeUninit<f32> {}

#[inline]
#[target_feature(enable = "neon")]
fn store(floats: EightFloats, dst: &mut [impl Float]) {
    let (one, other) = dst[..ELEMENTS].split_at_mut(ELEMENTS / 2);
    // SAFETY: both are of four elements, which are FLOATs.
    unsafe {
        vst1q_f32(one.as_mut_ptr().cast(), floats[0]);
        vst1q_f32(other.as_mut_ptr().cast(), floats[1]);
    }
}

/// Eight FLOATs as FLOAT16; a NaN keeps its sign and becomes quiet.
#[inline]
#[target_feature(enable = "neon")]
fn narrow([one, other]: EightFloats) -> uint16x8_t {
    let half: uint16x8_t;
    // SAFETY: every arm64 has the instructions, which read and write these registers alone.
    unsafe {
        asm!(
            "fcvtn {half:v}.4h, {one:v}.4s",
            "fcvtn2 {half:v}.8h, {other:v}.4s",
            half = out(vreg) half,
            one = in(vreg) one,
            other = in(vreg) other,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    half
}

/// Eight FLOAT16s as FLOAT; a NaN keeps its sign and becomes quiet.
#[inline]
#[target_feature(enable = "neon")]
fn widen(half: uint16x8_t) -> EightFloats {
    let (one, other): (float32x4_t, float32x4_t);
    // SAFETY: as above.
    unsafe {
        asm!(
            "fcvtl {one:v}.4s, {half:v}.4h",
            "fcvtl2 {other:v}.4s, {half:v}.8h",
            one = out(vreg) one,
            other = lateout(vreg) other,
            half = in(vreg) half,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [one, other]
}
