//! A conversion to be tried, of which nodes can be kept.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;

/// A conversion of which some nodes of the main graph, by their places, can be kept.
pub(crate) trait Trial {
    /// The nodes of the main graph before the conversion.
    fn nodes(&self) -> &[NodeProto];
    /// Whether a value is FLOAT before it.
    fn is_float(&self, value: &str) -> bool;
    /// Whether the conversion keeps a node without being told.
    fn is_never_converted(&self, node: &NodeProto) -> bool;
    /// The largest magnitude in a weight and what the conversion makes of it, where these are not
    /// nearly the same, and the node is not kept for that.
    fn spoiled_weight(&self, _: &str) -> Option<(f32, f32)> {
        None
    }
    /// How much a node is suspected, where the conversion itself tells, and why.
    fn suspicion(&self, _: &NodeProto) -> Option<(f64, &str)> {
        None
    }
    /// What to know about it where it fails.
    fn note(&self) -> Option<String> {
        None
    }
    /// What else there is where no list helps.
    fn way_out(&self) -> &'static str {
        ""
    }
    /// The converted model, and where its external data is if that is not where the original's is.
    /// Fails when it cannot be converted.
    fn converted(&self, kept: &BTreeSet<usize>) -> TractResult<(ModelProto, Option<PathBuf>)>;
}

/// The places of the nodes with a name that no other node has.
pub(crate) fn named(nodes: &[NodeProto]) -> Vec<usize> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        *count.entry(&node.name).or_default() += 1;
    }
    let is_named = |node: &NodeProto| !node.name.is_empty() && count.get(&*node.name) == Some(&1);
    (0..nodes.len()).filter(|place| nodes.get(*place).is_some_and(is_named)).collect()
}
