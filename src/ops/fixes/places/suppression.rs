//! `NonMaxSuppression` of no boxes.
//!
//! `max_output_boxes_per_class` is 0 where it is left out, which tract takes for no limit (tract-onnx-opl,
//! `non_max_suppression.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice;

use crate::ops::fixes::shapes::is_empty;
use crate::ops::host::checked::constants::Held;
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{Instead, Site, Wires, unplanned};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Which input of the node is the limit.
const LIMIT: usize = 2;

/// Wires no boxes where none are asked for, and tract's operator where some are.
pub(crate) fn suppression(site: &Site, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    if let [boxes, scores, rest @ ..] = inputs
        && (is_empty(model.outlet_fact(*boxes)?) || is_empty(model.outlet_fact(*scores)?))
    {
        // tract would compute it as it is typed, and then has a number of boxes where a symbol is expected.
        let [others @ .., last] = rest else {
            bail!(site.unplanned("has neither boxes nor a limit"))
        };
        let held = model.wire_node(site.part("held"), Held, &[*last])?;
        let inputs = [&[*boxes, *scores], others, &*held].concat();
        return site.wire_stock(model, &inputs).map(Some);
    }
    let limit = site.given(inputs, LIMIT);
    let known = match limit {
        Some(limit) => model.outlet_fact(limit)?.konst.clone(),
        None => Some(rctensor0(0i64)),
    };
    let Some(known) = known else {
        let Some(limit) = limit else { return Ok(None) };
        let limited =
            model.wire_node(site.part("limit"), SomeBoxes { node: site.node() }, &[limit])?;
        let inputs: Wires = inputs
            .iter()
            .map(|input| limited.first().filter(|_| *input == limit).unwrap_or(input))
            .copied()
            .collect();
        return site.wire_stock(model, &inputs).map(Some);
    };
    if known.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.iter().any(|max| *max > 0) {
        return Ok(None);
    }
    // Of no classes there are no boxes.
    let [boxes, scores, rest @ ..] = inputs else { return Ok(None) };
    let none = model.wire_node(site.part("no-classes"), Slice::new(1, 0, 0), &[*scores])?;
    site.wire_stock(model, &[&[*boxes], &*none, rest].concat()).map(Some)
}

/// A limit, which is an error if it leaves no boxes: it would have to be known before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SomeBoxes {
    node: Label,
}

typed_op!(SomeBoxes, "SomeBoxes");

impl EvalOp for SomeBoxes {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let limit = args_1!(inputs);
        if limit.try_as_plain_ram()?.as_slice::<i64>()?.iter().all(|max| *max > 0) {
            return Ok(tvec!(limit));
        }
        let problem = "takes `max_output_boxes_per_class` as data, which is 0";
        bail!(unplanned(&self.node, "NonMaxSuppression", problem))
    }
}

impl TypedOp for SomeBoxes {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().map(|fact| fact.without_value()).collect())
    }

    as_op!();
}

save!(SomeBoxes, "tract_onnx_cast_some_boxes", node {});
