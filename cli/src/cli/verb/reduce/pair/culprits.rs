//! The parts that a comparison without a tolerance blames.

use std::collections::HashSet;
use std::path::Path;

use onnx_cast_graph::{NodeId, NodeView, Origin, ValueId};
use tract_onnx::prelude::*;

use super::cause::{CAUSES, Cause};
use super::matched::{Matched, Pair};
use super::{Reducer, is_spent, numbered};
use crate::cli::found::verdict::{Culprit, FaultKind, Verdict};
use crate::cli::verb::reduce::request::{Reduced, ReducedCase};
use crate::cli::verb::reduce::side::Side;

/// How many places behind a culprit are tried as the end of its part.
const ENDS: usize = 3;

impl Reducer<'_> {
    /// Writes a case for each culprit, or each of some nodes; whether there is one.
    pub(super) fn of_culprits(
        &self,
        pair: &mut Pair,
        among: Option<&HashSet<String>>,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<bool> {
        // Where a type is too coarse, no node alone is to blame.
        let is_one = |culprit: &&Culprit| {
            let is_among = among.is_none_or(|names| names.contains(&culprit.node));
            culprit.kind != FaultKind::Coarse && is_among
        };
        let all: Vec<&Culprit> = self.judgement.culprits.iter().filter(is_one).collect();
        let is_judged = self.is_judged && self.judgement.verdict != Some(Verdict::Broken);
        if all.is_empty() || is_judged {
            return Ok(false);
        }
        let before = reduced.cases.len();
        for culprit in all.into_iter().take(CAUSES) {
            let number = reduced.cases.len() - before;
            let place = numbered(place, number);
            let told = pair.matched.clone();
            let of_told = (size(pair, culprit), told.clone());
            // Values that are alike by accident may have misled the pairing.
            pair.pair_by_name();
            let mut pairings = [of_told, (size(pair, culprit), pair.matched.clone())];
            pairings.sort_by_key(|(size, _)| *size);
            for (_, matched) in pairings {
                pair.matched = matched;
                if let Some(case) = self.of_culprit(pair, culprit, &place, reduced)? {
                    reduced.cases.push(case);
                    break;
                }
                if is_spent(reduced) {
                    break;
                }
            }
            pair.matched = told;
            if is_spent(reduced) {
                break;
            }
        }
        Ok(reduced.cases.len() > before)
    }

    pub(super) fn of_culprit(
        &self,
        pair: &Pair,
        culprit: &Culprit,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        for cause in causes(pair, culprit) {
            // Parts that cannot be made are paired wrongly.
            if let Ok(Some(case)) = self.written(pair, &cause, place, reduced) {
                return Ok(Some(case));
            }
            if is_spent(reduced) {
                break;
            }
        }
        Ok(None)
    }
}

/// How many nodes the smallest part has that may show what a culprit does.
fn size(pair: &Pair, culprit: &Culprit) -> usize {
    let cause = causes(pair, culprit).into_iter().next();
    let part = cause.and_then(|cause| pair.part(&cause.end, &cause.inside).ok());
    part.map_or(usize::MAX, |part| part.outer_nodes())
}

/// Parts that may show what a culprit does, the smallest first: they end at what it makes, or at what is made of that.
fn causes(pair: &Pair, culprit: &Culprit) -> Vec<Cause> {
    let Some(made) = made_by(&pair.converted, culprit) else { return vec![] };
    let behind = pair.converted.behind(made);
    let is_behind = |m: &&Matched| m.converted == made || behind.contains(&m.converted);
    let ends: Vec<Matched> = pair
        .matched
        .iter()
        .filter(|m| pair.is_made(m))
        .filter(is_behind)
        .take(ENDS)
        .cloned()
        .collect();
    let cause = |(place, end): (usize, &Matched)| Cause {
        end: end.clone(),
        inside: ends.iter().take(place).map(|end| end.reference).collect(),
        blamed: None,
        culprit: Some(culprit.clone()),
    };
    ends.iter().enumerate().map(cause).collect()
}

/// What a culprit makes, in the main graph.
fn made_by(side: &Side, culprit: &Culprit) -> Option<ValueId> {
    let graph = &side.graph;
    let inner = |id: &NodeId| {
        let node = graph.node(*id);
        let mut outputs = node.outputs().iter().flatten();
        let is_named = outputs.any(|made| *graph.value(*made).name == culprit.tensor);
        is_named || node.label() == culprit.node && node.op_type == culprit.op
    };
    let nodes = graph.all_nodes(graph.main());
    if let Some(found) = nodes.into_iter().find(inner) {
        let mut id = found;
        while graph.node(id).body() != graph.main() {
            id = graph.body(graph.node(id).body()).owner()?;
        }
        return graph.node(id).outputs().iter().flatten().next().copied();
    }
    side.value(&culprit.tensor).filter(|id| !matches!(graph.value(*id).origin(), Origin::Missing))
}
