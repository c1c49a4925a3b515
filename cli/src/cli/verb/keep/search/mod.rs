//! The search for the smallest list: simulated conversions that keep fewer and fewer nodes,
//! counted; and then for what overflows with it.

mod overflow;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;

use super::minimal::minimal;
use super::quantized::effect::QuantizerEffect;
use super::reference::{CountedRuns, RUNS, Reference, exposing};
use super::suspects::{Broken, add_broken, jumps};
use super::trial::{Trial, named};
use crate::cli::measure::metrics::compared;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{counted, listed, quoted, single_line};
use crate::cli::tensor::NamedTensor;

/// What was found.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct NodeList {
    pub(crate) keep: Vec<ListedNode>,
    /// How often the model was run.
    pub(crate) runs: usize,
    /// Whether the simulated conversion passes with the list, and fails with any one node less.
    pub(crate) confirmed: bool,
    /// What outputs were judged by.
    pub(crate) tolerance: Tolerance,
    /// Why there is no list.
    pub(crate) problem: Option<String>,
    pub(crate) notes: Vec<String>,
    /// What each quantiser does alone, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) quantizers: Vec<QuantizerEffect>,
    /// Whether the model is quantised already, and no list was searched for.
    #[serde(default, rename = "quantized")]
    pub(crate) is_quantized: bool,
}

/// A node to keep in FLOAT.
#[derive(Serialize, Deserialize)]
pub(crate) struct ListedNode {
    pub(crate) node: String,
    pub(crate) op_type: String,
    pub(crate) why: String,
    /// Whether the conversion has been seen to fail where it alone is not kept.
    pub(crate) needed: bool,
}

impl NodeList {
    pub(crate) fn none(
        problem: String,
        runs: usize,
        tolerance: Tolerance,
        notes: Vec<String>,
    ) -> NodeList {
        let problem = Some(problem);
        NodeList { runs, tolerance, problem, notes, ..NodeList::default() }
    }
}

