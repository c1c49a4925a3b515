//! The verdict that needs no tolerance: where errors arise, and whether rounding explains them.
//!
//! `trace` runs both sides node by node, `links` says which values are to be one, `walk` holds what
//! each node makes of the reference's inputs against what the reference made, `doubt` is how much of
//! the difference rounding explains, `fault` what the rest looks like, `band` how far the
//! conversion's roundings may put its outputs, and `judge` the verdict. docs/verdict.md has the
//! mathematics.

mod band;
mod doubt;
mod families;
mod fault;
mod judge;
mod links;
mod numbers;
mod quantisers;
mod regions;
mod rounds;
mod site;
mod trace;
mod twins;
mod walk;

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};
use tract_onnx_cast::{ElementType, OnnxTensor};

use super::open::{Loaded, Sides};
use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::verdict::{BothErrors, Culprit};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::input::saved::Saved;
use crate::cli::process::progress;
use crate::cli::work::spelt::spelt;
use fault::Fault;
pub(super) use judge::{Grounds, judge};
use links::{Link, Links};
use quantisers::Wrong;
use rounds::Rounds;
use site::{Site, Sites};
use trace::Trace;
use twins::{inputs_of, weights};
use walk::Walk;

/// What there is to look into.
pub(super) struct Subject<'a> {
    pub(super) sides: &'a Sides,
    pub(super) outputs: &'a [ComparedTensor],
    /// What the reference's constants are called in the conversion.
    pub(super) weights: &'a HashMap<String, String>,
    pub(super) changed: &'a [ComparedWeight],
    /// How often the conversion runs with its roundings perturbed.
    pub(super) samples: u64,
}

/// What was found inside.
#[derive(Default)]
pub(super) struct Local {
    pub(super) culprits: Vec<Culprit>,
    pub(super) errors: Vec<BothErrors>,
    pub(super) seeds: Vec<u64>,
    /// How many values inside were held against the reference's, outputs left out.
    pub(super) inside: usize,
    /// How many nodes the conversion has.
    nodes: usize,
    /// Nodes whose type does not hold what they make, the first first.
    pub(super) beyond: Vec<Culprit>,
    /// Quantisers that are wrong by themselves.
    quantisers: Vec<Wrong>,
    /// The nodes that take constants, with their operators.
    pub(super) takers: HashMap<String, (String, String)>,
    /// Where in the order of computation nodes stand.
    pub(super) places: HashMap<String, usize>,
    /// The element types in which the conversion computes and stores.
    pub(super) types: HashSet<ElementType>,
    /// Whether the tensors are those of another runtime.
    pub(super) is_saved: bool,
}

/// Looks into both sides.
///
/// # Errors
///
/// When a model cannot run node by node, or what is saved is not what it takes.
pub(super) fn look(subject: &Subject) -> TractResult<Local> {
    progress::tell("looking for where errors arise");
    let sides = subject.sides;
    match (&sides.reference.model, &sides.converted.model) {
        (Some(a), Some(b)) => of_models(subject, a, b),
        (Some(model), None) => of_saved(subject, Some(model), &sides.converted.saved),
        (None, Some(model)) => of_saved(subject, Some(model), &sides.reference.saved),
        (None, None) => of_saved(subject, None, &sides.converted.saved),
    }
}

fn interpreter(loaded: &Loaded, reference: Option<&ModelProto>) -> TractResult<Interpreter> {
    let (onnx, proto) = (loaded.probed.onnx.clone().with_probes(false), &loaded.probed.proto);
    let folder = loaded.probed.folder.as_deref();
    Ok(Interpreter::of_proto(onnx, spelt(proto, reference, folder).into_owned(), folder)?)
}

fn inputs(loaded: &Loaded, tensors: &[std::sync::Arc<Tensor>]) -> TractResult<Vec<OnnxTensor>> {
    let inputs = loaded.model.takes.inputs.iter().zip(tensors);
    inputs.map(|(input, tensor)| Ok(OnnxTensor::new(input.ty, Tensor::clone(tensor))?)).collect()
}

