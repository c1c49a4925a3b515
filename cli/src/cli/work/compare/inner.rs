//! Tensors inside two models.

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use super::main_graph::MainGraph;
use super::pairs::{How, Pair, pairs};
use super::sides::{Loaded, Sides};
use crate::cli::judge::compared::ComparedTensor;
use crate::cli::judge::metrics::Metrics;
use crate::cli::judge::tolerance::Tolerance;
use crate::cli::phase;
use crate::cli::tensor::NamedTensor;

/// Tensors inside two models.
#[derive(Default)]
pub(super) struct Inner {
    /// In the order of the reference.
    pub(super) tensors: Vec<ComparedTensor>,
    /// A note on the first one that is within the tolerance, but not the same on both sides.
    pub(super) differs_from: Option<String>,
}

/// Runs both models once more, with every tensor as an output, and compares those that belong together. `outputs` are the
/// models' outputs, which are paired already; with the models comes what the first one's constants are called in the second.
pub(super) fn inner_tensors(
    (a, b, weights): (&Loaded, &Loaded, &HashMap<String, String>),
    sides: &Sides,
    tolerance: Tolerance,
    outputs: &[ComparedTensor],
) -> TractResult<Inner> {
    phase::enter("comparing what is inside");
    let (of_a, of_b) = (MainGraph::of(&a.probed.proto), MainGraph::of(&b.probed.proto));
    let mut exposed = [of_a.made(), of_b.made()];
    let known: Vec<(&str, &str)> = outputs
        .iter()
        .map(|output| {
            let renamed = output.converted_name.as_ref().unwrap_or(&output.name);
            (output.name.as_str(), renamed.as_str())
        })
        .collect();
    let mut all: Vec<(Pair, Metrics)> = vec![];
    for (place, (set_a, set_b)) in
        sides.reference_sets.iter().zip(&sides.converted_sets).enumerate()
    {
        let run = |exposed: &[Vec<String>; 2]| -> TractResult<[Vec<NamedTensor>; 2]> {
            let [of_a, of_b] = exposed;
            let reference = a.probed.exposing(of_a, false)?.run(set_a.tensors()?)?.outputs;
            Ok([reference, b.probed.exposing(of_b, false)?.run(set_b.tensors()?)?.outputs])
        };
        let [reference, converted] = match run(&exposed) {
            // A value may be no tensor, which nobody can look at.
            Err(_) if place == 0 => {
                let [all_a, all_b] = exposed;
                let names: HashSet<&String> = all_b.iter().collect();
                let shared: Vec<String> =
                    all_a.iter().filter(|name| names.contains(name)).cloned().collect();
                exposed = [shared.clone(), shared];
                run(&exposed)?
            }
            ran => ran?,
        };
        if place == 0 {
            let pairs = pairs((&of_a, &reference), (&of_b, &converted), &known, weights)?;
            // What belongs to nothing need not be made again.
            exposed[0] = pairs.iter().map(|pair| pair.reference.clone()).collect();
            exposed[1] = pairs.iter().map(|pair| pair.converted.clone()).collect();
            let (x, y) = (by_name(&reference), by_name(&converted));
            for pair in pairs {
                let Some((x, y)) = x.get(&*pair.reference).zip(y.get(&*pair.converted)) else {
                    continue;
                };
                let is_given = tolerance != Tolerance::default();
                let tolerance = if is_given || x.ty == y.ty { tolerance } else { of_types(x, y) };
                all.push((pair, Metrics::new(x, y, tolerance)));
            }
        }
        let (x, y) = (by_name(&reference), by_name(&converted));
        for (pair, metrics) in &mut all {
            let Some((x, y)) = x.get(&*pair.reference).zip(y.get(&*pair.converted)) else {
                continue;
            };
            match pair.how {
                How::Name => metrics.add(x, y)?,
                // Another exporter may keep the same elements in another shape.
                _ => metrics.add(x, &reshaped(y, x.tensor.shape())?)?,
            }
        }
    }
    let finish = |(pair, metrics): (Pair, Metrics)| {
        let mut tensor = metrics.finish();
        let (paired_by, confidence) = pair.how.in_words();
        (tensor.paired_by, tensor.confidence) = (paired_by.into(), confidence.into());
        tensor
    };
    let inner: Vec<ComparedTensor> = all.into_iter().map(finish).collect();
    // The note is about inner tensors: outputs are reported with their own tolerances.
    let outputs = of_a.outputs();
    let is_inner = |tensor: &&ComparedTensor| !outputs.contains(tensor.name.as_str());
    let first = inner.iter().filter(is_inner).find(|tensor| !tensor.identical && tensor.passed);
    let differs_from = first.map(|tensor| {
        let (name, error) = (&tensor.name, tensor.max_abs);
        format!("values first differ, within the tolerance, in `{name}`: by {error} at most")
    });
    Ok(Inner { tensors: inner, differs_from })
}

fn by_name(tensors: &[NamedTensor]) -> HashMap<&str, &NamedTensor> {
    tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect()
}

fn reshaped(tensor: &NamedTensor, shape: &[usize]) -> TractResult<NamedTensor> {
    let NamedTensor { name, ty, tensor } = tensor;
    let tensor = tensor.clone().into_shape(shape)?;
    Ok(NamedTensor { name: name.clone(), ty: *ty, tensor })
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
    Tolerance { rtol: Some(rtol), atol: Some(atol.min(f64::MAX)), ..Tolerance::default() }
}
