//! Tensors inside two models, by name.

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use super::main_graph::MainGraph;
use super::sides::{Loaded, Sides};
use crate::cli::judge::compared::ComparedTensor;
use crate::cli::judge::metrics::Metrics;
use crate::cli::judge::tolerance::Tolerance;
use crate::cli::tensor::NamedTensor;

/// Runs both models once more, with every tensor that they share as an output. The second result is a note on the first
/// one that is within the tolerance, but not the same on both sides.
pub(super) fn inner_tensors(
    a: &Loaded,
    b: &Loaded,
    sides: &Sides,
    tolerance: Tolerance,
) -> TractResult<(Vec<ComparedTensor>, Option<String>)> {
    let (made_a, made_b) =
        (MainGraph::of(&a.probed.proto).made(), MainGraph::of(&b.probed.proto).made());
    let known: HashSet<&String> = made_b.iter().collect();
    let shared: Vec<String> = made_a.into_iter().filter(|name| known.contains(name)).collect();
    let mut all: Vec<Option<Metrics>> = shared.iter().map(|_| None).collect();
    for (set_a, set_b) in sides.reference_sets.iter().zip(&sides.converted_sets) {
        let reference = a.probed.exposing(&shared, false)?.run(set_a.tensors.clone())?.outputs;
        let converted = b.probed.exposing(&shared, false)?.run(set_b.tensors.clone())?.outputs;
        let by_name = |outputs: Vec<NamedTensor>| -> HashMap<String, NamedTensor> {
            outputs.into_iter().map(|output| (output.name.clone(), output)).collect()
        };
        let (reference, converted) = (by_name(reference), by_name(converted));
        for (name, metrics) in shared.iter().zip(&mut all) {
            let (Some(x), Some(y)) = (reference.get(name), converted.get(name)) else { continue };
            let metrics = metrics.get_or_insert_with(|| {
                let is_given = tolerance != Tolerance::default();
                let tolerance = if is_given || x.ty == y.ty { tolerance } else { of_types(x, y) };
                Metrics::new(x, y, tolerance)
            });
            metrics.add(x, y)?;
        }
    }
    let inner: Vec<ComparedTensor> = all.into_iter().flatten().map(Metrics::finish).collect();
    // The note is about inner tensors: outputs are reported with their own tolerances.
    let outputs = MainGraph::of(&a.probed.proto).outputs();
    let is_inner = |tensor: &&ComparedTensor| !outputs.contains(tensor.name.as_str());
    let first = inner.iter().filter(is_inner).find(|tensor| !tensor.identical && tensor.passed);
    let note = first.map(|tensor| {
        let (name, error) = (&tensor.name, tensor.max_abs);
        format!("values first differ, within the tolerance, in `{name}`: by {error} at most")
    });
    Ok((inner, note))
}

/// What a tensor may be off by where the element type has changed and nobody has said: 64 units in the last place of the
/// coarser type, at the value and at the largest one, for errors add up.
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
    Tolerance { rtol: Some(rtol), atol: Some(atol.min(f64::MAX)), ulp: None, cosine: None }
}
