//! `Celu` with an `alpha` other than 1: tract leaves the factor out.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::wire_with_rank_broadcast;
use tract_onnx::tract_core::ops::math::{add, div, exp, max, min, mul, sub};

use super::hook::{Site, Wires};

/// max(0, x) + min(0, α·(exp(x / α) − 1)).
pub(crate) fn celu(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let alpha: f32 = site.proto.get_attr_opt("alpha")?.unwrap_or(1.);
    let [x] = inputs else { return Ok(None) };
    if alpha == 1. {
        return Ok(None);
    }
    let ty = model.outlet_fact(*x)?.datum_type;
    let mut constant = |name: &str, value: f32| {
        model.add_const(site.part(name), tensor0(value).cast_to_dt(ty)?.into_owned())
    };
    let (zero, one) = (constant("zero", 0.)?, constant("one", 1.)?);
    let alpha = constant("alpha", alpha)?;
    let mut wire = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
        Ok::<_, TractError>(wire_with_rank_broadcast(site.part(name), model, op, inputs)?[0])
    };
    let scaled = wire("scaled", Box::new(div()), &[*x, alpha])?;
    let exponential = wire("exp", Box::new(exp()), &[scaled])?;
    let less = wire("less", Box::new(sub()), &[exponential, one])?;
    let negative = wire("negative", Box::new(mul()), &[alpha, less])?;
    let negative = wire("min", Box::new(min()), &[zero, negative])?;
    let positive = wire("max", Box::new(max()), &[zero, *x])?;
    wire_with_rank_broadcast(&site.name, model, add(), &[positive, negative]).map(Some)
}
