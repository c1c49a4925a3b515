//! Values that go into bodies and come out of them, with their doubts.

use std::collections::BTreeMap;
use std::sync::Arc;

use tract_onnx::prelude::Tensor;
use tract_onnx_cast::ElementType;
use tract_onnx_cast::interpreter::{BodyInput, BodyOutput, NodeRun, ObservedTensor, SharedTensor};

use super::super::doubt::{Doubt, Twin};
use super::super::numbers::{numbers, tensor};
use super::super::trace::full_name;
use super::Walk;

/// What the bodies of nodes that are running have made so far.
#[derive(Default)]
pub(super) struct Bodies {
    /// In how many bodies the run is.
    depth: usize,
    /// Of the node in each, by the place of its output.
    made: Vec<BTreeMap<usize, ReturnedValue>>,
}

/// What becomes an output of a node.
struct ReturnedValue {
    /// The name in the body.
    name: String,
    stacks: Option<(usize, bool)>,
    /// Those of all times, or the last; empty where one is not known.
    times: Vec<Option<Twin>>,
}

impl Bodies {
    /// Whether the run is in a body.
    pub(super) fn is_inside(&self) -> bool {
        self.depth > 0
    }
}

impl Walk<'_> {
    pub(super) fn enter(&mut self, inputs: &[BodyInput]) {
        self.bodies.depth += 1;
        let twin = |input: &BodyInput| {
            let twin = self.twin(&input.source, false)?;
            match input.part {
                None => Some(twin),
                Some((axis, at)) => part(&twin, axis, at),
            }
        };
        let twins: Vec<Option<Twin>> = inputs.iter().map(twin).collect();
        for (input, twin) in inputs.iter().zip(twins) {
            let name = full_name(&input.value);
            self.order.push(vec![full_name(&input.source)], vec![name.clone()]);
            match twin.filter(|twin| twin.value.1.shape() == input.value.tensor.shape()) {
                Some(twin) => self.twins.insert(name, twin),
                None => self.twins.remove(&name),
            };
        }
    }

    pub(super) fn leave(&mut self, outputs: &[BodyOutput]) {
        let Bodies { depth, made } = &mut self.bodies;
        *depth = depth.saturating_sub(1);
        let depth = *depth;
        made.resize_with(made.len().max(depth + 1), BTreeMap::new);
        for output in outputs {
            let BodyOutput { value, output, stacks } = output;
            let twin = self.twin(value, false);
            let twin = twin.filter(|twin| twin.value.1.shape() == value.tensor.shape());
            let Some(made) = self.bodies.made.get_mut(depth) else { continue };
            let name = full_name(value);
            let made = made.entry(*output).or_insert_with(|| ReturnedValue {
                name,
                stacks: *stacks,
                times: vec![],
            });
            if made.stacks.is_none() {
                made.times.clear();
            }
            made.times.push(twin);
        }
    }

    /// What the bodies of a node have made of twins, by the places of its outputs, and the names
    /// there.
    pub(super) fn left(
        &mut self,
        node: &NodeRun,
        outputs: &[Option<ObservedTensor>],
    ) -> Vec<(Option<Twin>, Option<String>)> {
        let Bodies { depth, made } = &mut self.bodies;
        let known = node.has_bodies() && made.len() > *depth;
        let mut made = if known { made.pop().unwrap_or_default() } else { BTreeMap::new() };
        let twin = |(place, output): (usize, &Option<ObservedTensor>)| {
            let Some(made) = made.remove(&place) else { return (None, None) };
            let shape = output.as_ref().map(|output| output.tensor.shape());
            let twin = match made.stacks {
                None => made.times.into_iter().last().flatten(),
                Some((axis, is_reversed)) => made
                    .times
                    .into_iter()
                    .collect::<Option<Vec<Twin>>>()
                    .and_then(|times| stacked(times, axis, is_reversed)),
            };
            (twin.filter(|twin| Some(twin.value.1.shape()) == shape), Some(made.name))
        };
        outputs.iter().enumerate().map(twin).collect()
    }
}

/// What is at a place along an axis.
fn part(twin: &Twin, axis: usize, at: usize) -> Option<Twin> {
    let part = |tensor: &Tensor| {
        let mut part = tensor.slice(axis, at, at + 1).ok()?;
        part.remove_axis(axis).ok()?;
        Some(Arc::new(part))
    };
    let doubt = match &twin.doubt {
        Doubt::Each(_) | Doubt::Steps(_) => {
            let doubts = tensor(ElementType::Double, twin.value.1.shape(), &twin.doubts())?;
            Doubt::Each(numbers(&(doubts.0, part(&doubts.1)?))?.into())
        }
        other => other.clone(),
    };
    Some(Twin { value: (twin.value.0, part(&twin.value.1)?), doubt, share: twin.share })
}

fn stacked(mut times: Vec<Twin>, axis: usize, is_reversed: bool) -> Option<Twin> {
    if is_reversed {
        times.reverse();
    }
    let stack = |all: &mut dyn Iterator<Item = SharedTensor>| {
        let (mut parts, mut ty) = (vec![], None);
        for (of, tensor) in all {
            let mut part = Tensor::clone(&tensor);
            part.insert_axis(axis).ok()?;
            parts.push(part);
            ty.get_or_insert(of);
        }
        Some((ty?, Arc::new(Tensor::stack_tensors(axis, &parts).ok()?)))
    };
    let value = stack(&mut times.iter().map(|twin| twin.value.clone()))?;
    let doubt = |twin: &Twin| tensor(ElementType::Double, twin.value.1.shape(), &twin.doubts());
    let doubts: Option<Vec<SharedTensor>> = times.iter().map(doubt).collect();
    let doubt = Doubt::Each(numbers(&stack(&mut doubts?.into_iter())?)?.into());
    let share = times.iter().map(|twin| twin.share).fold(0.0, f64::max);
    Some(Twin { value, doubt, share })
}
