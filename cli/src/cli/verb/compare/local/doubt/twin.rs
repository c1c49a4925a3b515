//! Values beside those of a run, free of the types' rounding, and how far they may be off.

use std::ops::Range;
use std::sync::Arc;

use tract_onnx_cast::interpreter::SharedTensor;

use super::super::numbers::{filled, floats_of, is_computed_in, numbers, tensor};

/// A value free of its type's rounding, and by how much each element may be off.
#[derive(Clone)]
pub(in super::super) struct Twin {
    pub(in super::super) value: SharedTensor,
    pub(in super::super) doubt: Doubt,
    /// The power of what the elements are likely to be off, of that of the doubt: the whole where
    /// nothing is known of it, less where each is a sum of many roundings that know nothing of one another.
    pub(in super::super) share: f64,
}

/// How far the elements of an output may be off, and the share of that which is likely.
#[derive(Clone, Default)]
pub(in super::super) struct Carried {
    pub(in super::super) doubts: Vec<f64>,
    pub(in super::super) share: f64,
}

impl Carried {
    /// Of doubts, and of the power of what is likely of each.
    pub(in super::super) fn of(doubts: Vec<f64>, likely: impl Iterator<Item = f64>) -> Carried {
        let finite = |power: f64| if power.is_finite() { power } else { 0.0 };
        let all: f64 = doubts.iter().map(|doubt| finite(doubt * doubt)).sum();
        let likely: f64 = likely.map(finite).sum();
        let share = if all > 0.0 { (likely / all).min(1.0) } else { 1.0 };
        Carried { doubts, share }
    }
}

/// Values of this magnitude stand for an infinity, and are not computed.
pub(in super::super) const MASK: f64 = 1e30;

#[derive(Clone)]
pub(in super::super) enum Doubt {
    /// By the element.
    Relative(f64),
    /// Of all elements alike.
    Same(f64),
    Each(Arc<Vec<f64>>),
}

impl Twin {
    /// A value of which nothing is known but how far each element may be off.
    pub(in super::super) fn new(value: SharedTensor, doubt: Doubt) -> Twin {
        Twin { value, doubt, share: 1.0 }
    }

    /// How far each element may be off.
    pub(in super::super) fn doubts(&self) -> Vec<f64> {
        match &self.doubt {
            Doubt::Each(doubts) => doubts.to_vec(),
            Doubt::Same(doubt) => vec![*doubt; self.value.1.len()],
            Doubt::Relative(share) if *share == 0.0 => vec![0.0; self.value.1.len()],
            Doubt::Relative(share) => {
                let values = numbers(&self.value).unwrap_or_default();
                values.iter().map(|x| relative(*x, *share)).collect()
            }
        }
    }

    /// How far each of some elements, which are these numbers, may be off.
    pub(in super::super) fn doubts_in(&self, places: Range<usize>, values: &[f64]) -> Vec<f64> {
        match &self.doubt {
            Doubt::Each(doubts) => doubts.get(places).unwrap_or_default().to_vec(),
            Doubt::Same(doubt) => vec![*doubt; values.len()],
            Doubt::Relative(share) => values.iter().map(|x| relative(*x, *share)).collect(),
        }
    }

    /// What a function makes of each element and of how far that may be off.
    pub(in super::super) fn mapped(&self, of: impl Fn(f64, f64) -> f64) -> Option<SharedTensor> {
        let (ty, held) = &self.value;
        let shape = held.shape();
        let Some(values) = floats_of(&self.value) else {
            let pairs = numbers(&self.value)?.into_iter().zip(self.doubts());
            return tensor(*ty, shape, &pairs.map(|(x, doubt)| of(x, doubt)).collect::<Vec<_>>());
        };
        let values = values.iter().map(|x| f64::from(*x));
        match &self.doubt {
            Doubt::Each(doubts) => {
                filled(shape, values.zip(doubts.iter()).map(|(x, doubt)| of(x, *doubt)))
            }
            Doubt::Same(doubt) => filled(shape, values.map(|x| of(x, *doubt))),
            Doubt::Relative(share) => filled(shape, values.map(|x| of(x, relative(x, *share)))),
        }
    }

    pub(in super::super) fn is_exact(&self) -> bool {
        match &self.doubt {
            Doubt::Relative(share) => *share == 0.0 || !is_computed_in(self.value.0),
            Doubt::Same(doubt) => *doubt == 0.0,
            Doubt::Each(doubts) => doubts.iter().all(|doubt| *doubt == 0.0),
        }
    }
}

/// A share of a number, unless that stands for an infinity.
pub(super) fn relative(x: f64, share: f64) -> f64 {
    if x.abs() < MASK { x.abs() * share } else { 0.0 }
}
