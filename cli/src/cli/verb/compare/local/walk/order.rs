//! The order in which nodes have run.

use std::collections::HashMap;
use std::slice;

/// The nodes that have run, in their order: what each takes, and what it makes.
#[derive(Default)]
pub(super) struct NodeOrder {
    nodes: Vec<(Vec<String>, Vec<String>)>,
    /// The places of those that take a value.
    takers: HashMap<String, Vec<usize>>,
}

impl NodeOrder {
    /// Adds a node that has run behind all others.
    pub(super) fn push(&mut self, taken: Vec<String>, made: Vec<String>) {
        for name in &taken {
            match self.takers.get_mut(name) {
                Some(takers) => takers.push(self.nodes.len()),
                None => drop(self.takers.insert(name.clone(), vec![self.nodes.len()])),
            }
        }
        self.nodes.push((taken, made));
    }

    /// From the first one to the last.
    pub(super) fn iter(&self) -> slice::Iter<'_, (Vec<String>, Vec<String>)> {
        self.nodes.iter()
    }

    pub(super) fn get(&self, place: usize) -> Option<&(Vec<String>, Vec<String>)> {
        self.nodes.get(place)
    }

    /// The places from one on of the nodes that take a value, in their order.
    pub(super) fn takers(&self, value: &str, from: usize) -> &[usize] {
        let takers = self.takers.get(value).map(Vec::as_slice).unwrap_or_default();
        takers.get(takers.partition_point(|place| *place < from)..).unwrap_or_default()
    }
}
