//! The effect of each quantiser alone: one walk over the FLOAT model in which, behind each
//! quantised value, its variants go along, and each node runs once more for each variant that it
//! takes. Nothing before a quantiser runs again for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer, SharedTensor};
use tract_onnx_cast::{ElementType, Result};

use super::effect::QuantizerEffect;

/// What a quantiser makes of a value.
pub(super) type QuantizerFunction<'a> = Box<dyn Fn(&Tensor) -> TractResult<Tensor> + 'a>;

/// A quantiser that is applied alone.
pub(super) struct Single<'a> {
    /// What it is called, and what it does to each output once that is known.
    pub(super) effect: QuantizerEffect,
    pub(super) value: String,
    /// The one node that gets it, by its name, where not all do.
    pub(super) only: Option<String>,
    pub(super) change: QuantizerFunction<'a>,
}

/// What quantisers do to the values themselves: the power of the noise by that of the value.
pub(super) struct OwnNoise<'a> {
    singles: &'a [Single<'a>],
    by_value: HashMap<&'a str, Vec<usize>>,
    pub(super) noise: Vec<f64>,
}

impl<'a> OwnNoise<'a> {
    pub(super) fn new(singles: &'a [Single<'a>]) -> OwnNoise<'a> {
        OwnNoise { singles, by_value: by_value(singles), noise: vec![0.0; singles.len()] }
    }

    fn add(&mut self, place: usize, value: &Tensor) -> TractResult<()> {
        let (Some(single), Some(noise)) = (self.singles.get(place), self.noise.get_mut(place))
        else {
            return Ok(());
        };
        let made = (single.change)(value)?;
        let (x, y) = (value.try_as_plain_ram()?, made.try_as_plain_ram()?);
        let (mut signal, mut off) = (0f64, 0f64);
        for (x, y) in x.as_slice::<f32>()?.iter().zip(y.as_slice::<f32>()?) {
            signal += f64::from(*x).powi(2);
            off += f64::from(x - y).powi(2);
        }
        *noise = if off == 0.0 { 0.0 } else { off / signal };
        Ok(())
    }
}

impl Observer for OwnNoise<'_> {
    fn node(&mut self, node: &NodeRun, _: &mut [Option<ObservedTensor>]) -> Result<()> {
        for input in node.inputs.iter().flatten() {
            for place in self.by_value.remove(&*input.name).into_iter().flatten() {
                // What cannot be quantised says so where it is ranked.
                if self.add(place, &input.tensor).is_err() {
                    self.noise.iter_mut().skip(place).take(1).for_each(|x| *x = f64::INFINITY);
                }
            }
        }
        Ok(())
    }
}

/// The places of quantisers by the values that are theirs.
fn by_value<'a>(singles: &'a [Single<'a>]) -> HashMap<&'a str, Vec<usize>> {
    let mut by_value: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, single) in singles.iter().enumerate() {
        by_value.entry(&single.value).or_default().push(place);
    }
    by_value
}

/// A walk with some quantisers.
pub(super) struct Alone<'a> {
    singles: &'a [Single<'a>],
    by_value: HashMap<&'a str, Vec<usize>>,
    /// The variants of each live value, by the quantiser that they stand for.
    variants: HashMap<Arc<str>, HashMap<usize, SharedTensor>>,
    /// Those that do not fit their value, or behind which a node fails.
    pub(super) failed: HashSet<usize>,
}

impl<'a> Alone<'a> {
    pub(super) fn new(singles: &'a [Single<'a>]) -> Alone<'a> {
        let (by_value, variants, failed) = (by_value(singles), HashMap::new(), HashSet::new());
        Alone { singles, by_value, variants, failed }
    }

    /// What an output is where one quantiser alone is applied; `None` where it has no part in it.
    pub(super) fn output(&self, name: &str, single: usize) -> Option<&Tensor> {
        self.variants.get(name)?.get(&single).map(|(_, tensor)| &**tensor)
    }

    /// Quantises a value, once, by the quantisers that are its own.
    pub(super) fn quantise(&mut self, name: &Arc<str>, tensor: &Tensor) {
        for place in self.by_value.get(&**name).into_iter().flatten() {
            let Some(single) = self.singles.get(*place) else { continue };
            let variants = self.variants.entry(name.clone()).or_default();
            if variants.contains_key(place) {
                continue;
            }
            match (single.change)(tensor) {
                Ok(made) => {
                    variants.insert(*place, (ElementType::Float, Arc::new(made)));
                }
                Err(_) => {
                    self.failed.insert(*place);
                }
            }
        }
    }

    /// What a node takes of an input where one quantiser is applied.
    fn taken(&self, node: &str, input: &ObservedTensor, single: usize) -> Option<&SharedTensor> {
        let variant = self.variants.get(&input.name)?.get(&single)?;
        let own = self.singles.get(single).filter(|own| own.value == *input.name);
        let is_for = own.and_then(|own| own.only.as_deref()).is_none_or(|only| only == node);
        is_for.then_some(variant)
    }

    /// The quantisers that a node is behind.
    fn before(&self, node: &NodeRun) -> BTreeSet<usize> {
        let inputs = node.inputs.iter().flatten();
        let before = inputs.flat_map(|input| {
            let variants = self.variants.get(&input.name);
            let places = variants.into_iter().flat_map(HashMap::keys).copied();
            places.filter(move |place| self.taken(node.name, input, *place).is_some())
        });
        before.collect()
    }
}

impl Observer for Alone<'_> {
    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        for input in node.inputs.iter().flatten() {
            self.quantise(&input.name, &input.tensor);
        }
        for single in self.before(node) {
            let given = |input: &Option<ObservedTensor>| {
                let input = input.as_ref()?;
                let variant = self.taken(node.name, input, single).cloned();
                Some(variant.unwrap_or_else(|| (input.element_type, input.tensor.clone())))
            };
            let inputs: Vec<Option<SharedTensor>> = node.inputs.iter().map(given).collect();
            let Ok(made) = node.run_on(&inputs) else {
                self.failed.insert(single);
                continue;
            };
            for (output, made) in outputs.iter().zip(made) {
                let (Some(output), Some((ty, made))) = (output, made) else { continue };
                if *output.tensor != *made {
                    let variants = self.variants.entry(output.name.clone()).or_default();
                    variants.insert(single, (ty, made));
                }
            }
        }
        Ok(())
    }

    fn dropped(&mut self, value: &ObservedTensor) {
        self.variants.remove(&value.name);
    }
}
