//! `Range` of integers and of dimensions.
//!
//! tract cuts the limit and the start to 32 bits when it looks for the length, takes a negative
//! step for a large one there (tract-hir, `ops/array/range.rs`), counts the elements of INT64 in
//! DOUBLE, and those between dimensions as if the limit were never before the start (tract-core,
//! `ops/array/range.rs`).

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::ArrayD;
use tract_onnx::tract_core::ops::array::Range as StockRange;
use tract_onnx::tract_core::ops::cast::wire_cast;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::array::Range as Stock;

use crate::onnx::node::node_name;
use crate::ops::host::checked::allowance::is_kept;
use crate::ops::host::checked::constants::Held;
use crate::ops::host::element_wise::{rules, typed_op, with_symbols};
use crate::ops::host::hook::{Wired, refused};
use crate::ops::host::integers::{dims, eval_of_numbers, is_integer, read, write};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;
use crate::ops::host::stock::Built;

const RANGE: &str = "Range";

/// Builds it of a node.
pub(crate) fn build(_: &ParsingContext, node: &NodeProto) -> Built {
    Ok((expand(RangeOp { node: node_name(node) }), vec![]))
}

/// tract's `Range`, but for integers.
#[derive(Debug, Clone)]
struct RangeOp {
    /// For messages.
    node: String,
}

/// The type that the three values have together, if it is an integer's or dimensions.
fn whole_type(types: &[DatumType]) -> Option<DatumType> {
    let ty = DatumType::super_type_for(types.iter().copied())?;
    (is_integer(ty) || ty.is_tdim()).then_some(ty)
}

/// How far the limit is from the start, in the direction of the step, and the step without its
/// sign. `None` where a value is not known or the step is 0.
fn span(start: &Tensor, limit: &Tensor, step: &Tensor) -> TractResult<Option<(TDim, usize)>> {
    let [start, limit, step] =
        [&*dims(start)?, &*dims(limit)?, &*dims(step)?].map(|dims| match dims {
            [dim] => Some(dim.clone()),
            _ => None,
        });
    let (Some(start), Some(limit), Some(step)) = (start, limit, step.and_then(|dim| dim.as_i64()))
    else {
        return Ok(None);
    };
    let stride = usize::try_from(step.unsigned_abs()).ok().filter(|stride| *stride > 0);
    let is_downwards = step < 0;
    let (first, last) = if is_downwards { (limit, start) } else { (start, limit) };
    let far = match (first.as_i64(), last.as_i64()) {
        (Some(first), Some(last)) => last.checked_sub(first).map(TDim::Val),
        _ => Some(last - first),
    };
    Ok(far.zip(stride))
}

/// How many elements there are, if that is known, and is not said otherwise by values that are not
/// known yet.
fn length(start: &Tensor, limit: &Tensor, step: &Tensor) -> TractResult<Option<TDim>> {
    Ok(span(start, limit, step)?.map(|(span, stride)| steps(span, stride)))
}

/// How many steps there are to before a limit so far away: none to one behind the start.
fn steps(span: TDim, stride: usize) -> TDim {
    match span.as_i64() {
        Some(..=0) => TDim::Val(0),
        Some(span) => TDim::Val(i64::try_from(stride).map_or(1, |stride| (span - 1) / stride + 1)),
        None if is_size(&span) => span.divceil(stride),
        None => TDim::Max(vec![span, TDim::Val(0)]).simplify().divceil(stride),
    }
}

/// Whether a dimension cannot be negative, as symbols are not.
fn is_size(dim: &TDim) -> bool {
    match dim {
        TDim::Val(value) => *value >= 0,
        TDim::Sym(_) | TDim::Ge(..) | TDim::Eq(..) => true,
        TDim::Add(dims) | TDim::Mul(dims) | TDim::Min(dims) | TDim::Broadcast(dims) => {
            dims.iter().all(is_size)
        }
        TDim::Max(dims) => dims.iter().any(is_size),
        TDim::MulInt(factor, dim) => *factor >= 0 && is_size(dim),
        TDim::Div(dim, _) => is_size(dim),
    }
}

/// How many elements there are from a start to before a limit, or `None` for a step of 0.
fn count(start: i128, limit: i128, step: i128) -> Option<i128> {
    let span = if step < 0 { start - limit } else { limit - start };
    let stride = step.abs();
    (stride != 0).then(|| if span <= 0 { 0 } else { (span - 1) / stride + 1 })
}

impl Expansion for RangeOp {
    fn name(&self) -> StaticName {
        RANGE.into()
    }

