//! `CumSum` of what comes before, along an axis of one element.
//!
//! tract makes zeros of it whose number it takes from what it knows of the input's shape, and the
//! input is not run (tract-core, `ops/array/cumsum.rs`, `declutter`). Where the one element is a
//! place that a plan has taken to be in its axis, nothing finds out then that it is not. Here they
//! are zeros in the place of the elements.

use tract_onnx::tract_core::internal::*;

use crate::onnx::node::from_front;
use crate::ops::host::element_wise::{element_wise, same_facts, typed_op};
use crate::ops::host::hook::{HookSite, Instead};
use crate::ops::host::saved::save;

/// Wires zeros that are run, where tract's would not be.
pub(crate) fn cum_sum(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, axis] = inputs else { return Ok(None) };
    if site.int("exclusive", 0)? == 0 {
        return Ok(None);
    }
    let Some(axis) = model.outlet_fact(*axis)?.konst.clone() else { return Ok(None) };
    // What is read of no element is anything.
    if axis.len() != 1 {
        return Ok(None);
    }
    let fact = model.outlet_fact(*data)?;
    let axis = from_front(axis.cast_to_scalar::<i64>()?, fact.rank());
    let size = axis.and_then(|axis| fact.shape.get(axis));
    if fact.konst.is_some() || !fact.datum_type.is_number() || size != Some(&1.to_dim()) {
        return Ok(None);
    }
    model.wire_node(&site.name, Zeros, &[*data]).map(Some)
}

/// As many zeros as its input has elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zeros;

typed_op!(Zeros, "Zeros");

impl EvalOp for Zeros {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        Ok(tvec!(Tensor::zero_dt(input.datum_type(), input.shape())?.into_tvalue()))
    }
}

impl TypedOp for Zeros {
    same_facts!();

    element_wise!();

    as_op!();
}

save!(Zeros, "tract_onnx_cast_zeros", {});
