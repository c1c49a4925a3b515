//! The verdict that needs no tolerance: where errors arise, and whether rounding explains them.
//!
//! `subject` is what there is to look into, `trace` what a run of each side node by node has shown,
//! `links` says which values are to be one, `walk` holds what each node makes of the reference's
//! inputs against what the reference made, as often as `rounds` says, `doubt` is how much of the
//! difference rounding explains, `fault` what the rest looks like by what its `nodes` are, `band`
//! how far the conversion's roundings may put its outputs, and `judge` the verdict. `exact_inputs`
//! and `reference_weights` are what inputs and weights of the conversion are roundings of, `site`
//! is what was found at a value, whose elements `numbers` has, and `quantizers` looks at what makes
//! codes.
//!
//! A conversion is broken where an element, or all of a tensor together, is beyond what its own
//! arithmetic and twice its doubt explain (`walk`, `Site::deviates`), where a value has another
//! number of elements, a weight or a quantiser is wrong by itself, a sum is missing, or where it
//! does not run. docs/verdict.md has the mathematics.

mod band;
mod doubt;
mod exact_inputs;
mod fault;
mod judge;
mod links;
mod nodes;
mod numbers;
mod quantizers;
mod reference_weights;
mod rounds;
mod site;
mod subject;
mod trace;
mod walk;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use anyhow::Context;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::{Interpreter, SharedTensor};
use tract_onnx_cast::{ElementType, OnnxTensor};

use super::open::{LoadedModel, Sides};
use crate::cli::found::verdict::{BothErrors, Culprit};
use crate::cli::found::weights::ComparedWeight;
use crate::cli::input::sets::Provenance;
use crate::cli::message::single_line;
use crate::cli::progress;
use crate::cli::work::engine::ProgressObserver;
use crate::cli::work::spelt::makes_the_same;
use band::Band;
use exact_inputs::{inputs_of, other_inputs, saved_inputs, set_inputs};
use fault::Fault;
pub(super) use judge::{Grounds, judge};
use links::{Link, Links, links};
use nodes::region;
use quantizers::Wrong;
use reference_weights::ReferenceWeights;
use rounds::{Rounds, Walked};
use site::{Site, Sites};
pub(super) use subject::Subject;
pub(super) use trace::{Trace, Traces};
use walk::Walk;
use walk::moved::{Moved, Search, WeightSources};
use walk::own::OwnRounding;

/// What was found inside.
#[derive(Default)]
pub(super) struct Local {
    pub(super) culprits: Vec<Culprit>,
    pub(super) errors: Vec<BothErrors>,
    pub(super) seeds: Vec<u64>,
    /// How many values inside were held against the reference's, outputs left out.
    pub(super) inside: usize,
    /// Whether an output is made of many nodes.
    is_deep: bool,
    /// Nodes whose type does not hold what they make, the first first.
    pub(super) beyond: Vec<Culprit>,
    /// Whether the first of these cut off what inputs make that nobody gave.
    pub(super) cuts_made_up: bool,
    /// Quantisers that are wrong by themselves.
    quantizers: Vec<Wrong>,
    /// Constants of the reference that those of their names do not stand for.
    pub(super) strangers: HashSet<String>,
    /// The nodes that take constants, with their operators.
    pub(super) takers: HashMap<String, (String, String)>,
    /// The weights of the reference that are others as channels were moved, and right.
    pub(super) moved: HashSet<String>,
    /// Where in the order of computation nodes stand.
    pub(super) places: HashMap<String, usize>,
    /// The element types in which the models compute and store.
    pub(super) types: HashSet<ElementType>,
    /// Whether the tensors are those of another runtime.
    pub(super) is_saved: bool,
    /// Of these tensors, inputs that are not those that they were saved with, or of which nobody
    /// knows that they are.
    others: HashMap<String, &'static str>,
    /// A tensor that was made of such inputs there, in words.
    pub(super) is_of_others: Option<String>,
}

