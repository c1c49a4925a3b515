//! Operators that tract refuses, or takes for others, for the shapes of their inputs.
//!
//! - `MatMul` of two vectors, and `Mean` of operands of several ranks, which tract refuses
//!   (tract-hir, `ops/matmul.rs`; `Nary`).
//! - `GlobalLpPool`, whose sum tract divides by the number of elements (tract-hir,
//!   `ops/nn/global_pools.rs`).
//! - `SpaceToDepth` in columns, rows and depth, which tract takes for depth first (tract-onnx,
//!   `ops/s2d.rs`).
//! - `Concat` of what has no elements (tract-core, `ops/array/concat.rs`), and `Flatten`
//!   (tract-core, `ops/change_axes.rs`).
//! - Reductions along an axis without elements, at which tract panics (tract-core,
//!   `ops/nn/reduce.rs`).

use tract_onnx::tract_core::broadcast::multi_broadcast;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::array::MultiBroadcastTo;
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::change_axes::{wire_rank_broadcast, wire_with_rank_broadcast};
use tract_onnx::tract_core::ops::math::{Add, abs, div, pow};
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};

use crate::onnx::node::from_front;
use crate::ops::fixes::arithmetic::extremum::Extremum;
use crate::ops::fixes::arithmetic::product;
use crate::ops::fixes::arithmetic::reduce::{axes, wire_reduction};
use crate::ops::host::hook::{HookSite, Instead, Wired, Wires};

/// Whether it is known that a value has no elements.
pub(crate) fn is_empty(fact: &TypedFact) -> bool {
    fact.shape.iter().any(|dim| *dim == 0.to_dim())
}

/// Wires a product of matrices, which two vectors are made.
pub(crate) fn matmul(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [a, b] = inputs else { return product::matmul(site, model, inputs) };
    if let Some(shape) = of_no_terms(model.outlet_fact(*a)?, model.outlet_fact(*b)?) {
        let ty = model.outlet_fact(*a)?.datum_type;
        return zeros(model, &site.name, ty, shape).map(Some);
    }
    let ranks = [model.outlet_fact(*a)?.rank(), model.outlet_fact(*b)?.rank()];
    if ranks != [1, 1] {
        return product::matmul(site, model, inputs);
    }
    let a = model.wire_node(site.part("row"), AxisOp::Add(0), &[*a])?;
    let b = model.wire_node(site.part("column"), AxisOp::Add(1), &[*b])?;
    let operands = [&*a, &*b].concat();
    let product = match product::matmul(site, model, &operands)? {
        Some(product) => product,
        None => site.wire_stock(model, &operands)?,
    };
    let row = model.wire_node(site.part("dot.row"), AxisOp::Rm(1), &product)?;
    model.wire_node(site.part("dot"), AxisOp::Rm(0), &row).map(Some)
}

/// The shape of a product of matrices of which one has no elements: of open sizes, tract takes it
/// for another one.
pub(crate) fn of_no_terms(a: &TypedFact, b: &TypedFact) -> Option<TVec<TDim>> {
    if a.datum_type != b.datum_type || !is_empty(a) && !is_empty(b) {
        return None;
    }
    let (rows, a) = match a.shape.dims() {
        [.., _] if a.rank() == 1 => (None, &[][..]),
        [batch @ .., rows, _] => (Some(rows), batch),
        _ => return None,
    };
    let (columns, b) = match b.shape.dims() {
        [.., _] if b.rank() == 1 => (None, &[][..]),
        [batch @ .., _, columns] => (Some(columns), batch),
        _ => return None,
    };
    let mut shape = multi_broadcast(&[a, b]).ok()?;
    shape.extend(rows.into_iter().chain(columns).cloned());
    Some(shape)
}

/// Wires the mean of no elements for each channel, or the greatest, NaN if there is one.
pub(crate) fn global_pool(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let fact = model.outlet_fact(*input)?;
    let (ty, mut shape) = (fact.datum_type, fact.shape.to_tvec());
    let is_mean = site.proto.op_type == "GlobalAveragePool";
    if !ty.is_float() || shape.iter().skip(2).all(|dim| *dim != 0.to_dim()) {
        let greatest = Extremum(Reduce::new((2..shape.len()).collect(), Reducer::Max));
        let is_ours = ty.is_float() && !is_mean;
        return is_ours.then(|| model.wire_node(&site.name, greatest, inputs)).transpose();
    }
    shape.iter_mut().skip(2).for_each(|dim| *dim = 1.to_dim());
    let value = tensor0(if is_mean { f64::NAN } else { f64::NEG_INFINITY });
    let value = value.cast_to_dt(ty)?.into_owned().broadcast_into_rank(shape.len())?;
    let value = model.add_const(site.part("of-none"), value)?;
    model.wire_node(&site.name, MultiBroadcastTo::new(shape.into()), &[value]).map(Some)
}

