//! Which numbers the operators of the reference were given: how wide a comparison of chosen inputs looked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::Family;
use tract_onnx_cast::audit::range;
use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer};

use super::local::{inputs, interpreter};
use super::open::Loaded;
use crate::cli::found::look::Seen;
use crate::cli::input::sets::Set;
use crate::cli::measure::number::Num;

/// How long sets are run for it: the first one in any case.
const TIME: Duration = Duration::from_millis(700);

/// The numbers that each operator took, over the sets for which there is time.
///
/// # Errors
///
/// When the model cannot run node by node.
pub(super) fn seen(loaded: &Loaded, sets: &[Set]) -> TractResult<Vec<Seen>> {
    let (start, model, mut operators) =
        (Instant::now(), interpreter(loaded)?, Operators::default());
    for set in sets {
        model.run_observed(inputs(loaded, &set.tensors()?)?, &mut operators)?;
        if start.elapsed() > TIME {
            break;
        }
    }
    let seen = |(operator, (low, high)): (String, (f64, f64))| Seen {
        operator,
        low: Num(low),
        high: Num(high),
    };
    Ok(operators.0.into_iter().map(seen).collect())
}

/// The least and the largest number by the operator's name.
#[derive(Default)]
struct Operators(BTreeMap<String, (f64, f64)>);

impl Observer for Operators {
    fn node(
        &mut self,
        node: &NodeRun,
        _: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        let is_float =
            |input: &&ObservedTensor| matches!(input.element_type.family(), Family::Float(_));
        for input in node.inputs.iter().flatten().filter(is_float).filter(|i| !i.is_constant) {
            let found = range(input.element_type, &input.tensor).ok().and_then(|r| r.limits);
            let Some((low, high)) = found else { continue };
            let ends = self.0.entry(node.op_type.to_owned()).or_insert((low, high));
            *ends = (ends.0.min(low), ends.1.max(high));
        }
        Ok(())
    }
}
