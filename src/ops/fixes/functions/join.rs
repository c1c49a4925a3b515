//! Functions that models write out as several operators, put together as tract does with its own.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math::{Add, Mul, Recip, sqrt};

use super::{ElementFunction, Kind};
use crate::ops::fixes::arithmetic::quotient::Quotient;
use crate::ops::host::hook::Patch;

/// x · sigmoid(x), x · (1 + erf(x / √2)) / 2, and bounds of what is bounded.
pub(super) fn join(function: &ElementFunction, model: &TypedModel, node: &TypedNode) -> Patch {
    let [input] = &*node.inputs else { return Ok(None) };
    let joined = match function.kind {
        Kind::Bound => bounds(function, model, *input),
        Kind::Erf => gelu(model, node, *input)?,
        Kind::Sigmoid => swish(model, node, *input),
        _ => None,
    };
    let Some((function, x, last)) = joined else { return Ok(None) };
    let last = last.unwrap_or(node.id);
    let (given, made) = (model.outlet_fact(x)?, model.outlet_fact(last.into())?);
    if given.shape != made.shape || given.datum_type != made.datum_type {
        return Ok(None);
    }
    let mut patch = TypedModelPatch::default();
    let x = patch.tap_model(model, x)?;
    let y = patch.wire_node(&model.node(last).name, function, &[x])?;
    patch.shunt_outside(model, last.into(), *y.first().context("an output")?)?;
    Ok(Some(patch))
}

/// A function, what it is of, and the node whose value it makes, if that is another one than where
/// it was found.
type Joined = Option<(ElementFunction, OutletId, Option<usize>)>;

/// tract's own root, where nothing but a reciprocal is made of it, as a norm does.
pub(super) fn root(function: &ElementFunction, model: &TypedModel, node: &TypedNode) -> Patch {
    let is_inverted = only_successor(model, node)
        .and_then(|next| next.op_as::<ElementWiseOp>())
        .is_some_and(|next| next.0.is::<Recip>());
    if function.kind != Kind::Sqrt || !is_inverted {
        return Ok(None);
    }
    TypedModelPatch::replace_single_op(model, node, &node.inputs, sqrt()).map(Some)
}

/// The only node that takes a node's value, which is no output.
fn only_successor<'a>(model: &'a TypedModel, node: &TypedNode) -> Option<&'a TypedNode> {
    let [output] = &*node.outputs else { return None };
    let [inlet] = &*output.successors else { return None };
    let is_output = model.outputs.iter().any(|outlet| outlet.node == node.id);
    (!is_output).then(|| model.node(inlet.node))
}

/// The other operand where one of the two is a node's value.
fn other_operand<T: BinMiniOp>(node: &TypedNode, value: usize) -> Option<OutletId> {
    match (&*node.inputs, node.op_as::<TypedBinOp>()) {
        ([a, b], Some(op)) if op.0.is::<T>() && a.node == value => Some(*b),
        ([a, b], Some(op)) if op.0.is::<T>() && b.node == value => Some(*a),
        _ => None,
    }
}

/// A constant of one value throughout.
fn constant(model: &TypedModel, outlet: OutletId) -> Option<f64> {
    let fact = model.outlet_fact(outlet).ok()?;
    fact.uniform.as_ref()?.cast_to_scalar::<f64>().ok()
}

/// What is multiplied by a constant, and by which, or divided by its reciprocal.
fn multiple(model: &TypedModel, outlet: OutletId) -> Option<(f64, OutletId)> {
    let node = model.node(outlet.node);
    let ([a, b], op) = (&*node.inputs, node.op_as::<TypedBinOp>()?) else { return None };
    let is_quotient = op.0.is::<Quotient>();
    if !op.0.is::<Mul>() && !is_quotient {
        return None;
    }
    match (constant(model, *a), constant(model, *b)) {
        (None, Some(divisor)) if is_quotient => Some((divisor.recip(), *a)),
        _ if is_quotient => None,
        (None, Some(factor)) => Some((factor, *a)),
        (Some(factor), None) => Some((factor, *b)),
        _ => None,
    }
}

fn bounds(function: &ElementFunction, model: &TypedModel, input: OutletId) -> Joined {
    let before = model.node(input.node);
    let inner = before.op_as::<ElementFunction>().filter(|inner| inner.kind == Kind::Bound)?;
    let ([x], [output]) = (&*before.inputs, &*before.outputs) else { return None };
    if output.successors.len() != 1 || model.outputs.iter().any(|outlet| outlet.node == before.id) {
        return None;
    }
    // As the outer one bounds what the inner one ends at.
    let bound = |x: f64| {
        let x = if x < function.alpha { function.alpha } else { x };
        if x > function.beta { function.beta } else { x }
    };
    let (alpha, beta) = (bound(inner.alpha), bound(inner.beta));
    (inner.alpha <= inner.beta).then_some((
        ElementFunction { kind: Kind::Bound, alpha, beta },
        *x,
        None,
    ))
}

fn swish(model: &TypedModel, node: &TypedNode, input: OutletId) -> Joined {
    let product = only_successor(model, node)?;
    let other = other_operand::<Mul>(product, node.id)?;
    let function = ElementFunction { kind: Kind::Swish, alpha: 1.0, beta: 1.0 };
    (other == input).then_some((function, input, Some(product.id)))
}

fn gelu(model: &TypedModel, node: &TypedNode, input: OutletId) -> TractResult<Joined> {
    let Some((factor, x)) = multiple(model, input) else { return Ok(None) };
    if (factor - std::f64::consts::FRAC_1_SQRT_2).abs() > 1e-6 {
        return Ok(None);
    }
    let is_one = |sum: &&TypedNode| {
        other_operand::<Add>(sum, node.id).and_then(|one| constant(model, one)) == Some(1.0)
    };
    let Some(sum) = only_successor(model, node).filter(is_one) else { return Ok(None) };
    let Some(product) = only_successor(model, sum) else { return Ok(None) };
    let Some(other) = other_operand::<Mul>(product, sum.id) else { return Ok(None) };
    let last = if multiple(model, other) == Some((0.5, x)) {
        Some(product.id)
    } else {
        let next = only_successor(model, product);
        let last = next.and_then(|last| Some((last, other_operand::<Mul>(last, product.id)?)));
        last.filter(|(_, factor)| {
            other == x && constant(model, *factor) == Some(0.5)
                || constant(model, other) == Some(0.5) && *factor == x
        })
        .map(|(last, _)| last.id)
    };
    let function = ElementFunction { kind: Kind::Gelu, alpha: 1.0, beta: 1.0 };
    Ok(last.map(|last| (function, x, Some(last))))
}