/// What is told of the runs that the verdict takes.
pub(super) const LOOKING: &str = "looking for where errors arise";

/// The same of a walk, of which there were so many before.
fn next_walk(walks: &Cell<usize>) -> String {
    match walks.replace(walks.get() + 1) {
        0 => LOOKING.into(),
        before => format!("{LOOKING}, walk {}", before + 1),
    }
}

/// Two models that are looked into, a set at a time.
pub(super) struct LocalComparison<'a> {
    subject: Subject<'a>,
    sides: (&'a LoadedModel, &'a LoadedModel),
    /// The conversion.
    model: Interpreter,
    /// The reference, where it has products of codes: what the model itself has shown is then not
    /// what is looked into.
    reference: Option<Rc<Interpreter>>,
    /// Whether the conversion has products of codes.
    is_spelt: bool,
    local: Local,
    sites: Sites,
    first: Option<First<'a>>,
    /// How often the conversion was walked through.
    walks: Cell<usize>,
}

/// What the first set has shown.
struct First<'a> {
    traces: Rc<Traces>,
    links: Links,
    weights: ReferenceWeights<'a>,
    /// What was found to be moved.
    moved: Rc<Moved>,
    /// Of the first set.
    band: Option<Band>,
}

impl<'a> LocalComparison<'a> {
    pub(super) fn of(
        subject: &'a Subject<'a>,
        sides: (&'a LoadedModel, &'a LoadedModel),
    ) -> TractResult<LocalComparison<'a>> {
        progress::tell(LOOKING);
        let of_reference = sides.0.spelt_out(None)?;
        let spelt = sides.1.spelt_out(Some(&sides.0.probed.proto))?;
        let is_spelt = spelt.is_some();
        // Codes that came out a byte each are no wider for that.
        let unpacked = of_reference.iter().chain(&spelt).flat_map(|(_, unpacked)| unpacked);
        let types = unpacked.map(|(_, ty)| *ty).collect();
        let reference = of_reference.map(|(model, _)| Rc::new(model));
        let model = spelt.map_or_else(|| sides.1.interpreter(), |(model, _)| Ok(model))?;
        let (local, sites) = (Local { types, ..Local::default() }, Sites::default());
        Ok(LocalComparison {
            subject: subject.clone(),
            sides,
            model,
            reference,
            is_spelt,
            local,
            sites,
            first: None,
            walks: Cell::new(0),
        })
    }

    /// Looks into what both models have made of the set at a place.
    /// Fails when the conversion does not run on what the reference has made.
    pub(super) fn add(&mut self, place: usize, traces: Rc<Traces>) -> TractResult<()> {
        let Sides { reference_sets, converted_sets, .. } = self.subject.sides;
        let sets = reference_sets.get(place).zip(converted_sets.get(place));
        let (set_a, set_b) = sets.context("as many sets on both sides")?;
        let ((a, b), given_a, given_b) = (self.sides, set_a.tensors()?, set_b.tensors()?);
        let inputs_b = inputs_of(a, b, (&given_a, &given_b));
        let given = || b.inputs(&given_b);
        let traces = self.written_out(&traces, (a.inputs(&given_a)?, given()?))?;
        let first = match self.first.take() {
            Some(first) => first,
            None => self.linked(&traces)?,
        };
        let Traces { sides: (trace_a, trace_b), .. } = &*traces;
        let at_once =
            b.probed.loader.runs_at_once([&a.probed.proto, &b.probed.proto], trace_b.bytes());
        let run = |walk: &mut Walk| -> TractResult<()> {
            let what = next_walk(&self.walks);
            let mut told = ProgressObserver::of(walk, &what, trace_b.nodes.len());
            Ok(self.model.run_observed(given()?, &mut told).map(drop)?)
        };
        let First { links, weights, moved, band, .. } = self.first.insert(first);
        let run_reference = &|own: &mut OwnRounding| -> TractResult<()> {
            let given = a.inputs(&given_a)?;
            match &self.reference {
                Some(spelt) => spelt.run_observed(given, own)?,
                None => a.interpreter()?.run_observed(given, own)?,
            };
            Ok(())
        };
        let mut rounds = Rounds::of(trace_a, (links, weights), inputs_b, run_reference);
        let Subject { weights: names, changed, .. } = &self.subject;
        let sources = WeightSources { model: &self.model, names, changed, held: weights };
        rounds.search = Some(Search::of(&traces, links, sources));
        rounds.moved = moved.clone();
        let walked = || rounds.walked(run);
        let found = if band.is_some() {
            walked()?
        } else {
            let (walked, found, seeds) =
                self.subject.with_band((&self.model, given()?), &traces, at_once, walked)?;
            (*band, self.local.seeds) = (Some(found), seeds);
            walked
        };
        let Walked { sites, mut wrong, links: others, moved: found } = found;
        if matches!(set_a.provenance, Provenance::Random { .. }) {
            quantizers::say_made_up(&mut wrong, &self.subject.sides.holding);
        }
        others.into_iter().for_each(|others| *links = others);
        found.into_iter().for_each(|found| *moved = found);
        sites.all.into_iter().for_each(|site| self.sites.add(site));
        self.local.quantizers.extend(wrong);
        Ok(())
    }

    /// What belongs together, by what both models have made of the first set. Fails when a weight
    /// cannot be read.
    fn linked(&mut self, traces: &Rc<Traces>) -> TractResult<First<'a>> {
        let Traces { sides: (trace_a, trace_b), outputs } = &**traces;
        let (a, _) = self.sides;
        let constants = (&self.subject.weights, &self.subject.changed);
        let (mut links, found) = links(trace_a, trace_b, outputs, constants)?;
        self.subject.correct(found);
        let of_reference = match &self.reference {
            None if !trace_a.computed.is_empty() => Some(Rc::new(a.interpreter()?)),
            spelt => spelt.clone(),
        };
        let (both, holder) =
            ((&**trace_a, &**trace_b, of_reference, &self.model), a.probed.holder());
        let weights = ReferenceWeights::of(&self.subject, holder, both, &mut links)?;
        Ok(First { traces: traces.clone(), links, weights, moved: Rc::default(), band: None })
    }

    /// What the two sides do with their products of codes written out, given what they have done
    /// and their inputs. Fails when one does not run so.
    fn written_out(
        &self,
        traces: &Traces,
        (given_a, given_b): (Vec<OnnxTensor>, Vec<OnnxTensor>),
    ) -> TractResult<Rc<Traces>> {
        let Traces { sides: (trace_a, trace_b), outputs } = traces;
        let trace_a = match &self.reference {
            None => trace_a.clone(),
            Some(reference) => Rc::new(Trace::of(reference, given_a)?),
        };
        let trace_b = if !self.is_spelt {
            trace_b.clone()
        } else if makes_the_same(&self.sides.1.probed.proto) {
            Rc::new(Trace::beside(&self.model, given_b, trace_b)?)
        } else {
            Rc::new(Trace::of(&self.model, given_b)?)
        };
        Ok(Rc::new(Traces { sides: (trace_a, trace_b), outputs: outputs.clone() }))
    }

    /// What was found; `changed` are the weights of other values.
    pub(super) fn finish(self, changed: &[ComparedWeight]) -> Local {
        let LocalComparison { mut local, sites, first, subject, model, .. } = self;
        let Some(First { traces, links, band, moved, weights: held }) = first else {
            return local;
        };
        local.moved = moved.weights().cloned().collect();
        let Traces { sides: (a, b), outputs } = &*traces;
        local.errors = band::both_errors((a, b, &sites), &band.unwrap_or_default());
        let is_output = |name: &str| outputs.iter().any(|(_, output)| output == name);
        local.inside = sites.all.iter().filter(|site| !is_output(&site.converted)).count();
        // A conversion to a wider type is as coarse as what it stands for.
        local.types.extend(a.types().chain(b.types()));
        local.is_deep = local.inside == 0
            && outputs.iter().any(|(_, output)| region(b, output, is_output).len() > FEW);
        let (weights, has_names) = (&subject.weights, subject.has_names);
        let is_told = |weight: &&ComparedWeight| !subject.strangers.contains(&weight.name);
        let changed = &*changed.iter().filter(is_told).cloned().collect::<Vec<_>>();
        let (links, sites, held) = (&links, &sites, &held);
        let model = &model;
        let replaced = sites.replaced();
        let fault =
            Fault { a, b, model, has_names, links, sites, replaced, held, weights, changed };
        local.blame(&fault);
        local.strangers = subject.strangers;
        local
    }
}

