//! Rows by the root of the mean of their squares, less their mean before that or not: what the
//! layers that normalise are made of, as one operator, which tract has for its own sums of squares
//! (tract-core, `ops/nn/rms_norm.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::{ArrayD, IxDyn};
use tract_onnx::tract_core::ops::binary::TypedBinOp;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math::Rsqrt;

use super::lanes::{sum_columns, sum_of_terms};
use crate::cast::kernel::level::Level;
use crate::ops::fixes::arithmetic::reduce::kept_first;
use crate::ops::host::element_wise::{along_axes, mapping_apart, typed_op};
use crate::ops::host::hook::{Mapped, Patch};
use crate::ops::host::saved::save;

/// d / √(factor · Σd² + epsilon) of FLOATs along some axes, where d is x, or x less factor · Σx;
/// each step but the sums is rounded to FLOAT, as the operators that it stands for do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Norm {
    axes: TVec<usize>,
    /// What sums become means by: one by the number of terms, as a rule.
    factor: f32,
    epsilon: f32,
    /// Whether the mean is taken away.
    is_centred: bool,
}

impl Eq for Norm {}

/// Puts a [`Norm`] in the place of a sum of the squares of a value along the last axes and the
/// steps behind it up to the product with the value, if nobody else wants what is between; and of
/// the mean that the value is less, if `mean` knows the axes of its sum.
pub(super) fn of_squares(
    model: &TypedModel,
    sum: &TypedNode,
    axes: &TVec<usize>,
    mean: impl Fn(&TypedNode) -> Option<&TVec<usize>>,
) -> Patch {
    let [centred] = &*sum.inputs else { return Ok(None) };
    let fact = model.outlet_fact(*centred)?;
    let first = fact.rank().saturating_sub(axes.len());
    if fact.datum_type != DatumType::F32 || !axes.iter().copied().eq(first..fact.rank()) {
        return Ok(None);
    }
    let Some((scaled, factor)) = by_constant(model, sum, "Mul")? else { return Ok(None) };
    let Some((shifted, epsilon)) = by_constant(model, scaled, "Add")? else { return Ok(None) };
    let Some(root) = next(model, shifted)? else { return Ok(None) };
    let Some(last) = next(model, root)? else { return Ok(None) };
    let is_root = root.op_as::<ElementWiseOp>().is_some_and(|op| op.0.is::<Rsqrt>());
    let operands = [root.id.into(), *centred];
    let is_product = is_binary(last, "Mul")
        && last.inputs.len() == 2
        && operands.iter().all(|operand| last.inputs.contains(operand));
    if !is_root || !is_product {
        return Ok(None);
    }
    let less = model.node(centred.node);
    let x = less_mean(model, less, [sum.id, last.id], (axes, factor), mean)?;
    let is_centred = x.is_some();
    let op = Norm { axes: axes.clone(), factor, epsilon, is_centred };
    let mut patch = TypedModelPatch::new("sum of squares, scaled by");
    let input = patch.tap_model(model, x.unwrap_or(*centred))?;
    let made = patch.wire_node(&last.name, op, &[input])?;
    patch.shunt_outside(model, last.id.into(), *made.first().context("an output")?)?;
    Ok(Some(patch))
}

/// What a difference takes its mean along the axes from, if it is one and only these two nodes want
/// it.
fn less_mean(
    model: &TypedModel,
    less: &TypedNode,
    users: [usize; 2],
    (axes, factor): (&TVec<usize>, f32),
    mean: impl Fn(&TypedNode) -> Option<&TVec<usize>>,
) -> TractResult<Option<OutletId>> {
    let [x, subtracted] = &*less.inputs else { return Ok(None) };
    let [output] = &*less.outputs else { return Ok(None) };
    let is_inner = output.successors.iter().all(|user| users.contains(&user.node));
    let scaled = model.node(subtracted.node);
    let is_less = is_binary(less, "Sub") && is_inner && !model.outputs.contains(&less.id.into());
    if !is_less || !is_binary(scaled, "Mul") {
        return Ok(None);
    }
    for operand in &scaled.inputs {
        let sum = model.node(operand.node);
        if mean(sum) == Some(axes)
            && sum.inputs.first() == Some(x)
            && let Some((product, of_mean)) = by_constant(model, sum, "Mul")?
            && (product.id, of_mean) == (scaled.id, factor)
            && next(model, scaled)?.is_some_and(|user| user.id == less.id)
        {
            return Ok(Some(*x));
        }
    }
    Ok(None)
}

/// The one node that wants what a node makes.
fn next<'m>(model: &'m TypedModel, node: &TypedNode) -> TractResult<Option<&'m TypedNode>> {
    if model.outputs.contains(&node.id.into()) {
        return Ok(None);
    }
    model.single_succ(node.id)
}

