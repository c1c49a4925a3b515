//! Nodes that both models have: what one makes of the reference's values, the reference has made.

use tract_onnx_cast::interpreter::{NodeRun, ObservedTensor, SharedTensor};

use super::super::doubt::Twin;
use super::super::numbers::{is_computed_in, wide};
use super::super::trace::full_name;
use super::Walk;
use super::values::is_quantizer;

impl Walk<'_> {
    /// What the reference has made, where a node is one of its nodes and its twins are the very values that
    /// this was given; `None` where that is not known.
    pub(super) fn made_by_reference(
        &self,
        node: &NodeRun,
        twins: &[Option<Twin>],
        outputs: &[Option<ObservedTensor>],
    ) -> Option<Vec<Option<SharedTensor>>> {
        let rounds = matches!(node.op_type, "Cast" | "CastLike") || is_quantizer(node.op_type);
        if rounds || node.has_bodies() || self.bodies.is_inside() {
            return None;
        }
        let link = self.links.get(&full_name(outputs.iter().flatten().next()?))?;
        let ran = self.reference.maker(&link.reference)?;
        let is_alike = (&*ran.op, &*ran.domain, ran.opset)
            == (node.op_type, node.domain, node.opset)
            && ran.attributes == node.attributes
            && ran.inputs.len() == twins.len();
        let given = ran.inputs.iter().zip(node.inputs.iter().zip(twins));
        let mut given = given.map(|(name, pair)| match pair {
            (Some(input), Some(twin)) => self.is_of_reference(name, input, twin),
            _ => name.is_empty(),
        });
        if !is_alike || !given.all(|is_of_reference| is_of_reference) {
            return None;
        }
        let made = outputs.iter().enumerate().map(|(place, output)| match output {
            None => Some(None),
            Some(_) => {
                let made = self.reference.first(ran.outputs.get(place)?)?;
                is_free(made).then(|| Some(made.clone()))
            }
        });
        made.collect()
    }

    /// Whether the twin of an input is the value that the reference has under a name.
    fn is_of_reference(&self, name: &str, input: &ObservedTensor, twin: &Twin) -> bool {
        let own = full_name(input);
        if input.is_constant {
            let kept = self.reference.constant(name);
            return self.weights.cast_of(&own) == Some(name) && is_free(&twin.value)
                || kept.is_some_and(|kept| *kept == twin.value);
        }
        let is_paired = self.links.get(&own).is_some_and(|link| link.reference == name);
        let is_replaced = self.sites.get(&own).is_some_and(|site| site.is_replaced);
        let form = self.reference.form(name);
        let is_form = form == Some((twin.value.0, twin.value.1.shape()));
        is_paired && is_replaced && is_form && is_free(&twin.value)
    }
}

/// Whether twins have the type of a value: it is computed in, and no half precision.
fn is_free((ty, _): &SharedTensor) -> bool {
    is_computed_in(*ty) && wide(*ty) == *ty
}
