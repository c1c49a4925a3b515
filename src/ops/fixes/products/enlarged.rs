//! Products that are enlarged by an operand of one value.
//!
//! Where an axis is added to a product, or taken away, and the result is then added to a constant
//! of one value, tract takes the value in front of that change of axes, and with it the product's
//! own shape for the sum's (tract-core, `ops/matmul/optimized.rs`, `fuse`). Here it does not see
//! them together.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::{Conv, Deconv};
use tract_onnx::tract_core::ops::einsum::EinSum;

use super::put_before;
use crate::ops::fixes::apart::Keeps;

/// How many nodes before an operand are looked at for a product.
const FAR: usize = 32;

/// Keeps the operands of an operator apart from the products that they are made of, where one of
/// the two is of one value and larger than the other.
pub(super) fn keep_shape(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    let ([a, b], true) = (&*node.inputs, node.op_is::<TypedBinOp>()) else { return Ok(()) };
    let made = model.outlet_fact(id.into())?.shape.to_tvec();
    for (slot, (operand, other)) in [(0, (*a, *b)), (1, (*b, *a))] {
        let of_one_value = model.outlet_fact(other)?.uniform.is_some();
        let fact = model.outlet_fact(operand)?;
        let is_enlarged = fact.konst.is_none() && fact.shape.to_tvec() != made;
        if of_one_value && is_enlarged && follows_product(model, operand) {
            let axes = (0..made.len()).collect();
            put_before(model, InletId::new(id, slot), Keeps::Axes, axes)?;
        }
    }
    Ok(())
}

/// Whether a product is among what an operand is made of, or it is too far to tell.
fn follows_product(model: &TypedModel, operand: OutletId) -> bool {
    let mut nodes = vec![operand.node];
    let mut next = 0;
    while let Some(id) = nodes.get(next) {
        let node = model.node(*id);
        if node.op_is::<EinSum>() || node.op_is::<Conv>() || node.op_is::<Deconv>() {
            return true;
        }
        next += 1;
        for input in &node.inputs {
            if nodes.len() == FAR {
                return true;
            }
            if !nodes.contains(&input.node) {
                nodes.push(input.node);
            }
        }
    }
    false
}