/// Wires the mean of floats of different ranks.
pub(crate) fn mean(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let facts = inputs.iter().map(|input| model.outlet_fact(*input));
    let facts = facts.collect::<TractResult<Vec<_>>>()?;
    let (Some(first), false) = (facts.first(), facts.is_empty()) else { return Ok(None) };
    let (ty, rank) = (first.datum_type, first.rank());
    if !ty.is_float() || facts.iter().all(|fact| fact.rank() == rank) {
        return Ok(None);
    }
    let operands = wire_rank_broadcast(&site.name, model, inputs)?;
    let mut sum: Wires = operands.iter().take(1).copied().collect();
    for (place, operand) in operands.iter().enumerate().skip(1) {
        let name = site.part(&format!("sum-{place}"));
        sum = model.wire_node(
            name,
            TypedBinOp(Box::new(Add), None),
            &[&*sum, &[*operand]].concat(),
        )?;
    }
    let count = tensor0(i64::try_from(inputs.len())?).cast_to_dt(ty)?.into_owned();
    let count = model.add_const(site.part("count"), count)?;
    wire_with_rank_broadcast(&site.name, model, div(), &[&*sum, &[count]].concat()).map(Some)
}

/// Wires (Σ |x|^p)^(1/p) of all but the first two axes.
pub(crate) fn global_lp_pool(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let fact = model.outlet_fact(*input)?;
    let (ty, axes): (_, TVec<usize>) = (fact.datum_type, (2..fact.rank()).collect());
    let is_float = site.proto.attribute.iter().any(|p| p.name == "p" && p.f != 0.0);
    #[allow(clippy::cast_precision_loss, reason = "an exponent is a small number")]
    let p = if is_float {
        site.proto.get_attr_opt::<f32>("p")?.unwrap_or(2.0)
    } else {
        site.int("p", 2)? as f32
    };
    if p <= 0.0 || p.is_nan() {
        bail!(site.error(format!("attribute `p` is {p}")));
    }
    if axes.iter().any(|axis| fact.shape.get(*axis) == Some(&0.to_dim())) {
        let mut shape = fact.shape.to_tvec();
        shape.iter_mut().skip(2).for_each(|dim| *dim = 1.to_dim());
        return zeros(model, &site.name, ty, shape).map(Some);
    }
    let sizes = model.wire_node(site.part("abs"), abs(), inputs)?;
    let power = |model: &mut TypedModel, name: String, x: &[OutletId], by: f64| {
        let by = tensor0(by).cast_to_dt(ty)?.into_owned();
        let by = model.add_const(format!("{name}.exponent"), by)?;
        wire_with_rank_broadcast(name, model, pow(), &[x, &[by]].concat())
    };
    let powers = power(model, site.part("power"), &sizes, f64::from(p))?;
    let sum = Reduce::new(axes, Reducer::Sum);
    let sum = model.wire_node(site.part("sum"), sum, &powers)?;
    power(model, site.name.clone(), &sum, 1.0 / f64::from(p)).map(Some)
}

/// Wires the order of columns, rows and depth.
pub(crate) fn space_to_depth(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    let [input] = inputs else { return Ok(None) };
    match site.proto.get_attr_opt::<&str>("mode")?.unwrap_or("DCR") {
        "CRD" => {}
        "DCR" => return Ok(None),
        other => bail!(site.error(format!("attribute `mode` is {other:?}"))),
    }
    let block = site.int("blocksize", 0)?;
    let shape = model.outlet_fact(*input)?.shape.to_tvec();
    let ([_, channels, height, width], true) = (&*shape, block > 0) else {
        bail!(site.error(format!("has the block size {block} and an input of {shape:?}")));
    };
    let parts = |dim: &TDim| tvec!(dim.clone() / block, block.to_dim());
    // Of rows and columns, what is inside of a block goes to the channels.
    let (w, h) = (parts(width), parts(height));
    let c = tvec!(channels.clone(), block.to_dim(), block.to_dim());
    let all = tvec!(channels.clone() * block * block);
    let steps = [
        AxisOp::Reshape(3, tvec!(width.clone()), w),
        AxisOp::Reshape(2, tvec!(height.clone()), h),
        AxisOp::Move(3, 2),
        AxisOp::Move(5, 3),
        AxisOp::Reshape(1, c, all),
    ];
    let mut wires: Wires = tvec!(*input);
    for (place, step) in steps.into_iter().enumerate() {
        wires = model.wire_node(site.part(&format!("step-{place}")), step, &wires)?;
    }
    Ok(Some(wires))
}

