//! Tensors inside two models.

pub(super) mod bodies;

use std::collections::{HashMap, HashSet};

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use crate::cli::found::compared::ComparedTensor;
use crate::cli::input::sets::Tensors;
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::process::progress;
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::inner::bodies::{Extent, has_bodies, opened, spread};
use crate::cli::verb::compare::main_graph::MainGraph;
use crate::cli::verb::compare::open::{Loaded, Sides};
use crate::cli::verb::compare::pairs::{How, Pair, Seen, pairs};
use crate::cli::work::model::Ready;

/// Tensors inside two models.
#[derive(Default)]
pub(super) struct Inner {
    /// In the order of the reference.
    pub(super) tensors: Vec<ComparedTensor>,
    /// A note on the first one that is within the tolerance, but not the same on both sides.
    pub(super) differs_from: Option<String>,
}

/// Runs both models once more, with every tensor as an output, and compares those that belong
/// together. `outputs` are the models' outputs, which are paired already; with the models comes
/// what the first one's constants are called in the second.
pub(super) fn inner_tensors(
    (a, b, weights): (&Loaded, &Loaded, &HashMap<String, String>),
    sides: &Sides,
    tolerance: Tolerance,
    outputs: &[ComparedTensor],
) -> TractResult<Inner> {
    progress::tell("comparing what is inside");
    let (spread_a, spread_b) = (spread(&a.probed.proto), spread(&b.probed.proto));
    let (of_a, of_b) = (MainGraph::of(&spread_a), MainGraph::of(&spread_b));
    let known: Vec<(&str, &str)> =
        outputs.iter().map(|output| (output.name.as_str(), output.converted())).collect();
    let mut measured = MeasuredPairs::default();
    let mut looked = Looked::new(a, b);
    let last = sides.reference_sets.len().saturating_sub(1);
    for (place, (set_a, set_b)) in
        sides.reference_sets.iter().zip(&sides.converted_sets).enumerate()
    {
        let made = looked.look([&set_a.tensors()?, &set_b.tensors()?], place == last)?;
        if made.is_new {
            let (seen_a, seen_b) = (seen(&made.reference), seen(&made.converted));
            let pairs = pairs((&of_a, &seen_a), (&of_b, &seen_b), &known, weights)?;
            measured.add_pairs(pairs, &made, tolerance);
        }
        measured.add(&made)?;
    }
    let all = &mut measured.0;
    // A set may take a branch that those before it have not.
    let order: HashMap<String, usize> =
        of_a.made().into_iter().enumerate().map(|(place, name)| (name, place)).collect();
    all.sort_by_key(|(pair, _)| order.get(&pair.reference).copied());
    let finish = |(pair, metrics): (Pair, Metrics)| {
        let mut tensor = metrics.finish();
        (tensor.paired_by, tensor.confidence) = pair.how.told();
        tensor
    };
    let inner: Vec<ComparedTensor> = measured.0.into_iter().map(finish).collect();
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

fn seen(tensors: &[NamedTensor]) -> Vec<Seen<'_>> {
    tensors.iter().map(Seen::from).collect()
}

/// Pairs of inner tensors, and how far they are apart on the sets so far.
#[derive(Default)]
struct MeasuredPairs(Vec<(Pair, Metrics)>);

impl MeasuredPairs {
    /// Adds the pairs of a set that are not known from those before it.
    fn add_pairs(&mut self, pairs: Vec<Pair>, made: &Made, tolerance: Tolerance) {
        let (x, y) = (by_name(&made.reference), by_name(&made.converted));
        let before: HashSet<String> = self.0.iter().map(|(p, _)| p.reference.clone()).collect();
        for pair in pairs.into_iter().filter(|pair| !before.contains(&pair.reference)) {
            let both = x.get(&*pair.reference).zip(y.get(&*pair.converted));
            let Some((x, y)) = both else { continue };
            let is_given = tolerance != Tolerance::default();
            let tolerance = if is_given || x.ty == y.ty { tolerance } else { of_types(x, y) };
            self.0.push((pair, Metrics::new(x, y, tolerance)));
        }
    }

    /// Measures the pairs on a set.
    fn add(&mut self, made: &Made) -> TractResult<()> {
        let (x, y) = (by_name(&made.reference), by_name(&made.converted));
        let count = iterations(&self.0, (&x, &y), &made.stacked)?;
        for (pair, metrics) in &mut self.0 {
            let both = x.get(&*pair.reference).zip(y.get(&*pair.converted));
            let Some((x, y)) = both else { continue };
            let (x, y) = match made.stacked.get(&pair.reference).and_then(|scan| count.get(scan)) {
                Some(count) => (&first(x, 0, *count)?, &first(y, 0, *count)?),
                None => (*x, *y),
            };
            match pair.how {
                How::Name => metrics.add(x, y)?,
                // Another exporter may keep the same elements in another shape.
                _ => metrics.add(x, &reshaped(y, x.tensor.shape())?)?,
            }
        }
        Ok(())
    }
}

