//! The parts that a comparison without a tolerance blames.

use std::collections::HashSet;
use std::path::Path;

use onnx_cast_graph::{NodeId, NodeView, Origin, ValueId};
use tract_onnx::prelude::*;

use super::cause::{CAUSES, RootCause};
use super::matched::{Matched, ModelPair};
use super::{Reducer, is_spent, numbered};
use crate::cli::found::verdict::{Culprit, FaultKind, Verdict};
use crate::cli::verb::reduce::reduced::{Reduced, ReducedCase};
use crate::cli::verb::reduce::side::SourceModel;

/// How many places behind a culprit are tried as the end of its part.
const ENDS: usize = 3;

/// Which parts are tried for a culprit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    /// Those that end at what it makes, or at what is made of that.
    Ends,
    /// That which ends at what it makes. A comparison of it may name another node.
    Another,
    /// That which begins before what it takes: another tensor under the same name, where a node is
    /// missing before it.
    Before,
}

impl Reducer<'_> {
    /// Writes a case for each culprit, or each of some nodes; whether there is one.
    pub(super) fn of_culprits(
        &self,
        pair: &mut ModelPair,
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
        for tried in [Tried::Ends, Tried::Another, Tried::Before] {
            for culprit in all.iter().take(CAUSES) {
                let place = numbered(place, reduced.cases.len() - before);
                let case = self.of_pairings(pair, culprit, tried, &place, reduced)?;
                reduced.cases.extend(case);
                if is_spent(reduced) {
                    break;
                }
            }
            if reduced.cases.len() > before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the case of a culprit as values are paired best.
    fn of_pairings(
        &self,
        pair: &mut ModelPair,
        culprit: &Culprit,
        tried: Tried,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        let told = pair.matched.clone();
        let of_told = (size(pair, culprit), told.clone());
        // Values that are alike by accident may have misled the pairing.
        pair.pair_by_name();
        let mut pairings = [of_told, (size(pair, culprit), pair.matched.clone())];
        pairings.sort_by_key(|(size, _)| *size);
        let mut case = None;
        for (_, matched) in pairings {
            pair.matched = matched;
            case = self.of_culprit(pair, culprit, tried, place, reduced)?;
            if case.is_some() || is_spent(reduced) {
                break;
            }
        }
        pair.matched = told;
        Ok(case)
    }

    pub(super) fn of_culprit(
        &self,
        pair: &ModelPair,
        culprit: &Culprit,
        tried: Tried,
        place: &Path,
        reduced: &mut Reduced,
    ) -> TractResult<Option<ReducedCase>> {
        for cause in causes(pair, culprit, tried) {
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
fn size(pair: &ModelPair, culprit: &Culprit) -> usize {
    let cause = causes(pair, culprit, Tried::Another).into_iter().next();
    let part = cause.and_then(|cause| pair.part(&cause.end, &cause.inside).ok());
    part.map_or(usize::MAX, |part| part.outer_nodes())
}

/// Parts that may show what a culprit does, the smallest first.
fn causes(pair: &ModelPair, culprit: &Culprit, tried: Tried) -> Vec<RootCause> {
    // A weight may have a name of its own in the converted model.
    let (side, id): (&SourceModel, fn(&Matched) -> ValueId) =
        match made_by(&pair.converted, culprit) {
            Some(_) => (&pair.converted, |m| m.converted),
            None => (&pair.reference, |m| m.reference),
        };
    let Some(made) = made_by(side, culprit) else { return vec![] };
    let behind = side.behind(made);
    let is_behind = |m: &&Matched| id(m) == made || behind.contains(&id(m));
    let ends: Vec<Matched> = pair
        .matched
        .iter()
        .filter(|m| pair.is_made(m))
        .filter(is_behind)
        .take(ENDS)
        .cloned()
        .collect();
    let cause = |inside: HashSet<ValueId>, end: &Matched| RootCause {
        inside,
        culprit: Some(culprit.clone()),
        is_another: tried == Tried::Another,
        ..RootCause::at(end)
    };
    if tried == Tried::Before {
        let taken = side.graph.maker(made).map(|id| side.graph.needs(id)).unwrap_or_default();
        let is_taken = |m: &&Matched| pair.is_made(m) && taken.contains(&id(m));
        let inside: HashSet<ValueId> =
            pair.matched.iter().filter(is_taken).map(|m| m.reference).collect();
        let first = ends.first().filter(|_| !inside.is_empty());
        return first.map(|end| cause(inside, end)).into_iter().collect();
    }
    let most = if tried == Tried::Another { 1 } else { ENDS };
    let between = |place: usize| ends.iter().take(place).map(|end| end.reference).collect();
    let places = ends.iter().enumerate().take(most);
    places.map(|(place, end)| cause(between(place), end)).collect()
}

/// What a culprit makes, in the main graph.
fn made_by(side: &SourceModel, culprit: &Culprit) -> Option<ValueId> {
    let graph = &side.graph;
    let inner = |id: &NodeId| {
        let node = graph.node(*id);
        let mut outputs = node.outputs().iter().flatten();
        let is_named = outputs.any(|made| *graph.value(*made).name == culprit.tensor);
        is_named || node.label() == culprit.node
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
