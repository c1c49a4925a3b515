//! What was moved between layers, with all nodes and names kept: factors of channels, as
//! SmoothQuant, AWQ and cross-layer equalisation move them, and the order of channels.
//!
//! The weight that makes a value and those of all nodes that take it then are others, and so is the
//! value. None of that is a fault if they make up for one another: each channel of the value is one
//! of the reference's, so many times, as every element of the weights before it and behind it says.
//!
//! `channels` are what is moved, `weights` what tells it, `fits` how weights have to do with it,
//! and `search` looks for it.

mod channels;
mod fits;
mod search;
mod weights;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tract_onnx_cast::interpreter::{ObservedTensor, SharedTensor};

use super::super::numbers::{numbers, tensor};
use channels::{Channel, Places};
pub(in super::super) use search::Search;
pub(in super::super) use weights::WeightSources;

/// The values of the conversion whose channels were moved, and the weights that say so.
#[derive(Default)]
pub(in super::super) struct Moved {
    values: HashMap<String, MovedValue>,
    regions: Vec<MovedRegion>,
}

/// What became of the channels of a value.
struct MovedValue {
    axes: Vec<usize>,
    channels: Vec<Channel>,
}

/// The nodes that make a value of others of which some were moved, or that move it.
struct MovedRegion {
    value: String,
    taken: Vec<String>,
    weights: Vec<String>,
    /// Whether all weights are what they are to be.
    is_sound: bool,
}

impl Moved {
    /// What a value of the reference is in the conversion, moved or not.
    pub(in super::super) fn value(&self, name: &str, want: SharedTensor) -> Option<SharedTensor> {
        if !self.has(name) {
            return Some(want);
        }
        let all = self.numbers(name, want.1.shape(), &numbers(&want)?)?;
        tensor(want.0, want.1.shape(), &all)
    }

    /// How far the reference's own rounding puts the elements of what a node makes off, if they
    /// were moved as well.
    pub(in super::super) fn doubts<'d>(
        &self,
        name: &str,
        made: &ObservedTensor,
        own: &'d [f64],
    ) -> Cow<'d, [f64]> {
        match self.numbers(name, made.tensor.shape(), own) {
            Some(all) => all.into_iter().map(f64::abs).collect(),
            None => Cow::Borrowed(own),
        }
    }

    fn numbers(&self, name: &str, shape: &[usize], all: &[f64]) -> Option<Vec<f64>> {
        let MovedValue { axes, channels } = self.values.get(name)?;
        Places::of(shape, axes).moved(all, channels, false)
    }

    /// Whether a value was moved.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The weights of the reference that are others in the conversion as values were moved.
    pub(in super::super) fn weights(&self) -> impl Iterator<Item = &String> {
        self.regions.iter().flat_map(|region| &region.weights)
    }

    /// What is left without all that hangs together with regions that are not sound, or whose
    /// values are wrong for all that.
    pub(in super::super) fn without(mut self, is_wrong: impl Fn(&str) -> bool) -> Moved {
        loop {
            let is_lost = |region: &MovedRegion| {
                let mut all = region.taken.iter().chain([&region.value]);
                !region.is_sound || is_wrong(&region.value) || all.any(|value| is_wrong(value))
            };
            let (lost, sound): (Vec<_>, Vec<_>) = self.regions.into_iter().partition(is_lost);
            self.regions = sound;
            if lost.is_empty() {
                return self;
            }
            let gone: HashSet<String> = lost
                .into_iter()
                .flat_map(|region| region.taken.into_iter().chain([region.value]))
                .collect();
            self.values.retain(|value, _| !gone.contains(value));
            for region in &mut self.regions {
                let mut all = region.taken.iter().chain([&region.value]);
                region.is_sound &= !all.any(|value| gone.contains(value));
            }
        }
    }

    /// How many values were moved.
    pub(in super::super) fn count(&self) -> usize {
        self.values.len()
    }
}