/// Two models whose inner tensors are looked at, a set at a time.
struct Looked<'a> {
    models: [&'a Loaded; 2],
    extent: Extent,
    /// Whether only values of the same name in both models are looked at.
    is_shared: bool,
    /// The branches that were taken on sets before.
    seen: Vec<[Vec<String>; 2]>,
    /// What ran on the last set, with these branches.
    ready: [Option<Ready>; 2],
    branches: [Vec<String>; 2],
}

/// The inner tensors on one set.
struct Made {
    reference: Vec<NamedTensor>,
    converted: Vec<NamedTensor>,
    /// Of the reference, as [`Opened::stacked`](bodies::Opened::stacked).
    stacked: HashMap<String, String>,
    /// Whether the set has taken branches that no set before it has.
    is_new: bool,
}

impl<'a> Looked<'a> {
    fn new(a: &'a Loaded, b: &'a Loaded) -> Looked<'a> {
        let is_flat = |loaded: &Loaded| {
            let mut nodes = loaded.probed.proto.graph.iter().flat_map(|graph| &graph.node);
            !nodes.any(has_bodies)
        };
        let extent = if is_flat(a) && is_flat(b) { Extent::Nothing } else { Extent::All };
        let (ready, branches) = Default::default();
        Looked { models: [a, b], extent, is_shared: false, seen: vec![], ready, branches }
    }

    /// All tensors that can be looked at.
    fn look(&mut self, tensors: [&Tensors; 2], is_last: bool) -> TractResult<Made> {
        let is_first = self.seen.is_empty();
        loop {
            match self.attempt(tensors, is_last) {
                // A value may be no tensor, or have another shape in each iteration, which nobody
                // can look at.
                Err(_) if is_first && self.extent != Extent::Nothing => {
                    self.extent = match self.extent {
                        Extent::All => Extent::Branches,
                        _ => Extent::Nothing,
                    };
                }
                Err(_) if is_first && !self.is_shared => self.is_shared = true,
                made => return made,
            }
        }
    }

    fn attempt(&mut self, tensors: [&Tensors; 2], is_last: bool) -> TractResult<Made> {
        let [a, b] = self.models;
        let of_a = opened(a, tensors[0], self.extent)?;
        let of_b = opened(b, tensors[1], self.extent)?;
        let branches = [of_a.branches, of_b.branches];
        let is_new = !self.seen.contains(&branches);
        if self.branches != branches {
            (self.ready, self.branches) = (Default::default(), branches.clone());
        }
        let made = |proto| -> Vec<String> { MainGraph::of(proto).made() };
        let mut exposed = [made(&of_a.proto), made(&of_b.proto)];
        if self.is_shared {
            let [all_a, all_b] = &mut exposed;
            let names: HashSet<&String> = all_b.iter().collect();
            all_a.retain(|name| names.contains(name));
            all_b.clone_from(all_a);
        }
        let [ready_a, ready_b] = &mut self.ready;
        let [names_a, names_b] = exposed;
        let run =
            |loaded: &Loaded, proto, names: &[String], tensors: &Tensors, kept: &mut Option<_>| {
                let ready = match kept.take().filter(|ready: &Ready| ready.takes(tensors)) {
                    Some(ready) => ready,
                    None => loaded.probed.exposing_in(proto, names, false)?.ready(tensors, None)?,
                };
                let outputs = ready.run(tensors.clone())?.outputs;
                // Two models at once are held only where they run again.
                *kept = Some(ready).filter(|_| !is_last);
                TractResult::Ok(outputs)
            };
        let reference = run(a, of_a.proto, &names_a, tensors[0], ready_a)?;
        let converted = run(b, of_b.proto, &names_b, tensors[1], ready_b)?;
        if is_new {
            self.seen.push(branches);
        }
        Ok(Made { reference, converted, stacked: of_a.stacked, is_new })
    }
}

type ByName<'a> = HashMap<&'a str, &'a NamedTensor>;

/// By what the values of a Scan's body share, in how many iterations they are compared: up to the
/// first in which any is beyond its tolerance. Later ones begin with a state that is wrong already.
fn iterations(
    pairs: &[(Pair, Metrics)],
    (x, y): (&ByName, &ByName),
    stacked: &HashMap<String, String>,
) -> TractResult<HashMap<String, usize>> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (pair, metrics) in pairs {
        let both = x.get(&*pair.reference).zip(y.get(&*pair.converted));
        let Some((scan, (x, y))) = stacked.get(&pair.reference).zip(both) else { continue };
        let all = x.tensor.shape().first().copied().unwrap_or(0);
        if y.tensor.shape().first() != Some(&all) {
            continue;
        }
        let most = count.get(scan).copied().unwrap_or(all);
        for place in 0..most {
            let (x, y) = (first(x, place, place + 1)?, first(y, place, place + 1)?);
            let mut metrics = Metrics::new(&x, &y, metrics.tolerance());
            metrics.add(&x, &reshaped(&y, x.tensor.shape()).unwrap_or(y))?;
            if !metrics.finish().passed {
                count.insert(scan.clone(), place + 1);
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

fn by_name(tensors: &[NamedTensor]) -> ByName<'_> {
    tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect()
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
