//! Some values of a tensor, by which it is known again in another model.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

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

    /// How many values of one tensor need not be near.
    fn misses(&self) -> usize {
        (self.values.len() as f64 * (1.0 - ALIKE)) as usize
    }

    /// Whether so many values are near that the two may be one tensor. Most are found out after a
    /// few.
    pub(super) fn may_be(&self, other: &Fingerprint) -> bool {
        if self.is_float != other.is_float {
            return false;
        }
        let mut misses = self.misses();
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

/// The places of fingerprints of as many elements each, by their first values.
#[derive(Default)]
pub(super) struct AlikePlaces {
    all: Vec<usize>,
    /// By their first value, their second one and so on.
    by_value: Vec<PlacesByValue>,
}

/// Places by a value there: numbers in their order, and the places where there is none.
struct PlacesByValue {
    numbers: Vec<(f64, usize)>,
    others: Vec<usize>,
}

impl AlikePlaces {
    /// Of more places than these those are looked for that may be alike.
    const FEW: usize = 64;

    /// Of all fingerprints, by the number of their elements.
    pub(super) fn of(all: &[(&str, Fingerprint)]) -> HashMap<usize, AlikePlaces> {
        let mut by_size: HashMap<usize, AlikePlaces> = HashMap::new();
        for (place, (_, fingerprint)) in all.iter().enumerate() {
            by_size.entry(fingerprint.elements).or_default().all.push(place);
        }
        for places in by_size.values_mut().filter(|places| places.all.len() > Self::FEW) {
            let of = |place: &usize| all.get(*place).map(|(_, fingerprint)| fingerprint);
            let misses = places.all.iter().filter_map(of).map(Fingerprint::misses).max();
            for index in 0..=misses.unwrap_or(0) {
                let value = |place: &usize| Some((*of(place)?.values.get(index)?, *place));
                let (others, mut numbers): (Vec<_>, Vec<_>) =
                    places.all.iter().filter_map(value).partition(|(value, _)| value.is_nan());
                numbers.sort_by(|(x, _), (y, _)| x.total_cmp(y));
                let others = others.into_iter().map(|(_, place)| place).collect();
                places.by_value.push(PlacesByValue { numbers, others });
            }
        }
        by_size
    }

    /// Places in their order, among which are those of all that a fingerprint
    /// [may be](Fingerprint::may_be): of as many first values as need not be near, and one more,
    /// one is.
    pub(super) fn of_those_like(&self, fingerprint: &Fingerprint) -> Cow<'_, [usize]> {
        let values = fingerprint.values.get(..=fingerprint.misses());
        let Some(values) = values.filter(|values| values.len() <= self.by_value.len()) else {
            return Cow::Borrowed(&self.all);
        };
        let mut near = vec![];
        for (x, PlacesByValue { numbers, others }) in values.iter().zip(&self.by_value) {
            if x.is_nan() {
                near.extend(others);
                continue;
            }
            let most = (NEAR.0 * x.abs()).max(NEAR.1 * fingerprint.peak);
            // Two infinities have no difference, and are one value.
            let is_beyond = |off: f64| off.partial_cmp(&most) == Some(Ordering::Greater);
            let start = numbers.partition_point(|(y, _)| is_beyond(x - y));
            let end = numbers.partition_point(|(y, _)| !is_beyond(y - x));
            let those = numbers.get(start..end).unwrap_or_default();
            near.extend(those.iter().map(|(_, place)| *place));
        }
        if near.len() >= self.all.len() {
            return Cow::Borrowed(&self.all);
        }
        near.sort_unstable();
        near.dedup();
        Cow::Owned(near)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fingerprints of tensors with these values.
    fn of(all: &[Vec<f64>]) -> Vec<(&'static str, Fingerprint)> {
        let one = |values: &Vec<f64>| Fingerprint {
            elements: values.len(),
            shape: vec![values.len()],
            is_float: true,
            values: values.clone(),
            peak: values.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max),
            is_telling: true,
        };
        all.iter().map(|values| ("", one(values))).collect()
    }

    #[test]
    fn all_that_may_be_alike_are_looked_at_and_few_others() {
        for length in [1, 8, 40, 64] {
            let value = |of: usize, place: usize| match (of * 7 + place * 13) % 101 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                value => (value % 50) as f64 + (of % 400) as f64 / 8.0,
            };
            let all: Vec<Vec<f64>> =
                (0..600).map(|of| (0..length).map(|place| value(of, place)).collect()).collect();
            let all = of(&all);
            let by_size = AlikePlaces::of(&all);
            let mut looked_at = 0;
            for (_, fingerprint) in &all {
                let places = by_size[&length].of_those_like(fingerprint);
                assert!(places.is_sorted());
                looked_at += places.len();
                let alike = (0..all.len()).filter(|place| fingerprint.may_be(&all[*place].1));
                assert!(alike.into_iter().all(|place| places.contains(&place)), "{length}");
            }
            assert!(looked_at < all.len() * all.len() / 2, "{length}: {looked_at}");
        }
    }
}
