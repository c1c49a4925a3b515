//! Which numbers the operators of the reference were given: how wide a comparison of chosen inputs
//! looked.

use std::collections::BTreeMap;

use tract_onnx_cast::Result;
use tract_onnx_cast::audit::range;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};

use super::local::Trace;
use crate::cli::found::look::OperatorNumbers;
use crate::cli::measure::number::Num;

/// At how many numbers is looked: those of the first set in any case.
const MOST: usize = 500_000_000;

/// The least and the largest number that each operator took, by its name, over the sets until
/// these are many.
#[derive(Default)]
pub(super) struct Operators {
    ends: BTreeMap<String, (f64, f64)>,
    numbers: usize,
}

impl Operators {
    /// What was seen.
    pub(super) fn seen(self) -> Vec<OperatorNumbers> {
        let seen =
            |(operator, (low, high))| OperatorNumbers { operator, low: Num(low), high: Num(high) };
        self.ends.into_iter().map(seen).collect()
    }

    fn look_at(&mut self, node: &NodeRun) {
        let is_float = |input: &&ObservedTensor| input.element_type.is_float();
        for input in node.inputs.iter().flatten().filter(is_float).filter(|i| !i.is_constant) {
            self.numbers += input.tensor.len();
            let found = range(input.element_type, &input.tensor).ok().and_then(|r| r.limits);
            let Some((low, high)) = found else { continue };
            let ends = self.ends.entry(node.op_type.to_owned()).or_insert((low, high));
            *ends = (ends.0.min(low), ends.1.max(high));
        }
    }
}

/// Observes a run for its trace, and for the numbers that operators are given.
pub(super) struct Observed<'a> {
    trace: &'a mut Trace,
    operators: Option<&'a mut Operators>,
}

impl<'a> Observed<'a> {
    /// Of a run on one set.
    pub(super) fn of(trace: &'a mut Trace, operators: Option<&'a mut Operators>) -> Observed<'a> {
        Observed { trace, operators: operators.filter(|operators| operators.numbers < MOST) }
    }
}

impl Observer for Observed<'_> {
    fn next(&mut self) -> Option<&mut (dyn Observer + '_)> {
        Some(self.trace)
    }

    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        if let Some(operators) = &mut self.operators {
            operators.look_at(node);
        }
        self.trace.node(node, outputs)
    }
}
