//! When a model is typed: constant weights of a product that a `DequantizeLinear` makes. They stay
//! in few bits, in tract's own format for one row of x (`small_weights`), in panels for more.

#![forbid(unsafe_code)]

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::einsum::EinSum;

use super::op::OnnxQuantizer;
use crate::cast::element_type::{ElementType, Family};
use crate::cast::quantize::layout::{self, ScaleLayout};
use crate::cast::rules::Rules;
use crate::ops::host::hook::Patch;
use crate::ops::quantize::small_weights::{self, PackedWeights, SmallWeights};
use crate::ops::weights::{self, unpack::Unpack};
use crate::tensor::conversion::Conversion;

/// The product that follows, with weights in few bits; `None` where something else comes between or
/// uses them, or they are to be FLOAT. `constants` are x, the scale and perhaps the zero point.
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
    let may_stay = op.may_stay_small() && op.block_size > 0 && types.y() == ElementType::Float;
    if !may_stay || !is_symmetric(types.x(), zero_point)? {
        return Ok(None);
    }
    let blocked = layout::axis(op.axis, 2).map_err(|problem| op.error(problem))?;
    let Some((product, slot, [k_at, n_at])) = following(model, node, blocked)? else {
        return Ok(None);
    };
    let Some(einsum) = product.op_as::<EinSum>() else { return Ok(None) };
    let Some(axes) = axes(einsum, slot, k_at, n_at) else { return Ok(None) };
    // tract's kernel of few bits takes one row at a time: it is the faster one for one row, and
    // slower for many.
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

/// The same weights, of which FLOAT is made when the product that follows runs; `None` where no
/// product of FLOAT follows, or their blocks are no bytes. `constants` are x, the scale and perhaps
/// the zero point.
pub(super) fn unpacked(
    op: &OnnxQuantizer,
    model: &TypedModel,
    node: &TypedNode,
    constants: &[&Arc<Tensor>],
) -> Patch {
    let types = op.quantizer();
    let [x, scale, zero_point @ ..] = constants else { return Ok(None) };
    let is_float = [types.scale(), types.y()] == [ElementType::Float; 2];
    if !op.may_stay_small() || !is_float || x.rank() != 2 || x.len() < weights::FROM {
        return Ok(None);
    }
    let layout = ScaleLayout::new(x.shape(), op.axis, op.block_size, scale.shape());
    let layout = layout.map_err(|problem| op.error(problem))?;
    let Some(k_axis) = multiplied(op, model, node, layout)? else { return Ok(None) };
    let order = [1 - k_axis, k_axis];
    let [n, k] = order.map(|axis| x.shape()[axis]);
    let bits = types.x().bits() as usize;
    let row = k.next_multiple_of(8 / bits);
    let block = match layout {
        ScaleLayout::Blocks { block, .. } => block.min(row),
        ScaleLayout::Tensor | ScaleLayout::Axis { .. } => row,
    };
    if !block.is_multiple_of(8 / bits) {
        return Ok(None);
    }

    let least = least(types.x());
    let codes = bytes(x, types.x(), order, block)?;
    let scales = for_blocks(scale, layout, order, n)?;
    let zeros: Vec<u8> = match zero_point.first() {
        Some(zeros) => {
            let zeros = for_blocks(zeros, layout, order, n)?;
            zeros
                .try_as_plain_ram()?
                .as_bytes()
                .iter()
                .map(|zero| zero.wrapping_add(least))
                .collect()
        }
        None => vec![least; scales.len()],
    };

    let mut patch = TypedModelPatch::default();
    let part = |name: &str| format!("{}.{name}", node.name);
    let codes = patch.add_const(part("codes"), codes)?;
    let scales = patch.add_const(part("scales"), scales)?;
    let zeros = patch.add_const(part("zeros"), tensor1(&zeros))?;
    let op = Unpack { n, k, block, bits };
    let mut weights = patch.wire_node(&node.name, op, &[codes, scales, zeros])?;
    if k_axis == 0 {
        weights = patch.wire_node(part("turned"), AxisOp::Move(0, 1), &weights)?;
    }
    patch.shunt_outside(model, node.id.into(), weights[0])?;
    Ok(Some(patch))
}

