//! `Tile` of STRING, which tract has no zeros of to begin with (tract-core, `ops/array/tile.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;

use crate::ops::host::hook::{Instead, Site};
use crate::ops::host::integers::dims;

/// Wires it as an expansion of each axis.
pub(crate) fn tile(site: &Site, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, repeats] = *inputs else { return Ok(None) };
    let fact = model.outlet_fact(data)?;
    let mut shape = fact.shape.to_tvec();
    let Some(repeats) = model.outlet_fact(repeats)?.konst.clone() else { return Ok(None) };
    let repeats = dims(&repeats)?;
    if fact.datum_type != DatumType::String || repeats.len() != shape.len() {
        return Ok(None);
    }
    let mut wires = tvec!(data);
    for (axis, count) in repeats.iter().enumerate() {
        let Some(size) = shape.get(axis).cloned() else { continue };
        let part = |part: &str| site.part(&format!("{part}-{axis}"));
        wires = model.wire_node(part("axis"), AxisOp::Add(axis), &wires)?;
        shape.insert(axis, count.clone());
        let expansion = MultiBroadcastTo::new(shape.clone().into());
        wires = model.wire_node(part("expansion"), expansion, &wires)?;
        let tiled = size.clone() * count;
        let join = AxisOp::Reshape(axis, tvec![count.clone(), size], tvec![tiled.clone()]);
        wires = model.wire_node(part("tiled"), join, &wires)?;
        shape.remove(axis);
        if let Some(size) = shape.get_mut(axis) {
            *size = tiled;
        }
    }
    if wires.first() != Some(&data) {
        model.rename_node(wires.first().context("a tile")?.node, &site.name)?;
    }
    Ok(Some(wires))
}
