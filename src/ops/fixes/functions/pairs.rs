//! FLOATs in pairs whose sum is the number: what the elementary functions are made of, without
//! branches, so that loops of them are made of vector instructions. NaN stays NaN.
//!
//! `FUSED` says whether the CPU has an instruction that rounds a product and a sum once. The bits
//! are the same without.

use std::f32::consts::{LN_2, LOG2_E};

/// Adding it rounds to an integer, which is in the low bits of the sum.
const ROUNDS: f32 = 12_582_912.0;

/// What ln 2 is more than the FLOAT.
const LN_2_REST: f32 = -1.904_654_3e-9;

/// (e^r − 1 − r) / r² of r up to ln 2 / 2, to 2^-28 of e^r (`scripts/reference/float_series.py`).
const EXPONENTIAL: [f32; 5] =
    [0.499_999_93, 0.166_665_2, 0.041_668_39, 0.008_368_716, 0.001_381_460_2];

/// 2^-64, by which [`Exponential::up`] is too large.
pub(super) const DOWN: f32 = 5.421_011e-20;

/// a · b + c, rounded once.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "it is rounded to FLOAT")]
pub(super) fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED {
        return a.mul_add(b, c);
    }
    // The product is exact in DOUBLE, and the sum rounded to odd there, so that its second rounding
    // is as the only one.
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let other = sum - product;
    let rest = (product - (sum - other)) + (c - other);
    let bits = sum.to_bits();
    let is_inexact = (rest < 0.0) | (rest > 0.0);
    let toward = if (rest > 0.0) == (sum > 0.0) { 1 } else { u64::MAX };
    let odd = if is_inexact & (bits & 1 == 0) { bits.wrapping_add(toward) } else { bits };
    f64::from_bits(odd) as f32
}

/// A polynomial, by its coefficients from that of 1 on.
#[inline(always)]
pub(super) fn series<const FUSED: bool>(coefficients: &[f32], x: f32) -> f32 {
    let mut sum = 0.0;
    for (place, coefficient) in coefficients.iter().rev().enumerate() {
        sum = if place == 0 { *coefficient } else { fma::<FUSED>(sum, x, *coefficient) };
    }
    sum
}

/// One of two numbers. What computes both is not computed twice over, as compilers make of a
/// condition.
#[inline(always)]
pub(super) fn pick(mask: u32, set: f32, unset: f32) -> f32 {
    f32::from_bits(unset.to_bits() ^ ((unset.to_bits() ^ set.to_bits()) & mask))
}

/// All ones where a number is negative, −0 and NaN by their sign.
#[inline(always)]
#[allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "bits are spread")]
pub(super) fn negative(x: f32) -> u32 {
    (x.to_bits() as i32 >> 31) as u32
}

/// 2^k · (1 + high + low).
#[derive(Clone, Copy)]
pub(super) struct Exponential {
    /// k in the low bits.
    bits: u32,
    pub(super) high: f32,
    pub(super) low: f32,
}

/// e^(x + rest), of x from −127 to 80 and a rest that is less than a unit of it.
#[inline(always)]
pub(super) fn power<const FUSED: bool>(x: f32, rest: f32) -> Exponential {
    let sum = fma::<FUSED>(x, LOG2_E, ROUNDS);
    let k = sum - ROUNDS;
    // This is exact: both are multiples of what a FLOAT of the difference's size can tell apart.
    let r = fma::<FUSED>(k, -LN_2, x);
    let r = r + fma::<FUSED>(k, -LN_2_REST, rest);
    let term = r * r;
    let sum_of_terms = series::<FUSED>(&EXPONENTIAL, r);
    let high = fma::<FUSED>(term, sum_of_terms, r);
    let low = fma::<FUSED>(term, sum_of_terms, r - high);
    Exponential { bits: sum.to_bits(), high, low }
}

/// 2^k of 2^(k + 64), to be added to 1 or 2: 0 below 2^-50, which changes nothing there and whose
/// square would soon be a subnormal number. CPUs are slow with these.
#[inline(always)]
pub(super) fn beside_one(up: f32) -> f32 {
    const LEAST: f32 = 16_384.0;
    DOWN * if up < LEAST { 0.0 } else { up }
}

impl Exponential {
    /// 2^(k + 64), which is a normal number.
    #[inline(always)]
    pub(super) fn up(self) -> f32 {
        f32::from_bits(self.bits.wrapping_add(127 + 64) << 23)
    }

    /// 1 + high + low.
    #[inline(always)]
    pub(super) fn mantissa(self) -> (f32, f32) {
        let high = 1.0 + self.high;
        (high, (self.high - (high - 1.0)) + self.low)
    }

    /// e^x − 1 of x from −64 to 0, of small x to its precision.
    #[inline(always)]
    pub(super) fn minus_one<const FUSED: bool>(self) -> (f32, f32) {
        let scale = f32::from_bits(self.bits.wrapping_add(127) << 23);
        let less = scale - 1.0;
        let lost = scale - (less + 1.0);
        let high = fma::<FUSED>(self.high, scale, less);
        let low = fma::<FUSED>(self.high, scale, less - high) + lost;
        (high, fma::<FUSED>(self.low, scale, low))
    }
}

/// A sum of any two numbers.
#[inline(always)]
pub(super) fn add(a: f32, b: f32) -> (f32, f32) {
    let sum = a + b;
    let other = sum - a;
    (sum, (a - (sum - other)) + (b - other))
}

/// A product of two pairs.
#[inline(always)]
pub(super) fn mul<const FUSED: bool>(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    let high = a.0 * b.0;
    let low = fma::<FUSED>(a.0, b.0, -high);
    (high, fma::<FUSED>(a.1, b.0, fma::<FUSED>(a.0, b.1, low)))
}

/// A quotient of two pairs.
#[inline(always)]
pub(super) fn div<const FUSED: bool>(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
    let inverse = 1.0 / b.0;
    let high = a.0 * inverse;
    let rest = fma::<FUSED>(-high, b.1, fma::<FUSED>(-high, b.0, a.0)) + a.1;
    (high, rest * inverse)
}
