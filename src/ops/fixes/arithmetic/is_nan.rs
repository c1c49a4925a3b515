//! `IsNaN` of DOUBLE and `IsInf` of FLOAT16 and DOUBLE, which tract does not have: it says of the results that they are of the inputs' types.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::logic::{comp_eq, or};

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::hook::{Site, Wires};

pub(crate) fn is_nan(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let [input] = inputs else { return Ok(None) };
    if model.outlet_fact(*input)?.datum_type != DatumType::F64 {
        return Ok(None);
    }
    wire_is_nan(&site.name, model, *input).map(Some)
}

/// Says of each FLOAT16 or DOUBLE whether it is infinite.
pub(crate) fn is_inf(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let [input] = inputs else { return Ok(None) };
    let fact = model.outlet_fact(*input)?;
    let rank = fact.rank();
    match fact.datum_type {
        DatumType::F16 => {
            let floats = model.wire_node(site.part("float"), cast(DatumType::F32), inputs)?;
            return site.wire_stock(model, &floats).map(Some);
        }
        DatumType::F64 => {}
        _ => return Ok(None),
    }
    let mut is = |name: String, value: f64| -> TractResult<OutletId> {
        let value = tensor0(value).broadcast_into_rank(rank)?;
        let value = model.add_const(format!("{name}.value"), value)?;
        let is_equal = TypedBinOp(comp_eq(), None);
        let made = model.wire_node(name, is_equal, &[*input, value])?;
        made.first().copied().context("an output")
    };
    let flag = |name: &str| Ok::<_, TractError>(site.int(name, 1)? != 0);
    let made = match (flag("detect_positive")?, flag("detect_negative")?) {
        (true, true) => {
            let above = is(site.part("above"), f64::INFINITY)?;
            let below = is(site.part("below"), f64::NEG_INFINITY)?;
            return model.wire_node(&site.name, or(), &[above, below]).map(Some);
        }
        (true, false) => is(site.name.clone(), f64::INFINITY)?,
        (false, true) => is(site.name.clone(), f64::NEG_INFINITY)?,
        // Nothing is NaN to a comparison.
        (false, false) => is(site.name.clone(), f64::NAN)?,
    };
    Ok(Some(tvec!(made)))
}

/// Says of each float whether it is NaN. A FLOAT is where the DOUBLE that it is made of is.
pub(crate) fn wire_is_nan(
    name: &str,
    model: &mut TypedModel,
    input: OutletId,
) -> TractResult<Wires> {
    let is_nan = tract_onnx::tract_core::ops::math::is_nan();
    if model.outlet_fact(input)?.datum_type != DatumType::F64 {
        return model.wire_node(name, is_nan, &[input]);
    }
    let (from, to) = (ElementType::Double, ElementType::Float);
    let double_cast = OnnxCast::new(name, from, to, Rules::default()).beside_casts_of(model);
    let floats = model.wire_node(format!("{name}.float"), double_cast, &[input])?;
    model.wire_node(name, is_nan, &floats)
}
