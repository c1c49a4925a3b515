//! `IsNaN` of DOUBLE, which tract does not have: it says of the result that it is DOUBLE.

use tract_onnx::tract_core::internal::*;

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::ops::cast::op::OnnxCast;
use crate::ops::host::hook::{Site, Wires};

/// A FLOAT is NaN where the DOUBLE that it is made of is.
pub(crate) fn is_nan(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let [input] = inputs else { return Ok(None) };
    if model.outlet_fact(*input)?.datum_type != DatumType::F64 {
        return Ok(None);
    }
    let (from, to) = (ElementType::Double, ElementType::Float);
    let cast = OnnxCast::new(&site.name, from, to, Rules::default()).beside_casts_of(model);
    let floats = model.wire_node(format!("{}.float", site.name), cast, &[*input])?;
    let is_nan = tract_onnx::tract_core::ops::math::is_nan();
    model.wire_node(&site.name, is_nan, &floats).map(Some)
}
