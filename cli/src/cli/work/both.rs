//! Two models that run on many sets, for a search that judges a set by how far they are apart on
//! it.

use std::sync::Arc;

use anyhow::Context;
use tract_onnx::prelude::*;
use tract_onnx_cast::audit::Audit;
use tract_onnx_cast::untrusted::without_panic;

use crate::cli::input::chosen::price::Price;
use crate::cli::input::chosen::search::{Judge, Score};
use crate::cli::input::declared::Input;
use crate::cli::input::sets::{Provenance, Set, shapes_of};
use crate::cli::measure::metrics::compared;
use crate::cli::measure::pairing::pair;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::is_out_of_memory;
use crate::cli::tensor::{NamedTensor, Tensors, elements, of_numbers};
use crate::cli::work::adapt_inputs::taken_alike;
use crate::cli::work::model::{Model, Ready};

/// Both models, which run on many sets.
pub(crate) struct Both<'a> {
    reference: RunningModel,
    converted: RunningModel,
    /// What an output may be off by, by its name.
    tolerance: &'a dyn Fn(&str) -> Tolerance,
    /// Whether an output was beyond it.
    has_failed: bool,
    /// Whether the search ends there.
    ends_at_failure: bool,
}

impl<'a> Both<'a> {
    /// A model, and its conversion with what counts its casts, if anything does; the search ends at
    /// the first set beyond the tolerance, if that is wanted.
    pub(crate) fn of(
        reference: Model,
        (converted, audit): (Model, Option<Audit>),
        (tolerance, ends_at_failure): (&'a dyn Fn(&str) -> Tolerance, bool),
    ) -> Both<'a> {
        let reference = RunningModel { model: reference, audit: None, ready: vec![] };
        let converted = RunningModel { model: converted, audit, ready: vec![] };
        Both { reference, converted, tolerance, has_failed: false, ends_at_failure }
    }

    /// The largest error of an output, and whether all are within their tolerances.
    fn error(
        &self,
        reference: &[NamedTensor],
        converted: &[NamedTensor],
    ) -> TractResult<(f64, bool)> {
        let (mut worst, mut passed) = (0f64, true);
        for (a, b) in pair(reference, converted)?.of(reference, converted) {
            let finished = compared(a, b, (self.tolerance)(&a.name))?;
            worst = worst.max(finished.relative_error());
            passed &= finished.passed;
        }
        Ok((worst, passed))
    }
}

impl Judge for Both<'_> {
    fn score(&mut self, tensors: Tensors, price: &mut Price) -> TractResult<Option<Score>> {
        let reference = match self.reference.run(&tensors, price) {
            Err(error) if is_out_of_memory(&error) => return Err(error),
            Err(_) => return Ok(None),
            Ok(reference) => reference,
        };
        let (from, to) = (&self.reference.model.takes, &self.converted.model.takes);
        let shapes = shapes_of(&tensors);
        let given = tensors.clone();
        let set = Set::new(String::new(), Provenance::Given, shapes, move || Ok(given.clone()));
        let Ok(tensors) = taken_alike(from, to, CALLED, &set) else { return Ok(None) };
        let apart = Score { error: f64::INFINITY, reach: 0.0 };
        let converted = match self.converted.run(&tensors, price) {
            Ok(converted) => converted,
            Err(error) if is_out_of_memory(&error) => return Err(error),
            Err(_) => return Ok((!price.is_exceeded()).then_some(apart)),
        };
        let (error, passed) = self.error(&reference, &converted).unwrap_or((f64::INFINITY, false));
        self.has_failed |= !passed;
        Ok(Some(Score { error, reach: self.converted.reach() }))
    }

    fn moved(&mut self, tensors: Tensors, by: f64, price: &mut Price) -> TractResult<f64> {
        let inputs = self.reference.model.takes.inputs.clone();
        let move_one = |(tensor, input): (&Arc<Tensor>, &Input)| nudged(tensor, input, by);
        let nudged = tensors.iter().zip(&inputs).map(move_one).collect::<TractResult<Tensors>>();
        let moved = || {
            let before = self.reference.run(&tensors, price)?;
            let after = self.reference.run(&nudged?, price)?;
            TractResult::Ok(self.error(&before, &after)?.0)
        };
        moved().or_else(
            |error| {
                if is_out_of_memory(&error) { Err(error) } else { Ok(f64::INFINITY) }
            },
        )
    }

    fn has_failed(&self) -> bool {
        self.has_failed && self.ends_at_failure
    }
}

