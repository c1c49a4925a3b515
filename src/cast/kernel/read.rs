//! What a source element offers to the loops: its value in each of the words that targets start
//! from. Every word but [`SourceElement::to_odd`] is already the final result of the conversion to
//! that type.

use bytemuck::Pod;
use half::{bf16, f16};

use super::round::{odd_from_f64, odd_from_normal};

/// An element type with a Rust type of its own.
pub(super) trait SourceElement: Pod {
    /// Whether the type is FLOAT itself.
    const IS_FLOAT: bool = false;
    /// Low bits for targets of at most 16 bits ([SEMANTICS §7.1](crate::semantics), first row of
    /// §7.3).
    fn to_low_bits(self) -> i32;
    fn to_i32(self) -> i32;
    fn to_u32(self) -> u32;
    fn to_i64(self) -> i64;
    fn to_u64(self) -> u64;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// The exact value where a FLOAT holds it, else one of the two neighbours among numbers of
    /// fewer bits, no fewer than 16, whose last bit is odd: rounding that to two bits less is
    /// rounding the exact value (round-to-odd; Boldo and Melquiond, "When double rounding is odd",
    /// 2005).
    fn to_odd(self) -> f32;
    fn is_true(self) -> bool;
}

macro_rules! integer_source {
    ($($int:ty, $odd:expr;)*) => {$(
        impl SourceElement for $int {
            #[inline(always)]
            fn to_low_bits(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_u64(self) -> u64 { self as u64 }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_odd(self) -> f32 { $odd(self) }
            #[inline(always)]
            fn is_true(self) -> bool { self != 0 }
        }
    )*};
}

/// Integers up to this magnitude are FLOATs.
const EXACT: u32 = 1 << 24;

/// The last 8 bits as one, the lowest of those that stay: rounds to odd, in two's complement as
/// well. Of a number beyond [`EXACT`], at least 17 bits stay, and no more than a FLOAT has.
macro_rules! fold_low_byte {
    ($x:expr) => {{
        let x = $x;
        if x & 0xFF == 0 { x } else { x & !0xFF | 0x100 }
    }};
}

integer_source! {
    u8, |x| x as f32;
    i8, |x| x as f32;
    u16, |x| x as f32;
    i16, |x| x as f32;
    u32, |x| if x < EXACT { x as f32 } else { fold_low_byte!(x) as f32 };
    i32, |x: i32| {
        let is_exact = x.wrapping_add(EXACT as i32) as u32 <= 2 * EXACT;
        if is_exact { x as f32 } else { fold_low_byte!(x) as f32 }
    };
    u64, |x| odd_from_normal(fold_low_bits(x) as f64);
    i64, |x: i64| {
        let magnitude = odd_from_normal(fold_low_bits(x.unsigned_abs()) as f64);
        if x < 0 { -magnitude } else { magnitude }
    };
}

/// A number that a DOUBLE holds and that every format of at most 40 significant bits rounds as it
/// rounds `x`: whether any of the low 12 bits is set moves into the next one, where `x` is so large
/// that there are more than enough bits above.
#[inline(always)]
fn fold_low_bits(x: u64) -> u64 {
    let folded = (x & !0xFFF) | u64::from(x & 0xFFF != 0) << 12;
    if x >> 53 == 0 { x } else { folded }
}

/// Truncation toward zero where the magnitude of the number is in range, which is one comparison;
/// of NaN it is not. The least integer is left out: as its low bits are zero, and every number that
/// has it is out of range with it, `otherwise` is that integer or zero in all that is made of it.
trait Truncate: Copy {
    /// Of a magnitude below 2^31.
    fn i32_or(self, otherwise: i32) -> i32;
    /// Of a magnitude below 2^63.
    fn i64_or(self, otherwise: i64) -> i64;
}

macro_rules! truncate {
    ($($method:ident -> $int:ty, below $limit:literal;)*) => {
        truncate!(f32 { $($method $int, $limit;)* });
        truncate!(f64 { $($method $int, $limit;)* });
    };
    ($float:ty { $($method:ident $int:ty, $limit:literal;)* }) => {
        impl Truncate for $float {$(
            #[inline(always)]
            #[cfg_attr(target_arch = "x86_64", expect(
                unsafe_code,
                reason = "`as` saturates, which takes more instructions there, and no vectors'"
            ))]
            fn $method(self, otherwise: $int) -> $int {
                if self.abs() < $limit {
                    // SAFETY: it is not NaN, not infinite, and representable once truncated.
                    #[cfg(target_arch = "x86_64")]
                    return unsafe { self.to_int_unchecked() };
                    #[cfg(not(target_arch = "x86_64"))]
                    return self as $int;
                }
                otherwise
            }
        )*}
    };
}

truncate! {
    i32_or -> i32, below 2147483648.0;
    i64_or -> i64, below 9223372036854775808.0;
}