fn of_models(subject: &Subject, a: &Loaded, b: &Loaded) -> TractResult<Local> {
    let of_a = Some(&a.probed.proto);
    let (model_a, model_b) = (interpreter(a, None)?, interpreter(b, of_a)?);
    let outputs: Vec<(String, String)> =
        subject.outputs.iter().map(|o| (o.name.clone(), o.converted().to_owned())).collect();
    let (mut local, mut sites) = (Local::default(), Sites::default());
    let mut first: Option<(Trace, Trace, Links, HashMap<String, SharedTensor>)> = None;
    let sets = subject.sides.reference_sets.iter().zip(&subject.sides.converted_sets);
    for (set_a, set_b) in sets {
        let (given_a, given_b) = (set_a.tensors()?, set_b.tensors()?);
        let trace_a = Trace::of(&model_a, inputs(a, &given_a)?)?;
        if first.is_none() {
            let trace_b = Trace::of(&model_b, inputs(b, &given_b)?)?;
            let mut links = links::links(&trace_a, &trace_b, &outputs, subject.weights)?;
            let weights = weights(subject, &trace_a, &trace_b, &mut links);
            first = Some((Trace::default(), trace_b, links, weights));
        }
        let Some((kept, _, links, weights)) = &mut first else { continue };
        let inputs_b = inputs_of(a, b, (&given_a, &given_b));
        let run = |walk: &mut Walk| -> TractResult<()> {
            model_b.run_observed(inputs(b, &given_b)?, walk)?;
            Ok(())
        };
        let rounds = Rounds { reference: &trace_a, links, weights, inputs: inputs_b, slack: 0.0 };
        let (found, wrong) = rounds.walked(run)?;
        found.all.into_iter().for_each(|site| sites.add(site));
        local.quantisers.extend(wrong);
        if kept.nodes.is_empty() {
            *kept = trace_a;
        }
    }
    let (trace_a, trace_b, links, _) = first.context("there is a set of inputs")?;
    if let Some(set) = subject.sides.converted_sets.first() {
        let given = || inputs(b, &set.tensors()?);
        local.errors = band::both_errors(
            (&trace_a, &trace_b, &sites),
            (&model_b, &given),
            subject.samples,
            &mut local.seeds,
        )?;
    }
    let is_output = |name: &str| outputs.iter().any(|(_, output)| output == name);
    local.inside = sites.all.iter().filter(|site| !is_output(&site.converted)).count();
    (local.types, local.nodes) = (types(&trace_b), trace_b.nodes.len());
    local.explain(subject, (&trace_a, &trace_b), &links, &sites);
    Ok(local)
}

/// What another runtime has saved of a model: what each node makes of its own inputs there.
fn of_saved(subject: &Subject, model: Option<&Loaded>, dumps: &[Saved]) -> TractResult<Local> {
    let folder = |loaded: &Loaded| loaded.probed.folder.clone();
    let (proto, onnx, folder) = match model {
        Some(loaded) => (loaded.probed.proto.clone(), loaded.probed.onnx.clone(), folder(loaded)),
        None => {
            let graph: &ModelProto = subject.sides.saved_of().context("there is no model")?;
            (graph.clone(), tract_onnx_cast::onnx(), subject.sides.folder_of_graph())
        }
    };
    let model_b = Interpreter::of_proto(onnx.with_probes(false), proto, folder.as_deref())?;
    let (mut local, mut sites) = (Local { is_saved: true, ..Local::default() }, Sites::default());
    let mut last = None;
    for (place, dump) in dumps.iter().enumerate() {
        let held: Vec<(String, SharedTensor)> = dump
            .outputs()?
            .into_iter()
            .map(|tensor| (tensor.name, (tensor.ty, tensor.tensor.into())))
            .collect();
        let given = match model {
            Some(loaded) => set_inputs(loaded, subject, place)?,
            None => saved_inputs(&model_b, &held, subject)?,
        };
        let saved = Trace::of_saved(held.into_iter());
        let trace = Trace::of(&model_b, given.clone())?;
        let link = |name: &String| {
            let link = Link { reference: name.clone(), is_sure: true };
            (name.clone(), link)
        };
        let links: Links =
            saved.values.keys().filter(|name| trace.maker(name).is_some()).map(link).collect();
        let names = model_b.input_names().into_iter().map(String::from);
        let twins = names
            .zip(&given)
            .map(|(name, tensor)| (name, (tensor.element_type(), tensor.tensor().clone().into())));
        let weights = HashMap::new();
        let rounds = Rounds {
            reference: &saved,
            links: &links,
            weights: &weights,
            inputs: twins.collect(),
            slack: SAVED,
        };
        let run = |walk: &mut Walk| -> TractResult<()> {
            model_b.run_observed(given.clone(), walk)?;
            Ok(())
        };
        let (found, _) = rounds.walked(run)?;
        found.all.into_iter().for_each(|site| sites.add(site));
        last = Some((saved, trace, links));
    }
    let (saved, trace, links) = last.context("there is a set of tensors")?;
    let outputs: HashSet<&str> = model_b.output_names().into_iter().collect();
    local.inside = sites.all.iter().filter(|s| !outputs.contains(&*s.converted)).count();
    local.errors = sites.all.iter().map(|site| band::errors(site, None, None)).collect();
    (local.types, local.nodes) = (types(&trace), trace.nodes.len());
    local.explain(subject, (&saved, &trace), &links, &sites);
    Ok(local)
}

