//! Inner tensors that another runtime has saved.

use std::collections::{HashMap, HashSet};

use anyhow::ensure;
use tract_onnx::prelude::*;

use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::limits::ToleranceLimits;
use crate::cli::measure::metrics::Metrics;
use crate::cli::message::{ProblemKind, ReportedProblem, add_once, counted, listed, quoted};
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::compare::open::{Side, Sides};
use crate::cli::work::main_graph::MainGraph;

/// How many names stand in a note.
const NAMED: usize = 5;

/// The saved tensors that are no outputs, compared a set at a time.
pub(super) struct Dumped {
    /// The outputs and the inputs of the model, where there is one.
    outputs: Option<HashSet<String>>,
    inputs: HashSet<String>,
    /// The places of the model's values in the order of computation.
    order: HashMap<String, usize>,
    /// Whether both sides were saved.
    is_all_saved: bool,
    /// In the order in which they were met.
    names: Vec<String>,
    metrics: HashMap<String, Metrics>,
}

impl Dumped {
    pub(super) fn of(sides: &Sides) -> Dumped {
        let is_saved = |side: &Side| side.model.is_none();
        let graph = sides.saved_of().map(MainGraph::of);
        let outputs =
            graph.as_ref().map(|graph| graph.outputs().into_iter().map(String::from).collect());
        let inputs = graph.as_ref().map(|graph| graph.inputs().map(String::from).collect());
        let made = graph.map(|graph| graph.made()).unwrap_or_default();
        let order = made.into_iter().enumerate().map(|(place, name)| (name, place)).collect();
        let inputs = inputs.unwrap_or_default();
        let is_all_saved = is_saved(&sides.reference) && is_saved(&sides.converted);
        Dumped { outputs, inputs, order, is_all_saved, names: vec![], metrics: HashMap::new() }
    }

    /// Compares what is no output, and hands back the outputs of both sides.
    /// Fails when a tensor is not of its type's carrier.
    pub(super) fn add(
        &mut self,
        mut reference: Vec<NamedTensor>,
        mut converted: Vec<NamedTensor>,
        limits: &ToleranceLimits,
        notes: &mut Vec<String>,
    ) -> TractResult<(Vec<NamedTensor>, Vec<NamedTensor>)> {
        if self.is_all_saved {
            (reference, converted) = self.shared(reference, converted, limits, notes);
        }
        let Some(outputs) = &self.outputs else { return Ok((reference, converted)) };
        let is_made = |tensor: &NamedTensor| self.order.contains_key(&tensor.name);
        let is_foreign = self.is_all_saved && !reference.iter().any(is_made);
        let message = "--graph: the model makes none of the saved tensors".into();
        ensure!(!is_foreign, ReportedProblem { kind: ProblemKind::Call, message });
        let has_output =
            |side: &[NamedTensor]| side.iter().any(|tensor| outputs.contains(&tensor.name));
        if !has_output(&reference) || !has_output(&converted) {
            // The other runtime may call its outputs something else.
            return Ok((reference, converted));
        }
        let is_output = |tensor: &NamedTensor| outputs.contains(&tensor.name);
        let (outputs_a, inner_a): (Vec<_>, Vec<_>) = reference.into_iter().partition(is_output);
        let (outputs_b, inner_b): (Vec<_>, Vec<_>) = converted.into_iter().partition(is_output);
        let by_name: HashMap<&str, &NamedTensor> =
            inner_b.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
        for x in &inner_a {
            let Some(y) = by_name.get(x.name.as_str()) else { continue };
            let metrics = self.metrics.entry(x.name.clone()).or_insert_with(|| {
                self.names.push(x.name.clone());
                Metrics::new(x, y, limits.inner())
            });
            metrics.add(x, y)?;
        }
        let all = inner_a.iter().chain(&inner_b).map(|tensor| tensor.name.as_str());
        let is_alone =
            |name: &&str| !self.metrics.contains_key(*name) && !self.inputs.contains(*name);
        let because = "the main graph makes no value of that name";
        add_once(notes, left_out(&all.filter(is_alone).collect::<Vec<_>>(), because));
        Ok((outputs_a, outputs_b))
    }

    /// Of tensors that were saved on both sides, those of a name in common. What the converted side
    /// lacks is a difference.
    fn shared(
        &mut self,
        mut reference: Vec<NamedTensor>,
        mut converted: Vec<NamedTensor>,
        limits: &ToleranceLimits,
        notes: &mut Vec<String>,
    ) -> (Vec<NamedTensor>, Vec<NamedTensor>) {
        let names = |side: &[NamedTensor]| -> HashSet<String> {
            side.iter().map(|tensor| tensor.name.clone()).collect()
        };
        let (a, b) = (names(&reference), names(&converted));
        if a.is_disjoint(&b) || (a.len() == b.len() && a == b) {
            return (reference, converted);
        }
        for missing in reference.extract_if(.., |tensor| !b.contains(&tensor.name)) {
            self.metrics.entry(missing.name.clone()).or_insert_with(|| {
                self.names.push(missing.name.clone());
                let mut metrics = Metrics::new(&missing, &missing, limits.inner());
                metrics.refuse("the converted side has no tensor of that name".into());
                metrics
            });
        }
        let further = converted.extract_if(.., |tensor| !a.contains(&tensor.name));
        let further: Vec<NamedTensor> = further.collect();
        let further: Vec<&str> = further.iter().map(|tensor| tensor.name.as_str()).collect();
        add_once(notes, left_out(&further, "the reference has none of that name"));
        (reference, converted)
    }

    /// In the order of computation; of saved tensors alone, in that of the reference.
    pub(super) fn finish(mut self) -> Vec<ComparedTensor> {
        let mut names = self.names;
        names.sort_by_key(|name| self.order.get(name));
        names.iter().filter_map(|name| Some(self.metrics.remove(name)?.finish())).collect()
    }
}

/// A note on saved tensors that nothing is compared with, if there are any.
fn left_out(names: &[&str], because: &str) -> Option<String> {
    let (count, named) = (names.len(), listed(names.iter().map(|name| quoted(name)), NAMED));
    let text = format!("{} not compared, for {because}: {named}", counted(count, "saved tensor"));
    (count > 0).then_some(text)
}
