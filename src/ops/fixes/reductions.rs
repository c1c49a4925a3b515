//! Which operator a reduction takes: tract's own, or one of those that put it right.

use tract_onnx::prelude::*;

use super::arithmetic::{extremum, reduce};
use super::{rows, shapes};
use crate::ops::host::hook::{HookSite, Instead, Wire};

/// The first of several that has something to put into the model.
fn first(wires: &[Wire], site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    for wire in wires {
        if let Some(outlets) = wire(site, model, inputs)? {
            return Ok(Some(outlets));
        }
    }
    Ok(None)
}

/// What is made of elements along axes, of floats where there are none, or of integers.
pub(super) fn reduced(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    first(&[shapes::of_none, reduce::reduce], site, model, inputs)
}

/// What is made of rows, of floats or of integers.
pub(super) fn row(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    first(&[shapes::of_none, rows::reduction, reduce::reduce], site, model, inputs)
}

/// `ReduceMax` and `ReduceMin`, of floats or of integers.
pub(super) fn extreme(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    first(&[shapes::of_none, extremum::extremum, reduce::reduce], site, model, inputs)
}
