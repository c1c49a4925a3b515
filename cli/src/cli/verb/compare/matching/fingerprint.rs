//! Some values of a tensor, by which it is known again in another model.

use std::collections::HashSet;

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use super::Seen;
use crate::cli::measure::value::{ElementValue, values};

/// How many values of a tensor are looked at.
const SAMPLES: usize = 64;
/// How far two values may be apart that are the same but for rounding, by the value and by the
/// tensor's largest one.
const NEAR: (f64, f64) = (0.02, 0.002);
/// The share of near values from which on two tensors are alike.
pub(super) const ALIKE: f64 = 0.95;
/// How many different values tell a tensor from others.
const TELLING: usize = 8;

/// What is known of one tensor.
pub(super) struct Fingerprint {
    pub(super) elements: usize,
    pub(super) shape: Vec<usize>,
    pub(super) is_float: bool,
    values: Vec<f64>,
    peak: f64,
    pub(super) is_telling: bool,
}

/// How alike two fingerprints are.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Likeness {
    pub(super) near: f64,
    pub(super) same: f64,
}

impl Fingerprint {
    pub(super) fn of(tensor: &Seen) -> TractResult<Fingerprint> {
        let elements = tensor.tensor.len();
        let mut fingerprint = Fingerprint {
            elements,
            shape: tensor.tensor.shape().to_vec(),
            is_float: tensor.ty.is_float(),
            values: vec![],
            peak: 0.0,
            is_telling: false,
        };
        if tensor.ty.family() == Family::Text {
            return Ok(fingerprint);
        }
        // An odd stride meets every column of a matrix.
        let stride = (elements / SAMPLES).max(1) | 1;
        fingerprint.values.reserve_exact(elements.div_ceil(stride));
        for place in (0..elements).step_by(stride) {
            fingerprint
                .values
                .extend(values(tensor.ty, tensor.tensor, place..place + 1)?.iter().map(number));
        }
        let finite = fingerprint.values.iter().map(|x| x.abs()).filter(|x| x.is_finite());
        fingerprint.peak = finite.fold(0.0, f64::max);
        let different: HashSet<u64> = fingerprint.values.iter().map(|x| x.to_bits()).collect();
        fingerprint.is_telling = different.len() >= TELLING;
        Ok(fingerprint)
    }

    /// Whether so many values are near that the two may be one tensor. Most are found out after a
    /// few.
    pub(super) fn may_be(&self, other: &Fingerprint) -> bool {
        let mut misses = (self.values.len() as f64 * (1.0 - ALIKE)) as usize;
        self.values.iter().zip(&other.values).all(|pair| {
            let is_near = self.is_near(pair);
            if !is_near && misses > 0 {
                misses -= 1;
                return true;
            }
            is_near
        })
    }

    fn is_near(&self, (x, y): (&f64, &f64)) -> bool {
        let error = (x - y).abs();
        is_same(x, y) || error <= NEAR.0 * x.abs() || error <= NEAR.1 * self.peak
    }

    /// How far a tensor is off, by the size of this one.
    pub(super) fn error(&self, other: &Fingerprint) -> f64 {
        let power = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
        let off = power(&mut self.values.iter().zip(&other.values).map(|(x, y)| x - y));
        (off / power(&mut self.values.iter().copied())).sqrt()
    }

    pub(super) fn likeness(&self, other: &Fingerprint) -> Likeness {
        let both = || self.values.iter().zip(&other.values);
        let count = self.values.len().max(1) as f64;
        Likeness {
            near: both().filter(|pair| self.is_near(*pair)).count() as f64 / count,
            same: both().filter(|(x, y)| is_same(x, y)).count() as f64 / count,
        }
    }
}

fn is_same(x: &f64, y: &f64) -> bool {
    x == y || (x.is_nan() && y.is_nan())
}

fn number(value: &ElementValue) -> f64 {
    match value {
        ElementValue::Float(x) | ElementValue::Double(x) => x.0,
        ElementValue::Signed(x) => *x as f64,
        ElementValue::Unsigned(x) => *x as f64,
        ElementValue::Bool(x) => f64::from(u8::from(*x)),
        ElementValue::Text(_) => 0.0,
    }
}
