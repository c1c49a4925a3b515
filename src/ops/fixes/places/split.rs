//! `Split` with parts without elements. tract takes each part as a slice, and a slice of nothing
//! over a Concat, of which it then leaves out what has no elements, whatever its size along the
//! axis (tract-core, `ops/array/concat.rs`). Of a slice of places that a plan has guessed it makes
//! one slice with a part, of which the first may have nothing.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice as Part;

use super::slice::{is_guess, kept_whole};
use crate::onnx::node::from_front;
use crate::ops::fixes::shapes::zeros;
use crate::ops::host::hook::{HookSite, Instead, Wires};
use crate::ops::host::integers::dims;

/// Wires the parts one by one, where one of them is known to have no elements.
pub(crate) fn split(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(data) = site.given(inputs, 0) else { return Ok(None) };
    let fact = model.outlet_fact(data)?;
    let (ty, shape) = (fact.datum_type, fact.shape.to_tvec());
    let Some(axis) = from_front(site.int("axis", 0)?, shape.len()) else { return Ok(None) };
    let (Some(whole), Some(sizes)) = (shape.get(axis), sizes(site, model, inputs)?) else {
        return Ok(None);
    };
    let sizes = match sizes {
        SplitSizes::Given(sizes) => sizes,
        SplitSizes::Even(count) => {
            let whole_data = kept_whole(site.part("whole"), model, data, tvec!(axis), is_guess)?;
            if whole_data != data {
                return site.wire_stock(model, &[whole_data]).map(Some);
            }
            let Ok(whole) = whole.to_usize() else { return Ok(None) };
            let size = whole.div_ceil(count.max(1));
            let size = |part: usize| size.min(whole.saturating_sub(part.saturating_mul(size)));
            (0..count).map(|part| size(part).to_dim()).collect()
        }
    };
    let nothing = 0.to_dim();
    if !sizes.contains(&nothing)
        || sizes.iter().any(|size| size.as_i64().is_some_and(i64::is_negative))
    {
        return Ok(None);
    }
    let (mut wires, mut begin) = (Wires::new(), nothing.clone());
    for (place, size) in sizes.into_iter().enumerate() {
        let name = site.part(&format!("part-{place}"));
        let end = begin.clone() + &size;
        wires.extend(if size == nothing {
            let mut shape = shape.clone();
            if let Some(dim) = shape.get_mut(axis) {
                *dim = size;
            }
            zeros(model, &name, ty, shape)?
        } else {
            model.wire_node(name, Part::new(axis, begin, end.clone()), &[data])?
        });
        begin = end;
    }
    Ok(Some(wires))
}

/// Of what sizes the parts are.
enum SplitSizes {
    Given(Vec<TDim>),
    /// As many as there are outputs, the last one as much as is left.
    Even(usize),
}

/// Those of a node, if they are known: an attribute before opset 13, an input since.
fn sizes(
    site: &HookSite,
    model: &TypedModel,
    inputs: &[OutletId],
) -> TractResult<Option<SplitSizes>> {
    if let Some(sizes) = site.proto.get_attr_opt_vec::<i64>("split")? {
        return Ok(Some(SplitSizes::Given(sizes.iter().map(ToDim::to_dim).collect())));
    }
    let Some(sizes) = site.given(inputs, 1) else {
        return Ok(Some(SplitSizes::Even(site.proto.output.len())));
    };
    let constant = model.outlet_fact(sizes)?.konst.as_deref();
    constant.map(|sizes| Ok(SplitSizes::Given(dims(sizes)?.to_vec()))).transpose()
}
