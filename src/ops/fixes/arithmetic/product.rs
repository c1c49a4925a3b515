//! `MatMul` and `Gemm` of the integers that tract's kernels do not have.
//!
//! tract panics when it looks for a kernel of INT64, UINT32 or UINT64 (tract-core, `ops/einsum`),
//! and multiplies `Gemm` by factors of FLOAT. A `MatMulInteger` of constants it folds in FLOAT
//! (`ops/einsum/eval.rs`, `eval_q`).

use tract_onnx::tract_core::axes::Axis;
use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, ArrayViewD, IxDyn};
use tract_onnx::tract_core::ops::binary::{BinMiniOp, TypedBinOp};
use tract_onnx::tract_core::ops::cast::cast;
use tract_onnx::tract_core::ops::change_axes::wire_rank_broadcast;
use tract_onnx::tract_core::ops::einsum::EinSum;
use tract_onnx::tract_core::ops::math::{Add, Mul, Sub};
use tract_onnx::tract_hir::internal::Expansion;
use tract_onnx::tract_hir::ops::matmul::MatMulInference;

use crate::error::Error;
use crate::ops::fixes::arithmetic::binary::{IntegerMul, Unsimplified};
use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::{HookSite, Instead, Mapped, refused};
use crate::ops::host::integers::is_integer;
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// The type of a product that tract has no kernel for, if it is one.
fn product_type(model: &TypedModel, inputs: &[OutletId]) -> TractResult<Option<DatumType>> {
    let mut common = None;
    for input in inputs {
        let ty = model.outlet_fact(*input)?.datum_type;
        if !matches!(ty, DatumType::I64 | DatumType::U32 | DatumType::U64)
            || common.is_some_and(|other| other != ty)
        {
            return Ok(None);
        }
        common = Some(ty);
    }
    Ok(common)
}

/// Wires `MatMul`.
pub(crate) fn matmul(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let Some(ty) = product_type(model, inputs)? else { return Ok(None) };
    // tract folds constants as it wires, and has no kernel to do it with.
    let mut draft = TypedModel { symbols: model.symbols.clone(), ..TypedModel::default() };
    let mut sources = tvec!();
    for (index, input) in inputs.iter().enumerate() {
        let shape = model.outlet_fact(*input)?.shape.clone();
        sources.push(draft.add_source(format!("input-{index}"), ty.fact(shape))?);
    }
    site.wire_stock(&mut draft, &sources)?;
    let [EinSum { axes, .. }] =
        &*draft.nodes.iter().filter_map(|node| node.op_as()).collect::<Vec<_>>()
    else {
        return Ok(None);
    };
    let op = IntegerEinSum { node: site.node(), axes: axes.clone(), ty };
    model.wire_node(&site.name, op, inputs).map(Some)
}

/// Wires `MatMulInteger` of constants, or by a zero point for each row in as many axes, as a
/// product of INT32.
pub(crate) fn matmul_integer(
    site: &HookSite,
    model: &mut TypedModel,
    inputs: &[OutletId],
) -> Instead {
    let [a, b, ..] = inputs else { return Ok(None) };
    let is_constant = |outlet| TractResult::Ok(model.outlet_fact(outlet)?.konst.is_some());
    let mut is_ours = is_constant(*a)? && is_constant(*b)?;
    for (place, operand) in [*a, *b].into_iter().enumerate() {
        let Some(zero) = site.given(inputs, place + 2) else { continue };
        let (shape, zero) = (&model.outlet_fact(operand)?.shape, &model.outlet_fact(zero)?.shape);
        // One of each row, or of each column.
        let size = shape.iter().rev().nth(1 - place);
        let is_list = zero.rank() == 1 && zero.first() == size;
        let summed = shape.rank().wrapping_sub(1 + place);
        let sizes = shape.iter().enumerate();
        let wanted =
            sizes.map(|(axis, size)| if axis == summed { 1.to_dim() } else { size.clone() });
        let is_each = wanted.eq(zero.iter().cloned());
        if zero.volume() != 1.to_dim() && !is_list && !is_each {
            return Ok(None);
        }
        is_ours |= zero.rank() > 1 && is_each;
    }
    if !is_ours {
        return Ok(None);
    }
    let mut operands = tvec!();
    for (place, operand) in [*a, *b].into_iter().enumerate() {
        let number = |model: &mut TypedModel, part: &str, value: OutletId| {
            model.wire_node(site.part(&format!("{part}-{place}")), cast(DatumType::I32), &[value])
        };
        let mut operand = number(model, "number", operand)?;
        if let Some(zero) = site.given(inputs, place + 2) {
            let mut zero = number(model, "zero", zero)?;
            let shape = model.outlet_fact(*zero.first().context("a zero point")?)?.shape.to_tvec();
            if place == 0 && shape.len() == 1 && shape.first() != Some(&1.to_dim()) {
                // It is one of each row.
                zero = model.wire_node(site.part("rows"), AxisOp::Add(1), &zero)?;
            }
            let name = site.part(&format!("difference-{place}"));
            let both = wire_rank_broadcast(&name, model, &[&*operand, &*zero].concat())?;
            operand = model.wire_node(name, TypedBinOp(Box::new(Sub), None), &both)?;
        }
        operands.extend(operand);
    }
    MatMulInference::default().wire(&site.name, model, &operands).map(Some)
}

