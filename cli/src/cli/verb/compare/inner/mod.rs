//! Tensors inside two models.

pub(super) mod bodies;
pub(super) mod inside;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::Family;
use tract_onnx_cast::interpreter::SharedTensor;

use crate::cli::found::compared::ComparedTensor;
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::inner::bodies::spread;
use crate::cli::verb::compare::local::{Trace, Traces};
use crate::cli::verb::compare::matching::{MatchKind, Pair, Seen, pairs};
use crate::cli::verb::compare::open::LoadedModel;
use crate::cli::work::main_graph::MainGraph;

/// Tensors inside two models.
#[derive(Default)]
pub(super) struct Inner {
    /// In the order of the reference.
    pub(super) tensors: Vec<ComparedTensor>,
    /// A note on the first one that is within the tolerance, but not the same on both sides.
    pub(super) differs_from: Option<String>,
}

/// The values of two models that belong together, compared a set at a time.
struct InnerTensors<'a> {
    /// What there is to read of both models, bodies included.
    graphs: [Cow<'a, ModelProto>; 2],
    /// What the reference's constants are called in the conversion.
    weights: &'a HashMap<String, String>,
    tolerance: Tolerance,
    /// The values that were met.
    seen: HashSet<String>,
    measured: Vec<(Pair, Metrics)>,
}

impl<'a> InnerTensors<'a> {
    fn of(
        (a, b): (&'a LoadedModel, &'a LoadedModel),
        weights: &'a HashMap<String, String>,
        tolerance: Tolerance,
    ) -> InnerTensors<'a> {
        let graphs = [spread(&a.probed.proto), spread(&b.probed.proto)];
        InnerTensors { graphs, weights, tolerance, seen: HashSet::new(), measured: vec![] }
    }

    /// Compares what both models have made of a set. Fails when a tensor is not of its type's
    /// carrier.
    fn add(&mut self, traces: &Traces) -> TractResult<()> {
        let Traces { sides: (a, b), outputs } = traces;
        // A set may take a branch that those before it have not.
        let names = a.values.keys().map(|name| format!("a {name}"));
        let names: Vec<String> = names.chain(b.values.keys().map(|n| format!("b {n}"))).collect();
        if names.into_iter().fold(false, |is_new, name| self.seen.insert(name) | is_new) {
            self.add_pairs((a, b), outputs)?;
        }
        self.measure((a, b))
    }

    /// Adds the pairs of a set that are not known from those before it.
    fn add_pairs(
        &mut self,
        (a, b): (&Trace, &Trace),
        outputs: &[(String, String)],
    ) -> TractResult<()> {
        let [of_a, of_b] = &self.graphs;
        let (of_a, of_b) = (MainGraph::of(of_a), MainGraph::of(of_b));
        let (made_a, made_b) = (made(&of_a, a), made(&of_b, b));
        let known: Vec<(&str, &str)> =
            outputs.iter().map(|(x, y)| (x.as_str(), y.as_str())).collect();
        let found =
            pairs((&of_a, &seen(&made_a)), (&of_b, &seen(&made_b)), (&known, true), self.weights)?;
        let before: HashSet<String> =
            self.measured.iter().map(|(pair, _)| pair.reference.clone()).collect();
        for pair in found.into_iter().filter(|pair| !before.contains(&pair.reference)) {
            let (x, y) = (value(a, &pair.reference), value(b, &pair.converted));
            let Some((x, y)) = x.zip(y) else { continue };
            let is_given = self.tolerance != Tolerance::default();
            let tolerance =
                if is_given || x.ty == y.ty { self.tolerance } else { of_types(&x, &y) };
            self.measured.push((pair, Metrics::of_inner(&x, &y, tolerance)));
        }
        Ok(())
    }

    /// Measures the pairs on a set.
    fn measure(&mut self, (a, b): (&Trace, &Trace)) -> TractResult<()> {
        let count = iterations(&self.measured, (a, b))?;
        for (pair, metrics) in &mut self.measured {
            let (x, y) = (value(a, &pair.reference), value(b, &pair.converted));
            let Some((mut x, mut y)) = x.zip(y) else { continue };
            if let Some(count) = a.iterated(&pair.reference).and_then(|path| count.get(path)) {
                (x, y) = (first(&x, 0, *count)?, first(&y, 0, *count)?);
            }
            match pair.how {
                MatchKind::Name => metrics.add(&x, &y)?,
                // Another exporter may keep the same elements in another shape.
                _ => metrics.add(&x, &reshaped(&y, x.tensor.shape())?)?,
            }
        }
        Ok(())
    }

    /// What was found.
    fn finish(self) -> Inner {
        let [graph, _] = &self.graphs;
        let graph = MainGraph::of(graph);
        let order: HashMap<String, usize> =
            graph.made().into_iter().enumerate().map(|(place, name)| (name, place)).collect();
        let mut measured = self.measured;
        measured.sort_by_key(|(pair, _)| order.get(&pair.reference).copied());
        let finish = |(pair, metrics): (Pair, Metrics)| {
            let mut tensor = metrics.finish();
            (tensor.paired_by, tensor.confidence) = pair.how.paired_by();
            tensor
        };
        let tensors: Vec<ComparedTensor> = measured.into_iter().map(finish).collect();
        // The note is about inner tensors: outputs are reported with their own tolerances.
        let outputs = graph.outputs();
        let is_inner = |tensor: &&ComparedTensor| !outputs.contains(tensor.name.as_str());
        let mut inner = tensors.iter().filter(is_inner);
        let differs_from = inner.find(|tensor| !tensor.identical && tensor.passed).map(|tensor| {
            let (name, error) = (&tensor.name, tensor.max_abs);
            format!("values first differ, within the tolerance, in `{name}`: by {error} at most")
        });
        Inner { tensors, differs_from }
    }
}

