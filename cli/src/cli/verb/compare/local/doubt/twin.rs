//! Values beside those of a run, free of the types' rounding, and how far they may be off.

use std::ops::Range;
use std::sync::Arc;

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::SharedTensor;

use super::super::numbers::{blocks, floats_of, is_computed_in, numbers, tensor};
use crate::cli::measure::reach::relative;
use crate::cli::measure::reals::NumberReader;
use crate::cli::measure::weight::steps::CodeSteps;

/// A value free of its type's rounding, and by how much each element may be off.
#[derive(Clone)]
pub(in super::super) struct Twin {
    pub(in super::super) value: SharedTensor,
    pub(in super::super) doubt: Doubt,
    /// The power of what the elements are likely to be off, of that of the doubt: the whole where
    /// nothing is known of it, less where each is a sum of many roundings that know nothing of one
    /// another.
    pub(in super::super) share: f64,
}

/// How far the elements of an output may be off, and the share of that which is likely.
#[derive(Clone)]
pub(in super::super) struct Carried {
    pub(in super::super) doubt: Doubt,
    pub(in super::super) share: f64,
}

impl Carried {
    /// Of doubts, and of the power of what is likely of each.
    pub(in super::super) fn of(doubts: Vec<f64>, likely: impl Iterator<Item = f64>) -> Carried {
        let finite = |power: f64| if power.is_finite() { power } else { 0.0 };
        let all: f64 = doubts.iter().map(|doubt| finite(doubt * doubt)).sum();
        let likely: f64 = likely.map(finite).sum();
        let share = if all > 0.0 { (likely / all).min(1.0) } else { 1.0 };
        Carried { doubt: Doubt::each(doubts), share }
    }
}

#[derive(Clone)]
pub(in super::super) enum Doubt {
    /// By the element.
    Relative(f64),
    /// Of all elements alike.
    Same(f64),
    /// Of a constant that was rounded: a share of each element that is finite, and the least of
    /// all.
    Rounded {
        share: f64,
        least: f64,
    },
    /// Of values that codes stand for.
    Steps(CodeSteps),
    Each(Arc<Vec<f64>>),
}

impl Doubt {
    pub(in super::super) fn each(doubts: Vec<f64>) -> Doubt {
        Doubt::Each(Arc::new(doubts))
    }

    /// Adds a share of each of these elements, and the least of all.
    pub(super) fn add(&mut self, value: &SharedTensor, share: f64, least: f64) {
        if let Doubt::Steps(steps) = self {
            *steps = steps.clone().and(share, least);
            return;
        }
        let mut doubts = match std::mem::replace(self, Doubt::Same(0.0)) {
            Doubt::Each(doubts) => Arc::unwrap_or_clone(doubts),
            doubt => Twin::new(value.clone(), doubt).doubts(),
        };
        let add = |(doubt, x): (&mut f64, f64)| *doubt += least + relative(x, share);
        match floats_of(value) {
            Some(floats) => {
                doubts.iter_mut().zip(floats.iter().map(|x| f64::from(*x))).for_each(add)
            }
            None => doubts.iter_mut().zip(numbers(value).unwrap_or_default()).for_each(add),
        }
        *self = Doubt::each(doubts);
    }

    /// Whether it is that of so many elements.
    pub(in super::super) fn is_of(&self, elements: usize) -> bool {
        match self {
            Doubt::Each(doubts) => doubts.len() == elements,
            _ => true,
        }
    }

    /// How far each of some elements, which are these numbers, may be off: put in the place of
    /// other doubts.
    fn doubts_in(&self, places: Range<usize>, values: &[f64], doubts: &mut Vec<f64>) {
        if let Doubt::Steps(steps) = self {
            steps.doubts_in(places, values, doubts);
            return;
        }
        doubts.clear();
        match self {
            Doubt::Each(all) => doubts.extend_from_slice(all.get(places).unwrap_or_default()),
            Doubt::Same(doubt) => doubts.resize(values.len(), *doubt),
            Doubt::Relative(share) => doubts.extend(values.iter().map(|x| relative(*x, *share))),
            Doubt::Rounded { share, least } => {
                let doubt = |x: &f64| if x.is_finite() { x.abs() * share + least } else { 0.0 };
                doubts.extend(values.iter().map(doubt));
            }
            Doubt::Steps(_) => {}
        }
    }
}

impl Twin {
    /// A value of which nothing is known but how far each element may be off.
    pub(in super::super) fn new(value: SharedTensor, doubt: Doubt) -> Twin {
        Twin { value, doubt, share: 1.0 }
    }

    /// How far each element may be off.
    pub(in super::super) fn doubts(&self) -> Vec<f64> {
        let length = self.value.1.len();
        match &self.doubt {
            Doubt::Same(doubt) => vec![*doubt; length],
            Doubt::Relative(share) if *share == 0.0 => vec![0.0; length],
            Doubt::Each(doubts) => doubts.to_vec(),
            doubt => {
                let (values, mut doubts) = (numbers(&self.value).unwrap_or_default(), vec![]);
                doubt.doubts_in(0..values.len(), &values, &mut doubts);
                doubts
            }
        }
    }

