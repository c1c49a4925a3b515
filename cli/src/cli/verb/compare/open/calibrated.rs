//! Whether inputs that nobody gave lie in what a conversion was calibrated for.

use std::collections::HashSet;
use std::sync::Arc;

use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer};
use tract_onnx_cast::{Conversion, Family, Rules};

use super::loaded::LoadedModel;
use crate::cli::measure::weight::ends::CUT_OFF;
use crate::cli::tensor::Tensors;
use crate::cli::tensor::elements;

/// A conversion whose ranges are constants.
pub(super) struct Calibrated<'a> {
    loaded: &'a LoadedModel,
    model: Interpreter,
}

impl<'a> Calibrated<'a> {
    /// `None` where nothing was calibrated, or it does not run node by node.
    pub(super) fn of(reference: &LoadedModel, loaded: &'a LoadedModel) -> Option<Calibrated<'a>> {
        let nodes = loaded.probed.proto.graph.as_ref()?.node.iter();
        let mut quantizers = nodes
            .filter(|node| node.op_type == "QuantizeLinear" || node.op_type.starts_with("QLinear"));
        quantizers.next()?;
        let spelt = loaded.spelt_out(Some(&reference.probed.proto)).ok()?;
        let model = spelt.map_or_else(|| loaded.interpreter(), |(model, _)| Ok(model)).ok()?;
        Some(Calibrated { loaded, model })
    }

    /// How many ranges there are, and which do not hold what they are given of inputs.
    /// Fails when it does not run on them.
    pub(super) fn cut_off(&self, tensors: &Tensors) -> TractResult<(usize, HashSet<String>)> {
        let mut ranges = Ranges::default();
        self.model.run_observed(self.loaded.inputs(tensors)?, &mut ranges)?;
        Ok((ranges.all, ranges.cut_off))
    }

    /// As [`Calibrated::cut_off`], of the inputs of the reference. Fails as there.
    pub(super) fn of_reference(
        &self,
        reference: &LoadedModel,
        tensors: &Tensors,
    ) -> TractResult<(usize, HashSet<String>)> {
        let given = reference.model.takes.inputs.iter().zip(tensors);
        let find = |name: &str| given.clone().find(|(input, _)| input.name == name);
        let carried = self.loaded.model.takes.inputs.iter().map(|input| {
            let (source, tensor) =
                find(&input.name).ok_or_else(|| anyhow::anyhow!("no such input"))?;
            if source.ty == input.ty {
                return Ok(tensor.clone());
            }
            Ok(Arc::new(Conversion::new(source.ty, input.ty, Rules::default()).run(tensor)?))
        });
        self.cut_off(&carried.collect::<TractResult<_>>()?)
    }
}

/// Quantisers that ran, and those of which the range cuts off what they are given.
#[derive(Default)]
struct Ranges {
    all: usize,
    cut_off: HashSet<String>,
}

impl Observer for Ranges {
    fn node(
        &mut self,
        node: &NodeRun,
        outputs: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        if node.op_type == "QuantizeLinear"
            && let Some((outside, below)) = cut_off(&node.inputs, outputs)
        {
            self.all += 1;
            let name = node.name;
            let both = [(outside, name.to_owned()), (below, format!("{name}{BELOW}"))];
            let cut_off = both.into_iter().filter(|(share, _)| *share > CUT_OFF);
            self.cut_off.extend(cut_off.map(|(_, name)| name));
        }
        Ok(())
    }
}

/// What is behind the name of a quantiser whose range begins at 0, where values do not: it may do
/// the work of a Relu.
pub(super) const BELOW: &str = " below 0";

/// The shares of the values' size that a range cuts off, and that it cuts off at 0.
fn cut_off(
    inputs: &[Option<ObservedTensor>],
    outputs: &[Option<ObservedTensor>],
) -> Option<(f64, f64)> {
    let numbers = |tensor: &Option<ObservedTensor>| -> Option<Vec<f64>> {
        let tensor = tensor.as_ref()?;
        elements(tensor.element_type, &tensor.tensor).ok()
    };
    let is_held =
        |place: usize| inputs.get(place).and_then(Option::as_ref).is_none_or(|t| t.is_constant);
    let codes = outputs.first()?.as_ref()?.element_type;
    let is_whole = matches!(codes.family(), Family::Signed | Family::Unsigned);
    let ([scale], true) = (&*numbers(inputs.get(1)?)?, is_whole && is_held(1) && is_held(2)) else {
        return None;
    };
    let zero =
        inputs.get(2).and_then(numbers).and_then(|zero| zero.first().copied()).unwrap_or(0.0);
    // One of 1 rounds to whole numbers, and was calibrated with none.
    if *scale == 1.0 {
        return None;
    }
    let size = 2f64.powi(codes.bits() as i32);
    let low = if codes.family() == Family::Signed { -size / 2.0 } else { 0.0 };
    let (low, high) = ((low - zero) * scale, (low + size - 1.0 - zero) * scale);
    let values = numbers(inputs.first()?)?;
    let power = |of: &dyn Fn(f64) -> f64| values.iter().map(|x| of(*x).powi(2)).sum::<f64>();
    let whole = power(&|x| x);
    let share = |part: f64| (part / whole).sqrt();
    let least = if low == 0.0 { f64::MIN } else { low };
    let below = if low == 0.0 { power(&|x| x.min(0.0)) } else { 0.0 };
    Some((share(power(&|x| x - x.clamp(least, high.max(least)))), share(below)))
}