/// Wires `Gemm` of integers and of DOUBLE, which tract multiplies by FLOATs. The factors of
/// integers must be integers.
pub(crate) fn gemm(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let [a, b, rest @ ..] = inputs else { return Ok(None) };
    let ty = model.outlet_fact(*a)?.datum_type;
    let is_double = ty == DatumType::F64;
    for input in inputs {
        if model.outlet_fact(*input)?.datum_type != ty || !(is_double || is_integer(ty)) {
            return Ok(None);
        }
    }
    let factor = |name: &str| -> TractResult<f32> {
        let factor: f32 = site.proto.get_attr_opt(name)?.unwrap_or(1.);
        // 2^31 is not rounded to an INT32 that it is not.
        if is_double || factor.fract() == 0.0 && factor.abs() < 2f32.powi(31) {
            Ok(factor)
        } else {
            Err(site.error(format!("multiplies {ty:?} by `{name}`, {factor}")).into())
        }
    };
    let transposed = |name: &str| Ok::<bool, TractError>(site.int(name, 0)? != 0);
    let axes =
        AxesMapping::for_numpy_matmul(2, transposed("transA")?, transposed("transB")?, false)?;
    let (alpha, beta) = (factor("alpha")?, factor("beta")?);
    let op: Box<dyn TypedOp> = if is_double {
        EinSum::new(axes, ty).into()
    } else {
        IntegerEinSum { node: site.node(), axes, ty }.into()
    };
    let has_sum = !rest.is_empty() && beta != 0.0;
    let is_last = alpha == 1.0 && !has_sum;
    let name = if is_last { site.name.clone() } else { site.part("ab") };
    let mut product = model.wire_node(name, op, &[*a, *b])?;
    let multiply = |model: &mut TypedModel, value: &[OutletId], by: f32, name: String| {
        #[allow(clippy::cast_possible_truncation, reason = "checked")]
        let factor = if is_double { tensor0(by) } else { tensor0(by as i64) };
        let factor = factor.cast_to_dt(ty)?.into_owned().into_arc_tensor();
        let factor = model.add_const(format!("{name}.factor"), factor)?;
        let operands = [value, &[factor]].concat();
        let operands = wire_rank_broadcast(&name, model, &operands)?;
        let op: Box<dyn BinMiniOp> =
            if is_double { Box::new(Unsimplified(Mul)) } else { Box::new(IntegerMul) };
        model.wire_node(name, TypedBinOp(op, None), &operands)
    };
    if alpha != 1.0 {
        let name = if has_sum { site.part("alpha") } else { site.name.clone() };
        product = multiply(model, &product, alpha, name)?;
    }
    if has_sum {
        let c =
            if beta == 1.0 { rest.into() } else { multiply(model, rest, beta, site.part("beta"))? };
        let operands = wire_rank_broadcast(&site.name, model, &[&*product, &*c].concat())?;
        product = model.wire_node(&site.name, TypedBinOp(Box::new(Add), None), &operands)?;
    }
    Ok(Some(product))
}

/// Sums of products of integers, which wrap around in their type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntegerEinSum {
    /// For messages.
    pub(super) node: Label,
    pub(super) axes: AxesMapping,
    /// Of the inputs and of the output.
    pub(super) ty: DatumType,
}

impl IntegerEinSum {
    fn error(&self, problem: impl Into<String>) -> Error {
        refused(&self.node, "EinSum", problem)
    }

    /// The size of an axis in inputs of these shapes: of what is broadcast there is one element.
    fn size<D: DimLike>(&self, axis: &Axis, shapes: &[&[D]]) -> TractResult<D> {
        let mut size = D::one();
        for (positions, shape) in axis.inputs.iter().zip(shapes) {
            for position in positions {
                let dim = shape
                    .get(*position)
                    .ok_or_else(|| self.error("has an input of another rank"))?;
                if size == D::one() {
                    size = dim.clone();
                } else if dim != &D::one() && !dim.compatible_with(&size) {
                    bail!(self.error(format!("has an axis of size {size} and of size {dim}")));
                }
            }
        }
        Ok(size)
    }

