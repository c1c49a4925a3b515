//! Parts of one model, for a command to fail on: the fewest nodes, by delta debugging from both
//! ends.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use onnx_cast_graph::{NodeId, Origin, Table, Use, ValueId};
use tract_onnx::prelude::*;
use tract_onnx_cast::CastOnnx;

use super::case::{MODEL, SET, write_into};
use super::part::{Part, declare_outputs, exported};
use super::side::{self, SourceModel};
use super::trial::{Attempts, PartTrial, Runs};
use super::values::{Values, by_name};
use crate::cli::process::command::{Check, Ended};
use crate::cli::tensor::NamedTensor;

/// A model whose parts a command is run on.
pub(super) struct CheckedModel {
    pub(super) side: SourceModel,
    /// What it takes, and as far as it can be run what it computes.
    pub(super) values: Values,
    fixed: Table<ValueId, ()>,
}

/// Whether a command fails on a part as it does on the whole.
pub(super) struct CheckTrial<'a> {
    pub(super) check: &'a Check,
    /// What became of it on the whole model.
    pub(super) whole: Ended,
    /// Where parts are written.
    pub(super) scratch: PathBuf,
    pub(super) runs: Runs,
    /// What runs parts here, if it can run the whole: a part that it cannot run is none.
    pub(super) onnx: Option<CastOnnx>,
}

impl PartTrial for CheckTrial<'_> {
    fn shown(&mut self, mut part: Part) -> TractResult<Option<Part>> {
        if let Some(onnx) = self.onnx.as_ref().filter(|_| part.outputs.is_empty()) {
            let values = by_name(part.inputs.clone());
            match side::run(onnx, part.model.clone(), None, &values) {
                Ok(outputs) => part.outputs = outputs,
                Err(_) => return Ok(None),
            }
        }
        self.runs.count(part.nodes());
        declare_outputs(&mut part.model, &part.outputs);
        write_into(&part, &self.scratch)?;
        let ended = self.check.run(&self.scratch.join(MODEL), &self.scratch.join(SET))?;
        let is_shown = self.check.is_shown(&ended, Some(&self.whole));
        std::fs::remove_dir_all(self.scratch.join(SET))?;
        Ok(is_shown.then_some(part))
    }

    fn runs(&self) -> &Runs {
        &self.runs
    }
}

impl CheckTrial<'_> {
    /// How long a command may take that is known to take so long on the whole.
    pub(super) fn seconds(took: Duration) -> u64 {
        const ALWAYS: u64 = 10;
        ALWAYS + 5 * took.as_secs()
    }
}

impl CheckedModel {
    /// A model with the values that were recorded of it.
    pub(super) fn of(side: SourceModel, values: Values) -> CheckedModel {
        let fixed = side.fixed();
        CheckedModel { side, values, fixed }
    }

    /// The part of these nodes. What others make is given, what is made and used by none of them is
    /// returned. Fails when a value that is to be given was not recorded.
    fn part(&self, nodes: &[NodeId]) -> TractResult<Part> {
        let graph = &self.side.graph;
        let inside: HashSet<NodeId> = nodes.iter().copied().collect();
        let made: Vec<ValueId> =
            nodes.iter().flat_map(|id| graph.node(*id).outputs()).flatten().copied().collect();
        let is_made: HashSet<ValueId> = made.iter().copied().collect();
        let mut given: Vec<(ValueId, &NamedTensor)> = vec![];
        let mut seen = HashSet::new();
        for value in nodes.iter().flat_map(|id| graph.needs(*id)) {
            let is_open = !is_made.contains(&value) && !graph.value(value).is_constant();
            if is_open && seen.insert(value) {
                given.push((value, self.value(value)?));
            }
        }
        let is_end = |value: &ValueId| {
            let mut uses = graph.value(*value).uses();
            let is_outside = |used: Use| match graph.user_in(used, graph.main()) {
                Some(node) => !inside.contains(&node),
                None => true,
            };
            let is_output = graph.value(*value).is_output();
            uses.len() > 0 && (is_output || uses.all(is_outside))
        };
        let ends = made.iter().filter(|value| is_end(value));
        let wanted: Vec<(ValueId, Option<&NamedTensor>)> =
            ends.map(|value| (*value, self.value(*value).ok())).collect();
        let outputs = wanted.iter().map(|(_, tensor)| tensor.cloned());
        // Where one is not known, none is.
        let outputs = outputs.collect::<Option<Vec<NamedTensor>>>().unwrap_or_default();
        let (part, stands) = self.side.part(&given, &wanted, &self.fixed)?;
        let tensors = given.into_iter().map(|(_, tensor)| tensor);
        let stands: HashMap<ValueId, &NamedTensor> = stands.into_iter().zip(tensors).collect();
        let main = part.body(part.main());
        let is_open = |id: &&ValueId| matches!(part.value(**id).origin(), Origin::Input);
        let input = |id: &ValueId| {
            let name = part.value(*id).name.to_string();
            let tensor = *stands.get(id).with_context(|| format!("`{name}` is not given"))?;
            TractResult::Ok(NamedTensor { name, ..tensor.clone() })
        };
        let inputs = main.inputs().iter().filter(is_open).map(input).collect::<TractResult<_>>()?;
        let model = exported(part, self.side.folder.as_deref())?;
        Ok(Part { model, reference: None, inputs, outputs, added: String::new() })
    }

