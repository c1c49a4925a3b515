//! What the values of a FLOAT model reach, of runs that are watched.

use std::collections::HashMap;

use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{ElementType, Result};

/// What values reach, and how they are spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) least: f32,
    pub(super) most: f32,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Default for Span {
    fn default() -> Span {
        Span { least: f32::INFINITY, most: f32::NEG_INFINITY, count: 0.0, sum: 0.0, squares: 0.0 }
    }
}

impl Span {
    /// That of values from one to another.
    pub(super) fn between(least: f32, most: f32) -> Span {
        Span { least, most, ..Span::default() }
    }

    /// Adds values, of FLOAT.
    pub(super) fn add(&mut self, values: &[f32]) {
        for value in values {
            self.least = self.least.min(*value);
            self.most = self.most.max(*value);
            let value = f64::from(*value);
            self.sum += value;
            self.squares += value * value;
        }
        self.count += values.len() as f64;
    }

    /// The standard deviation.
    pub(super) fn deviation(&self) -> f64 {
        let mean = self.sum / self.count;
        (self.squares / self.count - mean * mean).max(0.0).sqrt()
    }
}

/// The spans of a main graph's FLOAT values that no initializer holds.
#[derive(Default)]
pub(super) struct Spans {
    spans: HashMap<String, Span>,
    /// Why a value could not be read.
    problem: Option<TractError>,
}

impl Spans {
    /// Adds a value.
    pub(super) fn see(&mut self, name: &str, ty: ElementType, tensor: &Tensor) {
        if ty != ElementType::Float {
            return;
        }
        let plain = tensor.try_as_plain_ram();
        let span = self.spans.entry(name.into()).or_default();
        match plain.and_then(|plain| plain.as_slice()) {
            Ok(values) => span.add(values),
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// What was seen. Fails when a value could not be read.
    pub(super) fn seen(self) -> TractResult<HashMap<String, Span>> {
        self.problem.map_or(Ok(self.spans), Err)
    }
}

impl Observer for Spans {
    fn node(&mut self, _: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        for value in outputs.iter().flatten().filter(|value| value.graph.is_empty()) {
            self.see(&value.name, value.element_type, &value.tensor);
        }
        Ok(())
    }
}
