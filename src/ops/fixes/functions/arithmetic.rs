//! The elementary functions that others are made of, in DOUBLE arithmetic to far more than a FLOAT's precision, without branches:
//! loops of them are made of vector instructions. NaN stays NaN.

use std::f64::consts::{LN_2, LOG2_E};

/// What is within these has an exponential that is a normal DOUBLE; what is beyond, one that is none of FLOAT.
const FARTHEST: f64 = 700.0;

/// Adding it rounds to an integer, which is in the low bits of the sum.
const ROUNDS: f64 = 6_755_399_441_055_744.0;

/// What `x` is made of: 2^k, and e^r − 1 for the rest r.
#[inline(always)]
#[allow(clippy::cast_possible_wrap, reason = "bits are taken for a number of either sign")]
fn exponential(x: f64) -> (f64, f64) {
    // Comparisons with NaN are false, and so keep it.
    let x = if x < -FARTHEST { -FARTHEST } else { x };
    let x = if x > FARTHEST { FARTHEST } else { x };
    let sum = x * LOG2_E + ROUNDS;
    let r = x - (sum - ROUNDS) * LN_2;
    let power = f64::from_bits(sum.to_bits().wrapping_add(1023) << 52);
    let mut series = 1.0 / 3_628_800.0;
    for term in [
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ] {
        series = series * r + term;
    }
    (power, series * r)
}

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let (power, rest) = exponential(x);
    // What is infinite times this is NaN only if it is 0.
    if x < -FARTHEST { 0.0 } else { power + power * rest }
}

/// e^x − 1, of small x too.
#[inline(always)]
pub(super) fn exp_m1(x: f64) -> f64 {
    let (power, rest) = exponential(x);
    (power - 1.0) + power * rest
}

/// ln(1 + x) of x from 0 to 1.
#[inline(always)]
pub(super) fn ln_1p(x: f64) -> f64 {
    let s = x / (2.0 + x);
    let square = s * s;
    let mut series = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * square + 1.0 / odd;
    }
    2.0 * s * series
}

/// 1 / (1 + e^−x).
#[inline(always)]
pub(super) fn sigmoid(x: f64) -> f64 {
    let power = exp(-x.abs());
    let half = 1.0 / (1.0 + power);
    if x < 0.0 { power * half } else { half }
}

#[inline(always)]
pub(super) fn tanh(x: f64) -> f64 {
    let power = exp_m1(-2.0 * x.abs());
    (-power / (2.0 + power)).copysign(x)
}

/// ln(1 + e^x).
#[inline(always)]
pub(super) fn softplus(x: f64) -> f64 {
    let above = if x < 0.0 { 0.0 } else { x };
    above + ln_1p(exp(-x.abs()))
}

/// ln(erfc(z) / t) + z² in powers of 2t − 1, where t = 2 / (2 + z), for z from 0 on: to 1.7e-11
/// (`scripts/reference/erfc_series.py`).
const ERFC: [f64; 17] = [
    -0.671_794_084_056_692_3,
    0.672_643_223_971_446_6,
    0.047_343_307_107_500_455,
    -0.046_895_610_028_975_58,
    -0.009_872_702_153_927_388,
    0.008_824_939_028_768_776,
    0.001_759_113_899_082_625_3,
    -0.002_345_852_746_769_29,
    -0.000_147_394_521_143_402_1,
    0.000_674_025_219_830_369_2,
    -0.000_089_836_513_261_652_9,
    -0.000_175_671_704_156_103_24,
    0.000_063_818_434_862_534_17,
    0.000_034_747_803_062_609_81,
    -0.000_021_670_627_453_988_147,
    -3.739_805_453_852_552e-6,
    3.386_701_858_296_72e-6,
];

/// 1 − erf(z) of z from 0 on.
#[inline(always)]
pub(super) fn erfc(z: f64) -> f64 {
    let t = 2.0 / (2.0 + z);
    let place = 2.0 * t - 1.0;
    let mut series = 0.0;
    for term in ERFC.iter().rev() {
        series = series * place + term;
    }
    t * exp(series - z * z)
}

#[inline(always)]
pub(super) fn erf(x: f64) -> f64 {
    let z = x.abs();
    let square = z * z;
    let mut series = 0.0;
    for term in [1.0 / 9_360.0, -1.0 / 1_320.0, 1.0 / 216.0, -1.0 / 42.0, 0.1, -1.0 / 3.0, 1.0] {
        series = series * square + term;
    }
    let small = z * series * std::f64::consts::FRAC_2_SQRT_PI;
    let large = 1.0 - erfc(z);
    let value = if z < 0.4 { small } else { large };
    value.copysign(x)
}
