//! Operators that slide over an input.
//!
//! - `max_pool`: of which the greatest element may be the least there is
//! - `transposed`: of which the output has a given shape
//! - `resize`: other sizes, of all types
//! - `room`: whether a window has room where only a run tells
//! - `tapered`: the windows of signals; `transform`: their spectra
//!
//! Where not even one window has room, tract's pools make one element of what there is (tract-core,
//! `ops/cnn/padding.rs`).

pub(crate) mod max_pool;
pub(crate) mod resize;
pub(crate) mod room;
pub(crate) mod tapered;
pub(crate) mod transform;
pub(crate) mod transposed;

use std::fmt::Display;

use onnx_cast_graph::counted;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::ops::host::hook::{HookSite, Instead};
use room::HasRoom;

/// Fails where a window has no room in an axis whose size is known, or a convolution would make
/// less than nothing.
pub(crate) fn check(site: &HookSite, inputs: &[&InferenceFact]) -> TractResult<()> {
    let Some(input) = inputs.first() else { return Ok(()) };
    let is_conv = site.proto.op_type == "Conv";
    let sizes = inputs.get(1).filter(|_| is_conv).map(|weights| weights.shape.dims().skip(2));
    let kernel = sizes.into_iter().flatten();
    let kernel = kernel.map_while(|dim| dim.concretize()?.to_i64().ok()).collect();
    let strides = numbers(site, "strides")?;
    let windows = windows(site, kernel)?;
    for (axis, ((window, padding), dim)) in
        windows.iter().zip(input.shape.dims().skip(2)).enumerate()
    {
        let Some(dim) = dim.concretize().and_then(|dim| dim.to_i64().ok()) else { continue };
        // A convolution has no elements where its first window lacks fewer places than to the next
        // one.
        let most = if is_conv { strides.get(axis).copied().unwrap_or(1) } else { 0 };
        if window - i128::from(dim) - padding > i128::from(most) {
            bail!(site.error(counted_window(*window, dim, *padding)));
        }
    }
    Ok(())
}

fn numbers(site: &HookSite, attribute: &str) -> TractResult<Vec<i64>> {
    Ok(site.proto.get_attr_opt_vec(attribute)?.unwrap_or_default())
}

/// For each axis how many places a window spans, and how many are added to the axis. Of one that
/// goes by the size of the output there are none. `weights` are the window's sizes where no
/// attribute is.
fn windows(site: &HookSite, weights: Vec<i64>) -> TractResult<Vec<(i128, i128)>> {
    let auto_pad = site.proto.get_attr_opt::<&str>("auto_pad")?.unwrap_or("NOTSET");
    if auto_pad.starts_with("SAME") {
        return Ok(vec![]);
    }
    let (mut kernel, dilations) = (numbers(site, "kernel_shape")?, numbers(site, "dilations")?);
    if kernel.is_empty() {
        kernel = weights;
    }
    let pads = if auto_pad == "VALID" { vec![] } else { numbers(site, "pads")? };
    let number = |list: &[i64], place: usize, default: i64| -> i128 {
        list.get(place).copied().unwrap_or(default).into()
    };
    let window = |(axis, size): (usize, &i64)| {
        let window = (i128::from(*size) - 1) * number(&dilations, axis, 1) + 1;
        (window, number(&pads, axis, 0) + number(&pads, axis + kernel.len(), 0))
    };
    Ok(kernel.iter().enumerate().map(window).collect())
}

/// What is wrong with a window that has no room.
fn counted_window(window: impl Into<i128>, size: impl Display, padding: impl Display) -> String {
    let window = counted(window.into(), "place");
    format!("has a window of {window} along an axis of {size}, and a padding of {padding}")
}

/// Wires a look at the sizes that only a run tells before a pool.
pub(crate) fn with_room(
    site: &HookSite,
    model: &mut TypedModel,
    input: OutletId,
) -> TractResult<OutletId> {
    let shape = model.outlet_fact(input)?.shape.to_tvec();
    let mut axes = tvec!();
    for ((axis, dim), (window, padding)) in
        shape.iter().enumerate().skip(2).zip(windows(site, vec![])?)
    {
        if dim.as_i64().is_none() {
            axes.push((axis, (i64::try_from(window)?, i64::try_from(padding)?)));
        }
    }
    if axes.is_empty() {
        return Ok(input);
    }
    let (operator, opset) = (site.proto.op_type.as_str().into(), site.imported);
    let op = HasRoom { node: site.node(), operator, opset, axes };
    let looked_at = model.wire_node(site.part("room"), op, &[input])?;
    looked_at.first().copied().context("an operator of one output")
}

/// Wires tract's pool behind a look at the sizes.
pub(crate) fn pool(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let looked_at = with_room(site, model, *input)?;
    if looked_at == *input {
        return Ok(None);
    }
    site.wire_stock(model, &[looked_at]).map(Some)
}

/// Leaves it to tract's operator.
pub(crate) fn stock(_: &HookSite, _: &mut TypedModel, _: &[OutletId]) -> Instead {
    Ok(None)
}
