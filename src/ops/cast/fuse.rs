//! What tract's matrix product takes in if tract's own `Cast` follows it: the cast, as a store in
//! another type, where its bits are the same, and a reshape on the cast's other side. tract looks
//! for its own cast by type; here the product is asked what it would do, and that is done with
//! ours.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::AxisOp;
use tract_onnx::tract_core::ops::matmul::optimized::OptMatMul;

use crate::ops::host::hook::Patch;

use super::op::OnnxCast;
use super::round;

/// The fusion that applies to the node of a cast.
pub(super) fn fuse(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    if let Some(patch) = round::join(op, model, node)? {
        return Ok(Some(patch));
    }
    // A product stores half precision more slowly than FLOAT.
    if round::is_only_rounding(op, model, node) {
        return Ok(None);
    }
    let Some(before) = model.linear_prec(node.id)? else { return Ok(None) };
    // As tract does, look past one change of axes.
    let axes = before.op_is::<AxisOp>() || before.op_is::<IntoShape>();
    let product = if axes { model.linear_prec(before.id)? } else { Some(before) };
    let outputs = model.output_outlets()?;
    let is_inner = |product: &&TypedNode| {
        product.op_is::<OptMatMul>() && !outputs.contains(&product.id.into())
    };
    let Some(product) = product.filter(is_inner) else { return Ok(None) };

    let input = model.outlet_fact(node.inputs[0])?.datum_type;
    if let Some(cast) = op.equal_core_cast(input)
        && let Some(fused) = take_in(model, product, cast.into())?
    {
        let (mut patch, fused) = replace(model, product, fused)?;
        let output =
            if axes { patch.wire_node(&before.name, &before.op, &[fused])?[0] } else { fused };
        patch.shunt_outside(model, node.id.into(), output)?;
        return Ok(Some(patch));
    }
    if let Some(after) = model.single_succ(node.id)?
        && let Some(reshape) = after.op_as::<IntoShape>()
        && !axes
        && let Some(fused) = take_in(model, product, reshape.clone().into())?
    {
        let (mut patch, fused) = replace(model, product, fused)?;
        let cast = patch.wire_node(&node.name, op.clone(), &[fused])?;
        patch.shunt_outside(model, after.id.into(), cast[0])?;
        return Ok(Some(patch));
    }
    Ok(None)
}

/// What a product becomes if `next` follows it, where tract makes one of the two.
fn take_in(
    model: &TypedModel,
    product: &TypedNode,
    next: Box<dyn TypedOp>,
) -> TractResult<Option<Box<dyn TypedOp>>> {
    let mut trial = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let mut inputs = tvec!();
    for (index, fact) in model.node_input_facts(product.id)?.into_iter().enumerate() {
        inputs.push(trial.add_source(format!("input{index}"), fact.without_value())?);
    }
    let outlet = trial.wire_node("product", product.op.clone(), &inputs)?[0];
    let outputs = trial.wire_node("next", next, &[outlet])?;
    trial.outputs = outputs.to_vec();
    let Some(patch) = product.op.fuse(&trial, trial.node(outlet.node))? else { return Ok(None) };
    let is_fused =
        !patch.model.nodes.iter().any(|node| node.name == "next" && !node.op_is::<OptMatMul>());
    let fused = patch.model.nodes.into_iter().find(|node| node.op_is::<OptMatMul>());
    Ok(fused.filter(|_| is_fused).map(|node| node.op))
}

/// A patch that has a new product of the same inputs.
fn replace(
    model: &TypedModel,
    product: &TypedNode,
    with: Box<dyn TypedOp>,
) -> TractResult<(TypedModelPatch, OutletId)> {
    let mut patch = TypedModelPatch::default();
    let inputs = patch.taps(model, &product.inputs)?;
    let product = patch.wire_node(&product.name, with, &inputs)?[0];
    Ok((patch, product))
}
