//! Operators that slide over an input.
//!
//! - `max_pool`: of which the greatest element may be the least there is
//! - `transposed`: of which the output has a given shape
//! - `resize`: other sizes, of all types
//! - `tapered`: the windows of signals; `transform`: their spectra
//!
//! Where not even one window has room, tract's pools make one element of what there is (tract-core,
//! `ops/cnn/padding.rs`).

pub(crate) mod max_pool;
pub(crate) mod resize;
pub(crate) mod tapered;
pub(crate) mod transform;
pub(crate) mod transposed;

use onnx_cast_graph::counted;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_hir::internal::*;

use crate::ops::host::hook::{HookSite, Instead};

/// Fails where a window has no room in an axis whose size is known, or a convolution would make
/// less than nothing.
pub(crate) fn check(site: &HookSite, inputs: &[&InferenceFact]) -> TractResult<()> {
    let Some(input) = inputs.first() else { return Ok(()) };
    let auto_pad = site.proto.get_attr_opt::<&str>("auto_pad")?.unwrap_or("NOTSET");
    if auto_pad.starts_with("SAME") {
        return Ok(());
    }
    let numbers = |name: &str| -> TractResult<Vec<i64>> {
        Ok(site.proto.get_attr_opt_vec(name)?.unwrap_or_default())
    };
    let (mut kernel, dilations) = (numbers("kernel_shape")?, numbers("dilations")?);
    let (is_conv, strides) = (site.proto.op_type == "Conv", numbers("strides")?);
    if let (true, true, Some(weights)) = (is_conv, kernel.is_empty(), inputs.get(1)) {
        let sizes = weights.shape.dims().skip(2);
        kernel = sizes.map_while(|dim| dim.concretize()?.to_i64().ok()).collect();
    }
    let pads = if auto_pad == "VALID" { vec![] } else { numbers("pads")? };
    let number = |list: &[i64], place: usize, default: i64| -> i128 {
        list.get(place).copied().unwrap_or(default).into()
    };
    for (axis, (size, dim)) in kernel.iter().zip(input.shape.dims().skip(2)).enumerate() {
        let Some(dim) = dim.concretize().and_then(|dim| dim.to_i64().ok()) else { continue };
        let window = (i128::from(*size) - 1) * number(&dilations, axis, 1) + 1;
        let padding = number(&pads, axis, 0) + number(&pads, axis + kernel.len(), 0);
        // A convolution has no elements where its first window lacks fewer places than to the next
        // one.
        let most = if is_conv { number(&strides, axis, 1) } else { 0 };
        if window - i128::from(dim) - padding > most {
            let window = counted(window, "place");
            let problem = format!("has a window of {window} along an axis of {dim}");
            bail!(site.error(format!("{problem}, and a padding of {padding}")));
        }
    }
    Ok(())
}

/// Leaves it to tract's operator.
pub(crate) fn stock(_: &HookSite, _: &mut TypedModel, _: &[OutletId]) -> Instead {
    Ok(None)
}
