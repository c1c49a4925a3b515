//! `Resize` to one element by `pytorch_half_pixel`, which is at 0, where tract has −0.5 (tract-core, `ops/nn/resize.rs`): only
//! `cubic` tells them apart.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice;

use crate::ops::host::hook::{Site, Wires};

/// Takes the first element along axes of which one is left, before tract's operator.
pub(crate) fn resize(
    site: &Site,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<Wires>> {
    let is = |name: &str, value: &str| {
        Ok::<_, TractError>(site.proto.get_attr_opt::<&str>(name)? == Some(value))
    };
    if !is("coordinate_transformation_mode", "pytorch_half_pixel")? || !is("mode", "cubic")? {
        return Ok(None);
    }
    let Some(data) = inputs.first() else { return Ok(None) };
    let before = model.outlet_fact(*data)?.shape.to_tvec();
    let after = made_shape(site, model, inputs)?;
    let is_left = |axis: &usize| after.get(*axis) == Some(&1.to_dim());
    let axes = (0..before.len()).filter(|axis| before.get(*axis) != Some(&1.to_dim()));
    let axes: TVec<usize> = axes.filter(is_left).collect();
    if axes.is_empty() {
        return Ok(None);
    }
    if site.int("antialias", 0)? != 0 {
        bail!(site.error("attribute `antialias` is 1, of which one element would be left"));
    }
    let mut inputs: TVec<OutletId> = inputs.into();
    for axis in &axes {
        let first = Slice::new(*axis, 0, 1);
        let name = site.part(&format!("first-{axis}"));
        let sliced = model.wire_node(name, first, inputs.get(..1).unwrap_or_default())?;
        if let (Some(data), [sliced]) = (inputs.first_mut(), &*sliced) {
            *data = *sliced;
        }
    }
    if let Some(scales) = site.given(&inputs, 2) {
        let ones = without_scales(site, model, scales, &axes, before.len())?;
        for input in inputs.iter_mut().filter(|input| **input == scales) {
            *input = ones;
        }
    }
    site.wire_stock(model, &inputs).map(Some)
}

/// The shape of what tract's operator makes.
fn made_shape(site: &Site, model: &TypedModel, inputs: &[OutletId]) -> TractResult<TVec<TDim>> {
    let mut draft = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let mut sources = tvec!();
    for (place, input) in inputs.iter().enumerate() {
        let (fact, name) = (model.outlet_fact(*input)?, format!("input-{place}"));
        sources.push(match &fact.konst {
            Some(constant) => draft.add_const(name, constant.clone())?,
            None => draft.add_source(name, fact.datum_type.fact(fact.shape.clone()))?,
        });
    }
    let made = site.wire_stock(&mut draft, &sources)?;
    let made = made.first().context("an output")?;
    Ok(draft.outlet_fact(*made)?.shape.to_tvec())
}

/// Scales that leave the sizes of axes as they are.
fn without_scales(
    site: &Site,
    model: &mut TypedModel,
    scales: OutletId,
    axes: &[usize],
    rank: usize,
) -> TractResult<OutletId> {
    let Some(constant) = model.outlet_fact(scales)?.konst.clone() else { return Ok(scales) };
    let mut numbers = constant.cast_to::<f32>()?.try_as_plain_ram()?.as_slice::<f32>()?.to_vec();
    let named: Option<Vec<i64>> = site.proto.get_attr_opt_vec("axes")?;
    let count = i64::try_from(rank)?;
    let named = named.unwrap_or_else(|| (0..count).collect());
    for (number, axis) in numbers.iter_mut().zip(named) {
        let axis = if axis < 0 { axis + count } else { axis };
        if usize::try_from(axis).is_ok_and(|axis| axes.contains(&axis)) {
            *number = 1.0;
        }
    }
    model.add_const(site.part("scales"), tensor1(&numbers))
}