    /// The axes of the output in order, or those that are summed over.
    fn split(&self) -> (Vec<&Axis>, Vec<&Axis>) {
        let output = |axis: &Axis| axis.outputs.first().and_then(|places| places.first()).copied();
        let (mut kept, summed): (Vec<_>, Vec<_>) =
            self.axes.iter_all_axes().partition(|axis| output(axis).is_some());
        kept.sort_by_key(|axis| output(axis));
        (kept, summed)
    }

    fn sum(&self, inputs: &[ArrayViewD<i64>]) -> TractResult<ArrayD<i64>> {
        let shapes: Vec<&[usize]> = inputs.iter().map(ArrayViewD::shape).collect();
        let sizes = |axes: &[&Axis]| {
            axes.iter().map(|axis| self.size(axis, &shapes)).collect::<TractResult<TVec<usize>>>()
        };
        // How far an input's element is from the next along an axis.
        let strides = |axes: &[&Axis]| -> Vec<Vec<usize>> {
            let stride = |input: usize, axis: &&Axis| {
                let positions = axis.inputs.get(input).map(|p| p.as_slice()).unwrap_or_default();
                let shape = shapes.get(input).copied().unwrap_or_default();
                let broad =
                    positions.iter().filter(|p| shape.get(**p).is_some_and(|len| *len != 1));
                broad.map(|p| shape.iter().skip(p + 1).product::<usize>()).sum()
            };
            (0..inputs.len())
                .map(|input| axes.iter().map(|axis| stride(input, axis)).collect())
                .collect()
        };
        let (kept, summed) = self.split();
        let (shape, depth) = (sizes(&kept)?, sizes(&summed)?);
        let (kept, summed) = (strides(&kept), strides(&summed));
        let inputs: Vec<_> = inputs.iter().map(|input| input.as_standard_layout()).collect();
        let inputs: Option<Vec<&[i64]>> = inputs.iter().map(|input| input.as_slice()).collect();
        let inputs = inputs.context("elements that stand together")?;
        let offset = |place: &[usize], strides: &[usize]| -> usize {
            place.iter().zip(strides).map(|(place, stride)| place * stride).sum()
        };
        let mut result = ArrayD::zeros(IxDyn(&shape));
        for (place, element) in result.indexed_iter_mut() {
            let place = tract_onnx::tract_core::ndarray::Dimension::slice(&place);
            let starts: TVec<usize> = kept.iter().map(|strides| offset(place, strides)).collect();
            let mut sum = 0i64;
            for inner in tract_onnx::tract_core::ndarray::indices(&*depth) {
                let inner = tract_onnx::tract_core::ndarray::Dimension::slice(&inner);
                let factors = inputs.iter().zip(&starts).zip(&summed);
                let product = factors.fold(1i64, |product, ((input, start), strides)| {
                    let factor = input.get(start + offset(inner, strides)).copied();
                    product.wrapping_mul(factor.unwrap_or_default())
                });
                sum = sum.wrapping_add(product);
            }
            *element = sum;
        }
        Ok(result)
    }
}

typed_op!(IntegerEinSum, "EinSum", |op| format!("{} ({:?})", op.axes, op.ty));

impl EvalOp for IntegerEinSum {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        // What wraps around in 64 bits does so in fewer.
        let inputs =
            inputs.iter().map(|input| input.cast_to::<i64>()).collect::<TractResult<Vec<_>>>()?;
        let views = inputs.iter().map(|input| input.to_plain_array_view::<i64>());
        let views = views.collect::<TractResult<Vec<_>>>()?;
        let sum = self.sum(&views)?.into_tensor();
        Ok(tvec!(sum.cast_to_dt(self.ty)?.into_owned().into_tvalue()))
    }
}

impl TypedOp for IntegerEinSum {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let shapes: Vec<TVec<TDim>> = inputs.iter().map(|input| input.shape.to_tvec()).collect();
        let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
        let (kept, _) = self.split();
        let shape = kept.iter().map(|axis| self.size(axis, &shapes));
        Ok(tvec!(self.ty.fact(shape.collect::<TractResult<TVec<TDim>>>()?)))
    }

    fn axes_mapping(&self, _: &[&TypedFact], _: &[&TypedFact]) -> Mapped {
        Ok(self.axes.clone())
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        let shapes: Vec<TVec<TDim>> = inputs.iter().map(|input| input.shape.to_tvec()).collect();
        let shapes: Vec<&[TDim]> = shapes.iter().map(|shape| &**shape).collect();
        let sizes = self.axes.iter_all_axes().map(|axis| self.size(axis, &shapes));
        let count = sizes.collect::<TractResult<Vec<TDim>>>()?.into_iter().product();
        Ok(tvec!((Cost::FMA(self.ty), count)))
    }

    as_op!();
}

save!(IntegerEinSum, "tract_onnx_cast_einsum", node { axes, ty });
