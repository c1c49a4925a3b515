//! Keeping what tract's optimiser would get wrong about products and convolutions away from them.
//!
//! - It takes an expansion before a product away, also along an axis that is summed over, or that
//!   no other operand has (tract-core, `ops/einsum/mod.rs`, `declutter_broadcast`). A convolution
//!   with a kernel of 1 becomes a product.
//! - It makes a stride a selection before a convolution, which it moves over what computes with all
//!   elements of the axis, or makes the stride of another convolution, whose padding is then
//!   another (`ops/downsample`).
//! - It removes an axis with a kernel of 1 though it is padded (`ops/cnn/conv/conv.rs`,
//!   `change_axes`).
//! - It takes what is added to a product behind a change of axes for as large as the product
//!   (`ops/matmul/optimized.rs`, `fuse`).
//!
//! It also puts sums along axes that may have no elements right (`arithmetic::sum`), and products
//! by 0 (`arithmetic::binary`).
//!
//! `operands` tells where an expansion matters to a product, `open` has operands of open sizes
//! agree, by `of_sizes`, which looks at them when they are there. `enlarged` keeps the shape of a
//! sum. `convolution` has convolutions of integers computed in FLOAT, behind which is `requantize`,
//! and `integers` small products.

pub(crate) mod convolution;
mod enlarged;
pub(crate) mod integers;
pub(crate) mod of_sizes;
pub(crate) mod open;
pub(super) mod operands;
pub(crate) mod requantize;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::{Conv, PaddingSpec};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::nn::Reduce;

use crate::ops::host::hook::Wired;

use super::apart::{Apart, Keeps};
use super::arithmetic::binary::keep_product;
use super::arithmetic::sum::correct_sum;
use super::grounded::{is_grounded, steps_matter};
use operands::{needed, operands};

/// Keeps the products and convolutions of a model apart from what would make them wrong, from a
/// node on, and tells where the outputs of an operator are then.
pub(crate) fn keep_apart(
    model: &mut TypedModel,
    first: usize,
    mut outlets: TVec<OutletId>,
) -> Wired {
    for id in first..model.nodes.len() {
        if model.node(id).op_is::<EinSum>() {
            product(model, id)?;
        } else if model.node(id).op_is::<Reduce>() {
            correct_sum(model, id)?;
        } else if model.node(id).op_is::<TypedBinOp>() {
            keep_product(model, id)?;
            enlarged::keep_shape(model, id)?;
        } else if model.node(id).op_is::<Conv>()
            && let Some(apart) = convolution(model, id)?
        {
            for outlet in outlets.iter_mut().filter(|outlet| outlet.node == id) {
                *outlet = apart;
            }
        }
    }
    Ok(outlets)
}

/// Puts an [`Apart`] before an input of a node.
fn put_before(
    model: &mut TypedModel,
    inlet: InletId,
    keeps: Keeps,
    axes: TVec<usize>,
) -> TractResult<()> {
    if axes.is_empty() {
        return Ok(());
    }
    let node = model.node(inlet.node);
    let input = *node.inputs.get(inlet.slot).context("an input of the node")?;
    let name = format!("{}.apart-{:?}-{}", node.name, keeps, inlet.slot).to_lowercase();
    let apart = model.wire_node(name, Apart { keeps, axes }, &[input])?;
    model.add_edge(*apart.first().context("an output")?, inlet)
}

fn product(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    let Some(op) = node.op_as::<EinSum>() else { return Ok(()) };
    let inputs = operands(node);
    let op = op.clone();
    for slot in 0..inputs.len() {
        let axes = needed(model, &op, &inputs, slot)?;
        put_before(model, InletId::new(id, slot), Keeps::Expansion, axes)?;
    }
    Ok(())
}

/// Keeps a convolution apart, and tells what takes its place where something has to be behind it.
fn convolution(model: &mut TypedModel, id: usize) -> TractResult<Option<OutletId>> {
    let node = model.node(id);
    let Some(op) = node.op_as::<Conv>() else { return Ok(None) };
    let input = *node.inputs.first().context("a convolution has data")?;
    let shape = op.pool_spec.data_format.shape(model.outlet_fact(input)?.shape.to_tvec())?;
    let op = with_own_padding(op, shape.hw_dims());
    let (spatial, rank) = (shape.hw_axes(), shape.rank());
    let kernel = op.pool_spec.kernel_shape.clone();
    let has_kernel = |axis: usize, size: usize| kernel.get(axis) == Some(&size);
    let mut strided = tvec!();
    for (place, axis) in spatial.clone().enumerate() {
        let selects = has_kernel(place, 1) || op.pool_spec.dilation(place) > 1;
        if op.pool_spec.stride(place) > 1 && selects && steps_matter(model, input, axis)? {
            strided.push(axis);
        }
    }
    let padded = spatial
        .clone()
        .enumerate()
        .any(|(place, _)| has_kernel(place, 1) && !op.pool_spec.padding.valid_dim(place, true));
    model.node_mut(id).op = Box::new(op);
    if kernel.iter().all(|size| *size == 1) {
        let inputs: TVec<OutletId> = model.node(id).inputs.iter().take(2).copied().collect();
        for (slot, input) in inputs.into_iter().enumerate() {
            let mut needed = tvec!();
            for axis in 0..model.outlet_fact(input)?.rank() {
                if !is_grounded(model, input, axis)? {
                    needed.push(axis);
                }
            }
            put_before(model, InletId::new(id, slot), Keeps::Expansion, needed)?;
        }
    }
    put_before(model, InletId::new(id, 0), Keeps::Steps, strided)?;
    if padded {
        put_before(model, InletId::new(id, 0), Keeps::Axes, (0..rank).collect())?;
        return put_behind(model, id, (0..rank).collect()).map(Some);
    }
    Ok(None)
}

/// A convolution whose padding does not change with its stride, where it is known what it is.
fn with_own_padding(op: &Conv, dims: &[TDim]) -> Conv {
    let mut op = op.clone();
    let spec = &op.pool_spec;
    let is_lower = match spec.padding {
        PaddingSpec::SameLower => true,
        PaddingSpec::SameUpper => false,
        _ => return op,
    };
    let mut pads: (TVec<usize>, TVec<usize>) = Default::default();
    for (place, (kernel, computed)) in
        spec.kernel_shape.iter().zip(spec.computed_padding(dims)).enumerate()
    {
        let (before, after) = if spec.stride(place) == 1 {
            let all = kernel.saturating_sub(1) * spec.dilation(place);
            if is_lower { (all - all / 2, all / 2) } else { (all / 2, all - all / 2) }
        } else {
            let known = (computed.pad_before.to_usize(), computed.pad_after.to_usize());
            let (Ok(before), Ok(after)) = known else { return op };
            (before, after)
        };
        pads.0.push(before);
        pads.1.push(after);
    }
    op.pool_spec.padding = PaddingSpec::Explicit(pads.0, pads.1);
    op
}

/// Puts an [`Apart`] behind a node of one output, for all that take it afterwards: the node is
/// exchanged for it.
fn put_behind(model: &mut TypedModel, id: usize, axes: TVec<usize>) -> TractResult<OutletId> {
    let name = model.node(id).name.clone();
    let successors: Vec<InletId> = model
        .node(id)
        .outputs
        .iter()
        .flat_map(|output| output.successors.iter().copied())
        .collect();
    let apart = Apart { keeps: Keeps::Axes, axes };
    let apart = model.wire_node(format!("{name}.apart"), apart, &[id.into()])?;
    let apart = *apart.first().context("an output")?;
    for inlet in successors {
        model.add_edge(apart, inlet)?;
    }
    Ok(apart)
}
