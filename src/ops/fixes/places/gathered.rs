//! Indices of `Gather`, `GatherElements` and `ScatterElements`, and positions of
//! `RotaryEmbedding`, of which tract does not look whether the axis has them: one that it has not
//! ends in a panic that names no node (tract-core, `ops/array/gather.rs`, `gather_elements.rs` and
//! `scatter_elements.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::Slice as Part;

use super::slice::kept_whole;
use crate::onnx::node::from_front;
use crate::ops::host::element_wise::{element_wise, same_facts, typed_op, with_symbols};
use crate::ops::host::hook::{HookSite, Instead, refused};
use crate::ops::host::integers::{is_integer, read};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Wires tract's operator behind a look at the indices, which are the second input.
pub(crate) fn gather(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, indices, rest @ ..] = inputs else { return Ok(None) };
    if let Some(checked) = checked(site, model, *data, *indices)? {
        return site.wire_stock(model, &[&[*data, checked], rest].concat()).map(Some);
    }
    let axis = from_front(site.int("axis", 0)?, model.outlet_fact(*data)?.rank());
    let is_known = model.outlet_fact(*indices)?.konst.is_some();
    let shape = &model.outlet_fact(*data)?.shape;
    let is_open = |axis: &usize| shape.get(*axis).is_some_and(|dim| dim.as_i64().is_none());
    // tract makes one slice of a place and a slice that may have cut it off.
    let (Some(axis), true) = (axis.filter(is_open), is_known) else { return Ok(None) };
    let is_slice: fn(&TypedModel, &TypedNode) -> bool = |_, node| node.op_is::<Part>();
    let whole = kept_whole(site.part("whole"), model, *data, tvec!(axis), is_slice)?;
    if whole == *data {
        return Ok(None);
    }
    site.wire_stock(model, &[&[whole, *indices], rest].concat()).map(Some)
}

/// Wires tract's `RotaryEmbedding` behind a look at its positions, which are the fourth input:
/// rows of the cosines and the sines, of which there are as many.
pub(crate) fn rotary(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, cosines, sines, positions] = inputs else { return Ok(None) };
    match checked(site, model, *cosines, *positions)? {
        Some(checked) => site.wire_stock(model, &[*data, *cosines, *sines, checked]).map(Some),
        None => Ok(None),
    }
}

/// The indices behind what looks at them when the model runs; `None` where it is known that the
/// axis has them, or nothing can be told. Fails when it is known that the axis has not all of them.
pub(super) fn checked(
    site: &HookSite,
    model: &mut TypedModel,
    data: OutletId,
    indices: OutletId,
) -> TractResult<Option<OutletId>> {
    let (data, fact) = (model.outlet_fact(data)?, model.outlet_fact(indices)?);
    let axis = site.int("axis", 0)?;
    let size = from_front(axis, data.rank()).and_then(|place| data.shape.get(place)).cloned();
    let (Some(size), true) = (size, is_integer(fact.datum_type)) else { return Ok(None) };
    let op = site.proto.op_type.as_str();
    let within = Within { node: site.node(), op: op.into(), opset: site.imported, axis, size };
    if let Some(indices) = &fact.konst {
        if let Some(size) = within.size.as_i64() {
            within.check(indices, size)?;
            return Ok(None);
        }
        // Of one place tract makes a slice, which finds out by itself.
        if op == "Gather" && indices.len() <= 1 {
            return Ok(None);
        }
    }
    let checked = model.wire_node(site.part("within"), within, &[indices])?;
    Ok(checked.first().copied())
}

/// Passes indices on, and fails where an axis has no such element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Within {
    /// For messages, as the operator, the version of the default domain and the axis.
    node: Label,
    op: Label,
    opset: i64,
    axis: i64,
    /// Of the axis.
    size: TDim,
}

impl Within {
    fn check(&self, indices: &Tensor, size: i64) -> TractResult<()> {
        let within = i128::from(-size)..i128::from(size);
        let plain = indices.try_as_plain_ram()?;
        let outside = match indices.datum_type() {
            DatumType::I64 => first(plain.as_slice::<i64>()?, &within),
            DatumType::I32 => first(plain.as_slice::<i32>()?, &within),
            _ => {
                let numbers = read(indices, &SymbolValues::default())?;
                numbers.iter().copied().find(|index| !within.contains(index))
            }
        };
        let Some(index) = outside else { return Ok(()) };
        let Within { node, op, opset, axis, .. } = self;
        let problem = format!(
            "has an index {index}, which axis {axis} of size {size} does not have, the model imports {opset}"
        );
        Err(refused(node, op, problem).into())
    }
}

/// The first index that is outside of a range.
fn first<T: Copy + Into<i128>>(indices: &[T], within: &std::ops::Range<i128>) -> Option<i128> {
    indices.iter().map(|index| (*index).into()).find(|index| !within.contains(index))
}

typed_op!(Within, "Within", |op| format!("{} elements", op.size));

impl EvalOp for Within {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        if self.size.as_i64().is_none() {
            return Ok(None);
        }
        self.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let indices = args_1!(inputs);
        self.check(&indices, self.size.eval(context.symbols).to_i64()?)?;
        Ok(tvec!(indices))
    }
}

impl TypedOp for Within {
    same_facts!();

    element_wise!();

    with_symbols!(|self, values| Within {
        size: self.size.substitute_all(values)?,
        ..self.clone()
    });

    as_op!();
}

save!(Within, "tract_onnx_cast_within", node { op, opset, axis, size });
