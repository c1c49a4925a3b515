//! Sums that tract's would get wrong (tract-core, `ops/nn/reduce.rs`): along axes of which only a
//! run tells how many elements they have, by which it divides, and panics where there are none; of
//! DOUBLE, whose mean of squares it computes in FLOAT; and of FLOATs, whose digits get lost as it
//! adds them one after the other.
//!
//! `lanes` adds in DOUBLE, and `norm` is what a sum of squares and what scales by it become
//! together.

pub(crate) mod lanes;
pub(crate) mod norm;

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::num_traits::AsPrimitive;
use tract_onnx::tract_core::ops::element_wise::ElementWiseOp;
use tract_onnx::tract_core::ops::math::Square;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};

use crate::ops::host::element_wise::{along_axes, typed_op};
use crate::ops::host::hook::{Mapped, Patch};
use crate::ops::host::saved::{members, save};

use lanes::sum_of_axis;

/// How many terms are added in DOUBLE: of fewer, the optimiser is to know the sum as tract's own.
const MANY: usize = 16;

members! {
    /// What is added.
    pub(crate) enum Summand {
        Terms,
        Squares,
        /// Squares, of which the mean is made.
        MeanOfSquares,
    }
}

/// tract's sum, or one of none, of DOUBLE, or of many terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CorrectedSum {
    axes: TVec<usize>,
    of: Summand,
}

/// Puts a [`CorrectedSum`] in the place of a sum of floats that tract's would get wrong.
pub(crate) fn correct_sum(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    let Some(op) = node.op_as::<Reduce>() else { return Ok(()) };
    let of = match op.reducer {
        Reducer::Sum => Summand::Terms,
        Reducer::MeanOfSquares => Summand::MeanOfSquares,
        _ => return Ok(()),
    };
    let op = CorrectedSum { axes: op.axes.clone(), of };
    let fact = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
    if fact.datum_type.is_float() && op.is_needed(fact) {
        model.node_mut(id).op = Box::new(op);
    }
    Ok(())
}

impl CorrectedSum {
    /// Whether a sum is of DOUBLE, of many terms, or along an axis that is not known to have
    /// elements.
    fn is_needed(&self, input: &TypedFact) -> bool {
        let size = |axis: &usize| input.shape.get(*axis)?.to_usize().ok();
        let terms = self.axes.iter().map(size).product::<Option<usize>>();
        let is_many = terms.is_none_or(|terms| terms == 0 || terms >= MANY);
        !self.axes.is_empty()
            && (self.of == Summand::Squares || input.datum_type == DatumType::F64 || is_many)
    }

    /// As tract names its own.
    fn named(&self) -> &'static str {
        match self.of {
            Summand::Terms => "Reduce<Sum>",
            Summand::Squares => "Reduce<SumOfSquares>",
            Summand::MeanOfSquares => "Reduce<MeanOfSquares>",
        }
    }

    /// What tract computes of the terms.
    fn stock(&self) -> Option<Reduce> {
        let reducer = match self.of {
            Summand::Terms => Reducer::Sum,
            Summand::MeanOfSquares => Reducer::MeanOfSquares,
            Summand::Squares => return None,
        };
        Some(Reduce::new(self.axes.clone(), reducer))
    }

    /// The same with the squares in it that alone go into it. In FLOAT16 each of them would be
    /// rounded.
    fn squared(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let square = match model.linear_prec(node.id)? {
            Some(before) if self.of == Summand::Terms => before,
            _ => return Ok(None),
        };
        let is_square = square.op_as::<ElementWiseOp>().is_some_and(|op| op.0.is::<Square>());
        let [x] = &*square.inputs else { return Ok(None) };
        if !is_square || model.outlet_fact(*x)?.datum_type == DatumType::F16 {
            return Ok(None);
        }
        let op = CorrectedSum { of: Summand::Squares, ..self.clone() };
        TypedModelPatch::replace_single_op(model, node, &[*x], op).map(Some)
    }

    /// What is made of many terms along the axes, one group of neighbours after the other.
    fn of_many<T>(&self, input: &Tensor) -> TractResult<Tensor>
    where
        T: Datum + Copy + Into<f64>,
        f64: AsPrimitive<T>,
    {
        let plain = input.try_as_plain_ram()?;
        let mut shape: TVec<usize> = input.shape().into();
        let mut groups: Vec<(bool, usize)> = vec![];
        for (axis, size) in shape.iter_mut().enumerate() {
            let is_summed = self.axes.contains(&axis);
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
            sums = Some(match (&sums, self.of) {
                (Some(sums), _) => sum_of_axis(sums, sizes, |sum| sum),
                (None, Summand::Terms) => sum_of_axis(plain.as_slice::<T>()?, sizes, T::into),
                (None, _) => sum_of_axis(plain.as_slice::<T>()?, sizes, |term| {
                    let term: f64 = term.into();
                    term * term
                }),
            });
        }
        let mut sums = sums.unwrap_or_default();
        if self.of == Summand::MeanOfSquares {
            #[allow(clippy::cast_precision_loss, reason = "a number of elements")]
            let terms = (input.len() / sums.len().max(1)) as f64;
            sums.iter_mut().for_each(|sum| *sum /= terms);
        }
        let made: Vec<T> = sums.into_iter().map(AsPrimitive::as_).collect();
        tensor1(&made).into_shape(&shape)
    }
}

typed_op!(CorrectedSum, |op| op.named(), |op| format!("axes: {:?}", op.axes));

impl EvalOp for CorrectedSum {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = inputs.first().context("a sum has data")?;
        let mut shape: TVec<usize> = input.shape().into();
        let terms = self.axes.iter().filter_map(|axis| shape.get(*axis)).product::<usize>();
        match (input.datum_type(), self.stock()) {
            _ if input.len() == 0 => {}
            (DatumType::F32 | DatumType::F16, Some(stock)) if terms < MANY => {
                return stock.eval(context, inputs);
            }
            (DatumType::F64, _) => return Ok(tvec!(self.of_many::<f64>(input)?.into_tvalue())),
            (DatumType::F16, _) => return Ok(tvec!(self.of_many::<f16>(input)?.into_tvalue())),
            _ => return Ok(tvec!(self.of_many::<f32>(input)?.into_tvalue())),
        }
        for axis in &self.axes {
            *shape.get_mut(*axis).context("an axis of the data")? = 1;
        }
        Ok(tvec!(Tensor::zero_dt(input.datum_type(), &shape)?.into_tvalue()))
    }
}

impl TypedOp for CorrectedSum {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Reduce::new(self.axes.clone(), Reducer::Sum).output_facts(inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        Reduce::new(self.axes.clone(), Reducer::Sum).cost(inputs)
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        Reduce::new(self.axes.clone(), Reducer::Sum).axes_mapping(inputs, outputs)
    }

    along_axes!(self, self.axes, |axes| CorrectedSum { axes, ..self.clone() });

    /// It goes as soon as the sizes are known to be small, takes squares into it, and with what
    /// scales by it becomes a norm.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        if self.of == Summand::Squares {
            return norm::of_squares(model, node, &self.axes, |sum| {
                let op = sum.op_as::<CorrectedSum>()?;
                (op.of == Summand::Terms).then_some(&op.axes)
            });
        }
        let input = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
        match self.stock() {
            Some(stock) if !self.is_needed(input) && input.shape.volume() != 0.to_dim() => {
                TypedModelPatch::replace_single_op(model, node, &node.inputs, stock).map(Some)
            }
            _ => self.squared(model, node),
        }
    }

    as_op!();
}

save!(CorrectedSum, "tract_onnx_cast_open_sum", { axes, of });
