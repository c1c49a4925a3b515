//! `ReduceMax` and `ReduceMin` of floats.
//!
//! tract begins with the type's least finite number (tract-core, `ops/nn/reduce.rs`, `max_t` and
//! `min_t`; in tract-linalg the kernels of FLOAT), and so has that for the maximum of minus
//! infinities, and passes NaN by. Here it computes as it does, and where it has that number, or
//! there is NaN, the elements are looked at once more.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::Axis;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};
use tract_onnx::tract_core::tract_data::itertools::Itertools;

use crate::ops::fixes::arithmetic::reduce::wire_of;
use crate::ops::host::element_wise::{along_axes, typed_op};
use crate::ops::host::hook::{HookSite, Instead, Mapped, Patch};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};

/// Wires the extremum of floats.
pub(crate) fn extremum(site: &HookSite, model: &mut TypedModel, inputs: &[OutletId]) -> Instead {
    let reducer = match site.proto.op_type.as_str() {
        "ReduceMax" => Reducer::Max,
        "ReduceMin" => Reducer::Min,
        _ => return Ok(None),
    };
    let op = |axes| Extremum(Reduce::new(axes, reducer));
    wire_of(site, model, inputs, |ty| ty.is_float(), op)
}

/// The maximum or the minimum along some axes, infinities too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extremum(pub(crate) Reduce);

impl Extremum {
    /// Puts the extremum where tract has the number that it begins with.
    fn correct<T: Datum + Copy + PartialOrd>(
        &self,
        input: &Tensor,
        output: &mut Tensor,
        first: T,
        infinity: T,
    ) -> TractResult<()> {
        let is_better: fn(&T, &T) -> bool = match self.0.reducer {
            Reducer::Max => |a, b| a > b,
            _ => |a, b| a < b,
        };
        let mut plain = output.try_as_plain_ram_mut()?;
        let mut output = plain.to_array_view_mut::<T>()?;
        let input = input.to_plain_array_view::<T>()?;
        // What is not equal to itself is NaN.
        #[allow(clippy::eq_op, reason = "NaN is no equal of itself")]
        let is_nan = |element: &T| element != element;
        let has_nan = input.iter().fold(false, |found, element| found | is_nan(element));
        if !has_nan && !output.iter().any(|element| *element == first) {
            return Ok(());
        }
        let is_wrong = |element: &T| has_nan || *element == first;
        for (place, element) in output.indexed_iter_mut().filter(|(_, element)| is_wrong(element)) {
            let mut elements = input.view();
            for axis in (0..input.ndim()).filter(|axis| !self.0.axes.contains(axis)) {
                elements.collapse_axis(Axis(axis), place[axis]);
            }
            *element = elements.iter().fold(infinity, |so_far, element| {
                if is_better(element, &so_far) || is_nan(element) { *element } else { so_far }
            });
        }
        Ok(())
    }
}

typed_op!(Extremum, |op| op.0.name(), |op| format!("axes: {:?}", op.0.axes));

impl EvalOp for Extremum {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let mut output = self.0.reducer.reduce(&self.0.axes, &input)?;
        let sign = if self.0.reducer == Reducer::Max { -1. } else { 1. };
        match input.datum_type() {
            DatumType::F16 => {
                let sign = f16::from_f32(sign);
                self.correct(&input, &mut output, f16::MAX * sign, f16::INFINITY * sign)?;
            }
            DatumType::F32 => {
                self.correct(&input, &mut output, f32::MAX * sign, f32::INFINITY * sign)?;
            }
            DatumType::F64 => {
                let sign = f64::from(sign);
                self.correct(&input, &mut output, f64::MAX * sign, f64::INFINITY * sign)?;
            }
            _ => {}
        }
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Extremum {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        self.0.axes_mapping(inputs, outputs)
    }

    along_axes!(self, self.0.axes, |axes| Extremum(Reduce { axes, ..self.0.clone() }));

    /// An extremum of extrema is one.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let Some(before) = model.linear_prec(node.id)? else { return Ok(None) };
        let Some(inner) = before.op_as::<Extremum>() else { return Ok(None) };
        if inner.0.reducer != self.0.reducer {
            return Ok(None);
        }
        let axes = inner.0.axes.iter().chain(&self.0.axes).copied().sorted().dedup().collect();
        let op = Extremum(Reduce { axes, ..self.0.clone() });
        TypedModelPatch::replace_single_op(model, node, &before.inputs, op).map(Some)
    }

    fn input_roi(
        &self,
        model: &TypedModel,
        node: &TypedNode,
    ) -> TractResult<Option<TVec<Option<TDim>>>> {
        self.0.input_roi(model, node)
    }

    fn slice(
        &self,
        patch: &mut TypedModelPatch,
        _model: &TypedModel,
        node: &TypedNode,
        _prefix: &str,
        inputs: &[OutletId],
        output_axis: usize,
        _start: &TDim,
        _end: &TDim,
    ) -> TractResult<Option<TVec<OutletId>>> {
        if self.0.axes.contains(&output_axis) {
            return Ok(None);
        }
        patch.wire_node(&node.name, &node.op, inputs).map(Some)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        self.0.cost(inputs)
    }

    as_op!();
}

impl Save for Extremum {
    const NAME: &'static str = "tract_onnx_cast_extremum";

    fn save(&self) -> Saved {
        Saved::default().with(&(self.0.reducer == Reducer::Max)).with(&self.0.axes)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<Extremum> {
        let reducer = if row.take()? { Reducer::Max } else { Reducer::Min };
        Ok(Extremum(Reduce::new(row.take()?, reducer)))
    }
}
