//! `BatchNormalization` by data: tract takes constants alone (tract-onnx, `ops/nn/batch_norm.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::math::{add, div, mul, sqrt, sub};

use crate::ops::host::hook::{HookSite, Instead};

/// Wires it of statistics, scales or biases that are data.
pub(crate) fn batch_norm(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [x, params @ ..] = inputs else { return Ok(None) };
    let (ty, rank) = (model.outlet_fact(*x)?.datum_type, model.outlet_fact(*x)?.rank());
    let mut is_data = false;
    let mut columns = tvec!();
    for param in params {
        let fact = model.outlet_fact(*param)?;
        is_data |= fact.konst.is_none();
        if fact.rank() != 1 || rank < 2 {
            return Ok(None);
        }
    }
    if !is_data {
        return Ok(None);
    }
    for (place, param) in params.iter().enumerate() {
        let mut column = tvec!(*param);
        // Channels are the second of all axes.
        for axis in [0].into_iter().chain(2..rank) {
            let name = site.part(&format!("param-{place}-axis-{axis}"));
            column = model.wire_node(name, AxisOp::Add(axis), &column)?;
        }
        columns.extend(column);
    }
    let [scale, bias, mean, variance] = *columns else { return Ok(None) };
    let epsilon = site.proto.get_attr_opt::<f32>("epsilon")?.unwrap_or(1e-5);
    let epsilon = tensor0(epsilon).cast_to_dt(ty)?.into_owned().broadcast_into_rank(rank)?;
    let epsilon = model.add_const(site.part("epsilon"), epsilon)?;
    let mut part = |name: &str, op: Box<dyn TypedOp>, inputs: &[OutletId]| {
        let made = model.wire_node(site.part(name), op, inputs)?;
        made.first().copied().context("a result")
    };
    let variance = part("variance", Box::new(add()), &[variance, epsilon])?;
    let deviation = part("deviation", Box::new(sqrt()), &[variance])?;
    let slope = part("slope", Box::new(div()), &[scale, deviation])?;
    let apart = part("apart", Box::new(sub()), &[*x, mean])?;
    let scaled = part("scaled", Box::new(mul()), &[apart, slope])?;
    model.wire_node(&site.name, add(), &[scaled, bias]).map(Some)
}
