//! Quotients that tract makes products with the reciprocal, and what those follow from.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::cnn::Conv;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::Mul;
use tract_onnx::tract_core::ops::nn::Reduce;

use crate::ops::cast::op::OnnxCast;
use crate::ops::fixes::arithmetic::sum::CorrectedSum;
use crate::ops::fixes::functions::{ElementFunction, Kind};

/// Whether tract's product is as good: of a dividend and a divisor of floats.
pub(crate) fn is_as_good_a_product(
    model: &TypedModel,
    dividend: OutletId,
    divisor: OutletId,
) -> TractResult<bool> {
    // A reciprocal is rounded once.
    let one = model.outlet_fact(dividend)?;
    if one.shape.volume() == 1.to_dim()
        && let Some(uniform) = &one.uniform
        && uniform.cast_to_scalar::<f64>()? == 1.0
    {
        return Ok(true);
    }
    let fact = model.outlet_fact(divisor)?;
    if let Some(uniform) = &fact.uniform
        && is_power_of_two(uniform.cast_to_scalar::<f64>()?)
        && fact.shape.iter().all(|dim| dim.as_i64().is_some())
    {
        return Ok(true);
    }
    Ok(match &fact.konst {
        Some(constant) => is_usual(constant)? && is_scaled_product(model, dividend),
        None => is_deviation(model, divisor),
    })
}

/// A power of two whose reciprocal is one too, in every type of floats.
fn is_power_of_two(x: f64) -> bool {
    const MANTISSA: u64 = (1 << 52) - 1;
    (2f64.powi(-14)..=2f64.powi(14)).contains(&x.abs()) && x.to_bits() & MANTISSA == 0
}

/// Whether the reciprocals of all elements are neither infinite nor subnormal.
fn is_usual(constant: &Tensor) -> TractResult<bool> {
    let doubles = constant.cast_to::<f64>()?;
    let usual = 2f64.powi(-100)..2f64.powi(100);
    Ok(doubles.try_as_plain_ram()?.as_slice::<f64>()?.iter().all(|x| usual.contains(&x.abs())))
}

/// How far to look back.
const STEPS: usize = 8;

fn is_scaled(node: &TypedNode) -> bool {
    node.op_is::<AxisOp>() || node.op_is::<TypedBinOp>()
}

/// Whether a value is a product's or a convolution's, but for what scales or moves it: what that
/// rounds is less than what the order of its sums does.
pub(crate) fn is_scaled_product(model: &TypedModel, value: OutletId) -> bool {
    follows_product(model, value, is_scaled)
}

/// Whether a value is taken never to be −0: a product's or a convolution's sum as it is, which
/// begins at 0 (where all terms are negative and too small for the type, tract's kernels make −0 of
/// it), or an integer, also one that is multiplied by a positive number.
pub(crate) fn is_never_negative_zero(model: &TypedModel, value: OutletId) -> bool {
    let is_sum = follows_product(model, value, |node| {
        let is_same = |op: &OnnxCast| op.conversion().source() == op.conversion().target();
        node.op_is::<AxisOp>() || node.op_as::<OnnxCast>().is_some_and(is_same)
    });
    let node = model.node(value.node);
    let is_product = node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<Mul>());
    let is_scale = |input: &OutletId| {
        let fact = model.outlet_fact(*input).ok();
        fact.and_then(|fact| fact.konst.as_ref()).is_some_and(|scale| is_positive(scale))
    };
    let is_integer = |input: &OutletId| {
        let node = model.node(input.node);
        let from = node.inputs.first().filter(|_| node.op_is::<OnnxCast>());
        from.and_then(|from| model.outlet_fact(*from).ok())
            .is_some_and(|fact| fact.datum_type.is_integer())
    };
    is_sum
        || is_integer(&value)
        || is_product && node.inputs.iter().any(is_scale) && node.inputs.iter().any(is_integer)
}

fn is_positive(scale: &Tensor) -> bool {
    let Ok(scale) = scale.cast_to::<f64>() else { return false };
    scale.to_plain_array_view::<f64>().is_ok_and(|scale| scale.iter().all(|x| *x > 0.))
}

/// Whether a value is a product's or a convolution's, but for what it is passed through with
/// constants.
fn follows_product(
    model: &TypedModel,
    mut value: OutletId,
    is_passed: fn(&TypedNode) -> bool,
) -> bool {
    for _ in 0..STEPS {
        let node = model.node(value.node);
        if node.op_is::<EinSum>() || node.op_is::<Conv>() {
            return true;
        }
        let is_constant =
            |input: &&OutletId| model.outlet_fact(**input).is_ok_and(|fact| fact.konst.is_some());
        let mut data = node.inputs.iter().filter(|input| !is_constant(input));
        match (data.next(), data.next()) {
            (Some(input), None) if is_passed(node) => value = *input,
            _ => return false,
        }
    }
    false
}

/// Whether a value is the root of a sum, as a norm's divisor is.
fn is_deviation(model: &TypedModel, mut value: OutletId) -> bool {
    let mut has_root = false;
    for _ in 0..STEPS {
        let node = model.node(value.node);
        if node.op_is::<Reduce>() || node.op_is::<CorrectedSum>() {
            return has_root;
        }
        let is_root =
            node.op_as::<ElementFunction>().is_some_and(|function| function.kind == Kind::Sqrt);
        has_root |= is_root;
        match node.inputs.first() {
            Some(input) if is_root || is_scaled(node) || node.op_is::<OnnxCast>() => value = *input,
            _ => return false,
        }
    }
    false
}
