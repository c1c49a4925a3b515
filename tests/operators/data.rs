//! Elements of any type: usual ones, and those at the ends.

use tract_onnx_cast::{ElementType, Family};

use crate::answer::rounded;
use crate::random::Random;
use crate::tensor::{Val, volume};

use ElementType::*;

pub const FLOATS: [ElementType; 6] = [Float, Float, Float, Double, Float16, BFloat16];
pub const INTS: [ElementType; 8] = [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64];

/// What most operators compute with, FLOAT more often than others.
#[rustfmt::skip]
pub const NUMBERS: [ElementType; 14] = [
    Float, Float, Float, Double, Float16, BFloat16, Int8, Int16, Int32, Int64,
    Uint8, Uint16, Uint32, Uint64,
];

#[rustfmt::skip]
const SPECIAL: [f64; 24] = [
    f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1e-40, -1e-45,
    1.1754943508222875e-38, 3.4028234663852886e38, -3.4028234663852886e38, 65504.0, -65520.0, 1e10,
    16777217.0, 88.7, -104.0, 6e-8, 1e-4, -20.0,
];

#[rustfmt::skip]
const INTEGERS: [i128; 16] = [
    0, 1, -1, 2, 127, -128, 255, 32767, (1 << 31) - 1, -(1 << 31), (1 << 32) + 5, (1 << 53) + 1,
    (1 << 63) - 1, -(1 << 63), 16777217, -3,
];

/// What the elements of a tensor are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Data {
    /// Small numbers, many of them equal, eighths.
    Small,
    /// Any number of some size.
    Usual,
    /// Those at the ends of a type, infinities and NaN among them.
    Special,
    /// From the first on and below the second.
    Within(i64, i64),
    /// More than 0.
    Positive,
}

/// A tensor of such elements.
pub fn elements(random: &mut Random, ty: ElementType, shape: Vec<usize>, data: Data) -> Val {
    let count = volume(&shape);
    if ty.is_float() {
        let numbers: Vec<f64> = (0..count).map(|_| number(random, data)).collect();
        return rounded(ty, shape, &numbers);
    }
    let integers: Vec<i128> = (0..count).map(|_| integer(random, ty, data)).collect();
    Val::of_ints(ty, shape, integers)
}

fn number(random: &mut Random, data: Data) -> f64 {
    let any = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    let small = (random.below(65) as f64 - 32.0) / 8.0;
    match data {
        Data::Small => small,
        Data::Usual => (any - 0.5) * random.of(&[0.2, 2.0, 8.0, 8.0, 40.0]),
        Data::Special if random.one_in(2) => random.of(&SPECIAL),
        Data::Special => small,
        Data::Within(from, to) => from as f64 + any * (to - from) as f64,
        Data::Positive => 0.1 + 3.0 * any,
    }
}

fn integer(random: &mut Random, ty: ElementType, data: Data) -> i128 {
    let is_signed = ty.family() == Family::Signed;
    match data {
        Data::Within(from, to) => {
            i128::from(from) + random.below((to - from).max(1) as usize) as i128
        }
        _ if ty == Bool => random.below(2) as i128,
        Data::Special if random.one_in(2) => random.of(&INTEGERS),
        Data::Usual if ty.bits() <= 8 => i128::from(random.bits() as i8),
        Data::Positive => 1 + random.below(7) as i128,
        _ if is_signed => random.below(15) as i128 - 7,
        _ => random.below(12) as i128,
    }
}
