//! `NonMaxSuppression` of no boxes.
//!
//! `max_output_boxes_per_class` is 0 where it is left out, which tract takes for no limit
//! (tract-onnx-opl, `non_max_suppression.rs`). Of a limit below 0 it takes no boxes.

use tract_onnx::tract_core::internal::*;

use crate::ops::fixes::shapes::is_empty;
use crate::ops::host::element_wise::{same_facts, typed_op};
use crate::ops::host::hook::{HookSite, Instead, Wires};
use crate::ops::host::saved::save;

/// Which input of the node is the limit.
const LIMIT: usize = 2;

/// Wires tract's operator with a limit that it takes as it is meant. Where it could be told before
/// the model runs how many boxes there are, the limit is held back: tract has a symbol for their
/// number all the same.
pub(crate) fn suppression(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(limit) = site.given(inputs, LIMIT) else { return Ok(None) };
    let known = model.outlet_fact(limit)?.konst.clone();
    let some = known.is_some_and(|limit| limit.cast_to_scalar::<i64>().is_ok_and(|most| most > 0));
    let is_open = |input: &OutletId| {
        model.outlet_fact(*input).is_ok_and(|fact| fact.konst.is_none() && !is_empty(fact))
    };
    if some && inputs.iter().take(LIMIT).all(is_open) {
        return Ok(None);
    }
    let kept = model.wire_node(site.part("limit"), BoxLimit, &[limit])?;
    let exchanged = |input: &OutletId| *kept.first().filter(|_| *input == limit).unwrap_or(input);
    let inputs: Wires = inputs.iter().map(exchanged).collect();
    site.wire_stock(model, &inputs).map(Some)
}

/// A limit, below 0 where it leaves no boxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoxLimit;

typed_op!(BoxLimit, "Limit");

impl EvalOp for BoxLimit {
    not_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let limit = args_1!(inputs);
        let limit =
            limit.to_plain_array_view::<i64>()?.map(|most| if *most > 0 { *most } else { -1 });
        Ok(tvec!(limit.into_tvalue()))
    }
}

impl TypedOp for BoxLimit {
    same_facts!();

    as_op!();
}

save!(BoxLimit, "tract_onnx_cast_limit_of_boxes", {});
