//! Nodes of many inputs, which run in parts: tract's model of a node has another node for each
//! input, which its optimiser holds against all others, so that the time goes by their square.
//!
//! Elements are the same: what is computed so far is the first input of the next part, and tract
//! adds in the order of the inputs as well. Half precision is added in FLOAT and rounded once.

use onnx_cast_graph::NodeView;
use tract_onnx::prelude::*;

use crate::cast::element_type::ElementType::{self, BFloat16, Float, Float16};
use crate::cast::rules::Rules;
use crate::interpreter::value::TypedTensor;
use crate::tensor::conversion::Conversion;
use crate::tensor::late;

/// How many inputs a node takes at once.
const MOST: usize = 64;

/// Computes an operator of such inputs.
type Compute<'a> = &'a dyn Fn(&str, &[TypedTensor]) -> TractResult<TypedTensor>;

/// What a node of many inputs makes; `None` for one that is computed as a whole.
/// Fails as what computes the operators of the parts.
pub(super) fn in_parts(
    node: &impl NodeView,
    inputs: &[Option<TypedTensor>],
    compute: Compute,
) -> TractResult<Option<TypedTensor>> {
    let operator = ["Concat", "Max", "Mean", "Min", "Sum"].into_iter().find(|op| node.is(op));
    let Some(operator) = operator.filter(|_| inputs.len() > MOST) else { return Ok(None) };
    let Some(inputs) = inputs.iter().cloned().collect::<Option<Vec<TypedTensor>>>() else {
        return Ok(None);
    };
    Ok(match operator {
        "Concat" => Some(joined(inputs, compute)?),
        "Mean" | "Sum" => added(operator, &inputs, compute)?,
        _ => Some(folded(operator, &inputs, compute)?),
    })
}

/// The parts side by side, and these side by side in turn, until they are one.
fn joined(mut inputs: Vec<TypedTensor>, compute: Compute) -> TractResult<TypedTensor> {
    while inputs.len() > MOST {
        let parts = inputs.chunks(MOST).map(|part| compute("Concat", part));
        inputs = parts.collect::<TractResult<_>>()?;
    }
    compute("Concat", &inputs)
}

/// What is made of each part and what was made before it.
fn folded(operator: &str, inputs: &[TypedTensor], compute: Compute) -> TractResult<TypedTensor> {
    let (first, others) = inputs.split_at(inputs.len().min(MOST));
    let mut so_far = compute(operator, first)?;
    for part in others.chunks(MOST - 1) {
        so_far = compute(operator, &[&[so_far], part].concat())?;
    }
    Ok(so_far)
}

/// The sum, or that divided by how many there are. `None` where types are mixed, and where bytes
/// are not there.
fn added(
    operator: &str,
    inputs: &[TypedTensor],
    compute: Compute,
) -> TractResult<Option<TypedTensor>> {
    let Some(ty) = inputs.first().map(|first| first.ty) else { return Ok(None) };
    let is_plain = |typed: &TypedTensor| typed.ty == ty && !late::is_late(&typed.tensor);
    if !inputs.iter().all(is_plain) {
        return Ok(None);
    }
    let is_half = matches!(ty, BFloat16 | Float16);
    let sum_of = |_: &str, part: &[TypedTensor]| {
        // The sum so far is FLOAT already.
        let wide =
            part.iter().map(|typed| if is_half { cast(typed, Float) } else { Ok(typed.clone()) });
        compute("Sum", &wide.collect::<TractResult<Vec<_>>>()?)
    };
    let mut made = folded("Sum", inputs, &sum_of)?;
    if operator == "Mean" {
        let count = tensor0(i64::try_from(inputs.len())?)
            .cast_to_dt(made.tensor.datum_type())?
            .into_owned();
        let count = count.broadcast_scalar_to_shape(made.tensor.shape())?;
        let count = TypedTensor::new(made.ty, count)?;
        made = compute("Div", &[made, count])?;
    }
    Ok(Some(if is_half { cast(&made, ty)? } else { made }))
}

fn cast(typed: &TypedTensor, to: ElementType) -> TractResult<TypedTensor> {
    if typed.ty == to {
        return Ok(typed.clone());
    }
    let conversion = Conversion::new(typed.ty, to, Rules::default());
    TypedTensor::new(to, conversion.run(&typed.tensor)?)
}
