//! `Pad` by sizes of which some are negative, which take away, and of a mode that has no use for the number that it is given:
//! tract takes the first for large ones, and always fills with the number (tract-onnx, `ops/array/pad.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::{Pad, PadMode, Slice};

use crate::ops::host::hook::{Site, Wires};

/// Wires what takes away before what pads.
pub(crate) fn pad(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let (Some(data), Some(pads)) = (inputs.first(), inputs.get(1)) else { return Ok(None) };
    let constant = |outlet: Option<OutletId>| -> TractResult<Option<Arc<Tensor>>> {
        Ok(match outlet {
            Some(outlet) => model.outlet_fact(outlet)?.konst.clone(),
            None => None,
        })
    };
    let Some(pads) = constant(Some(*pads))? else { return Ok(None) };
    let pads = pads.cast_to::<i64>()?;
    let pads = pads.try_as_plain_ram()?.as_slice::<i64>()?;
    let given = |place: usize| site.given(inputs, place);
    let mode = site.proto.get_attr_opt::<&str>("mode")?.unwrap_or("constant");
    let is_filled = mode == "constant" || given(2).is_none();
    if pads.iter().all(|pad| *pad >= 0) && is_filled {
        return Ok(None);
    }
    if let Some(pad) = pads.iter().find(|pad| pad.unsigned_abs() > u64::from(u32::MAX)) {
        bail!(site.error(format!("pads by {pad}")));
    }
    let shape = model.outlet_fact(*data)?.shape.to_tvec();
    let rank = i64::try_from(shape.len())?;
    let axes = match constant(given(3))? {
        Some(axes) => axes.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.to_vec(),
        None if given(3).is_some() => bail!(site.unplanned("has `axes` that are no constant")),
        None => (0..rank).collect(),
    };
    let mode = pad_mode(site, mode, given(2), constant(given(2))?)?;
    let (before, after) = pads.split_at(pads.len() / 2);
    let mut added = vec![(0, 0); shape.len()];
    let mut wires: Wires = tvec!(*data);
    for ((axis, before), after) in axes.into_iter().zip(before).zip(after) {
        let place =
            usize::try_from(if axis < 0 { axis + rank } else { axis }).unwrap_or(usize::MAX);
        let (Some(dim), Some(added)) = (shape.get(place), added.get_mut(place)) else {
            bail!(site.error(format!("pads axis {axis} of {rank}")));
        };
        let axis = place;
        let (start, end) = (before.min(&0).to_dim() * -1, dim.clone() + *after.min(&0));
        if let (Ok(start), Ok(end)) = (start.to_i64(), end.to_i64())
            && start > end
        {
            bail!(
                site.error(format!("takes {} elements of {dim}", -before.min(&0) - after.min(&0)))
            );
        }
        if *before < 0 || *after < 0 {
            let name = site.part(&format!("less-{axis}"));
            wires = model.wire_node(name, Slice { axis, start, end }, &wires)?;
        }
        *added = (usize::try_from(*before.max(&0))?, usize::try_from(*after.max(&0))?);
    }
    model.wire_node(&site.name, Pad { mode, pads: added }, &wires).map(Some)
}

/// How what is added is filled, by the `constant_value` that is given, where it is a constant.
fn pad_mode(
    site: &Site,
    mode: &str,
    given: Option<OutletId>,
    value: Option<Arc<Tensor>>,
) -> TractResult<PadMode> {
    Ok(match (mode, value) {
        ("edge", _) => PadMode::Edge,
        ("reflect", _) => PadMode::Reflect,
        (_, Some(value)) => PadMode::Constant(value),
        (_, None) if given.is_some() => {
            bail!(site.unplanned("has a `constant_value` that is no constant"))
        }
        (_, None) => PadMode::Constant(rctensor0(0f32)),
    })
}
