//! Factors of a product that tract's optimiser makes another product of.
//!
//! - What is 0 throughout stands for the product (tract-core, `ops/math/mod.rs:351`), NaN and the
//!   sign of zero or not: also where it is a part that is cut out of a constant, or found to be 0
//!   only as the model is simplified.
//! - Constants that a value is multiplied by one after the other become one (`:411`), which may be
//!   0 or infinite where the products are not, and is rounded before the product is. Of a sum of
//!   products or a convolution, whose own rounding is larger, that is left to tract.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::CumSum;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math::Mul;

use crate::ops::fixes::arithmetic::reciprocal::is_scaled_product;
use crate::ops::fixes::functions::ElementFunction;

/// How far back of a product is looked.
const MOST: usize = 64;

/// Whether tract's own product would become another, of what is given to it.
pub(crate) fn are_misread(model: &TypedModel, inputs: &[OutletId]) -> TractResult<bool> {
    let mut sizes = None;
    let mut data = None;
    for input in inputs {
        match &model.outlet_fact(*input)?.konst {
            Some(constant) => {
                let constant = MagnitudeRange::of(constant)?;
                if constant.least == 0.0 {
                    return Ok(true);
                }
                sizes = Some(constant);
            }
            None if may_become_zero(model, *input)? => return Ok(true),
            None => data = Some(*input),
        }
    }
    let (Some(sizes), Some(data)) = (sizes, data) else { return Ok(false) };
    become_one(model, sizes, data)
}

/// Whether a factor is a constant with a 0 among its elements, or is made of one alone.
pub(crate) fn have_zero(model: &TypedModel, inputs: &[OutletId]) -> TractResult<bool> {
    for input in inputs {
        let mut value = *input;
        for _ in 0..MOST {
            if let Some(constant) = &model.outlet_fact(value)?.konst {
                if MagnitudeRange::of(constant)?.least == 0.0 {
                    return Ok(true);
                }
                break;
            }
            let [before] = *model.node(value.node).inputs else { break };
            value = before;
        }
    }
    Ok(false)
}

/// The least and the greatest size among the elements of a constant.
#[derive(Clone, Copy)]
struct MagnitudeRange {
    least: f64,
    most: f64,
}

impl MagnitudeRange {
    fn of(constant: &Tensor) -> TractResult<MagnitudeRange> {
        let none = MagnitudeRange { least: f64::INFINITY, most: 0.0 };
        let with = |sizes: MagnitudeRange, x: f64| MagnitudeRange {
            least: sizes.least.min(x.abs()),
            most: sizes.most.max(x.abs()),
        };
        if constant.datum_type() == DatumType::F64 {
            let view = constant.try_as_plain_ram()?;
            return Ok(view.as_slice::<f64>()?.iter().fold(none, |sizes, x| with(sizes, *x)));
        }
        let floats = constant.cast_to::<f32>()?;
        let view = floats.try_as_plain_ram()?;
        Ok(view.as_slice::<f32>()?.iter().fold(none, |sizes, x| with(sizes, (*x).into())))
    }

    fn times(self, other: MagnitudeRange) -> MagnitudeRange {
        MagnitudeRange { least: self.least * other.least, most: self.most * other.most }
    }

    /// Whether a type has no such normal numbers.
    fn exceed(self, ty: DatumType) -> bool {
        let (least, most) = match ty {
            DatumType::F16 => (2f64.powi(-14), 65504.0),
            DatumType::F64 => (f64::MIN_POSITIVE, f64::MAX),
            _ => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        };
        self.least < least || self.most > most
    }
}

/// Whether an operand that is no constant may be one as the model is simplified: it follows from
/// constants and sizes alone, from a tensor without elements, or from a sum of what comes before,
/// which is nothing along an axis of one element.
fn may_become_zero(model: &TypedModel, operand: OutletId) -> TractResult<bool> {
    let (mut is_given, mut values) = (false, vec![operand]);
    let mut next = 0;
    while let Some(value) = values.get(next).copied() {
        next += 1;
        let fact = model.outlet_fact(value)?;
        if fact.shape.volume() == 0.to_dim() {
            return Ok(true);
        }
        if fact.konst.is_some() {
            continue;
        }
        let node = model.node(value.node);
        if node.op_as::<CumSum>().is_some_and(|sum| sum.exclusive) {
            return Ok(true);
        }
        is_given |= node.inputs.is_empty();
        for input in &node.inputs {
            if values.len() == MOST {
                return Ok(false);
            }
            if !values.contains(input) {
                values.push(*input);
            }
        }
    }
    Ok(!is_given)
}

/// Whether tract would make another product of a constant factor and those of products before it.
fn become_one(model: &TypedModel, mut sizes: MagnitudeRange, data: OutletId) -> TractResult<bool> {
    let ty = model.outlet_fact(data)?.datum_type;
    let mut value = data;
    let mut is_next = !is_scaled_product(model, data);
    for _ in 0..MOST {
        let node = model.node(value.node);
        let (mut constant, mut before) = (None, None);
        for input in &node.inputs {
            match &model.outlet_fact(*input)?.konst {
                Some(given) => constant = Some(given),
                None if before.is_some() => return Ok(false),
                None => before = Some(*input),
            }
        }
        let Some(before) = before else { return Ok(false) };
        if node.op_as::<TypedBinOp>().is_some_and(|op| op.0.is::<Mul>())
            && let Some(constant) = constant
        {
            sizes = sizes.times(MagnitudeRange::of(constant)?);
            if is_next || sizes.exceed(ty) {
                return Ok(true);
            }
        }
        // What may be taken away as the model is simplified does not keep them apart.
        is_next &= !node.op_is::<ElementWiseOp>() && !node.op_is::<ElementFunction>();
        value = before;
    }
    Ok(false)
}
