//! By how much rounding may put what a node makes off: the doubt about its inputs, carried through
//! the node, and the rounding of its own arithmetic.
//!
//! Operators fall into a few families. What only moves elements moves their doubt. Of one that
//! works element by element the change is taken that each input in turn makes at either end of its
//! doubt. Sums of products are bounded by the same sum of magnitudes, with n·u for n terms (γₙ).
//! A quantiser adds half a step, and what it cuts off; so does an operator that quantises what it
//! is given, to its input. Of all others the doubt is measured: the
//! node runs on inputs that are moved at random within theirs.
//!
//! `twin` is a value and its doubt, `known` says which operator is of which family, and `families`
//! and `codes` have what each makes of doubt.

mod codes;
mod families;
mod known;
mod twin;

use tract_onnx_cast::interpreter::{NodeRun, SharedTensor};

use super::numbers::{rounding, smallest};
use families::NodeStep;
pub(super) use families::{IN_PLACE, UNIFORM};
use known::{ELEMENTWISE, SUMS, WHOLE};
pub(super) use known::{MOVED, has_many_steps};
pub(super) use twin::{Carried, Doubt, Twin};

/// Whether the doubt behind an operator is told without another run of it, or another copy of what
/// it takes.
pub(super) fn is_told_at_once(op: &str) -> bool {
    IN_PLACE.contains(&op)
        || matches!(op, "DequantizeLinear" | "DynamicQuantizeLinear" | "QuantizeLinear")
}

/// By how much the outputs of a node may be off that it makes of these inputs.
pub(super) fn doubts(
    node: &NodeRun,
    inputs: &[Option<Twin>],
    made: &[Option<SharedTensor>],
) -> Vec<Carried> {
    let coded = codes::quantized_inside(node, inputs);
    let inputs = coded.as_deref().unwrap_or(inputs);
    let step = NodeStep { node, inputs, made };
    let by_family = match node.op_type {
        op if MOVED.iter().any(|(name, ..)| *name == op) => families::moved(step),
        op if ELEMENTWISE.contains(&op) => families::elementwise(step),
        op if SUMS.iter().any(|(name, _)| *name == op) => families::sums(step),
        "Cast" | "CastLike" => families::cast(step),
        "QuantizeLinear" => codes::quantized(step),
        "DynamicQuantizeLinear" => codes::quantized_as_it_runs(step),
        "DequantizeLinear" => codes::dequantized(step),
        _ if inputs.iter().flatten().all(Twin::is_exact) => Some(step.certain()),
        _ => None,
    };
    let mut doubts =
        by_family.or_else(|| families::sampled(step)).unwrap_or_else(|| step.certain());
    let is_moved = MOVED.iter().any(|(name, ..)| *name == node.op_type);
    if is_moved || WHOLE.contains(&node.op_type) {
        return doubts;
    }
    for (Carried { doubt, .. }, made) in doubts.iter_mut().zip(made) {
        let made = made.as_ref().filter(|(ty, _)| ty.is_float());
        if let Some(made) = made {
            doubt.add(made, rounding(made.0), smallest(made.0));
        }
    }
    doubts
}