/// The axis of weights of rank 2 over which the product that follows adds, if its elements have one
/// scale or blocks of scales.
fn multiplied(
    op: &OnnxQuantizer,
    model: &TypedModel,
    node: &TypedNode,
    layout: ScaleLayout,
) -> TractResult<Option<usize>> {
    let axis = layout::axis(op.axis, 2).map_err(|problem| op.error(problem))?;
    let candidates = match layout {
        ScaleLayout::Tensor => vec![0, 1],
        ScaleLayout::Axis { .. } => vec![1 - axis],
        ScaleLayout::Blocks { .. } => vec![axis],
    };
    for axis in candidates {
        if let Some((product, slot, [k_at, n_at])) = following(model, node, axis)?
            && let Some(einsum) = product.op_as::<EinSum>()
            && axes(einsum, slot, k_at, n_at).is_some()
        {
            return Ok(Some(axis));
        }
    }
    Ok(None)
}

/// A scale or zero point for each block of each of N rows, from a tensor of them whose axes are put
/// in an order.
fn for_blocks(
    tensor: &Tensor,
    layout: ScaleLayout,
    order: [usize; 2],
    n: usize,
) -> TractResult<Tensor> {
    let flat = |tensor: Tensor| {
        let elements = tensor.len();
        tensor.into_shape(&[elements])
    };
    match layout {
        ScaleLayout::Blocks { .. } => flat(tensor.clone().permute_axes(&order)?),
        ScaleLayout::Axis { .. } => Ok(tensor.clone()),
        ScaleLayout::Tensor => flat(tensor.clone())?.slice(0, 0, 1)?.broadcast_to_shape(&[n]),
    }
}

/// How far the least code of integers is below 0: codes are counted from there.
fn least(ty: ElementType) -> u8 {
    if ty.family() == Family::Signed { 1 << (ty.bits() - 1) } else { 0 }
}

/// Codes above the least, their axes in an order, in bytes, the first in the low bits of its byte.
/// Each block begins a byte; what a block has too few are 0.
fn bytes(x: &Tensor, ty: ElementType, order: [usize; 2], block: usize) -> TractResult<Tensor> {
    let (bits, least) = (ty.bits() as usize, least(ty));
    let [n, k] = order.map(|axis| x.shape()[axis]);
    let [by_row, by_column] = order.map(|axis| if axis == 0 { x.shape()[1] } else { 1 });
    let codes = x.try_as_plain_ram()?;
    let codes = codes.as_bytes();
    let (each, mask) = (8 / bits, u8::MAX >> (8 - bits));
    let (blocks, of_block) = (k.div_ceil(block), block / each);
    // Not by way of a `Vec`, which a tensor copies: there are many.
    let mut packed = Tensor::zero::<u8>(&[n * blocks * of_block])?;
    let mut places = packed.try_as_plain_ram_mut()?;
    for (place, to) in places.as_slice_mut::<u8>()?.chunks_mut(of_block).enumerate() {
        let row = codes.get(place / blocks * by_row..).unwrap_or_default();
        let first = place % blocks * block;
        for (byte, start) in to.iter_mut().zip((first..).step_by(each)) {
            let columns = (start..(start + each).min(k)).rev();
            let codes = columns.filter_map(|column| row.get(column * by_column));
            *byte = codes.fold(0, |byte, code| byte << bits | code.wrapping_add(least) & mask);
        }
    }
    Ok(packed)
}

/// The product of two that comes next, the slot of these weights, and where their blocks and their
/// other axis are there.
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
) -> TractResult<Option<PackedWeights>> {
    let types = op.quantizer();
    let size = order.map(|axis| x.shape()[axis]);
    let scales = Conversion::new(types.scale(), ElementType::Float, Rules::default()).run(scale)?;
    let scales = scales.permute_axes(&order)?;
    let codes = bytes(x, types.x(), order, size[1])?;
    let codes = codes.try_as_plain_ram()?;
    let scales = scales.try_as_plain_ram()?;
    small_weights::packed(small, 4, codes.as_slice()?, scales.as_slice()?, size, op.block_size)
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

/// The axes of a product of two, the weights of which become groups × N × K; `None` where it is
/// none of that kind.
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
