//! The operands of a product, and the axes along which tract's optimiser may not take an expansion
//! of one away.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::InOut;
use tract_onnx::tract_core::ops::einsum::EinSum;

use crate::ops::fixes::grounded::{is_grounded, may_be_open};

/// The inputs of a product that are multiplied.
pub(super) fn operands(product: &TypedNode) -> TVec<OutletId> {
    let is_quantized = product.op_as::<EinSum>().is_some_and(|op| op.q_params.is_some());
    let count = if is_quantized { 2 } else { product.inputs.len() };
    product.inputs.iter().take(count).copied().collect()
}

/// The axes of an operand along which an expansion cannot be left out, and may come.
pub(super) fn needed(
    model: &TypedModel,
    op: &EinSum,
    inputs: &[OutletId],
    slot: usize,
) -> TractResult<TVec<usize>> {
    let input = *inputs.get(slot).context("an operand of the product")?;
    let mut needed = tvec!();
    for axis in 0..model.outlet_fact(input)?.rank() {
        let letter = op.axes.axis((InOut::In(slot), axis))?;
        let is_summed = letter.outputs.iter().all(|places| places.is_empty());
        if is_grounded(model, input, axis)?
            || !is_summed
                && is_given_otherwise(model, inputs, slot, &letter.inputs)?
                && !may_be_open(model, input, axis)?
        {
            continue;
        }
        needed.push(axis);
    }
    Ok(needed)
}

/// Whether a product that takes the value of an [`Apart`] may as well take what comes into it.
pub(in crate::ops::fixes) fn may_take(
    model: &TypedModel,
    apart: &TypedNode,
    inlet: InletId,
) -> TractResult<bool> {
    let node = model.node(inlet.node);
    let (Some(op), Some(input)) = (node.op_as::<EinSum>(), apart.inputs.first()) else {
        return Ok(false);
    };
    let mut inputs = operands(node);
    let Some(place) = inputs.get_mut(inlet.slot) else { return Ok(false) };
    *place = *input;
    Ok(needed(model, op, &inputs, inlet.slot)?.is_empty())
}

/// Whether an operand other than one has all of an axis.
fn is_given_otherwise(
    model: &TypedModel,
    inputs: &[OutletId],
    slot: usize,
    places: &[TVec<usize>],
) -> TractResult<bool> {
    for (other, (input, places)) in inputs.iter().zip(places).enumerate() {
        for axis in places.iter().filter(|_| other != slot) {
            let is_one = model.outlet_fact(*input)?.shape.get(*axis) == Some(&1.to_dim());
            if !is_one && is_grounded(model, *input, *axis)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
