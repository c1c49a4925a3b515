//! What lies behind a value that a walk has met, and before it.

use std::collections::{BTreeSet, HashMap, HashSet};

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor};

use super::super::doubt::{MOVED, Twin};
use super::super::trace::full_name;
use super::Walk;
use super::values::is_quantizer;

/// How many nodes one after the other may carry a factor that was folded in.
const CARRIED: usize = 6;

/// Whether a factor in what an operator takes is one in what it makes, so that it may be made up
/// for behind it.
fn carries_a_factor(op: &str) -> bool {
    const CARRY: [&str; 8] =
        ["Abs", "AveragePool", "Div", "GlobalAveragePool", "LeakyRelu", "MatMul", "Mul", "Relu"];
    CARRY.contains(&op) || MOVED.iter().any(|(name, ..)| *name == op)
}

/// Whether an operator computes, and neither moves elements nor makes codes or another type of
/// them.
fn is_computing(op: &str) -> bool {
    let is_moving = MOVED.iter().any(|(name, ..)| *name == op);
    !is_moving
        && !is_quantizer(op)
        && !matches!(op, "Cast" | "Constant" | "DynamicQuantizeLinear" | "Identity")
}

impl Walk<'_> {
    /// These values, and those of which they are made, back to those that are the reference's.
    pub(in super::super) fn regions(&self, values: &[&str]) -> HashSet<String> {
        let mut wanted: HashSet<String> = values.iter().map(|name| (*name).to_owned()).collect();
        let is_end = |name: &String| self.sites.get(name).is_some_and(|site| site.is_replaced);
        for (taken, made) in self.order.iter().rev() {
            if made.iter().any(|name| wanted.contains(name)) {
                wanted.extend(taken.iter().filter(|name| !is_end(name)).cloned());
            }
        }
        wanted
    }

    /// The values with sure pairs that a few nodes one after the other make of some, each of which
    /// carries a factor on.
    pub(in super::super) fn carried(&self, values: &HashSet<String>) -> Vec<String> {
        let mut steps: HashMap<&str, usize> = values.iter().map(|name| (&**name, 0)).collect();
        let mut carried = vec![];
        for (taken, made) in self.order.iter() {
            let Some(step) = taken.iter().filter_map(|name| steps.get(&**name)).max() else {
                continue;
            };
            let step = step + 1;
            for name in made.iter().filter(|_| step <= CARRIED) {
                let site = self.sites.get(name);
                if site.is_none_or(|site| carries_a_factor(&site.op)) && !values.contains(name) {
                    steps.insert(name, step);
                    carried.extend(site.filter(|site| site.is_sure).map(|_| name.clone()));
                }
            }
        }
        carried
    }

    /// Whether nodes compute what the reference lacks.
    pub(in super::super) fn adds(&self) -> bool {
        !self.added.is_empty()
    }

    /// All that the nodes have made.
    pub(in super::super) fn all_values(&self) -> HashSet<String> {
        self.order.iter().flat_map(|(_, made)| made).cloned().collect()
    }

    /// Notes what a node takes and its bodies have `left`, and what it makes.
    pub(super) fn note(
        &mut self,
        node: &NodeRun,
        left: &[(Option<Twin>, Option<String>)],
        outputs: &[Option<ObservedTensor>],
    ) {
        let taken = node.inputs.iter().flatten().map(full_name);
        let taken = taken.chain(left.iter().filter_map(|(_, name)| name.clone())).collect();
        let made: Vec<String> = outputs.iter().flatten().map(full_name).collect();
        if is_computing(node.op_type) {
            let is_linked = |name: &&String| self.links.contains_key(*name);
            self.added.extend(made.iter().filter(|name| !is_linked(name)).cloned());
        }
        if !node.takes_tensors() {
            self.of_sequences.extend(made.iter().cloned());
        }
        self.order.push(taken, made);
    }

    /// The values with pairs that are made of one, with none in between that was replaced, and
    /// whether a node computes something in between that the reference lacks.
    pub(in super::super) fn behind(&self, value: &str) -> (Vec<&str>, bool) {
        let (mut reached, mut behind) = (HashSet::from([value]), vec![]);
        let mut places = BTreeSet::from_iter(self.order.takers(value, 0));
        while let Some(place) = places.pop_first() {
            let Some((_, made)) = self.order.get(*place) else { continue };
            for name in made {
                let site = self.sites.get(name);
                behind.extend(site.map(|_| name.as_str()));
                if site.is_none_or(|site| !site.is_replaced) && reached.insert(name) {
                    places.extend(self.order.takers(name, place + 1));
                }
            }
        }
        (behind, reached.iter().any(|name| self.added.contains(*name)))
    }
}
