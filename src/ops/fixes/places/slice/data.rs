//! `Slice` whose starts, ends or steps are only known when the model runs.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};

use super::bounds::range;
use crate::error::Error;
use crate::ops::host::element_wise::{mapping_apart, typed_op, with_symbols};
use crate::ops::host::hook::{Mapped, refused, unplanned};
use crate::ops::host::integers::{eval_of_numbers, read};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Slices data along some axes: inputs are the data, the starts, the ends, and the steps if they
/// are not 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SliceByData {
    /// For messages.
    pub(super) node: Label,
    pub(super) axes: TVec<usize>,
    /// How many elements are taken of each axis: symbols, which the plan binds.
    pub(super) lens: TVec<TDim>,
}

impl SliceByData {
    fn error(&self, problem: impl Into<String>) -> Error {
        refused(&self.node, "Slice", problem)
    }

    fn slice<T: Datum>(&self, data: &Tensor, bounds: &[[i128; 3]]) -> TractResult<Tensor> {
        let mut view = data.to_plain_array_view::<T>()?;
        for (axis, [start, end, step]) in self.axes.iter().zip(bounds) {
            let size =
                *data.shape().get(*axis).ok_or_else(|| self.error("has data of another rank"))?;
            let step = i64::try_from(*step)?;
            let (low, high) = range(size as i128, *start, *end, step);
            let (low, high) = (isize::try_from(low)?, isize::try_from(high)?);
            // A longer step takes no other elements.
            let longest = i64::try_from(size.max(1))?;
            let step = isize::try_from(step.clamp(-longest, longest))?;
            let slice = ndarray::Slice::new(low, Some(high), step);
            view.slice_axis_inplace(ndarray::Axis(*axis), slice);
        }
        let mut sliced = view.to_owned().into_tensor();
        // The data's type may be a quantized one of the same elements.
        if sliced.datum_type() != data.datum_type() {
            sliced = sliced.cast_to_dt(data.datum_type())?.into_owned();
        }
        Ok(sliced)
    }

    /// Fails where an axis turns out to be too short for the places that were taken to be in it.
    fn check(&self, data: &Tensor, made: &Tensor, symbols: &SymbolValues) -> TractResult<()> {
        for (axis, len) in self.axes.iter().zip(&self.lens) {
            let (size, made) = (data.shape().get(*axis), made.shape().get(*axis));
            let (Some(size), Some(made)) = (size, made) else { continue };
            if let Some(len) = len.eval(symbols).as_i64().filter(|len| *len != *made as i64) {
                let problem = format!(
                    "takes {made} of axis {axis} of size {size}, where a plan for any size takes {len}"
                );
                bail!(unplanned(&self.node, "Slice", &problem));
            }
        }
        Ok(())
    }
}

typed_op!(SliceByData, "SliceByData", |op| format!("axes: {:?}", op.axes), mints_runtime_symbols);

impl EvalOp for SliceByData {
    fn eval_out_of_plan(&self, inputs: TVec<TValue>) -> TractResult<Option<TVec<TValue>>> {
        eval_of_numbers(self, inputs, 1)
    }

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let [data, starts, ends, steps @ ..] = &*inputs else {
            bail!("has {} inputs, not 3 or 4", inputs.len());
        };
        let numbers = |tensor: &TValue| -> TractResult<Vec<i128>> {
            let numbers: Vec<i128> = read(tensor, context.symbols)?.into_iter().collect();
            if numbers.len() != self.axes.len() {
                bail!(self.error(format!(
                    "has {} bounds for {} axes",
                    numbers.len(),
                    self.axes.len()
                )));
            }
            Ok(numbers)
        };
        let (starts, ends) = (numbers(starts)?, numbers(ends)?);
        let steps = steps.first().map_or_else(|| Ok(vec![1; starts.len()]), numbers)?;
        if steps.contains(&0) {
            bail!(self.error("has a step of 0"));
        }
        let bounds = starts.into_iter().zip(ends).zip(steps);
        let bounds: Vec<[i128; 3]> =
            bounds.map(|((start, end), step)| [start, end, step]).collect();
        let ty = data.datum_type();
        let sliced = dispatch_datum!(Self::slice(ty)(self, data, &bounds))?;
        self.check(data, &sliced, context.symbols)?;
        Ok(tvec!(sliced.into_tvalue()))
    }
}

impl TypedOp for SliceByData {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [data, ..] = inputs else { bail!("has no inputs") };
        let mut fact = data.without_value();
        for (axis, len) in self.axes.iter().zip(&self.lens) {
            ensure!(*axis < fact.rank(), "has no axis {axis}");
            fact.shape.set(*axis, len.clone());
        }
        Ok(tvec!(fact))
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], _outputs: &[&TypedFact]) -> Mapped {
        mapping_apart(inputs, &self.axes)
    }

    fn change_axes(
        &self,
        _model: &TypedModel,
        _node: &TypedNode,
        io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        if !matches!(io, InOut::In(0) | InOut::Out(0)) {
            return Ok(None);
        }
        let axes: Option<TVec<usize>> =
            self.axes.iter().map(|axis| change.transform_axis(*axis)).collect();
        let Some(axes) = axes else { return Ok(None) };
        let op = Some(Box::new(SliceByData { axes, ..self.clone() }) as _);
        Ok(Some(AxisChangeConsequence {
            substitute_op: op,
            wire_changes: tvec!((InOut::In(0), change.clone()), (InOut::Out(0), change.clone())),
        }))
    }

    with_symbols!(|self, values| {
        let lens = self.lens.iter().map(|len| len.substitute_all(values));
        SliceByData { lens: lens.collect::<TractResult<_>>()?, ..self.clone() }
    });

    as_op!();
}

save!(SliceByData, "tract_onnx_cast_slice", node { axes, lens }, |op| ensure!(
    op.axes.len() == op.lens.len(),
    "has {} lengths for {} axes",
    op.lens.len(),
    op.axes.len()
));