/// The same, if it is an operation with a constant number, and that.
fn by_constant<'m>(
    model: &'m TypedModel,
    node: &TypedNode,
    operation: &str,
) -> TractResult<Option<(&'m TypedNode, f32)>> {
    let Some(next) = next(model, node)?.filter(|next| is_binary(next, operation)) else {
        return Ok(None);
    };
    let mut others = next.inputs.iter().filter(|input| input.node != node.id);
    let (Some(other), None) = (others.next(), others.next()) else { return Ok(None) };
    let Some(number) = model.outlet_fact(*other)?.konst.as_ref().filter(|konst| konst.len() == 1)
    else {
        return Ok(None);
    };
    let number = number.as_ref().clone().into_shape(&[])?.cast_to_scalar::<f32>()?;
    Ok(Some((next, number)))
}

fn is_binary(node: &TypedNode, operation: &str) -> bool {
    node.op_as::<TypedBinOp>().is_some_and(|op| op.0.name() == operation && op.1.is_none())
}

impl Norm {
    /// Of rows of `len` elements.
    fn of_rows(&self, rows: &mut [f32], len: usize) {
        Level::best().run(
            #[inline(always)]
            || {
                for row in rows.chunks_exact_mut(len.max(1)) {
                    self.of_row(row);
                }
            },
        );
    }

    /// Of blocks of rows of `inner` elements, of which each block has `count` to sum over.
    fn of_columns(&self, elements: &mut [f32], [count, inner]: [usize; 2]) {
        let (mut sums, mut scales) = (vec![0f64; inner], vec![0f32; inner]);
        for block in elements.chunks_exact_mut((count * inner).max(1)) {
            Level::best().run(
                #[inline(always)]
                || self.of_block(block, &mut sums, &mut scales),
            );
        }
    }

    /// Of a block, with space for a number of each column.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "sums are rounded to FLOAT")]
    fn of_block(&self, block: &mut [f32], sums: &mut [f64], scales: &mut [f32]) {
        let inner = scales.len().max(1);
        if self.is_centred {
            sum_columns(block, sums, |x: f32| f64::from(x));
            for (mean, sum) in scales.iter_mut().zip(&*sums) {
                *mean = *sum as f32 * self.factor;
            }
            for row in block.chunks_exact_mut(inner) {
                for (x, mean) in row.iter_mut().zip(&*scales) {
                    *x -= *mean;
                }
            }
        }
        sum_columns(block, sums, |x: f32| f64::from(x) * f64::from(x));
        for (scale, sum) in scales.iter_mut().zip(&*sums) {
            *scale = (*sum as f32 * self.factor + self.epsilon).sqrt().recip();
        }
        for row in block.chunks_exact_mut(inner) {
            for (x, scale) in row.iter_mut().zip(&*scales) {
                *x *= *scale;
            }
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "sums are rounded to FLOAT")]
    fn of_row(&self, row: &mut [f32]) {
        if self.is_centred {
            let mean = sum_of_terms(row, &|x: f32| f64::from(x)) as f32 * self.factor;
            for x in row.iter_mut() {
                *x -= mean;
            }
        }
        let squares = sum_of_terms(row, &|x: f32| f64::from(x) * f64::from(x)) as f32;
        let scale = (squares * self.factor + self.epsilon).sqrt().recip();
        for x in row {
            *x *= scale;
        }
    }
}

typed_op!(Norm, "Norm", |op| format!("axes: {:?}, epsilon: {}", op.axes, op.epsilon));

impl EvalOp for Norm {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut made = input.into_tensor();
        let rank = made.rank();
        let len = self.axes.iter().filter_map(|axis| made.shape().get(*axis)).product();
        let order = kept_first(rank, &self.axes);
        if order.iter().copied().eq(0..rank) {
            self.of_rows(made.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?, len);
            return Ok(tvec!(made.into_tvalue()));
        }
        let first = self.axes.first().copied().unwrap_or(rank);
        let behind = first + self.axes.len();
        if self.axes.iter().copied().eq(first..behind) {
            let inner = made.shape().iter().skip(behind).product();
            self.of_columns(made.try_as_plain_ram_mut()?.as_slice_mut::<f32>()?, [len, inner]);
            return Ok(tvec!(made.into_tvalue()));
        }
        let moved = made.to_plain_array_view::<f32>()?.permuted_axes(IxDyn(&order));
        let shape = moved.shape().to_vec();
        let mut rows: Vec<f32> = moved.iter().copied().collect();
        self.of_rows(&mut rows, len);
        let mut array = made.to_plain_array_view_mut::<f32>()?.permuted_axes(IxDyn(&order));
        array.assign(&ArrayD::from_shape_vec(IxDyn(&shape), rows)?);
        Ok(tvec!(made.into_tvalue()))
    }
}

impl TypedOp for Norm {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        ensure!(input.datum_type == DatumType::F32, "is of FLOAT, not {:?}", input.datum_type);
        ensure!(self.axes.iter().all(|axis| *axis < input.rank()), "has not all axes");
        Ok(tvec!(input.without_value()))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], _outputs: &[&TypedFact]) -> Mapped {
        mapping_apart(inputs, &self.axes)
    }

    along_axes!(self, self.axes, |axes| Norm { axes, ..self.clone() });

    as_op!();
}

save!(Norm, "tract_onnx_cast_norm", { axes, factor, epsilon, is_centred });
