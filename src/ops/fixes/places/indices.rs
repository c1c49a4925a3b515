//! Indices of `GatherND` and `ScatterND`, from either end of an axis.
//!
//! tract cuts those of `GatherND` to 32 bits and does not count from the end of an axis, nor does
//! it in `ScatterND` (tract-core, `ops/array/gather_nd.rs` and `scatter_nd.rs`); an index outside
//! of the axis ends in a panic. Here the indices are counted from the beginning and checked before
//! tract's operator has them.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::{GatherNd, ScatterElements, ScatterNd, ScatterReduction};
use tract_onnx::tract_core::ops::cast::{cast, wire_cast};
use tract_onnx::tract_core::ops::logic::Iff;

use super::gathered::checked;
use crate::onnx::node::from_front;
use crate::ops::fixes::arithmetic::is_nan::wire_is_nan;
use crate::ops::host::element_wise::{typed_op, with_symbols};
use crate::ops::host::hook::{HookSite, Instead, Wired, refused};
use crate::ops::host::integers::{is_integer, read, write};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;
use tract_onnx::tract_core::tract_data::itertools::Itertools;

pub(crate) fn gather_nd(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, indices] = inputs else { return Ok(None) };
    let batch = site.int("batch_dims", 0)?;
    let batch =
        usize::try_from(batch).map_err(|_| site.error(format!("has {batch} batch dimensions")))?;
    let Some(indices) = counted(site, model, *data, *indices, batch)? else { return Ok(None) };
    model.wire_node(&site.name, GatherNd::new(batch), &[*data, indices]).map(Some)
}

pub(crate) fn scatter_nd(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [data, indices, updates] = inputs else { return Ok(None) };
    let reduction: Option<&str> = site.proto.get_attr_opt("reduction")?;
    let reduction = ScatterReduction::parse(reduction.unwrap_or("none"))?;
    let [data_type, updates_type] =
        [model.outlet_fact(*data)?.datum_type, model.outlet_fact(*updates)?.datum_type];
    let Some(ty) = data_type.common_super_type(updates_type) else { return Ok(None) };
    let Some(indices) = counted(site, model, *data, *indices, 0)? else { return Ok(None) };
    let cast = wire_cast(&site.name, model, &[*data, *updates], ty)?;
    let [data, updates] = *cast else { bail!("two casts make two values") };
    let op = ScatterNd::new(reduction);
    if ty.is::<bool>() && reduction != ScatterReduction::None {
        return truths(site, model, op, reduction, [data, indices, updates]).map(Some);
    }
    if takes_nan(model, data, reduction)? {
        return keep_nan(site, model, op, [data, indices, updates]).map(Some);
    }
    model.wire_node(&site.name, op, &[data, indices, updates]).map(Some)
}

/// Wires the larger or smaller of floats, which tract has without NaN, and a look at the indices.
pub(crate) fn scatter_elements(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    let [data, indices, updates] = *inputs else { return Ok(None) };
    let reduction: Option<&str> = site.proto.get_attr_opt("reduction")?;
    let reduction = ScatterReduction::parse(reduction.unwrap_or("none"))?;
    let rank = model.outlet_fact(data)?.rank();
    let checked = checked(site, model, data, indices)?;
    let is_bool = model.outlet_fact(data)?.datum_type.is::<bool>();
    if is_bool && reduction != ScatterReduction::None {
        let axis = from_front(site.int("axis", 0)?, rank).context("an axis that there is")?;
        let op = ScatterElements::new(axis, reduction);
        let values = [data, checked.unwrap_or(indices), updates];
        return truths(site, model, op, reduction, values).map(Some);
    }
    if !takes_nan(model, data, reduction)? {
        let wired = |indices| site.wire_stock(model, &[data, indices, updates]);
        return checked.map(wired).transpose();
    }
    let indices = checked.unwrap_or(indices);
    let axis = from_front(site.int("axis", 0)?, rank);
    let axis = axis.with_context(|| format!("an axis of {rank}"))?;
    keep_nan(site, model, ScatterElements::new(axis, reduction), [data, indices, updates]).map(Some)
}

/// Whether elements are compared, among which may be NaN.
fn takes_nan(model: &TypedModel, data: OutletId, reduction: ScatterReduction) -> TractResult<bool> {
    let compares = matches!(reduction, ScatterReduction::Max | ScatterReduction::Min);
    Ok(compares && model.outlet_fact(data)?.datum_type.is_float())
}

/// Scatters truths as 0 and 1, of which the largest is the sum and the smallest the product, as
/// ONNX Runtime has them; tract computes them of numbers only.
fn truths<T: TypedOp + Clone + Reduces>(
    site: &HookSite,
    model: &mut TypedModel,
    op: T,
    reduction: ScatterReduction,
    [data, indices, updates]: [OutletId; 3],
) -> Wired {
    let op = op.with(match reduction {
        ScatterReduction::Add => ScatterReduction::Max,
        ScatterReduction::Mul => ScatterReduction::Min,
        other => other,
    });
    let numbers = wire_cast(site.part("numbers"), model, &[data, updates], DatumType::U8)?;
    let [data, updates] = *numbers else { bail!("two casts make two values") };
    let made = model.wire_node(site.part("scattered"), op, &[data, indices, updates])?;
    model.wire_node(&site.name, cast(DatumType::Bool), &made)
}

