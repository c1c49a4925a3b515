//! Constant weights of a product that a `DequantizeLinear` makes: they stay in few bits where tract has a format for them.

#![forbid(unsafe_code)]

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::einsum::EinSum;

use super::op::OnnxQuantizer;
use crate::cast::element_type::ElementType;
use crate::cast::quantize::layout;
use crate::cast::rules::Rules;
use crate::ops::host::hook::Patch;
use crate::ops::quantize::small_weights::{self, Packed, SmallWeights};
use crate::tensor::conversion::Conversion;

/// The product that follows, with weights in few bits; `None` where something else comes between or uses them, or they are
/// to be FLOAT. `constants` are x, the scale and perhaps the zero point.
pub(super) fn product(
    op: &OnnxQuantizer,
    small: SmallWeights,
    model: &TypedModel,
    node: &TypedNode,
    constants: &[&Arc<Tensor>],
) -> Patch {
    let types = op.quantizer();
    let [x, scale, zero_point @ ..] = constants else { return Ok(None) };
    let &[rows, columns] = x.shape() else { return Ok(None) };
    let may_stay = op.may_stay_small() && types.y() == ElementType::Float;
    if !may_stay || !is_symmetric(types.x(), zero_point)? {
        return Ok(None);
    }
    let blocked = layout::axis(op.axis, 2).map_err(|problem| op.error(problem))?;
    let Some((product, slot, [k_at, n_at])) = following(model, node, blocked)? else {
        return Ok(None);
    };
    let Some(einsum) = product.op_as::<EinSum>() else { return Ok(None) };
    let Some(axes) = axes(einsum, slot, k_at, n_at) else { return Ok(None) };
    // tract's kernel of few bits takes one row at a time: it is the faster one for one row, and slower for many.
    let elements = model.outlet_fact(product.inputs[1 - slot])?.shape.volume().to_usize();
    if small == SmallWeights::WhereExact
        && elements.is_ok_and(|elements| elements > x.shape()[blocked])
    {
        return Ok(None);
    }

    let order = [1 - blocked, blocked];
    let [n, k] = order.map(|axis| [rows, columns][axis]);
    if op.block_size > k
        || scale.shape().get(blocked).copied().unwrap_or_default() * op.block_size != k
        || scale.len() * op.block_size != n * k
    {
        return Ok(None);
    }
    let packed = pack(op, small, x, scale, order)?;
    let Some(packed) = packed else { return Ok(None) };

    let mut patch = TypedModelPatch::default();
    let weights = patch.wire_node(&node.name, packed.constant, &[])?[0];
    let mut inputs = patch.taps(model, &product.inputs)?;
    inputs[slot] = weights;
    let op = EinSum { axes, ..einsum.clone() };
    let output = patch.wire_node(&product.name, op, &inputs)?[0];
    patch.shunt_outside(model, product.id.into(), output)?;
    Ok(Some(patch))
}

/// The product of two that comes next, the slot of these weights, and where their blocks and their other axis are there.
fn following<'a>(
    model: &'a TypedModel,
    node: &'a TypedNode,
    blocked: usize,
) -> TractResult<Option<(&'a TypedNode, usize, [usize; 2])>> {
    let (mut k_at, mut n_at, mut last) = (blocked, 1 - blocked, node);
    let product = loop {
        if model.outputs.contains(&last.id.into()) {
            return Ok(None);
        }
        let Some(next) = model.single_succ(last.id)? else { return Ok(None) };
        if next.op_is::<EinSum>() {
            break next;
        }
        let Some(change) = next.op_as::<AxisOp>() else { return Ok(None) };
        let moved = [k_at, n_at].map(|axis| change.transform_axis(axis));
        let ([Some(k), Some(n)], false) = (moved, matches!(change, AxisOp::Reshape(..))) else {
            return Ok(None);
        };
        (k_at, n_at, last) = (k, n, next);
    };
    let slot = product.inputs.iter().position(|input| input.node == last.id);
    let (Some(slot), [_, _]) = (slot, &*product.inputs) else { return Ok(None) };
    Ok(Some((product, slot, [k_at, n_at])))
}

/// The weights x of a scale, their axes in an order, in few bits.
fn pack(
    op: &OnnxQuantizer,
    small: SmallWeights,
    x: &Tensor,
    scale: &Tensor,
    order: [usize; 2],
) -> TractResult<Option<Packed>> {
    let types = op.quantizer();
    let codes = x.clone().permute_axes(&order)?;
    let size = [codes.shape()[0], codes.shape()[1]];
    let scales = Conversion::new(types.scale(), ElementType::Float, Rules::default()).run(scale)?;
    let scales = scales.permute_axes(&order)?;
    let codes = codes.try_as_plain_ram()?;
    // Codes that stand for their distance from 8, the first of two in the low bits.
    let flip = if types.x() == ElementType::Int4 { 8 } else { 0 };
    let codes: Vec<u8> = codes
        .as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().rev().fold(0, |byte, code| byte << 4 | (code ^ flip) & 15))
        .collect();
    let scales = scales.try_as_plain_ram()?;
    small_weights::packed(small, 4, &codes, scales.as_slice()?, size, op.block_size)
}

/// Whether codes are integers of four bits, as far from zero as from the middle of their 16.
fn is_symmetric(ty: ElementType, zero_point: &[&Arc<Tensor>]) -> TractResult<bool> {
    let are = |code: u8| match zero_point {
        [zeros] => Ok(zeros.try_as_plain_ram()?.as_bytes().iter().all(|zero| *zero == code)),
        _ => Ok(code == 0),
    };
    match ty {
        ElementType::Int4 => are(0),
        ElementType::Uint4 => are(8),
        _ => Ok(false),
    }
}

/// The axes of a product of two, the weights of which become groups × N × K; `None` where it is none of that kind.
fn axes(op: &EinSum, weights: usize, k_at: usize, n_at: usize) -> Option<AxesMapping> {
    if op.q_params.is_some() || op.operating_dt != f32::datum_type() {
        return None;
    }
    let (mut inputs, outputs) = op.axes.to_strs();
    let (own, other) = (inputs.get(weights)?.clone(), inputs.get(1 - weights)?.clone());
    let [k, n] = [k_at, n_at].map(|at| own.chars().nth(at));
    let (k, n) = (k?, n?);
    let made = outputs.first()?;
    let is_product =
        other.contains(k) && !made.contains(k) && made.contains(n) && !other.contains(n);
    // The weights' other axes have one element.
    let is_whole = made.chars().all(|axis| axis == n || other.contains(axis));
    if !is_product || !is_whole {
        return None;
    }
    let group = op.axes.available_label();
    *inputs.get_mut(weights)? = format!("{group}{n}{k}");
    AxesMapping::from_strs(&inputs, &outputs).ok()
}