    fn value(&self, value: ValueId) -> TractResult<&NamedTensor> {
        let name = self.side.name(value);
        self.values.get(name).ok_or_else(|| anyhow::anyhow!("`{name}` was not recorded"))
    }

    /// The fewest nodes that show it, as far as the runs go; nothing where the whole, with its
    /// functions in place, does not show it. Fails as [`Attempts::shown`] does.
    pub(super) fn reduced(&self, attempts: &mut Attempts) -> TractResult<Option<Part>> {
        let all = self.side.nodes();
        let mut search = NodeSearch { one: self, attempts, best: None };
        if !search.shows(&all)? {
            return Ok(None);
        }
        let nodes = search.first(all)?;
        let nodes = search.ancestors(nodes)?;
        let nodes = search.last(nodes)?;
        search.fewer(nodes)?;
        Ok(search.best)
    }
}

/// A search for fewer nodes.
struct NodeSearch<'a, 's> {
    one: &'a CheckedModel,
    attempts: &'a mut Attempts<'s>,
    /// The smallest part so far.
    best: Option<Part>,
}

impl NodeSearch<'_, '_> {
    /// Whether the part of these nodes shows it; a part that cannot be made does not.
    fn shows(&mut self, nodes: &[NodeId]) -> TractResult<bool> {
        let Ok(part) = self.one.part(nodes) else { return Ok(false) };
        let Some(shown) = self.attempts.shown(part)? else { return Ok(false) };
        self.best = Some(shown);
        Ok(true)
    }

    /// The first nodes that show it: their number is halved, the last of them is needed.
    fn first(&mut self, all: Vec<NodeId>) -> TractResult<Vec<NodeId>> {
        let (mut none, mut some) = (0, all.len());
        while none + 1 < some && self.attempts.left() > 0 {
            let half = (none + some) / 2;
            let (start, _) = all.split_at(half);
            if self.shows(start)? { some = half } else { none = half }
        }
        Ok(all.into_iter().take(some).collect())
    }

    /// The last node alone, or else it and what it is made of.
    fn ancestors(&mut self, nodes: Vec<NodeId>) -> TractResult<Vec<NodeId>> {
        let Some(last) = nodes.last().copied() else { return Ok(nodes) };
        if nodes.len() > 1 && self.shows(&[last])? {
            return Ok(vec![last]);
        }
        let graph = &self.one.side.graph;
        let mut needed = HashSet::from([last]);
        for id in nodes.iter().rev() {
            if needed.contains(id) {
                needed.extend(graph.needs(*id).into_iter().filter_map(|value| graph.maker(value)));
            }
        }
        let fewer: Vec<NodeId> = nodes.iter().copied().filter(|id| needed.contains(id)).collect();
        if fewer.len() < nodes.len() && self.shows(&fewer)? {
            return Ok(fewer);
        }
        Ok(nodes)
    }

    /// The last of the nodes that show it.
    fn last(&mut self, nodes: Vec<NodeId>) -> TractResult<Vec<NodeId>> {
        let (mut all, mut none) = (0, nodes.len());
        // The last alone was tried.
        while all + 2 < none && self.attempts.left() > 0 {
            let half = (all + none) / 2;
            let (_, end) = nodes.split_at(half);
            if self.shows(end)? { all = half } else { none = half }
        }
        Ok(nodes.into_iter().skip(all).collect())
    }

    /// Leaves out pieces of what is left, smaller and smaller ones.
    fn fewer(&mut self, mut nodes: Vec<NodeId>) -> TractResult<()> {
        // What is left is for shapes.
        const KEPT: usize = 6;
        let mut length = nodes.len().div_ceil(2);
        while length > 0 && nodes.len() > 1 {
            let mut start = 0;
            while start < nodes.len() && nodes.len() > 1 {
                if self.attempts.left() <= KEPT {
                    return Ok(());
                }
                let end = (start + length).min(nodes.len());
                let rest: Vec<NodeId> =
                    nodes.iter().take(start).chain(nodes.iter().skip(end)).copied().collect();
                if !rest.is_empty() && self.shows(&rest)? {
                    nodes = rest;
                } else {
                    start = end;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
        Ok(())
    }
}
