//! How far the reference's own rounding puts values off, carried from values on that the conversion
//! has.

use std::collections::{HashMap, HashSet};

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, Observer, SharedTensor};

use super::super::doubt::{Carried, Doubt, Twin, doubts, has_many_steps};
use super::super::nodes::region;
use super::super::numbers::rounding;
use super::super::site::Sites;
use super::super::trace::{Trace, full_name, name_in, shared};
use super::values::undoubted;

/// Through so many nodes of the reference its own rounding is carried: through more it may hide a
/// fault.
const FEW: usize = 16;

/// How far its own rounding puts values of the reference off, as often as they are made.
pub(in super::super) type Own = HashMap<String, Vec<Vec<f64>>>;

/// The reference's own rounding, from values on that the conversion has.
pub(in super::super) struct OwnRounding<'a> {
    reference: &'a Trace,
    /// The values that differ.
    pub(in super::super) wanted: HashSet<String>,
    /// What is made on the way to them.
    inside: HashSet<String>,
    twins: HashMap<String, Twin>,
    pub(in super::super) own: Own,
}

impl<'a> OwnRounding<'a> {
    /// On the way to values that the reference makes by few nodes, where they differ.
    pub(in super::super) fn of(reference: &'a Trace, sites: &Sites) -> OwnRounding<'a> {
        let given = sites.replaced();
        let (mut wanted, mut inside) = (HashSet::new(), HashSet::new());
        for site in sites.deviating() {
            let nodes = region(reference, &site.reference, |value| given.contains(value));
            if (1..=FEW).contains(&nodes.len()) {
                wanted.insert(site.reference.clone());
                inside.extend(nodes.into_iter().flat_map(|ran| ran.outputs.clone()));
            }
        }
        inside.retain(|value| wanted.contains(value) || !given.contains(value.as_str()));
        OwnRounding { reference, wanted, inside, twins: HashMap::new(), own: Own::new() }
    }
}

impl Observer for OwnRounding<'_> {
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        let value = |name: Option<&str>| {
            let Some(name) = name else { return Some(None) };
            match &**self.reference.values.get(&name_in(&node.graph, name))? {
                [once] => Some(Some(once.clone())),
                _ => None,
            }
        };
        node.output_names().map(value).collect()
    }

    fn node(
        &mut self,
        node: &NodeRun,
        outputs: &mut [Option<ObservedTensor>],
    ) -> tract_onnx_cast::Result<()> {
        let is_inside = |made: &ObservedTensor| self.inside.contains(&full_name(made));
        if node.has_bodies() || !outputs.iter().flatten().any(is_inside) {
            return Ok(());
        }
        // One of many steps rounds inside, about as if what it takes were rounded.
        let takes = |input: &ObservedTensor| {
            if has_many_steps(node.op_type) {
                Doubt::Relative(rounding(input.element_type))
            } else {
                Doubt::Relative(0.0)
            }
        };
        let exact = |input: &ObservedTensor| Twin::new(shared(input), takes(input));
        let twin = |input: &ObservedTensor| {
            self.twins.get(&full_name(input)).cloned().unwrap_or_else(|| exact(input))
        };
        let twins: Vec<Option<Twin>> =
            node.inputs.iter().map(|input| input.as_ref().map(twin)).collect();
        let twins = undoubted(node, &twins, outputs);
        let made: Vec<_> = outputs.iter().map(|made| made.as_ref().map(shared)).collect();
        for (output, carried) in outputs.iter().zip(doubts(node, &twins, &made)) {
            let Some(output) = output else { continue };
            let name = full_name(output);
            let Carried { doubt, share } = carried;
            let twin = Twin { doubt, share, ..exact(output) };
            if self.wanted.contains(&name) {
                self.own.entry(name).or_default().push(twin.doubts());
            } else {
                self.twins.insert(name, twin);
            }
        }
        Ok(())
    }

    fn dropped(&mut self, value: &ObservedTensor) {
        self.twins.remove(&full_name(value));
    }
}
