//! What overflows in a conversion though its outputs bear it: another input may not bear it, and an
//! audit fails it.

use std::collections::{BTreeSet, HashSet};

use tract_onnx::prelude::*;

use super::Search;
use crate::cli::verb::keep::trial::named;

impl Search<'_> {
    /// A list that passes, with the nodes besides that overflow with it, as far as values were
    /// looked at and as long as there are runs to find them; and those of them that it does not
    /// hold in the end. Fails when the model cannot be run.
    pub(super) fn with_overflow(
        &mut self,
        kept: &BTreeSet<usize>,
    ) -> TractResult<(BTreeSet<usize>, Vec<usize>)> {
        let mut all = kept.clone();
        if self.reference.values.is_empty() {
            return Ok((all, vec![]));
        }
        loop {
            let Some(more) = self.overflowing(&all)? else { return Ok((kept.clone(), vec![])) };
            if self.is_fewest || more.is_empty() {
                return Ok((all, more));
            }
            let wider: BTreeSet<usize> = all.iter().chain(&more).copied().collect();
            // What is kept besides changes other values, hardly ever for the worse.
            if self.passes(&wider)? != Some(true) {
                return Ok((all, more));
            }
            all = wider;
        }
    }

    /// The nodes that would have to be kept besides these, for no value to become infinite or NaN
    /// that is finite in FLOAT; `None` if the runs are used up.
    fn overflowing(&mut self, kept: &BTreeSet<usize>) -> TractResult<Option<Vec<usize>>> {
        if !self.broken.contains_key(kept) {
            if !self.runs.has_more() {
                return Ok(None);
            }
            self.look(kept)?;
        }
        let broken = self.broken.get(kept).map_or_else(HashSet::new, |b| self.reference.newly(b));
        let nodes = self.original.nodes();
        let is_broken = |value: &String| broken.contains(value.as_str());
        // Only where it begins: what is made of it is broken as well.
        let begins = nodes.iter().flat_map(|node| {
            let is_first = !node.input.iter().any(is_broken);
            node.output.iter().filter(move |value| is_first && is_broken(value))
        });
        let begins: HashSet<&String> = begins.collect();
        // Or where a value that stays is cast.
        let stays =
            |place: usize, node| kept.contains(&place) || self.original.is_never_converted(node);
        let exact = (nodes.iter().enumerate()).filter(|(place, node)| stays(*place, node));
        let exact = exact.flat_map(|(_, node)| &node.output);
        let cut: HashSet<&String> = exact.filter(|value| self.reference.overflows(value)).collect();
        let concerns = |place: &usize| {
            nodes.get(*place).is_some_and(|node| {
                let mut values = node.input.iter().chain(&node.output);
                (values.any(|value| begins.contains(value))
                    || node.input.iter().any(|value| cut.contains(value)))
                    && !self.original.is_never_converted(node)
            })
        };
        let more = named(nodes).into_iter().filter(concerns);
        Ok(Some(more.filter(|place| !kept.contains(place)).collect()))
    }
}