/// Floats that are off by a relative error, up and down in turn.
fn nudged(tensor: &Arc<Tensor>, input: &Input, by: f64) -> TractResult<Arc<Tensor>> {
    if !input.ty.is_float() {
        return Ok(tensor.clone());
    }
    let values: Vec<f64> = elements(input.ty, tensor)?;
    // Multiplied by an odd number, places fall on either side without a pattern that sums would
    // cancel.
    let is_up = |place: usize| place.wrapping_mul(0x9e37_79b9).count_ones().is_multiple_of(2);
    let nudge =
        |(place, value): (usize, f64)| value * if is_up(place) { 1.0 + by } else { 1.0 - by };
    let values: Vec<f64> = values.into_iter().enumerate().map(nudge).collect();
    Ok(Arc::new(of_numbers(input.ty, tensor.shape(), &values)?))
}

/// How many sizes a model is held ready for.
const READY: usize = 3;

/// What the sides are called where one takes nothing that the other has.
const CALLED: [&str; 2] = ["the reference", "the conversion"];

/// A model that runs on many sets.
struct RunningModel {
    model: Model,
    /// What counts its casts, if anything does.
    audit: Option<Audit>,
    ready: Vec<Ready>,
}

impl RunningModel {
    fn run(&mut self, tensors: &[Arc<Tensor>], price: &mut Price) -> TractResult<Vec<NamedTensor>> {
        let run = || {
            let place = match self.ready.iter().position(|ready| ready.takes(tensors)) {
                Some(place) => place,
                None => {
                    let ready = self.model.clone().ready(tensors, self.audit.as_ref())?;
                    self.ready.truncate(READY - 1);
                    self.ready.insert(0, ready);
                    0
                }
            };
            let ready = self.ready.get(place).context("it is ready")?;
            ready.run_at(tensors.to_vec(), price)
        };
        without_panic(run)
    }

    /// The largest share that a cast's values have had so far of what its type holds.
    fn reach(&self) -> f64 {
        let rows = self.audit.as_ref().map(Audit::rows).unwrap_or_default();
        let shares = rows.iter().filter(|row| !row.is_constant).filter_map(|row| {
            let headroom = crate::cli::found::audited::AuditedCast::of(row).headroom?.0;
            (headroom > 0.0).then(|| 1.0 / headroom)
        });
        shares.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use onnx_cast_graph::{message_node, named_value, sized_type};
    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
    use tract_onnx_cast::ElementType;

    use super::*;
    use crate::cli::work::deadline::Deadline;
    use crate::cli::work::model::Loader;

    /// A model of a column and a row of so many numbers.
    fn model(node: NodeProto, side: usize) -> TractResult<Model> {
        let input = |name: &str, shape: [usize; 2]| {
            let r#type = Some(sized_type(ElementType::Float as i32, &shape));
            ValueInfoProto { r#type, ..named_value(name) }
        };
        let graph = GraphProto {
            name: "g".into(),
            node: vec![node],
            input: vec![input("a", [side, 1]), input("b", [1, side])],
            output: vec![named_value("y")],
            ..GraphProto::default()
        };
        let import = OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() };
        let (ir_version, opset_import, graph) = (8, vec![import], Some(graph));
        let proto = ModelProto { ir_version, opset_import, graph, ..ModelProto::default() };
        let onnx = tract_onnx_cast::onnx();
        Loader::new(None, Deadline::default()).load(&onnx, proto, None)
    }

    /// More than a process has addresses for: that says nothing of a conversion.
    #[test]
    fn a_set_for_which_memory_does_not_suffice_has_no_score() -> TractResult<()> {
        const SIDE: usize = 1 << 23;
        let small = model(message_node("Identity", &["a"], "y"), SIDE)?;
        let large = model(message_node("MatMul", &["a", "b"], "y"), SIDE)?;
        let column = Arc::new(Tensor::zero::<f32>(&[SIDE, 1])?);
        let row = Arc::new(Tensor::zero::<f32>(&[1, SIDE])?);
        let any = |_: &str| Tolerance::default();
        for (a, b) in [(&large, &small), (&small, &large)] {
            let mut both = Both::of(a.clone(), (b.clone(), None), (&any, false));
            let tensors: Tensors = [&column, &row].map(Arc::clone).into_iter().collect();
            let mut price = Price::up_to(f64::INFINITY);
            let error = both.score(tensors, &mut price).map(|_| ()).unwrap_err();
            assert!(is_out_of_memory(&error), "{error}");
        }
        Ok(())
    }
}
