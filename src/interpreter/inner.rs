//! Runs a body inside a node, once: every branch, and every turn of a loop or scan. An observer is
//! shown it.

use onnx_cast_graph::{BodyId, NodeId, ValueId};
use tract_onnx::prelude::TractResult;

use super::observer::{BodyInput, BodyOutput};
use super::run::{ModelRun, NodeOutputs};
use super::value::RuntimeValue;

/// Where an input of a body comes from.
#[derive(Clone, Copy)]
pub(super) enum InputSource {
    /// The node counts.
    Counted,
    /// The node's input at a place, and from the second time on what the body has made at another.
    Carried(usize, usize),
    /// What is at a place along an axis of an input.
    Part { input: usize, axis: usize, at: usize },
}

/// Where an output of a body goes.
#[derive(Clone, Copy)]
pub(super) enum OutputTarget {
    Nowhere,
    /// The node's output is what the body has made last.
    Last(usize),
    /// They are stacked, in the output at a place, along an axis, the last first if they are turned
    /// round.
    Stacked {
        output: usize,
        axis: i64,
        is_reversed: bool,
    },
}

/// A time that a body runs.
pub(super) struct Time<'a> {
    pub(super) node: NodeId,
    pub(super) body: BodyId,
    pub(super) is_first: bool,
    pub(super) sources: &'a [InputSource],
    pub(super) targets: &'a [OutputTarget],
}

impl ModelRun<'_> {
    /// Runs a body of a node on values for its inputs, and returns those of its outputs.
    pub(super) fn inner(&mut self, time: &Time, given: Vec<RuntimeValue>) -> NodeOutputs {
        if self.observer.is_none() {
            return self.body(time.body, given);
        }
        let inputs = self.shown_inputs(time, &given)?;
        if let Some(observer) = &mut self.observer {
            observer.enters(&inputs)?;
        }
        let made = self.body(time.body, given)?;
        let outputs = self.model.graph.body(time.body).outputs().iter();
        let schedule = self.model.schedules.of_body(time.body);
        let own = schedule.map_or(&[][..], |schedule| &schedule.handed);
        let handed = outputs.clone().zip(&made).filter(|(output, _)| own.contains(&output.value));
        let handed = handed.filter_map(|(output, made)| self.model.observed(output.value, made));
        let handed = handed.collect();
        let shown = outputs.zip(&made).zip(time.targets).filter_map(|((output, made), target)| {
            let value = self.model.observed(output.value, made)?;
            let (output, stacks) = match *target {
                OutputTarget::Nowhere => return None,
                OutputTarget::Last(output) => (output, None),
                OutputTarget::Stacked { output, axis, is_reversed } => {
                    let rank = i64::try_from(value.tensor.rank()).ok()? + 1;
                    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
                    (output, Some((usize::try_from(axis).ok()?, is_reversed)))
                }
            };
            Some(BodyOutput { value, output, stacks })
        });
        let shown: Vec<BodyOutput> = shown.collect();
        if let Some(observer) = &mut self.observer {
            observer.leaves(&shown)?;
        }
        self.handed.insert(time.body, handed);
        Ok(made)
    }

    fn shown_inputs(&mut self, time: &Time, given: &[RuntimeValue]) -> TractResult<Vec<BodyInput>> {
        let open: Vec<ValueId> = self.model.open_inputs(time.body).collect();
        let mut inputs = vec![];
        for ((id, value), source) in open.into_iter().zip(given).zip(time.sources) {
            let (outer, part) = match *source {
                InputSource::Counted => continue,
                InputSource::Carried(_, made) if !time.is_first => {
                    let outputs = self.model.graph.body(time.body).outputs();
                    let Some(made) = outputs.get(made) else { continue };
                    (self.model.observed(made.value, value), None)
                }
                InputSource::Carried(input, _) => {
                    (self.outer(time.node, input, Some(value))?, None)
                }
                InputSource::Part { input, axis, at } => {
                    (self.outer(time.node, input, None)?, Some((axis, at)))
                }
            };
            let Some((source, value)) = outer.zip(self.model.observed(id, value)) else { continue };
            inputs.push(BodyInput { value, source, part });
        }
        Ok(inputs)
    }

    /// What a node is given at a place.
    fn outer(
        &mut self,
        node: NodeId,
        input: usize,
        value: Option<&RuntimeValue>,
    ) -> TractResult<Option<super::ObservedTensor>> {
        let Some(Some(id)) = self.model.graph.node(node).inputs().get(input).copied() else {
            return Ok(None);
        };
        let value = match value {
            Some(value) => value.clone(),
            None => self.value(id)?,
        };
        Ok(self.model.observed(id, &value))
    }
}