    rules!(self, [3, 1], |solver, inputs, outputs| {
        let [start, limit, step] = inputs else { return Ok(()) };
        let [output] = outputs else { return Ok(()) };
        solver.given_3(
            &start.datum_type,
            &limit.datum_type,
            &step.datum_type,
            move |s, a, b, c| {
                let ty = DatumType::super_type_for([a, b, c]).context("No supertype found")?;
                s.equals(&output.datum_type, if ty.is_tdim() { DatumType::I64 } else { ty })
            },
        )?;
        for input in inputs {
            solver.equals(&input.rank, 0)?;
        }
        solver.equals(&output.rank, 1)?;
        solver.given_3(&start.value, &limit.value, &step.value, move |s, start, limit, step| {
            if whole_type(&[start.datum_type(), limit.datum_type(), step.datum_type()]).is_some()
                && let Some(length) = length(&start, &limit, &step)?
            {
                s.equals(&output.shape[0], length)?;
            }
            Ok(())
        })
    });

    fn wire(&self, prefix: &str, model: &mut TypedModel, inputs: &[OutletId]) -> Wired {
        let [start, limit, step] = inputs else { bail!("has {} inputs, not 3", inputs.len()) };
        let facts =
            [model.outlet_fact(*start)?, model.outlet_fact(*limit)?, model.outlet_fact(*step)?];
        let Some(ty) = whole_type(&facts.map(|fact| fact.datum_type)) else {
            let is_counted = is_number(facts[0], 0.0) && is_number(facts[2], 1.0);
            let ty = DatumType::super_type_for(facts.map(|fact| fact.datum_type));
            let ty = ty.context("one type")?;
            let len = dim_behind(model, *limit).filter(|_| is_counted);
            let count = |len: &TDim| len.to_usize().map_or(0, |count| count);
            let is_small = len.as_ref().is_some_and(|len| is_kept(&[count(len)], ty));
            let mut inputs: TVec<OutletId> = inputs.into();
            if facts[1].konst.is_none() && !is_small {
                // It may come to be a constant, and tract would look at nothing before it makes the
                // numbers.
                let late = model.wire_node(format!("{prefix}.limit"), Held, &[*limit])?;
                inputs = TVec::from_iter([&[*start], &*late, &[*step]].concat());
            }
            let Some(len) = len else {
                return Stock.wire(prefix, model, &inputs);
            };
            let inputs = wire_cast(prefix, model, &inputs, ty)?;
            return model.wire_node(prefix, StockRange::new(steps(len, 1)), &inputs);
        };
        let [start, limit, step] = facts;
        let small = |konst: &Option<Arc<Tensor>>, least: i64| {
            let dims = konst.as_ref().and_then(|konst| dims(konst).ok()).unwrap_or_default();
            matches!(&*dims, [dim] if dim.as_i64().is_some_and(|x| (least..1 << 31).contains(&x)))
        };
        // Upwards to a dimension, tract is right, and knows the length better.
        let limit_dim = limit.konst.clone().filter(|konst| konst.datum_type().is_tdim());
        let limit_dim = limit.uniform_tdim.clone().map(rctensor0).or(limit_dim);
        let known = match (&start.konst, limit_dim.as_ref().or(limit.konst.as_ref()), &step.konst) {
            (Some(start), Some(limit), Some(step)) => span(start, limit, step)?,
            _ => None,
        };
        let is_upwards = small(&start.konst, -(1 << 31)) && small(&step.konst, 1);
        let is_size = known.as_ref().is_some_and(|(span, _)| is_size(span));
        if limit_dim.is_some() && is_upwards && is_size {
            return Stock.wire(prefix, model, inputs);
        }
        let known = known.map(|(span, stride)| steps(span, stride));
        let inputs: TVec<OutletId> =
            if ty.is_tdim() { inputs.into() } else { wire_cast(prefix, model, inputs, ty)? };
        let len = known.or_else(|| length_of_equal(model, &inputs));
        let len = len.unwrap_or_else(|| model.symbols.new_with_prefix("range").to_dim());
        let ty = if ty.is_tdim() { DatumType::I64 } else { ty };
        model.wire_node(prefix, IntegerRange { node: self.node.clone().into(), len, ty }, &inputs)
    }
}

/// Whether a value is known to be this number.
fn is_number(fact: &TypedFact, number: f64) -> bool {
    let known = fact.konst.as_ref().filter(|constant| constant.len() == 1);
    let known = known.and_then(|constant| constant.cast_to_scalar::<f64>().ok());
    known.is_some_and(|known| known.to_bits() == number.to_bits())
}

