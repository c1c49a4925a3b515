//! `Pad` by sizes of which some are negative, which take away, and of a mode that has no use for
//! the number that it is given: tract takes the first for large ones, and always fills with the
//! number (tract-onnx, `ops/array/pad.rs`). It has no `wrap`. Where it would fill with more
//! elements than there are, it panics (tract-core, `ops/array/pad.rs`): `around` has as many as it
//! takes. It has no BOOL, which is padded as numbers.

pub(crate) mod around;

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::{AttributeProto, NodeProto};
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::{Pad, PadMode, Slice};
use tract_onnx::tract_core::ops::cast::cast;

use super::slice::{is_guess, kept_whole};
use crate::onnx::node::from_front;
use crate::ops::host::hook::{Hook, HookSite, Instead, Wires};
use crate::ops::host::hooked::build_hooked;
use crate::ops::host::stock::Built;
use around::BorderPad;

const WRAP: &str = "wrap";
const OPSET_OF_WRAP: i64 = 19;

/// Builds the operator. For `wrap`, tract infers by a mode that it has.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let mut stock = node.clone();
    let is_wrap = |attribute: &&mut AttributeProto| {
        attribute.name == "mode" && attribute.s == WRAP.as_bytes()
    };
    for mode in stock.attribute.iter_mut().filter(is_wrap) {
        mode.s = b"edge".into();
    }
    build_hooked(context, node, &stock, Hook::Instead(pad_any))
}

/// Wires the padding of numbers, or of truths as numbers.
fn pad_any(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    const VALUE: usize = 2;
    let value = site.given(inputs, VALUE);
    let truths =
        |outlet: OutletId| model.outlet_fact(outlet).map(|fact| fact.datum_type == DatumType::Bool);
    if !inputs.first().map_or(Ok(false), |data| truths(*data))? {
        return pad(site, model, inputs);
    }
    let mut numbers = inputs.to_vec();
    for (place, input) in numbers.iter_mut().enumerate() {
        if place == 0 || Some(*input) == value {
            let name = site.part(&format!("numbers-{place}"));
            let made = model.wire_node(name, cast(DatumType::U8), &[*input])?;
            *input = *made.first().context("numbers")?;
        }
    }
    let site_of_numbers = site.named(site.part("padded"));
    let padded = match pad(&site_of_numbers, model, &numbers)? {
        Some(padded) => padded,
        None => site_of_numbers.wire_stock(model, &numbers)?,
    };
    model.wire_node(&site.name, cast(DatumType::Bool), &padded).map(Some)
}