/// The search for the smallest list.
pub(crate) struct Search<'a> {
    original: Box<dyn Trial + 'a>,
    reference: Reference,
    runs: CountedRuns<'a>,
    tolerance: Tolerance,
    /// What is wrong with a conversion that keeps these nodes; nothing if it passes.
    seen: HashMap<BTreeSet<usize>, Option<String>>,
    /// The values of such a conversion that are not finite, as far as they were looked at.
    broken: HashMap<BTreeSet<usize>, Broken>,
    /// Whether nodes that overflow are left out where the outputs bear it.
    is_fewest: bool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        original: Box<dyn Trial + 'a>,
        reference: Reference,
        runs: CountedRuns<'a>,
        tolerance: Tolerance,
        is_fewest: bool,
    ) -> Search<'a> {
        let (seen, broken) = (HashMap::new(), HashMap::new());
        Search { original, reference, runs, tolerance, seen, broken, is_fewest }
    }

    /// The smallest list. Fails when the model cannot be run.
    pub(crate) fn find(mut self, notes: Vec<String>) -> TractResult<NodeList> {
        let order = self.order()?;
        if self.passes(&BTreeSet::new())? == Some(true) {
            return self.list(&BTreeSet::new(), &HashSet::new(), notes);
        }
        let set = |nodes: &[usize]| nodes.iter().copied().collect::<BTreeSet<usize>>();
        let told = self.original.note().filter(|note| !notes.contains(note));
        let notes: Vec<String> = notes.into_iter().chain(told).collect();
        let first = order.iter().filter(|node| !self.damage(**node).is_empty()).count();
        let mut passing = order.get(..first).unwrap_or_default().to_vec();
        if first == 0 || self.passes(&set(&passing))? != Some(true) {
            if self.passes(&set(&order))? != Some(true) {
                let problem = self.seen.get(&set(&order)).cloned().flatten();
                let problem = problem.unwrap_or_else(|| "the runs are used up".into());
                let to = self.runs.to;
                let problem = format!(
                    "{problem}, even with every node that has a name kept in FLOAT: no list makes a {to} conversion pass{}",
                    self.original.way_out()
                );
                return Ok(NodeList::none(problem, self.runs.count, self.tolerance, notes));
            }
            // The shortest part of the order that passes, by halves.
            let (mut fails, mut passes) = (first, order.len());
            while passes - fails > 1 && self.runs.has_more() {
                let middle = fails + (passes - fails) / 2;
                match self.passes(&set(order.get(..middle).unwrap_or_default()))? {
                    Some(true) => passes = middle,
                    Some(false) => fails = middle,
                    None => break,
                }
            }
            passing = order.get(..passes).unwrap_or_default().to_vec();
        }
        // The least suspicious first.
        passing.reverse();
        let found = minimal(passing, |rest| self.passes(&set(rest)))?;
        self.list(&set(&found.kept), &found.needed, notes)
    }

    /// The nodes that may be kept, the most suspicious first.
    fn order(&mut self) -> TractResult<Vec<usize>> {
        let outputs = self.look(&BTreeSet::new())?;
        let nodes = self.original.nodes();
        let jump = jumps(nodes, &self.reference.values, &outputs)?;
        let is_candidate = |place: &usize| {
            nodes.get(*place).is_some_and(|node| {
                let mut values = node.input.iter().chain(&node.output);
                values.any(|value| self.original.is_float(value))
                    && !self.original.is_never_converted(node)
            })
        };
        let score = |place: usize| {
            let suspicion = nodes.get(place).and_then(|node| self.original.suspicion(node));
            let jump = || jump.get(&place).copied().unwrap_or(0.0);
            let score = suspicion.map_or_else(jump, |(score, _)| score);
            if self.damage(place).is_empty() { score } else { f64::INFINITY }
        };
        let candidates = named(nodes).into_iter().filter(is_candidate);
        let mut order: Vec<(f64, usize)> = candidates.map(|place| (score(place), place)).collect();
        // Stable: of equally suspicious ones the first goes first.
        order.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Ok(order.into_iter().map(|(_, place)| place).collect())
    }

    /// Runs the conversion that keeps these nodes on all sets, to see whether it passes and which
    /// values are not finite. Returns what it makes on the first set, inner values included.
    fn look(&mut self, kept: &BTreeSet<usize>) -> TractResult<Vec<NamedTensor>> {
        let (proto, folder) = self.original.converted(kept)?;
        let proto = exposing(proto, &self.reference.names());
        let (mut broken, mut failure, mut first) = (Broken::new(), None, None);
        let sets = self.runs.sets;
        for (place, set) in sets.iter().enumerate() {
            let outputs = self.runs.run(proto.clone(), folder.as_deref(), set)?;
            add_broken(&mut broken, &outputs)?;
            failure = failure.or(self.failure(place, &outputs)?);
            first.get_or_insert(outputs);
        }
        self.seen.insert(kept.clone(), failure);
        self.broken.insert(kept.clone(), broken);
        Ok(first.unwrap_or_default())
    }

    /// Whether the conversion that keeps these nodes passes; `None` if the runs are used up.
    fn passes(&mut self, kept: &BTreeSet<usize>) -> TractResult<Option<bool>> {
        if let Some(seen) = self.seen.get(kept) {
            return Ok(Some(seen.is_none()));
        }
        if !self.runs.has_more() {
            return Ok(None);
        }
        let (proto, folder) = self.original.converted(kept)?;
        let (sets, mut failure) = (self.runs.sets, None);
        for (place, set) in sets.iter().enumerate() {
            let outputs = self.runs.run(proto.clone(), folder.as_deref(), set)?;
            failure = self.failure(place, &outputs)?;
            if failure.is_some() {
                break;
            }
        }
        let passes = failure.is_none();
        self.seen.insert(kept.clone(), failure);
        Ok(Some(passes))
    }

    /// What is wrong with the outputs of the set at a place, which come first.
    fn failure(&self, place: usize, outputs: &[NamedTensor]) -> TractResult<Option<String>> {
        let wanted = self.reference.outputs.get(place).map_or(&[][..], |wanted| wanted);
        for (want, got) in wanted.iter().zip(outputs) {
            let compared = compared(want, got, self.tolerance)?;
            if !compared.passed {
                let (name, why) = (single_line(&compared.name), compared.difference());
                let (of, elements) = (compared.mismatches, compared.elements);
                return Ok(Some(match compared.first_mismatch {
                    Some(what) => {
                        format!("output `{name}`: {of} of {elements} beyond the tolerance, {what}")
                    }
                    None => format!("output `{name}`: {why}"),
                }));
            }
        }
        Ok(None)
    }

    /// What the narrow type does to the values that a node makes, takes and holds.
    fn damage(&self, node: usize) -> Vec<String> {
        let Some(node) = self.original.nodes().get(node) else { return vec![] };
        let ends = |value: &String| {
            self.reference.ranges.get(value).and_then(|values| values.overflow(self.runs.to))
        };
        let mut damage = vec![];
        for (what, values) in [("makes", &node.output), ("takes", &node.input)] {
            for value in values.iter() {
                let name = single_line(value);
                damage.extend(ends(value).map(|told| format!("{what} `{name}`, {told}")));
            }
        }
        for value in &node.input {
            if let Some((before, after)) = self.original.spoiled_weight(value) {
                let name = single_line(value);
                damage.push(format!("holds `{name}`, whose {before} becomes {after}"));
            }
        }
        damage
    }

    fn list(
        &mut self,
        needed: &BTreeSet<usize>,
        confirmed: &HashSet<usize>,
        mut notes: Vec<String>,
    ) -> TractResult<NodeList> {
        let (kept, left) = self.with_overflow(needed)?;
        notes.extend(self.note_of_overflows(&left));
        // What is wrong without one node alone.
        let of_one = |(tried, failure): (&BTreeSet<usize>, &Option<String>)| {
            let is_fewer = tried.len() + 1 == needed.len() && tried.is_subset(needed);
            Some((*needed.difference(tried).next().filter(|_| is_fewer)?, failure.clone()?))
        };
        let failures: HashMap<usize, String> = self.seen.iter().filter_map(of_one).collect();
        let keep = kept.iter().filter_map(|place| {
            let node = self.original.nodes().get(*place)?;
            let mut why = self.damage(*place);
            why.truncate(2);
            let told = self.original.suspicion(node).map(|(_, told)| told.to_owned());
            why.extend(told.filter(|told| !told.is_empty()));
            why.push(match failures.get(place) {
                _ if !needed.contains(place) => {
                    "without it values overflow, without harm to the outputs here".into()
                }
                Some(failure) => format!("without it {failure}"),
                None => format!("not tried without it alone: {RUNS} runs are the most"),
            });
            Some(ListedNode {
                node: node.name.clone(),
                op_type: node.op_type.clone(),
                why: why.join("; "),
                needed: confirmed.contains(place),
            })
        });
        let keep: Vec<ListedNode> = keep.collect();
        let confirmed = needed.iter().all(|place| confirmed.contains(place));
        let (runs, tolerance) = (self.runs.count, self.tolerance);
        Ok(NodeList { keep, runs, confirmed, tolerance, notes, ..NodeList::default() })
    }

    /// A note on nodes that overflow and are not kept.
    fn note_of_overflows(&self, left: &[usize]) -> Option<String> {
        let nodes = self.original.nodes();
        let name = |place: &usize| nodes.get(*place).map_or(String::new(), |n| quoted(&n.name));
        let (count, names) = (left.len(), listed(left.iter().map(name), 5));
        (count > 0).then(|| {
            format!(
                "values overflow at {}, without harm to the outputs on these inputs: {names}",
                counted(count, "more node")
            )
        })
    }
}