/// So many roundings at a tensor's largest value are left to the kernels of another runtime, whose
/// functions are polynomials.
const SAVED: f64 = 64.0;

/// The inputs of the side that is a model, of a set.
fn set_inputs(loaded: &Loaded, subject: &Subject, place: usize) -> TractResult<Vec<OnnxTensor>> {
    let sets = match subject.sides.reference.model {
        Some(_) => &subject.sides.reference_sets,
        None => &subject.sides.converted_sets,
    };
    inputs(loaded, &sets.get(place).context("as many sets")?.tensors()?)
}

/// The inputs of a model among tensors that were saved on either side.
fn saved_inputs(
    model: &Interpreter,
    held: &[(String, SharedTensor)],
    subject: &Subject,
) -> TractResult<Vec<OnnxTensor>> {
    let first = subject.sides.reference.saved.first().context("there are saved tensors")?;
    let others = first.outputs()?;
    let input = |name: &str| {
        if let Some((_, (ty, tensor))) = held.iter().find(|(held, _)| held == name) {
            return Ok(OnnxTensor::new(*ty, Tensor::clone(tensor))?);
        }
        let other = others.iter().find(|other| other.name == name);
        let other = other.with_context(|| format!("input `{name}` was not saved"))?;
        Ok(OnnxTensor::new(other.ty, other.tensor.clone())?)
    };
    model.input_names().into_iter().map(input).collect()
}

fn types(trace: &Trace) -> HashSet<ElementType> {
    let values = trace.values.values().flatten().chain(trace.constants.values());
    values.filter(|(_, tensor)| tensor.len() > 1).map(|(ty, _)| *ty).collect()
}

/// Doubts grow from node to node: through so many they may hide a fault.
const FEW: usize = 16;

impl Local {
    /// Whether nothing but the outputs of many nodes was looked at.
    pub(super) fn is_opaque(&self) -> bool {
        self.inside == 0 && self.nodes > FEW
    }

    /// Names the nodes to blame.
    fn explain(
        &mut self,
        subject: &Subject,
        (a, b): (&Trace, &Trace),
        links: &Links,
        sites: &Sites,
    ) {
        let Subject { weights, changed, .. } = subject;
        let fault = Fault { a, b, links, sites, weights, changed };
        let sure = sites.deviating().filter(|site| site.is_sure);
        // Of values that are not the reference's, the fault may be before the quantiser.
        let is_given = |value: &str| match sites.get(value) {
            Some(site) => site.is_replaced,
            None => b.inputs.contains(value),
        };
        let quantisers = self.quantisers.drain(..).filter(|wrong| !fault.is_cut_by_both(wrong));
        let (wrong, doubtful): (Vec<Wrong>, Vec<Wrong>) =
            quantisers.partition(|wrong| !wrong.is_cut_off || is_given(&wrong.value));
        let mut found: Vec<Culprit> = wrong.into_iter().map(|wrong| wrong.culprit).collect();
        let known: Vec<String> = found.iter().map(|held| held.node.clone()).collect();
        let is_known =
            |site: &&Site| fault.region(site).iter().any(|ran| known.contains(&ran.name));
        found.extend(sure.filter(|site| !is_known(site)).map(|site| match self.is_saved {
            true => fault.kernel(site),
            false => fault.culprit(site),
        }));
        if found.is_empty() {
            found.extend(doubtful.into_iter().map(|wrong| wrong.culprit));
        }
        for culprit in found {
            if self.culprits.iter().all(|other| other.node != culprit.node) {
                self.culprits.push(culprit);
            }
        }
        self.culprits.sort_by_key(|culprit| b.place(&culprit.tensor));
        for (place, ran) in b.nodes.iter().enumerate() {
            self.places.entry(ran.name.clone()).or_insert(place);
            for input in ran.inputs.iter().filter(|input| b.constant(input).is_some()) {
                let taker = || (ran.name.clone(), ran.op.clone());
                self.takers.entry(input.clone()).or_insert_with(taker);
            }
        }
        let beyond = sites.all.iter().filter(|site| site.broken_off + site.beyond_type > 0);
        self.beyond = beyond.map(|site| fault.beyond(site)).collect();
    }
}