/// Wires what takes away before what pads.
fn pad(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(data) = inputs.first() else { return Ok(None) };
    let constant = |outlet: Option<OutletId>| -> TractResult<Option<Arc<Tensor>>> {
        Ok(match outlet {
            Some(outlet) => model.outlet_fact(outlet)?.konst.clone(),
            None => None,
        })
    };
    let mode = site.proto.get_attr_opt::<&str>("mode")?.unwrap_or("constant");
    let Some(pads) = given_pads(site, mode, constant(inputs.get(1).copied())?)? else {
        return Ok(None);
    };
    let given = |place: usize| site.given(inputs, place);
    if pads.iter().all(|pad| *pad >= 0) && mode == "constant" {
        return Ok(None);
    }
    if let Some(pad) = pads.iter().find(|pad| pad.unsigned_abs() > u64::from(u32::MAX)) {
        bail!(site.error(format!("pads by {pad}")));
    }
    let shape = model.outlet_fact(*data)?.shape.to_tvec();
    let rank = shape.len();
    let axes = match constant(given(3))? {
        Some(axes) => integers(&axes)?,
        None if given(3).is_some() => bail!(site.unplanned("has `axes` that are no constant")),
        None => (0..i64::try_from(rank)?).collect(),
    };
    let mode = pad_mode(site, mode, given(2), constant(given(2))?)?;
    let (before, after) = pads.split_at(pads.len() / 2);
    let mut added = vec![(0, 0); shape.len()];
    let mut wires: Wires = tvec!(whole(site, model, *data, &axes, &pads)?);
    for ((axis, before), after) in axes.into_iter().zip(before).zip(after) {
        let place = from_front(axis, rank).unwrap_or(rank);
        let (Some(dim), Some(added)) = (shape.get(place), added.get_mut(place)) else {
            bail!(site.error(format!("pads axis {axis} of {rank}")));
        };
        let axis = place;
        let (start, end) = (before.min(&0).to_dim() * -1, dim.clone() + *after.min(&0));
        if let (Ok(start), Ok(end)) = (start.to_i64(), end.to_i64())
            && start > end
        {
            bail!(site.error(format!(
                "takes {} from an axis of size {dim}",
                -before.min(&0) - after.min(&0)
            )));
        }
        if *before < 0 || *after < 0 {
            let name = site.part(&format!("less-{axis}"));
            wires = model.wire_node(name, Slice { axis, start, end }, &wires)?;
        }
        *added = (usize::try_from(*before.max(&0))?, usize::try_from(*after.max(&0))?);
    }
    let sizes = model.outlet_fact(*wires.first().context("data to pad")?)?.shape.to_tvec();
    let op: Box<dyn TypedOp> =
        match (BorderPad::instead(site, mode.as_ref(), &added, &sizes)?, mode) {
            (None, Some(mode)) => Box::new(Pad { mode, pads: added }),
            (Some(around), _) => Box::new(around),
            (None, None) => bail!("a mode that is neither ours nor tract's"),
        };
    model.wire_node(&site.name, op, &wires).map(Some)
}

/// The data behind what keeps a slice that it may come of whole, if something is taken away.
fn whole(
    site: &HookSite,
    model: &mut TypedModel,
    data: OutletId,
    axes: &[i64],
    pads: &[i64],
) -> TractResult<OutletId> {
    let rank = model.outlet_fact(data)?.rank();
    let (before, after) = pads.split_at(pads.len() / 2);
    let sides = axes.iter().zip(before).zip(after);
    let cut: TVec<usize> = sides
        .filter(|((_, before), after)| **before < 0 || **after < 0)
        .filter_map(|((axis, _), _)| from_front(*axis, rank))
        .collect();
    if cut.is_empty() {
        return Ok(data);
    }
    kept_whole(site.part("whole"), model, data, cut, is_guess)
}

/// How many elements each side is padded by; `None` for what is computed, which tract is left with.
fn given_pads(
    site: &HookSite,
    mode: &str,
    constant: Option<Arc<Tensor>>,
) -> TractResult<Option<Vec<i64>>> {
    if mode == WRAP && site.opset < OPSET_OF_WRAP {
        bail!(site.error("has attribute `mode` \"wrap\", which there is from opset 19 on"));
    }
    if let Some(pads) = site.proto.get_attr_opt_vec("pads")? {
        return Ok(Some(pads));
    }
    match constant {
        Some(pads) => Ok(Some(integers(&pads)?)),
        None if mode == WRAP => bail!(site.unplanned("has `pads` that are no constant")),
        None => Ok(None),
    }
}

fn integers(tensor: &Tensor) -> TractResult<Vec<i64>> {
    Ok(tensor.cast_to::<i64>()?.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
}

/// How what is added is filled, by the `constant_value` that is given, where it is a constant;
/// `None` for `wrap`.
fn pad_mode(
    site: &HookSite,
    mode: &str,
    given: Option<OutletId>,
    value: Option<Arc<Tensor>>,
) -> TractResult<Option<PadMode>> {
    Ok(Some(match (mode, value) {
        (WRAP, _) => return Ok(None),
        ("edge", _) => PadMode::Edge,
        ("reflect", _) => PadMode::Reflect,
        (_, Some(value)) => PadMode::Constant(value),
        (_, None) if given.is_some() => {
            bail!(site.unplanned("has a `constant_value` that is no constant"))
        }
        (_, None) => {
            PadMode::Constant(rctensor0(site.proto.get_attr_opt::<f32>("value")?.unwrap_or(0.0)))
        }
    }))
}