/// What another runtime has saved of a model: what each node makes of its own inputs there.
/// Fails when the model does not run node by node, or what is saved is not what it takes.
pub(super) fn of_saved(subject: &Subject) -> TractResult<Local> {
    progress::tell(LOOKING);
    let Sides { reference, converted, .. } = subject.sides;
    let (model, dumps) = match (&reference.model, &converted.model) {
        (None, Some(model)) => (Some(model), &reference.saved),
        (model, _) => (model.as_ref(), &converted.saved),
    };
    let model_b = model.map_or_else(|| of_graph(subject), LoadedModel::interpreter)?;
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
        local.others.extend(other_inputs(subject, &model_b, (&given, &held), place));
        let saved = Trace::of_saved(held.into_iter());
        let trace = Trace::of(&model_b, given.clone())?;
        let link = |name: &String| (name.clone(), Link { reference: name.clone(), is_sure: true });
        let links: Links =
            saved.values.keys().filter(|name| trace.maker(name).is_some()).map(link).collect();
        let shared = |tensor: &OnnxTensor| (tensor.element_type(), tensor.tensor().clone().into());
        let names = model_b.input_names().into_iter().map(String::from);
        let weights = ReferenceWeights::default();
        let inputs = names.zip(given.iter().map(shared)).collect();
        let mut rounds = Rounds::of(&saved, (&links, &weights), inputs, &|_| Ok(()));
        rounds.slack = SAVED;
        let run = |walk: &mut Walk| -> TractResult<()> {
            model_b.run_observed(given.clone(), walk)?;
            Ok(())
        };
        let Walked { sites: found, .. } = rounds.walked(run)?;
        found.all.into_iter().for_each(|site| sites.add(site));
        last = Some((saved, trace, links));
    }
    let (saved, trace, links) = last.context("there is a set of tensors")?;
    let outputs: HashSet<&str> = model_b.output_names().into_iter().collect();
    local.inside = sites.all.iter().filter(|s| !outputs.contains(&*s.converted)).count();
    local.errors = sites.all.iter().map(|site| band::errors(site, None, None)).collect();
    local.types = trace.types().collect();
    let is_output = |name: &str| outputs.contains(name);
    local.is_deep = local.inside == 0
        && outputs.iter().any(|output| region(&trace, output, is_output).len() > FEW);
    let (links, weights) = (&links, &subject.weights);
    let (held, sites, changed) = (&ReferenceWeights::default(), &sites, &[]);
    let (model, has_names) = (&model_b, true);
    let (a, b) = (&saved, &trace);
    let replaced = sites.replaced();
    let fault = Fault { a, b, model, has_names, links, sites, replaced, held, weights, changed };
    local.blame(&fault);
    Ok(local)
}

