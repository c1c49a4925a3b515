//! `keep --to` a type of few bits: what a FLOAT model loses by each of its quantisers, and the
//! nodes to leave out of the conversion.
//!
//! - `scheme`: what is converted to what; `subject`: the FLOAT model; `calibration`: what its
//!   values reach
//! - `plan`: which tensors are quantised; `parameters`: their scales
//! - `alone`, `effects`: each quantiser by itself, and its `effect`; `simulated`: the model with
//!   all of them
//! - `given`: a model that has quantisers already

mod alone;
mod calibration;
pub(super) mod effect;
mod effects;
mod given;
mod parameters;
mod plan;
pub(super) mod scheme;
mod simulated;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use anyhow::{bail, ensure};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::TractResult;

use super::reference::{CountedRuns, Reference};
use super::search::{NodeList, Search};
use super::trial::Trial;
use crate::cli::measure::tolerance::Tolerance;
use calibration::{Span, Spans};
use effect::QuantizerEffect;
use effects::Bench;
pub(super) use given::QuantizedModel;
use parameters::Finder;
use plan::QuantizationPlan;
use scheme::Scheme;
use subject::FloatModel;

/// A FLOAT model that is to be quantised.
struct Quantised<'a> {
    subject: FloatModel<'a>,
    scheme: Scheme,
    /// The nodes that ask for quantisers.
    asking: HashSet<String>,
    /// How much noise a node's quantisers make alone, and the worst of them in words.
    noise: HashMap<String, f64>,
    words: HashMap<String, String>,
}

/// The nodes to leave out, and the effects of all quantisers.
/// Fails when the model cannot be run, or nothing of it would be quantised.
pub(super) fn node_list(
    proto: ModelProto,
    scheme: Scheme,
    mut runs: CountedRuns,
    tolerance: Tolerance,
    mut notes: Vec<String>,
) -> TractResult<NodeList> {
    let (reference, spans) = calibrated(&proto, &mut runs)?;
    if let Some(problem) = reference.problem() {
        return Ok(NodeList::none(problem, runs.count, tolerance, notes));
    }
    let subject = FloatModel::new(proto, runs.folder, spans);
    let plan = QuantizationPlan::of(&subject, &scheme, &|_| false);
    ensure!(!plan.entries.is_empty(), "the model has nothing that becomes {}", scheme.name);
    let before = runs.count;
    let (effects, note) = effects_of(&subject, &scheme, &plan, &reference, &mut runs)?;
    notes.extend(note);
    let (noise, words) = effects::by_node(&effects);
    let asking = plan.entries.iter().flat_map(|entry| &entry.by);
    let asking = asking.filter_map(|place| subject.nodes().get(*place)).map(|n| n.name.clone());
    let asking = asking.collect();
    // The search has as many runs as any.
    let spent = std::mem::replace(&mut runs.count, before) - before;
    let trial = Quantised { subject, scheme, asking, noise, words };
    let mut list = Search::new(Box::new(trial), reference, runs, tolerance, true).find(notes)?;
    list.runs += spent;
    list.quantizers = effects;
    Ok(list)
}

/// What each quantiser of a model that is quantised already does alone, on the first set.
/// Fails when the model cannot be run.
pub(super) fn ranking(
    given: &QuantizedModel,
    mut runs: CountedRuns,
    tolerance: Tolerance,
    mut notes: Vec<String>,
) -> TractResult<NodeList> {
    let Some(set) = runs.sets.first() else { bail!("there is no set of inputs") };
    let wanted = runs.run(given.without(&|_| true)?, None, set)?;
    let model = given.without(&|_| true)?;
    let with = |at: usize| given.without(&|other| other != at);
    let bench = Bench { model: &model, with: &with, set, wanted: &wanted };
    let (quantizers, note) = bench.effects(given.labelled(), &mut runs)?;
    notes.extend(note.into_iter().chain(given.note()));
    let list = NodeList::none(String::new(), runs.count, tolerance, notes);
    Ok(NodeList { problem: None, quantizers, is_quantized: true, ..list })
}

/// What the quantisers of a plan do alone, on the first set.
fn effects_of(
    subject: &FloatModel,
    scheme: &Scheme,
    plan: &QuantizationPlan,
    reference: &Reference,
    runs: &mut CountedRuns,
) -> TractResult<(Vec<QuantizerEffect>, Option<String>)> {
    let Some((set, wanted)) = runs.sets.first().zip(reference.outputs.first()) else {
        return Ok((vec![], None));
    };
    let finder = Finder::new(subject, scheme, plan, &|_| false);
    let (quantizers, entries) = effects::labelled(subject, plan, &finder)?;
    let with = |at: usize| {
        let mut alone = QuantizationPlan::default();
        alone.entries.extend(entries.get(at).cloned());
        simulated::written(subject, &alone, &finder)
    };
    Bench { model: &subject.proto, with: &with, set, wanted }.effects(quantizers, runs)
}

/// The outputs of the FLOAT model for each set, and what its values reach over all.
fn calibrated(
    proto: &ModelProto,
    runs: &mut CountedRuns,
) -> TractResult<(Reference, HashMap<String, Span>)> {
    let mut spans = Spans::default();
    let mut outputs = vec![];
    let model = runs.loader.load(&runs.onnx, proto.clone(), runs.folder)?;
    for set in runs.sets {
        runs.count_one();
        let tensors = set.tensors()?;
        for (input, tensor) in runs.takes.inputs.iter().zip(&tensors) {
            spans.see(&input.name, input.ty, tensor);
        }
        let ready = model.clone().ready(&tensors, None)?;
        outputs.push(ready.run(tensors, Some(&mut spans))?.outputs);
    }
    Ok((Reference { outputs, ..Reference::default() }, spans.seen()?))
}

impl Trial for Quantised<'_> {
    fn nodes(&self) -> &[NodeProto] {
        self.subject.nodes()
    }

    fn is_float(&self, value: &str) -> bool {
        self.subject.is_float(value)
    }

    fn is_never_converted(&self, node: &NodeProto) -> bool {
        !self.asking.contains(&node.name)
    }

    fn suspicion(&self, node: &NodeProto) -> Option<(f64, &str)> {
        let words = self.words.get(&node.name).map_or("", String::as_str);
        Some((self.noise.get(&node.name).copied().unwrap_or(0.0), words))
    }

    fn converted(&self, kept: &BTreeSet<usize>) -> TractResult<(ModelProto, Option<PathBuf>)> {
        let is_kept = |place: usize| kept.contains(&place);
        let plan = QuantizationPlan::of(&self.subject, &self.scheme, &is_kept);
        let finder = Finder::new(&self.subject, &self.scheme, &plan, &is_kept);
        Ok((simulated::written(&self.subject, &plan, &finder)?, None))
    }
}