    /// How far each of some elements, which are these numbers, may be off: put in the place of
    /// other doubts.
    pub(in super::super) fn doubts_in(
        &self,
        places: Range<usize>,
        values: &[f64],
        doubts: &mut Vec<f64>,
    ) {
        self.doubt.doubts_in(places, values, doubts);
    }

    /// What a function makes of each element and of how far that may be off.
    pub(in super::super) fn mapped(&self, of: impl Fn(f64, f64) -> f64) -> Option<SharedTensor> {
        let (ty, held) = &self.value;
        if *ty != ElementType::Float {
            let mut made = Vec::with_capacity(held.len());
            self.each(|_, x, doubt| made.push(of(x, doubt)))?;
            return tensor(*ty, held.shape(), &made);
        }
        let mut made = Tensor::zero::<f32>(held.shape()).ok()?;
        let mut plain = made.try_as_plain_ram_mut().ok()?;
        let floats = plain.as_slice_mut::<f32>().ok()?;
        self.each(|place, x, doubt| {
            if let Some(made) = floats.get_mut(place) {
                *made = of(x, doubt) as f32;
            }
        })?;
        Some((*ty, Arc::new(made)))
    }

    /// Gives each element, with its place and how far it may be off, to a function, without holding
    /// all of them as numbers; `None` for text.
    fn each(&self, mut take: impl FnMut(usize, f64, f64)) -> Option<()> {
        let (mut reader, mut doubts) = (NumberReader::of(self.value.0, &self.value.1), vec![]);
        for places in blocks(self.value.1.len()) {
            let values = reader.numbers(places.clone())?;
            self.doubts_in(places.clone(), values, &mut doubts);
            for ((place, x), doubt) in places.zip(values).zip(&doubts) {
                take(place, *x, *doubt);
            }
        }
        Some(())
    }

    /// Some columns of a matrix.
    pub(super) fn columns(&self, columns: Range<usize>) -> Option<Twin> {
        let (ty, held) = &self.value;
        let [_, all] = held.shape() else { return None };
        let part = Arc::new(held.slice(1, columns.start, columns.end).ok()?);
        let value = (*ty, part);
        let doubt = match &self.doubt {
            Doubt::Each(_) | Doubt::Steps(_) => {
                let values = numbers(&value)?;
                let (mut doubts, mut of_row) = (Vec::with_capacity(values.len()), vec![]);
                for (row, values) in values.chunks(columns.len().max(1)).enumerate() {
                    let first = row * all + columns.start;
                    self.doubts_in(first..first + values.len(), values, &mut of_row);
                    doubts.extend_from_slice(&of_row);
                }
                Doubt::each(doubts)
            }
            other => other.clone(),
        };
        Some(Twin { value, doubt, share: self.share })
    }

    pub(in super::super) fn is_exact(&self) -> bool {
        match &self.doubt {
            Doubt::Relative(share) => *share == 0.0 || !is_computed_in(self.value.0),
            Doubt::Same(doubt) => *doubt == 0.0,
            Doubt::Rounded { .. } | Doubt::Steps(_) => false,
            Doubt::Each(doubts) => doubts.iter().all(|doubt| *doubt == 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use onnx_cast_graph::int_attribute;
    use tract_onnx::prelude::TractResult;

    use super::*;

    #[test]
    fn columns_are_as_doubtful_as_in_the_whole() -> TractResult<()> {
        const ROWS: usize = 6;
        const COLUMNS: usize = 5;
        let values: Vec<f32> = (0..ROWS * COLUMNS).map(|place| place as f32 - 9.0).collect();
        let value = Arc::new(Tensor::from_shape(&[ROWS, COLUMNS], &values)?);
        let scale = Tensor::from_shape(&[3, COLUMNS], &values[..3 * COLUMNS])?;
        let blocks = [int_attribute("axis", 0), int_attribute("block_size", 2)];
        let scale = (ElementType::Float, Arc::new(scale));
        let steps = CodeSteps::of(&blocks, value.shape(), (&scale, 0.25), 0.5).context("steps")?;
        let doubts = [
            Doubt::Relative(0.5),
            Doubt::Same(2.0),
            Doubt::Rounded { share: 0.5, least: 3.0 },
            Doubt::Steps(steps),
            Doubt::each((0..ROWS * COLUMNS).map(|place| place as f64).collect()),
        ];
        for doubt in doubts {
            let weight = Twin::new((ElementType::Float, value.clone()), doubt);
            let (all, part) = (weight.doubts(), weight.columns(1..3).context("a matrix")?);
            let wanted = all.chunks(COLUMNS).flat_map(|row| row[1..3].to_vec());
            assert_eq!(part.doubts(), wanted.collect::<Vec<_>>());
            assert_eq!(*part.value.1, value.slice(1, 1, 3)?);
            let mapped = weight.mapped(|x, doubt| x + doubt).context("numbers")?;
            let wanted = values.iter().zip(&all).map(|(x, doubt)| f64::from(*x) + doubt);
            assert_eq!(numbers(&mapped), Some(wanted.collect()));
        }
        Ok(())
    }
}