/// The values of a trace that a graph has, in its order. Of those that are made in each iteration
/// of a body, what is made of constants is left out.
fn made(graph: &MainGraph, trace: &Trace) -> Vec<(String, SharedTensor)> {
    let is_wanted = |name: &String| trace.iterated(name).is_none() || !graph.is_constant(name);
    let names = graph.made().into_iter().filter(is_wanted);
    names.filter_map(|name| trace.whole(&name).map(|value| (name, value))).collect()
}

fn seen(made: &[(String, SharedTensor)]) -> Vec<Seen<'_>> {
    made.iter().map(|(name, (ty, tensor))| Seen { name, ty: *ty, tensor }).collect()
}

fn value(trace: &Trace, name: &str) -> Option<NamedTensor> {
    let (ty, tensor) = trace.whole(name)?;
    Some(NamedTensor { name: name.into(), ty, tensor: Arc::unwrap_or_clone(tensor) })
}

/// By what the values of a Scan's body share, in how many iterations they are compared: up to the
/// first in which any is beyond its tolerance. Later ones begin with a state that is wrong already.
fn iterations(
    pairs: &[(Pair, Metrics)],
    (a, b): (&Trace, &Trace),
) -> TractResult<HashMap<String, usize>> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (pair, metrics) in pairs {
        let Some(path) = a.iterated(&pair.reference) else { continue };
        let both = value(a, &pair.reference).zip(value(b, &pair.converted));
        let Some((x, y)) = both else { continue };
        let all = x.tensor.shape().first().copied().unwrap_or(0);
        if y.tensor.shape().first() != Some(&all) {
            continue;
        }
        let most = count.get(path).copied().unwrap_or(all);
        for place in 0..most {
            let (x, y) = (first(&x, place, place + 1)?, first(&y, place, place + 1)?);
            let mut metrics = Metrics::of_inner(&x, &y, metrics.tolerance());
            metrics.add(&x, &reshaped(&y, x.tensor.shape()).unwrap_or(y))?;
            if !metrics.finish().passed {
                count.insert(path.into(), place + 1);
                break;
            }
        }
    }
    Ok(count)
}

/// The part of a tensor between two places on its first axis.
fn first(tensor: &NamedTensor, start: usize, end: usize) -> TractResult<NamedTensor> {
    let NamedTensor { name, ty, tensor } = tensor;
    Ok(NamedTensor { name: name.clone(), ty: *ty, tensor: tensor.slice(0, start, end)? })
}

fn reshaped(tensor: &NamedTensor, shape: &[usize]) -> TractResult<NamedTensor> {
    let NamedTensor { name, ty, tensor } = tensor;
    let tensor = tensor.clone().into_shape(shape)?;
    Ok(NamedTensor { name: name.clone(), ty: *ty, tensor })
}

/// What a tensor may be off by where the element type has changed and nobody has said: 64 units in
/// the last place of the coarser type, at the value and at the largest one, for errors add up.
fn of_types(reference: &NamedTensor, converted: &NamedTensor) -> Tolerance {
    let epsilon = |output: &NamedTensor| match output.ty.family() {
        Family::Float(format) => 0.5f64.powi(format.mantissa_bits as i32 + 1),
        _ => 0.0,
    };
    let rtol = 64.0 * epsilon(reference).max(epsilon(converted));
    let range = tract_onnx_cast::audit::range(reference.ty, &reference.tensor);
    let limits = range.ok().and_then(|range| range.limits).unwrap_or_default();
    let atol = rtol * limits.0.abs().max(limits.1.abs());
    // A range of DOUBLE times 64 may overflow, but tolerances are finite.
    Tolerance { rtol: Some(rtol), atol: Some(atol.min(f64::MAX)), ..Tolerance::default() }
}