/// Wires what has no elements beside the axis: tract leaves out parts without elements, and with
/// them their sizes along it.
pub(crate) fn concat(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let facts = inputs.iter().map(|input| model.outlet_fact(*input));
    let facts = facts.collect::<TractResult<Vec<_>>>()?;
    let Some(first) = facts.first() else { return Ok(None) };
    let (ty, mut shape) = (first.datum_type, first.shape.to_tvec());
    let Some(axis) = from_front(site.int("axis", 1)?, shape.len()) else { return Ok(None) };
    let is_empty = shape.iter().enumerate().any(|(place, dim)| place != axis && *dim == 0.to_dim());
    let (true, Some(size)) = (is_empty, shape.get_mut(axis)) else { return Ok(None) };
    let sizes = facts.iter().filter_map(|fact| fact.shape.get(axis));
    *size = sizes.fold(0.to_dim(), |sum, size| sum + size);
    zeros(model, &site.name, ty, shape).map(Some)
}

/// Wires zeros of a shape, which may have no elements.
pub(crate) fn zeros(model: &mut TypedModel, name: &str, ty: DatumType, shape: TVec<TDim>) -> Wired {
    let zero = match ty {
        DatumType::String => tensor0(String::new()),
        _ => Tensor::zero_dt(ty, &[])?,
    };
    let zero = zero.broadcast_into_rank(shape.len())?;
    let zero = model.add_const(format!("{name}.zero"), zero)?;
    model.wire_node(name, MultiBroadcastTo::new(shape.into()), &[zero])
}

/// Wires what has no elements in two axes, whose sizes tract takes for other ones.
pub(crate) fn flatten(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [input] = inputs else { return Ok(None) };
    let fact = model.outlet_fact(*input)?;
    let (ty, shape) = (fact.datum_type, fact.shape.to_tvec());
    if shape.iter().all(|dim| *dim != 0.to_dim()) {
        return Ok(None);
    }
    let named = site.int("axis", 1)?;
    let axis = if named < 0 { named.saturating_add(i64::try_from(shape.len())?) } else { named };
    let parts = usize::try_from(axis).ok().and_then(|axis| shape.split_at_checked(axis));
    let Some((rows, columns)) = parts else {
        bail!(site.error(format!("attribute `axis` is {named}, and the rank {}", shape.len())));
    };
    let shape = [rows, columns].map(|dims| dims.iter().product::<TDim>());
    zeros(model, &site.name, ty, shape.into_iter().collect()).map(Some)
}

/// Leaves what has no elements as it is, where that is the only output.
pub(crate) fn of_nothing(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(input) = inputs.first() else { return Ok(None) };
    if site.proto.output.iter().skip(1).any(|output| !output.is_empty()) {
        return Ok(None);
    }
    Ok(is_empty(model.outlet_fact(*input)?).then(|| tvec!(*input)))
}

/// Wires what a reduction of floats is of no elements, where it is known that there are none.
pub(crate) fn of_none(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(data) = inputs.first() else { return Ok(None) };
    let fact = model.outlet_fact(*data)?;
    let (ty, mut shape) = (fact.datum_type, fact.shape.to_tvec());
    // What it is of integers tract knows, but which of none is the greatest.
    let is_ours = ty.is_float() || site.proto.op_type.starts_with("Arg");
    let (true, Some(axes)) = (is_ours, axes(site, model, inputs, shape.len())?) else {
        return Ok(None);
    };
    if !axes.iter().any(|axis| shape.get(*axis) == Some(&0.to_dim())) {
        return Ok(None);
    }
    let value = match site.proto.op_type.as_str() {
        "ReduceSum" | "ReduceL1" | "ReduceL2" | "ReduceSumSquare" => 0.0,
        "ReduceProd" => 1.0,
        "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMax" => f64::NEG_INFINITY,
        "ReduceMin" => f64::INFINITY,
        "ReduceMean" => f64::NAN,
        _ => bail!(site.error("is along an axis without elements")),
    };
    for axis in &axes {
        if let Some(dim) = shape.get_mut(*axis) {
            *dim = 1.to_dim();
        }
    }
    let value = tensor0(value).cast_to_dt(ty)?.into_owned();
    let value = model.add_const(site.part("of-none"), value.broadcast_into_rank(shape.len())?)?;
    wire_reduction(site, model, value, MultiBroadcastTo::new(shape.into()).into(), &axes).map(Some)
}
