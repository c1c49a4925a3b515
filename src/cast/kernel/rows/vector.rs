//! Vectors of 16 bytes, of arm64 and of wasm32.

#![expect(unsafe_code, reason = "vector loads and stores")]

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "wasm32")]
use std::arch::wasm32::*;
use std::mem::MaybeUninit;

use super::DigitRow;

#[cfg(target_arch = "aarch64")]
pub(super) type Vector = uint8x16_t;
#[cfg(target_arch = "wasm32")]
pub(super) type Vector = v128;

/// The same functions for each machine; every arm64 that Rust's library is for has these vectors.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($operand:ident: $of:ty),*) { $arm64:expr } { $wasm32:expr })*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name($($operand: $of),*) -> Vector {
            // SAFETY: as said above.
            #[cfg(target_arch = "aarch64")]
            return unsafe { $arm64 };
            #[cfg(target_arch = "wasm32")]
            return $wasm32;
        }
    )*};
}

functions! {
    every(byte: u8) { vdupq_n_u8(byte) } { u8x16_splat(byte) }
    add(a: Vector, b: Vector) { vaddq_u8(a, b) } { u8x16_add(a, b) }
    and(a: Vector, b: Vector) { vandq_u8(a, b) } { v128_and(a, b) }
    xor(a: Vector, b: Vector) { veorq_u8(a, b) } { v128_xor(a, b) }
    upper_digit(a: Vector) { vshrq_n_u8::<4>(a) } { u8x16_shr(a, 4) }
    /// Zero where an index is not one of the table's.
    look_up(table: Vector, index: Vector) { vqtbl1q_u8(table, index) } { u8x16_swizzle(table, index) }
}

#[inline(always)]
pub(super) fn load(row: &DigitRow) -> Vector {
    // SAFETY: a row has 16 bytes.
    #[cfg(target_arch = "aarch64")]
    return unsafe { vld1q_u8(row.as_ptr()) };
    // SAFETY: as above.
    #[cfg(target_arch = "wasm32")]
    return unsafe { v128_load(row.as_ptr().cast()) };
}

/// The elements of two vectors by turns, of so many bytes.
#[inline(always)]
pub(super) fn interleave<const BYTES: usize>(a: Vector, b: Vector) -> [Vector; 2] {
    // SAFETY: as said of the functions.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        let (a16, b16) = (vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
        let (a32, b32) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
        match BYTES {
            1 => [vzip1q_u8(a, b), vzip2q_u8(a, b)],
            2 => [
                vreinterpretq_u8_u16(vzip1q_u16(a16, b16)),
                vreinterpretq_u8_u16(vzip2q_u16(a16, b16)),
            ],
            _ => [
                vreinterpretq_u8_u32(vzip1q_u32(a32, b32)),
                vreinterpretq_u8_u32(vzip2q_u32(a32, b32)),
            ],
        }
    }
    #[cfg(target_arch = "wasm32")]
    match BYTES {
        1 => [
            i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b),
            i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b),
        ],
        2 => [
            i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b),
            i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b),
        ],
        _ => [i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b)],
    }
}

/// Panics unless there are 16 places.
#[inline(always)]
pub(super) fn store(vector: Vector, places: &mut [MaybeUninit<u8>]) {
    assert_eq!(places.len(), size_of::<Vector>());
    let start = places.as_mut_ptr();
    // SAFETY: there are 16 places, as was just asserted.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        vst1q_u8(start.cast(), vector);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "wasm32")]
    unsafe {
        v128_store(start.cast(), vector);
    }
}
