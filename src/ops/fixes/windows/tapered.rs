//! `HannWindow`, `HammingWindow` and `BlackmanWindow`, of which tract computes the elements in
//! FLOAT (tract-onnx, `ops/fft.rs`).

use std::f64::consts::PI;

use tract_onnx::tract_core::internal::*;

use crate::cast::element_type::ElementType;
use crate::cast::rules::Rules;
use crate::ops::host::hook::{HookSite, Instead};
use crate::tensor::conversion::Conversion;

/// Makes a constant of a window of known size.
pub(crate) fn window(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let ty = site.proto.get_attr_opt("output_datatype")?.unwrap_or(DatumType::F32);
    let periodic = site.int("periodic", 1)?;
    let [size] = inputs else { return Ok(None) };
    let Some(size) = model.outlet_fact(*size)?.konst.clone() else { return Ok(None) };
    let size = size.cast_to::<i64>()?;
    let (&[size], Some(ty)) =
        (size.try_as_plain_ram()?.as_slice::<i64>()?, ElementType::native(ty))
    else {
        return Ok(None);
    };
    let mut elements: Vec<f64> = vec![];
    let length = usize::try_from(size).ok();
    let Some(length) = length.filter(|len| elements.try_reserve_exact(*len).is_ok()) else {
        bail!(site.error(format!("has the size {size}")));
    };
    // The last element is the first of the next period.
    let period = size as f64 - if periodic == 0 { 1.0 } else { 0.0 };
    let angle = |place: usize| 2.0 * PI * place as f64 / period;
    let element = |place: usize| match site.proto.op_type.as_str() {
        "HannWindow" => 0.5 - 0.5 * angle(place).cos(),
        "HammingWindow" => 25.0 / 46.0 - 21.0 / 46.0 * angle(place).cos(),
        // In this order the peak is exactly 1.
        _ => (0.42 + 0.08 * (2.0 * angle(place)).cos()) - 0.5 * angle(place).cos(),
    };
    elements.extend((0..length).map(element));
    // Integers are what is left of exact numbers: a peak of 1 is no 0.
    let rounded = Conversion::new(ElementType::Double, ty, Rules::default());
    let window = rounded.run(&tensor1(&elements))?;
    Ok(Some(tvec!(model.add_const(&site.name, window)?)))
}