macro_rules! float_source {
    ($($float:ty, $to_f32:expr, $to_f64:expr, $to_odd:expr;)*) => {$(
        impl SourceElement for $float {
            const IS_FLOAT: bool = size_of::<$float>() == size_of::<f32>();
            #[inline(always)]
            fn to_low_bits(self) -> i32 { self.i32_or(0) }
            #[inline(always)]
            fn to_i32(self) -> i32 { self.i32_or(i32::MIN) }
            #[inline(always)]
            fn to_u32(self) -> u32 { self.i64_or(0) as u32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.i64_or(i64::MIN) }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                // From 2^63 up, taking 2^63 away is exact and leaves what a signed word can hold;
                // the top bit puts it back. Beyond 2^64 that makes 0 of the out-of-range minimum,
                // as §7.3 asks.
                let upper = self >= 9223372036854775808.0;
                let lower_part = if upper { self - 9223372036854775808.0 } else { self };
                lower_part.i64_or(i64::MIN) as u64 ^ u64::from(upper) << 63
            }
            #[inline(always)]
            fn to_f32(self) -> f32 { $to_f32(self) }
            #[inline(always)]
            fn to_f64(self) -> f64 { $to_f64(self) }
            #[inline(always)]
            fn to_odd(self) -> f32 { $to_odd(self) }
            #[inline(always)]
            fn is_true(self) -> bool { self != 0.0 }
        }
    )*};
}

float_source! {
    f32, canonical_f32, |x: f32| canonical_f64(x as f64, x.is_sign_negative()), |x| x;
    f64, |x: f64| rounded_f32(x), |x: f64| canonical_f64(x, x.is_sign_negative()), odd_from_f64;
}

/// [SEMANTICS §5.5](crate::semantics): a NaN is written with the canonical payload and the source's
/// sign.
#[inline(always)]
fn canonical_f32(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(x.to_bits() & 0x8000_0000 | 0x7FC0_0000) } else { x }
}

#[inline(always)]
fn rounded_f32(x: f64) -> f32 {
    let nan = f32::from_bits((x.to_bits() >> 32) as u32 & 0x8000_0000 | 0x7FC0_0000);
    if x.is_nan() { nan } else { x as f32 }
}

#[inline(always)]
fn canonical_f64(x: f64, negative: bool) -> f64 {
    let nan = f64::from_bits(u64::from(negative) << 63 | 0x7FF8_0000_0000_0000);
    if x.is_nan() { nan } else { x }
}

macro_rules! half_source {
    ($($half:ty, $widen:path;)*) => {$(
        impl SourceElement for $half {
            #[inline(always)]
            fn to_low_bits(self) -> i32 { $widen(self).to_low_bits() }
            #[inline(always)]
            fn to_i32(self) -> i32 { $widen(self).to_i32() }
            #[inline(always)]
            fn to_u32(self) -> u32 { $widen(self).to_u32() }
            #[inline(always)]
            fn to_i64(self) -> i64 { $widen(self).to_i64() }
            #[inline(always)]
            fn to_u64(self) -> u64 { $widen(self).to_u64() }
            #[inline(always)]
            fn to_f32(self) -> f32 { $widen(self) }
            #[inline(always)]
            fn to_f64(self) -> f64 { $widen(self).to_f64() }
            #[inline(always)]
            fn to_odd(self) -> f32 { $widen(self) }
            #[inline(always)]
            fn is_true(self) -> bool { self.to_bits() & 0x7FFF != 0 }
        }
    )*};
}

half_source! {
    f16, widen_f16;
    bf16, widen_bf16;
}

#[inline(always)]
fn widen_bf16(x: bf16) -> f32 {
    canonical_f32(f32::from_bits(u32::from(x.to_bits()) << 16))
}

/// Exact. Subnormals are normalised by a subtraction, so that no FLOAT subnormal is ever an
/// operand: those are slow on many CPUs and flushed in some floating-point modes.
#[inline(always)]
fn widen_f16(x: f16) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7FFF) << 13;
    let sign = (bits & 0x8000) << 16;
    let normal = magnitude + REBIAS;
    let subnormal =
        (f32::from_bits(magnitude + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL)).to_bits();
    let special = if magnitude > 0x7C00 << 13 { 0x7FC0_0000 } else { 0x7F80_0000 };
    let finite = if magnitude < 0x0400 << 13 { subnormal } else { normal };
    f32::from_bits(sign | if magnitude < 0x7C00 << 13 { finite } else { special })
}

/// The truth value of a BOOL byte, whatever non-zero byte it is ([SEMANTICS §6](crate::semantics)).
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct BoolByte(u8);

impl BoolByte {
    #[inline(always)]
    fn number(self) -> u8 {
        u8::from(self.0 != 0)
    }
}

macro_rules! truth_source {
    ($($method:ident -> $word:ty;)*) => {
        impl SourceElement for BoolByte {
            $(
                #[inline(always)]
                fn $method(self) -> $word { self.number().$method() }
            )*
        }
    };
}

truth_source! {
    to_low_bits -> i32;
    to_i32 -> i32;
    to_u32 -> u32;
    to_i64 -> i64;
    to_u64 -> u64;
    to_f32 -> f32;
    to_f64 -> f64;
    to_odd -> f32;
    is_true -> bool;
}
