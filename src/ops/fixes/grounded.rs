//! Whether an axis is safe from tract's rules about expansions: where its elements come from.
//!
//! tract's optimiser takes an expansion away where it stands before a product, and makes expansions
//! of `Where`, `Tile`, `Mul` and others as it goes. So it does not do to look for one: an axis is
//! taken for safe only if its elements are traced back, through operators that keep them, to where
//! no expansion can come of.

use std::collections::HashSet;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Pad;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::{Conv, Deconv, PaddingSpec, SumPool};
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::logic::Iff;
use tract_onnx::tract_core::ops::nn::{Reduce, RmsNorm, Softmax};
use tract_onnx::tract_core::ops::source::TypedSource;

use crate::ops::fixes::arithmetic::product::IntegerEinSum;
use crate::ops::fixes::products::of_sizes::OfSizes;
use crate::ops::fixes::windows::max_pool::Greatest;
use crate::ops::quantize::op::OnnxQuantizer;
use crate::ops::quantize::table::OnnxCodeTable;
use crate::ops::weights::filed::Filed;
use crate::ops::weights::tied::Tied;
use crate::ops::weights::unpack::Unpack;

/// An axis of a value.
type ValueAxis = (OutletId, usize);

/// How many places are gone through, so that long models take no longer than in proportion to them.
const FAR: usize = 500;

/// Whether a place, or one of those that it is made of, is one of which `before` tells no others,
/// or is too far away to tell.
fn is_behind(
    place: ValueAxis,
    before: impl Fn(ValueAxis) -> TractResult<Option<Vec<ValueAxis>>>,
) -> TractResult<bool> {
    let mut seen = HashSet::new();
    let mut next = vec![place];
    while let Some(place) = next.pop() {
        if !seen.insert(place) {
            continue;
        }
        match before(place)? {
            Some(places) if seen.len() < FAR => next.extend(places),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Whether no expansion can come to make the elements along an axis.
pub(crate) fn is_grounded(model: &TypedModel, value: OutletId, axis: usize) -> TractResult<bool> {
    Ok(!is_behind((value, axis), |place| carriers(model, place))?)
}

/// What makes the elements of a place, all of it; none where they begin there, and `None` where an
/// expansion may make them.
fn carriers(model: &TypedModel, (value, axis): ValueAxis) -> TractResult<Option<Vec<ValueAxis>>> {
    let fact = model.outlet_fact(value)?;
    let dim = fact.shape.get(axis).context("an axis of the value")?;
    if *dim == 1.to_dim() {
        return Ok(Some(vec![]));
    }
    if fact.uniform.is_some() {
        return Ok(None);
    }
    let node = model.node(value.node);
    let op: &dyn TypedOp = node.op.as_ref();
    let is_root = fact.konst.is_some()
        || op.is::<TypedSource>()
        || op.is::<EinSum>()
        || op.is::<IntegerEinSum>()
        || op.is::<Conv>()
        || op.is::<Deconv>()
        || op.is::<Greatest>()
        || op.is::<SumPool>()
        || op.is::<Pad>()
        || op.is::<OfSizes>()
        || op.is::<OnnxQuantizer>()
        || op.is::<OnnxCodeTable>()
        || op.is::<Tied>()
        || op.is::<Filed>()
        || op.is::<Unpack>();
    if is_root {
        return Ok(Some(vec![]));
    }
    if let Some(places) = reshaped(node, axis) {
        return Ok(Some(places));
    }
    let places: Vec<ValueAxis> = mapped(model, (value, axis))?
        .into_iter()
        .filter(|(input, axis)| {
            model.outlet_fact(*input).is_ok_and(|fact| fact.shape.get(*axis) == Some(dim))
        })
        .collect();
    // A choice may turn out to be the other one, and what is multiplied by zeros is an expansion of
    // them.
    let needs_all = op.is::<Iff>();
    let absorbs = node.op_as::<TypedBinOp>().is_some_and(|op| op.0.absorbing_element().is_some());
    let is_known = |input: &OutletId| {
        let fact = model.outlet_fact(*input)?;
        let value = fact.uniform.as_ref().map(|value| value.cast_to_scalar::<f64>()).transpose()?;
        Ok::<_, TractError>(fact.konst.is_some() && value != Some(0.))
    };
    let carries = |input: &&OutletId| places.iter().any(|(place, _)| place == *input);
    let first = usize::from(needs_all);
    for input in node.inputs.iter().skip(first) {
        if (needs_all || absorbs) && !carries(&input) && !is_known(input)? {
            return Ok(None);
        }
    }
    Ok(if places.is_empty() { None } else { Some(places) })
}

/// The axes of the input that a `Reshape` makes an axis of.
fn reshaped(node: &TypedNode, axis: usize) -> Option<Vec<ValueAxis>> {
    let (Some(AxisOp::Reshape(at, from, to)), [input]) = (node.op_as(), &*node.inputs) else {
        return None;
    };
    Some(match axis {
        _ if axis < *at => vec![(*input, axis)],
        _ if axis < at + to.len() => (*at..at + from.len()).map(|at| (*input, at)).collect(),
        _ => vec![(*input, axis + from.len() - to.len())],
    })
}

/// Whether an axis without its expansions may be of an open size, which turns out to be 1 or what
/// it was expanded to.
pub(crate) fn may_be_open(model: &TypedModel, value: OutletId, axis: usize) -> TractResult<bool> {
    let dim = |(value, axis): ValueAxis| model.outlet_fact(value).ok()?.shape.get(axis).cloned();
    is_behind((value, axis), |place| {
        if let Some(places) = reshaped(model.node(place.0.node), place.1) {
            return Ok(Some(places));
        }
        let (size, mut places) = (dim(place), vec![]);
        for source in mapped(model, place)? {
            match dim(source) {
                of_source if of_source == size => places.push(source),
                of_source if of_source == Some(1.to_dim()) => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(places))
    })
}

/// The axes of its inputs that an operator says a place to be of.
fn mapped(model: &TypedModel, (value, axis): ValueAxis) -> TractResult<Vec<ValueAxis>> {
    let node = model.node(value.node);
    let (inputs, outputs) = model.node_facts(node.id)?;
    let mapping = node.op.axes_mapping(&inputs, &outputs)?;
    let axis = mapping.axis((InOut::Out(value.slot), axis))?;
    let places = node.inputs.iter().zip(&axis.inputs);
    Ok(places.flat_map(|(input, axes)| axes.iter().map(|axis| (*input, *axis))).collect())
}

/// Whether every n-th element along an axis would be selected before an operator that makes each of
/// all of them: a softmax, a normalisation, a window that is padded by the number of elements.
pub(crate) fn steps_matter(model: &TypedModel, value: OutletId, axis: usize) -> TractResult<bool> {
    is_behind((value, axis), |(value, axis)| {
        let node = model.node(value.node);
        let matters = node.op_as::<Softmax>().is_some_and(|op| op.axes.contains(&axis))
            || node.op_as::<RmsNorm>().is_some_and(|op| op.axis == axis)
            // tract makes a RmsNorm of a mean and what is around it later.
            || node.op_as::<Reduce>().is_some_and(|op| op.axes.contains(&axis))
            || node.op_as::<Conv>().is_some_and(|op| {
                matches!(op.pool_spec.padding, PaddingSpec::SameUpper | PaddingSpec::SameLower)
            });
        if matters {
            return Ok(None);
        }
        let is_root = node.op_is::<Conv>() || node.op_is::<TypedSource>();
        if is_root { Ok(Some(vec![])) } else { mapped(model, (value, axis)).map(Some) }
    })
}