/// Scatters beside the elements which of them are NaN, as the largest of 0 and 1.
fn keep_nan<T: TypedOp + Clone + Reduces>(
    site: &HookSite,
    model: &mut TypedModel,
    op: T,
    [data, indices, updates]: [OutletId; 3],
) -> Wired {
    let fact = model.outlet_fact(data)?;
    let (ty, rank) = (fact.datum_type, fact.rank());
    let mut marks = tvec!();
    for (name, value) in [("data", data), ("updates", updates)] {
        let is_nan = wire_is_nan(&site.part(&format!("{name}.is-nan")), model, value)?;
        let name = site.part(&format!("{name}.mark"));
        marks.extend(model.wire_node(name, cast(DatumType::U8), &is_nan)?);
    }
    let [of_data, of_updates] = *marks else { bail!("two marks") };
    let largest = op.clone().with(ScatterReduction::Max);
    let marks = model.wire_node(site.part("marks"), largest, &[of_data, indices, of_updates])?;
    let is_nan = model.wire_node(site.part("is-nan"), cast(DatumType::Bool), &marks)?;
    let numbers = model.wire_node(site.part("numbers"), op, &[data, indices, updates])?;
    let nan = tensor0(f32::NAN).cast_to_dt(ty)?.into_owned().broadcast_into_rank(rank)?;
    let nan = model.add_const(site.part("nan"), nan)?;
    model.wire_node(&site.name, Iff, &[&*is_nan, &[nan], &*numbers].concat())
}

/// An operator that puts together what goes to one place.
trait Reduces {
    /// The same, in another way.
    fn with(self, reduction: ScatterReduction) -> Self;
}

impl Reduces for ScatterNd {
    fn with(self, reduction: ScatterReduction) -> ScatterNd {
        ScatterNd { reduction }
    }
}

impl Reduces for ScatterElements {
    fn with(self, reduction: ScatterReduction) -> ScatterElements {
        ScatterElements { reduction, ..self }
    }
}

/// The indices counted from the beginning, or `None` if tract's operator is right with them as they
/// are.
fn counted(
    site: &HookSite,
    model: &mut TypedModel,
    data: OutletId,
    indices: OutletId,
    batch: usize,
) -> TractResult<Option<OutletId>> {
    let fact = model.outlet_fact(indices)?;
    let is_ours = is_integer(fact.datum_type) || fact.datum_type.is_tdim();
    let depth = fact.shape.last().and_then(|depth| depth.to_usize().ok());
    let (true, Some(depth)) = (is_ours, depth) else { return Ok(None) };
    let shape = model.outlet_fact(data)?.shape.to_tvec();
    let axes = batch.checked_add(depth).and_then(|end| shape.get(batch..end));
    let axes = axes.ok_or_else(|| {
        let rank = shape.len();
        site.error(format!(
            "has indices of length {depth} after `batch_dims` {batch}, of data of rank {rank}"
        ))
    })?;
    let op =
        Indices { node: site.node(), op: site.proto.op_type.clone().into(), axes: axes.into() };
    if let Some(indices) = model.outlet_fact(indices)?.konst.clone()
        && let Some(counted) = op.eval_out_of_plan(tvec!(indices.clone().into_tvalue()))?
    {
        let counted = counted.into_iter().next().context("one value")?;
        let constant = model.add_const(site.part("indices"), counted.into_arc_tensor())?;
        return Ok(Some(constant));
    }
    let counted = model.wire_node(site.part("indices"), op, &[indices])?;
    Ok(counted.first().copied())
}

/// Counts indices from the beginning of their axes, and fails where there is no such place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indices {
    /// For messages.
    node: Label,
    /// As the node's name.
    op: Label,
    /// The sizes of the axes that an index has an element for, in order.
    axes: TVec<TDim>,
}

typed_op!(Indices, "Indices", |op| format!("into [{}]", op.axes.iter().join(", ")));

impl EvalOp for Indices {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        let is_symbolic = self.axes.iter().any(|dim| dim.as_i64().is_none());
        if is_symbolic || inputs.iter().any(|input| input.datum_type().is_tdim()) {
            return Ok(None);
        }
        self.eval(&EvalContext::out_of_plan(), inputs).map(Some)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let indices = args_1!(inputs);
        let mut numbers = read(&indices, context.symbols)?;
        let size = |dim: &TDim| Ok(i128::from(dim.eval(context.symbols).to_i64()?));
        let sizes = self.axes.iter().map(size).collect::<TractResult<TVec<i128>>>()?;
        for (index, size) in numbers.iter_mut().zip(sizes.iter().cycle()) {
            let counted = if *index < 0 { *index + size } else { *index };
            if !(0..*size).contains(&counted) {
                let problem = format!("index {index} is outside of an axis of size {size}");
                bail!(refused(&self.node, &self.op, problem));
            }
            *index = counted;
        }
        Ok(tvec!(write(&numbers, DatumType::I64)?.into_tvalue()))
    }
}

impl TypedOp for Indices {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [indices] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        Ok(tvec!(DatumType::I64.fact(indices.shape.clone())))
    }

    with_symbols!(|self, values| {
        let axes = self.axes.iter().map(|dim| dim.substitute_all(values));
        Indices { axes: axes.collect::<TractResult<_>>()?, ..self.clone() }
    });

    as_op!();
}

save!(Indices, "tract_onnx_cast_indices", node { op, axes });
