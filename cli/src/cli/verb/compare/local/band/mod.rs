//! How far the conversion's roundings may put its values: it runs a few times with each result
//! moved up or down by a unit in the last place, at random.

mod least;
mod perturbed;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tract_onnx::prelude::TractResult;
use tract_onnx_cast::OnnxTensor;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};
use tract_onnx_cast::untrusted::without_panic;

use super::numbers::{each_pair, is_computed_in};
use super::site::{Site, Sites};
use super::trace::{Trace, Traces};
use crate::cli::found::verdict::BothErrors;
use crate::cli::measure::number::Num;
use crate::cli::measure::reach::STANDS_FOR_INFINITY;
use crate::cli::message::is_out_of_memory;
use crate::cli::process::worker::STACK_BYTES;
use crate::cli::work::engine::ProgressObserver;
use least::LeastNoise;
use perturbed::Perturbed;

/// The power of what two values are apart; `None` if they are not of one length.
fn power(x: &SharedTensor, y: &SharedTensor) -> Option<f64> {
    if x.1.len() != y.1.len() {
        return None;
    }
    let mut power = 0.0;
    each_pair(x, y, |_, x, y| {
        let error = (x - y) * (x - y);
        power += if error.is_finite() { error } else { 0.0 };
    })?;
    Some(power)
}

/// How far perturbed runs put the values of a conversion from what `exact` has of them, by their
/// power.
pub(super) type Band = HashMap<String, f64>;

/// How often a conversion of so many weights, which makes these outputs, runs where nobody says.
/// The more errors add up in a value, and the more elements it has, the less do the powers of two
/// runs differ.
pub(super) fn usual_count<'a>(
    weights: usize,
    mut outputs: impl Iterator<Item = &'a SharedTensor>,
) -> u64 {
    const MANY_WEIGHTS: usize = 1 << 24;
    const FEW_NUMBERS: usize = 1000;
    let has_few = |(ty, output): &SharedTensor| is_computed_in(*ty) && output.len() < FEW_NUMBERS;
    if weights >= MANY_WEIGHTS && !outputs.any(has_few) { 1 } else { 3 }
}

/// An error this many times the band is more than the conversion's roundings make, which is told.
pub(super) const BEYOND: f64 = 30.0;

/// Whether an output may be that far off. Its band is not known without a perturbed run of the
/// conversion, and not less than what the last rounding of its elements moves them by.
pub(super) fn may_be_beyond(traces: &Traces, model: &Interpreter) -> bool {
    let Traces { sides: (a, b), outputs } = traces;
    let least = LeastNoise { exact: b, model };
    let is_far = |(reference, converted): &(String, String)| {
        let (want, got) = (a.first(reference)?, b.first(converted)?);
        let mut size = 0.0;
        each_pair(want, want, |_, x, _| size += if x.is_finite() { x * x } else { 0.0 })?;
        Some(power(want, got)? > BEYOND * BEYOND * least.of(converted, size))
    };
    outputs.iter().any(|pair| is_far(pair) == Some(true))
}

/// Runs of the conversion, perturbed by the seeds from 1 on. They know nothing of one another.
pub(super) struct PerturbedRuns<'a> {
    pub(super) exact: &'a Trace,
    pub(super) model: &'a Interpreter,
    pub(super) inputs: Vec<OnnxTensor>,
    pub(super) count: u64,
}

