//! Sums that tract's would get wrong (tract-core, `ops/nn/reduce.rs`): along axes of which only a run tells how many elements
//! they have, by which it divides, and panics where there are none; of DOUBLE, whose mean of squares it computes in FLOAT; and
//! of very many FLOATs, whose digits get lost as it adds them one after the other.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::num_traits::AsPrimitive;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};

use crate::cast::kernel::level::Level;
use crate::ops::host::element_wise::{along_axes, typed_op};
use crate::ops::host::hook::{Mapped, Patch};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};

/// How many terms are added in DOUBLE: of fewer, the optimiser is to know the sum as tract's own.
const MANY: usize = 1 << 15;

/// tract's sum, or one of none, of DOUBLE, or of many terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrectedSum(Reduce);

/// Puts a [`CorrectedSum`] in the place of a sum of floats that tract's would get wrong.
pub(crate) fn correct_sum(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    let Some(op) = node.op_as::<Reduce>().filter(|op| op.reducer == Reducer::Sum).cloned() else {
        return Ok(());
    };
    let fact = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
    if fact.datum_type.is_float() && is_needed(&op, fact) {
        model.node_mut(id).op = Box::new(CorrectedSum(op));
    }
    Ok(())
}

/// Whether a sum is of DOUBLE, of many terms, or along an axis that is not known to have elements.
fn is_needed(op: &Reduce, input: &TypedFact) -> bool {
    let size = |axis: &usize| input.shape.get(*axis)?.to_usize().ok();
    let terms = op.axes.iter().map(size).product::<Option<usize>>();
    input.datum_type == DatumType::F64 || terms.is_none_or(|terms| terms == 0 || terms >= MANY)
}

/// The sum of many terms along axes, one group of neighbours after the other.
fn sum_of_many<T>(input: &Tensor, axes: &[usize]) -> TractResult<Tensor>
where
    T: Datum + Copy + Into<f64>,
    f64: AsPrimitive<T>,
{
    let plain = input.try_as_plain_ram()?;
    let mut shape: TVec<usize> = input.shape().into();
    let mut groups: Vec<(bool, usize)> = vec![];
    for (axis, size) in shape.iter_mut().enumerate() {
        let is_summed = axes.contains(&axis);
        match groups.last_mut().filter(|(other, _)| *other == is_summed) {
            Some((_, sizes)) => *sizes *= *size,
            None => groups.push((is_summed, *size)),
        }
        *size = if is_summed { 1 } else { *size };
    }
    let mut sums: Option<Vec<f64>> = None;
    let mut inner = 1;
    while let Some((is_summed, count)) = groups.pop() {
        if !is_summed {
            inner *= count;
            continue;
        }
        let sizes = [groups.iter().map(|(_, size)| size).product(), count, inner];
        sums = Some(match &sums {
            Some(sums) => Level::best().run(
                #[inline(always)]
                || sum_of_axis(sums, sizes),
            ),
            None => {
                let terms = plain.as_slice::<T>()?;
                Level::best().run(
                    #[inline(always)]
                    || sum_of_axis(terms, sizes),
                )
            }
        });
    }
    let sums: Vec<T> = sums.unwrap_or_default().into_iter().map(AsPrimitive::as_).collect();
    tensor1(&sums).into_shape(&shape)
}

/// The sums along the second of three axes.
#[inline(always)]
fn sum_of_axis<T: Copy + Into<f64>>(terms: &[T], [outer, count, inner]: [usize; 3]) -> Vec<f64> {
    const LANES: usize = 8;
    let mut sums = vec![0.0; outer * inner];
    for (terms, sums) in terms.chunks_exact(count * inner).zip(sums.chunks_exact_mut(inner)) {
        if let [sum] = sums {
            let mut lanes = [0.0; LANES];
            let parts = terms.chunks_exact(LANES);
            *sum = parts.remainder().iter().map(|term| (*term).into()).sum();
            for part in parts {
                lanes.iter_mut().zip(part).for_each(|(lane, term)| *lane += (*term).into());
            }
            *sum += lanes.iter().sum::<f64>();
            continue;
        }
        for row in terms.chunks_exact(inner) {
            sums.iter_mut().zip(row).for_each(|(sum, term)| *sum += (*term).into());
        }
    }
    sums
}

typed_op!(CorrectedSum, |op| op.0.name(), |op| format!("axes: {:?}", op.0.axes));

impl EvalOp for CorrectedSum {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = inputs.first().context("a sum has data")?;
        let mut shape: TVec<usize> = input.shape().into();
        let terms = self.0.axes.iter().filter_map(|axis| shape.get(*axis)).product::<usize>();
        match input.datum_type() {
            _ if input.len() == 0 => {}
            DatumType::F32 if terms >= MANY => {
                return Ok(tvec!(sum_of_many::<f32>(input, &self.0.axes)?.into_tvalue()));
            }
            DatumType::F16 if terms >= MANY => {
                return Ok(tvec!(sum_of_many::<f16>(input, &self.0.axes)?.into_tvalue()));
            }
            _ => return self.0.eval(context, inputs),
        }
        for axis in &self.0.axes {
            *shape.get_mut(*axis).context("an axis of the data")? = 1;
        }
        Ok(tvec!(Tensor::zero_dt(input.datum_type(), &shape)?.into_tvalue()))
    }
}

impl TypedOp for CorrectedSum {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        self.0.cost(inputs)
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        self.0.axes_mapping(inputs, outputs)
    }

    along_axes!(self, self.0.axes, |axes| CorrectedSum(Reduce::new(axes, Reducer::Sum)));

    /// It goes as soon as the sizes are known.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let input = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
        if is_needed(&self.0, input) || input.shape.volume() == 0.to_dim() {
            return Ok(None);
        }
        TypedModelPatch::replace_single_op(model, node, &node.inputs, self.0.clone()).map(Some)
    }

    as_op!();
}

impl Save for CorrectedSum {
    const NAME: &'static str = "tract_onnx_cast_open_sum";

    fn save(&self) -> Saved {
        Saved::default().with(&self.0.axes)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<CorrectedSum> {
        Ok(CorrectedSum(Reduce::new(row.take()?, Reducer::Sum)))
    }
}
