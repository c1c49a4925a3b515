//! `IsNaN` of DOUBLE, which tract does not have: it says of the result that it is DOUBLE.

use tract_onnx::tract_core::internal::*;

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
    let cast = OnnxCast::new(name, from, to, Rules::default()).beside_casts_of(model);
    let floats = model.wire_node(format!("{name}.float"), cast, &[input])?;
    model.wire_node(name, is_nan, &floats)
}