/// The model that tensors were saved of, where only its graph was given.
fn of_graph(subject: &Subject) -> TractResult<Interpreter> {
    let graph: &ModelProto = subject.sides.saved_of().context("there is no model")?;
    let (onnx, folder) = (tract_onnx_cast::onnx(), subject.sides.folder_of_graph());
    Ok(Interpreter::of_proto(onnx, graph.clone(), folder.as_deref())?)
}

/// How many roundings, at a tensor's largest value, the kernels of another runtime are allowed,
/// whose functions are polynomials.
const SAVED: f64 = 64.0;

/// Doubts grow from node to node: through more nodes than this they may hide a fault.
const FEW: usize = 16;

impl Local {
    /// Whether nothing but the outputs was looked at, and one of them is made of many nodes.
    pub(super) fn is_opaque(&self) -> bool {
        self.inside == 0 && self.is_deep
    }

    /// That a site is made of inputs that may not be those that it was saved with, in words.
    fn of_others(&self, fault: &Fault, site: &Site) -> Option<String> {
        let region = fault.region(site);
        let mut inputs = region.iter().flat_map(|ran| &ran.inputs);
        let (input, why) = inputs.find_map(|input| self.others.get_key_value(input))?;
        let made = single_line(&site.converted);
        Some(format!("`{made}` was saved with other inputs: `{}` {why}", single_line(input)))
    }

