//! The second stage: which weights of the two sides belong together, and which values are looked at
//! on both.

use std::collections::HashSet;

use tract_onnx::prelude::TractResult;

use super::open::{Side, Sides};
use crate::cli::work::main_graph::MainGraph;
use crate::cli::work::weights::Weights;

/// What belongs together, as far as that can be told without a run.
pub(super) struct Paired {
    /// The weights of two models.
    pub(super) weights: Option<Weights>,
    /// The inner tensors of each side, the reference first, that the other one has saved.
    pub(super) further: [Vec<String>; 2],
}

/// Pairs the weights, and the tensors that one side has saved with those that the other one makes;
/// `has_verdict` says whether a verdict is made of them.
/// Fails when a weight cannot be read.
pub(super) fn pair(sides: &Sides, has_verdict: bool) -> TractResult<Paired> {
    let (a, b) = (&sides.reference, &sides.converted);
    let weights = match (&a.model, &b.model) {
        (Some(a), Some(b)) => {
            let of_a = a.probed.holder();
            Some(b.with_spelt(of_a.proto, |of_b| Weights::of(&of_a, of_b, has_verdict))?)
        }
        _ => None,
    };
    Ok(Paired { weights, further: [further(a, b), further(b, a)] })
}

/// The inner tensors that the other side has saved.
fn further(side: &Side, other: &Side) -> Vec<String> {
    let Some(loaded) = &side.model else { return vec![] };
    let graph = MainGraph::of(&loaded.probed.proto);
    let outputs = graph.outputs();
    let saved = other.saved.iter().flat_map(|saved| &saved.names);
    let names: HashSet<&str> = saved.map(String::as_str).collect();
    let is_inner = |name: &String| !outputs.contains(name.as_str());
    let made = graph.made().into_iter().filter(is_inner);
    made.filter(|name| names.contains(name.as_str())).collect()
}