impl PerturbedRuns<'_> {
    /// Runs them on as many threads as may run at once, of which this one does other work first.
    /// The seeds are those that the conversion ran with. Fails as the other work does, and where
    /// memory ends.
    pub(super) fn beside<T>(
        &self,
        at_once: usize,
        work: impl FnOnce() -> TractResult<T>,
    ) -> TractResult<(T, Band, Vec<u64>)> {
        let (next, ran) = (AtomicU64::new(1), Mutex::new(BTreeMap::new()));
        let run = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > self.count {
                    break;
                }
                if let Some(noise) = self.noise(seed).transpose() {
                    ran.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, noise);
                }
            }
        };
        let done = thread::scope(|scope| {
            for _ in (1..at_once).zip(0..self.count) {
                // Without a thread to be had the others do it all.
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                let _ = thread.spawn_scoped(scope, run);
            }
            let done = work()?;
            run();
            TractResult::Ok(done)
        })?;
        let ran = ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut band, seeds) = (Band::new(), ran.keys().copied().collect());
        for noise in ran.into_values() {
            for (name, noise) in noise? {
                let most = band.entry(name).or_default();
                *most = most.max(noise);
            }
        }
        Ok((done, band, seeds))
    }

    /// How far a run puts the values; `None` if it cannot run: a size that is computed of perturbed
    /// values may not fit. Fails where memory ends: with more of it the run may tell something.
    fn noise(&self, seed: u64) -> TractResult<Option<HashMap<String, f64>>> {
        let mut perturbed = Perturbed::new(self.exact, seed);
        let what = format!("rounding at random, {seed} of {}", self.count);
        let mut told = ProgressObserver::of(&mut perturbed, &what, self.exact.nodes.len());
        let run = || Ok(self.model.run_observed(self.inputs.clone(), &mut told)?);
        match without_panic(run) {
            Ok(_) => Ok(Some(perturbed.noise)),
            Err(error) if is_out_of_memory(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// What a value of the reference comes to, and how far the other side is apart from it.
#[derive(Default)]
struct Apart {
    /// The power of the elements that are finite, and of what they are apart.
    size: f64,
    power: f64,
    /// Whether an element is finite on one side alone, and whether one of the other side is NaN.
    is_apart: bool,
    has_nan: bool,
    /// Whether an element stands for an infinity below, and whether one is as large and does not.
    has_end: bool,
    has_other_end: bool,
}

impl Apart {
    /// Of two values of one length; `None` of text.
    fn of(want: &SharedTensor, got: &SharedTensor) -> Option<Apart> {
        let mut found = Apart::default();
        each_pair(want, got, |_, x, y| {
            let (square, error) = (x * x, (x - y) * (x - y));
            found.size += if x.is_finite() { square } else { 0.0 };
            found.power += if error.is_finite() { error } else { 0.0 };
            found.is_apart |= x.is_finite() != y.is_finite();
            found.has_nan |= y.is_nan();
            let is_end = x <= -STANDS_FOR_INFINITY;
            found.has_end |= is_end;
            found.has_other_end |= !is_end && (x.is_nan() || x.abs() >= STANDS_FOR_INFINITY);
        })?;
        Some(found)
    }

    /// Whether the values are a mask's, of which the least stand for an infinity.
    fn is_of_mask(&self) -> bool {
        self.has_end && !self.has_other_end
    }

    fn relative(&self, noise: f64) -> f64 {
        if noise == 0.0 { 0.0 } else { (noise / self.size).sqrt() }
    }
}

/// The errors of each value of both sides, with the band of those that perturbed runs reach. What a
/// mask is off by is no error: it ends where its type does.
pub(super) fn both_errors((a, b, sites): (&Trace, &Trace, &Sites), band: &Band) -> Vec<BothErrors> {
    let row = |site: &Site| {
        let wanted = a.first(&site.reference);
        let made = wanted
            .and_then(|want| b.first(&site.converted).filter(|got| got.1.len() == want.1.len()));
        let apart = wanted.and_then(|want| Apart::of(want, made.unwrap_or(want)));
        if apart.as_ref().is_some_and(|apart| apart.is_of_mask() && !apart.has_nan) {
            return None;
        }
        let accumulated = apart
            .as_ref()
            .filter(|_| made.is_some())
            .map(|apart| if apart.is_apart { f64::INFINITY } else { apart.relative(apart.power) });
        // A weight of the reference is not kept, so that its size is not known.
        let noise = band.get(&site.converted).filter(|_| wanted.is_some());
        let apart = apart.unwrap_or_default();
        let band = noise.map(|noise| apart.relative(*noise));
        Some(errors(site, accumulated, band))
    };
    sites.all.iter().filter_map(row).collect()
}

/// The errors of a value.
pub(super) fn errors(site: &Site, accumulated: Option<f64>, band: Option<f64>) -> BothErrors {
    BothErrors {
        tensor: site.converted.clone(),
        node: site.node.clone(),
        op: site.op.clone(),
        accumulated: accumulated.map(Num),
        local: Num(site.relative()),
        band: band.map(Num),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use onnx_cast_graph::{int_attribute, message_node, named_value, sized_type};
    use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
    use tract_onnx::prelude::{Tensor, tensor1};
    use tract_onnx_cast::ElementType;

    use super::*;

    #[test]
    fn a_large_model_runs_once_unless_an_output_has_few_numbers() -> TractResult<()> {
        let output = |ty: ElementType, elements: usize| {
            TractResult::Ok((ty, Arc::new(Tensor::zero_dt(ty.datum_type(), &[elements])?)))
        };
        let many = output(ElementType::Float, 1000)?;
        let few = output(ElementType::Float16, 999)?;
        let token = output(ElementType::Int64, 1)?;
        let count =
            |weights, outputs: &[&SharedTensor]| usual_count(weights, outputs.iter().copied());
        assert_eq!(count(1 << 24, &[&many, &token]), 1);
        assert_eq!(count((1 << 24) - 1, &[&many]), 3);
        assert_eq!(count(1 << 24, &[&many, &few]), 3);
        Ok(())
    }

    /// More than a process has addresses for.
    #[test]
    fn a_run_for_which_memory_does_not_suffice_tells_nothing() -> TractResult<()> {
        const SIDE: usize = 1 << 23;
        let node = vec![message_node("MatMul", &["a", "b"], "y")];
        let input = |name: &str, shape: [usize; 2]| {
            let r#type = Some(sized_type(ElementType::Float as i32, &shape));
            ValueInfoProto { r#type, ..named_value(name) }
        };
        let input = vec![input("a", [SIDE, 1]), input("b", [1, SIDE])];
        let graph =
            GraphProto { node, input, output: vec![named_value("y")], ..Default::default() };
        let model = of_graph(graph)?;
        let given = |shape: [usize; 2]| {
            let held = Tensor::zero::<f32>(&shape)?;
            TractResult::Ok(OnnxTensor::new(ElementType::Float, held)?)
        };
        let inputs = vec![given([SIDE, 1])?, given([1, SIDE])?];
        let runs = PerturbedRuns { exact: &Trace::default(), model: &model, inputs, count: 2 };
        for at_once in [1, 2] {
            let error = runs.beside(at_once, || Ok(())).unwrap_err();
            assert!(is_out_of_memory(&error), "{error}");
        }
        Ok(())
    }

    fn of_graph(graph: GraphProto) -> TractResult<Interpreter> {
        let graph = Some(GraphProto { name: "g".into(), ..graph });
        let import = OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() };
        let (ir_version, opset_import) = (8, vec![import]);
        let model = ModelProto { ir_version, opset_import, graph, ..ModelProto::default() };
        Ok(Interpreter::of_proto(tract_onnx_cast::onnx(), model, None)?)
    }

    /// What `h = Mul(x, x)` in a type, `y = Cast(Identity(h))` in FLOAT make of 1 and a number.
    fn squared(ty: ElementType, x: f32) -> TractResult<(Rc<Trace>, Interpreter)> {
        let cast = |from: &str, to: &str, ty: ElementType| NodeProto {
            attribute: vec![int_attribute("to", ty as i64)],
            ..message_node("Cast", &[from], to)
        };
        let node = vec![
            cast("x", "n", ty),
            message_node("Mul", &["n", "n"], "h"),
            message_node("Identity", &["h"], "i"),
            cast("i", "y", ElementType::Float),
        ];
        let r#type = Some(sized_type(ElementType::Float as i32, &[2]));
        let input = vec![ValueInfoProto { r#type, ..named_value("x") }];
        let output = vec![named_value("y")];
        let model = of_graph(GraphProto { node, input, output, ..GraphProto::default() })?;
        let input = OnnxTensor::new(ElementType::Float, tensor1(&[1.0, x]))?;
        Ok((Rc::new(Trace::of(&model, vec![input])?), model))
    }

    #[test]
    fn an_output_is_held_to_the_last_rounding_that_its_elements_have_had() -> TractResult<()> {
        let may_be = |ty: ElementType, x: f32| {
            let ((reference, _), (converted, model)) =
                (squared(ElementType::Float, 1.0)?, squared(ty, x)?);
            let sides = (reference, converted);
            let outputs = vec![(String::from("y"), String::from("y"))];
            TractResult::Ok(may_be_beyond(&Traces { sides, outputs }, &model))
        };
        // Of [1, 1] one element is off by 2 % and 5 %: 1.4 % and 3.5 % of their size.
        let rows = [
            (ElementType::Float, 1.0, false),
            (ElementType::Float, 1.01, true),
            (ElementType::Float16, 1.01, false),
            (ElementType::Float16, 1.025, true),
            (ElementType::BFloat16, 1.025, false),
        ];
        for (ty, x, is_far) in rows {
            assert_eq!(may_be(ty, x)?, is_far, "{ty} {x}");
        }
        Ok(())
    }
}