    /// Names the nodes to blame.
    fn blame(&mut self, fault: &Fault) {
        let Fault { b, sites, .. } = fault;
        let sure = sites.deviating().filter(|s| s.is_sure);
        // Of values that are not the reference's, the fault may be before the quantiser.
        let is_given = |value: &str| match sites.get(value) {
            Some(site) => site.is_replaced,
            None => b.inputs.contains(value),
        };
        let quantizers = self.quantizers.drain(..).filter(|wrong| !fault.is_cut_by_both(wrong));
        let (made_up, quantizers): (Vec<_>, Vec<_>) = quantizers.partition(|w| w.is_made_up);
        let is_sure = |wrong: &Wrong| !wrong.is_cut_off || is_given(&wrong.value);
        let (wrong, doubtful): (Vec<_>, Vec<_>) = quantizers.into_iter().partition(is_sure);
        let mut found: Vec<Culprit> = wrong.into_iter().map(|wrong| wrong.culprit).collect();
        let beyond = made_up.iter().map(|wrong| &wrong.culprit);
        let known = found.iter().chain(beyond);
        let known: HashSet<String> = known.map(|held| held.node.clone()).collect();
        let is_known =
            |site: &&Site| fault.region(site).iter().any(|ran| known.contains(&ran.name));
        for site in sure.filter(|site| !is_known(site)) {
            if let Some(others) = self.of_others(fault, site) {
                self.is_of_others.get_or_insert(others);
                continue;
            }
            found.push(if self.is_saved { fault.kernel(site) } else { fault.culprit(site) });
        }
        found.extend(sites.all.iter().filter_map(|site| fault.missing_sum(site)));
        if found.is_empty() {
            found.extend(doubtful.into_iter().map(|wrong| fault.before(wrong)));
            found.extend(quantizers::biases(b));
        }
        let named = self.culprits.iter().map(|culprit| culprit.node.clone());
        let mut named: HashSet<String> = named.collect();
        found.retain(|culprit| named.insert(culprit.node.clone()));
        self.culprits.extend(found);
        self.culprits.sort_by_key(|culprit| b.place(&culprit.tensor));
        self.culprits = judge::once(std::mem::take(&mut self.culprits), b);
        let weights: HashSet<&String> = fault.weights.values().collect();
        for (place, ran) in b.nodes.iter().enumerate() {
            self.places.entry(ran.name.clone()).or_insert(place);
            let is_weight = |input: &&String| b.is_constant(input) || weights.contains(*input);
            for input in ran.inputs.iter().filter(is_weight) {
                let taker = || (ran.name.clone(), ran.op.clone());
                self.takers.entry(input.clone()).or_insert_with(taker);
            }
        }
        let beyond = sites.all.iter().filter(|site| site.broken_off + site.beyond_type > 0);
        self.cuts_made_up = !made_up.is_empty();
        self.beyond = made_up.into_iter().map(|wrong| wrong.culprit).collect();
        self.beyond.extend(beyond.map(|site| fault.beyond(site)));
    }
}
