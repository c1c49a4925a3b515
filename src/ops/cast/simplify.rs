//! What a cast becomes when tract declutters a model. No rule changes a value.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::{Gather, MultiBroadcastTo, Tile};
use tract_onnx::tract_core::ops::cast::Cast;
use tract_onnx::tract_core::ops::konst::Const;

use super::op::OnnxCast;
use crate::error;
use crate::ops::host::hook::Patch;
use crate::ops::weights::{self, WeightUse};
use crate::tensor::conversion::Conversion;

/// The first simplification that applies to the node of a cast.
pub(super) fn simplify(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let [input] = &*node.inputs else { bail!("a cast has one input, not {}", node.inputs.len()) };
    let fact = model.outlet_fact(*input)?;
    if let Some(adapted) = op.adapted_to(fact.datum_type) {
        return TypedModelPatch::replace_single_op(model, node, &node.inputs, adapted).map(Some);
    }
    if op.changes_nothing(fact.datum_type) {
        return TypedModelPatch::shunt_one_op(model, node);
    }
    for rule in [cast_constant, join_casts, cast_before_repeating, cast_after_gathering] {
        if let Some(patch) = rule(op, model, node)? {
            return Ok(Some(patch));
        }
    }
    Ok(None)
}

/// A constant is cast once, when the model is loaded, also where tract's own folding finds it too
/// large: a kernel would cast it on every run, and a matrix product can only pack weights that are
/// constant.
fn cast_constant(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let Some(constant) = &model.outlet_fact(node.inputs[0])?.konst else { return Ok(None) };
    let is_weight = weights::may_stay_half(op.conversion(), constant.len());
    let stays = is_weight && matches!(weights::use_of(model, node)?, WeightUse::Product);
    if stays || constant.datum_type() == DatumType::TDim {
        return Ok(None);
    }
    cast_now(op, model, node, constant)
}

/// Weights of half precision become those of the product that tract has made ready for them.
pub(super) fn pack_weights(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let Some(constant) = &model.outlet_fact(node.inputs[0])?.konst else { return Ok(None) };
    if !weights::may_stay_half(op.conversion(), constant.len()) {
        return Ok(None);
    }
    let packed = match weights::use_of(model, node)? {
        WeightUse::Product => return Ok(None),
        WeightUse::Packing(packing) => {
            packing.take_half(model, op.conversion().source(), constant)?
        }
        WeightUse::Other => None,
    };
    packed.map_or_else(|| cast_now(op, model, node, constant), |patch| Ok(Some(patch)))
}

fn cast_now(op: &OnnxCast, model: &TypedModel, node: &TypedNode, constant: &Tensor) -> Patch {
    let context = || format!("node `{}`", error::shown(op.node()));
    let value = op.conversion().run(constant).with_context(context)?;
    let mut patch = TypedModelPatch::default();
    let value = patch.wire_node(&node.name, Const::new(value.into_arc_tensor())?, &[])?;
    patch.shunt_outside(model, node.id.into(), value[0])?;
    Ok(Some(patch))
}

/// The node that makes a cast's input, if nobody else uses it.
fn sole_source<'a>(model: &'a TypedModel, node: &TypedNode) -> TractResult<Option<&'a TypedNode>> {
    let is_used = |before: &&TypedNode| model.outputs.iter().any(|outlet| outlet.node == before.id);
    Ok(model.linear_prec(node.id)?.filter(|before| !is_used(before)))
}

/// A cast of a cast becomes one where that changes no value ([`Conversion::then`]) and reads no
/// more bytes.
fn join_casts(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let before = model.node(node.inputs[0].node);
    let (first, resolves_symbols) = if let Some(first) = before.op_as::<OnnxCast>() {
        (first.conversion().clone(), first.resolves_symbols())
    } else if let Some(cast) = before.op_as::<Cast>() {
        let from = model.outlet_fact(before.inputs[0])?.datum_type;
        match Conversion::of_core_cast(from, cast.to) {
            Some(conversion) => (conversion, false),
            None => return Ok(None),
        }
    } else {
        return Ok(None);
    };
    let bytes = |conversion: &Conversion| conversion.source().carrier_bytes();
    if sole_source(model, node)?.is_none() && bytes(&first) > bytes(op.conversion()) {
        return Ok(None);
    }
    let Some(joined) = first.then(op.conversion()) else { return Ok(None) };
    let joined = op.with_conversion(joined);
    let joined = joined.resolving_symbols(op.resolves_symbols() || resolves_symbols);
    TypedModelPatch::replace_single_op(model, node, &before.inputs, joined).map(Some)
}

/// Before a broadcast there is less to cast. tract's own cast goes no further: before an `AxisOp`
/// it would hide patterns that tract looks for.
fn cast_before_repeating(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let Some(before) = sole_source(model, node)? else { return Ok(None) };
    let repeats =
        before.op_is::<IntoShape>() || before.op_is::<MultiBroadcastTo>() || before.op_is::<Tile>();
    if !repeats {
        return Ok(None);
    }
    let mut patch = TypedModelPatch::default();
    let input = patch.tap_model(model, before.inputs[0])?;
    let cast = patch.wire_node(&node.name, op.clone(), &[input])?;
    let repeated = patch.wire_node(&before.name, &before.op, &cast)?;
    patch.shunt_outside(model, node.id.into(), repeated[0])?;
    Ok(Some(patch))
}

/// After a `Gather` there is less to cast, if it takes fewer elements than there are. (tract moves
/// a `Slice` before the cast by itself.)
fn cast_after_gathering(op: &OnnxCast, model: &TypedModel, node: &TypedNode) -> Patch {
    let Some(after) = model.single_succ(node.id)? else { return Ok(None) };
    let gathers = after.op_as::<Gather>().filter(|gather| gather.output_type.is_none());
    let (Some(gather), Some(indices)) = (gathers, after.inputs.get(1)) else { return Ok(None) };
    if after.inputs[0] != node.id.into() || *indices == node.id.into() {
        return Ok(None);
    }
    let all = model.outlet_fact(node.inputs[0])?.shape.volume();
    let taken = model.outlet_fact(after.id.into())?.shape.volume();
    if !(all - taken).prove_strict_positive() {
        return Ok(None);
    }
    let mut patch = TypedModelPatch::default();
    let data = patch.tap_model(model, node.inputs[0])?;
    let indices = patch.tap_model(model, *indices)?;
    let gathered = patch.wire_node(&after.name, gather.clone(), &[data, indices])?;
    let cast = patch.wire_node(&node.name, op.clone(), &gathered)?;
    patch.shunt_outside(model, after.id.into(), cast[0])?;
    Ok(Some(patch))
}