/// The dimension that a number is cast of, which tract does not look for behind casts of ours.
fn dim_behind(model: &TypedModel, mut value: OutletId) -> Option<TDim> {
    use DatumType::{F32, F64, I64, TDim};
    const CASTS: usize = 8;
    for _ in 0..CASTS {
        let fact = model.outlet_fact(value).ok()?;
        if let Some(dim) = &fact.uniform_tdim {
            return Some(dim.clone());
        }
        if let Some(constant) =
            fact.konst.as_ref().filter(|constant| constant.datum_type().is_tdim())
        {
            return dims(constant).ok()?.first().cloned();
        }
        let node = model.nodes.get(value.node)?;
        matches!(&*node.op.name(), "Cast" | "OnnxCast").then_some(())?;
        matches!(fact.datum_type, F32 | F64 | I64 | TDim).then_some(())?;
        value = *node.inputs.first()?;
    }
    None
}

/// The length of a range that is there already, of the same numbers.
fn length_of_equal(model: &TypedModel, inputs: &[OutletId]) -> Option<TDim> {
    model.nodes.iter().find_map(|node| {
        let op = node.op_as::<IntegerRange>()?;
        let mut pairs = node.inputs.iter().zip(inputs);
        pairs.all(|(a, b)| is_equal(model, *a, *b, &mut 64)).then(|| op.len.clone())
    })
}

/// Whether two values are computed in the same way, as far as so many steps tell.
fn is_equal(model: &TypedModel, a: OutletId, b: OutletId, steps: &mut usize) -> bool {
    if a == b {
        return true;
    }
    let (Some(one), Some(other)) = (model.nodes.get(a.node), model.nodes.get(b.node)) else {
        return false;
    };
    let constant = |node: &TypedNode, at: OutletId| {
        node.outputs.get(at.slot).and_then(|o| o.fact.konst.clone())
    };
    if let (Some(a), Some(b)) = (constant(one, a), constant(other, b)) {
        return a.datum_type() == b.datum_type() && a == b;
    }
    let Some(left) = steps.checked_sub(1) else { return false };
    *steps = left;
    let is_pure = one.op.validation() != Validation::Random;
    a.slot == b.slot
        && is_pure
        && !one.inputs.is_empty()
        && one.inputs.len() == other.inputs.len()
        && one.op().dyn_eq(other.op())
        && one.inputs.iter().zip(&other.inputs).all(|(a, b)| is_equal(model, *a, *b, steps))
}

/// The integers from a start to before a limit by a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerRange {
    /// For messages.
    node: Label,
    len: TDim,
    /// Of the output.
    ty: DatumType,
}

typed_op!(IntegerRange, RANGE, mints_runtime_symbols);

impl IntegerRange {
    /// The start, the step, and how many numbers there are.
    fn counted(&self, inputs: &[TValue], symbols: &SymbolValues) -> TractResult<[i128; 3]> {
        let error = |problem: &str| refused(&self.node, RANGE, problem);
        let number = |tensor: &TValue| {
            let numbers = read(tensor, symbols)?;
            let number = numbers.iter().next().filter(|_| numbers.len() == 1);
            TractResult::Ok(*number.ok_or_else(|| error("has an input that is not one number"))?)
        };
        let [start, limit, step] = inputs else { bail!("has {} inputs, not 3", inputs.len()) };
        let (start, limit, step) = (number(start)?, number(limit)?, number(step)?);
        let count = count(start, limit, step).ok_or_else(|| error("has a step of 0"))?;
        Ok([start, step, count])
    }
}

impl EvalOp for IntegerRange {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        // What it is not told in numbers is left for the run.
        let counted = self.counted(&inputs, EvalContext::out_of_plan().symbols);
        match counted.map(|[_, _, count]| usize::try_from(count)) {
            Ok(Ok(count)) if !is_kept(&[count], self.ty) => Ok(None),
            _ => eval_of_numbers(self, inputs, 0),
        }
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let error = |problem: String| refused(&self.node, RANGE, problem);
        let [start, step, count] = self.counted(&inputs, context.symbols)?;
        let mut numbers: Vec<i128> = vec![];
        let length =
            usize::try_from(count).ok().filter(|len| numbers.try_reserve_exact(*len).is_ok());
        let length = length
            .ok_or_else(|| error(format!("has {count} elements, for which there is no memory")))?;
        numbers.extend((0..count).map(|place| start + place * step));
        let numbers = ArrayD::from_shape_vec(&[length][..], numbers)?;
        Ok(tvec!(write(&numbers, self.ty)?.into_tvalue()))
    }
}

impl TypedOp for IntegerRange {
    fn output_facts(&self, _: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(tvec!(self.ty.fact([self.len.clone()])))
    }

    with_symbols!(|self, values| IntegerRange {
        len: self.len.substitute_all(values)?,
        ..self.clone()
    });

    as_op!();
}

save!(IntegerRange, "tract_onnx_cast_range", node { len, ty });
