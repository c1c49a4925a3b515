//! Sums along axes of which only a run tells how many elements they have: tract divides by that
//! number, and panics where it is 0 (tract-core, `ops/nn/reduce.rs`).

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::nn::{Reduce, Reducer};

use crate::ops::host::element_wise::{along_axes, typed_op};
use crate::ops::host::hook::{Mapped, Patch};
use crate::ops::host::label::Label;
use crate::ops::host::saved::{Row, Save, Saved};

/// tract's sum, or zeros where there are no elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSum(Reduce);

/// Puts an [`OpenSum`] in the place of a sum of floats, where some axis may have no elements.
pub(crate) fn open_sum(model: &mut TypedModel, id: usize) -> TractResult<()> {
    let node = model.node(id);
    let Some(op) = node.op_as::<Reduce>().filter(|op| op.reducer == Reducer::Sum).cloned() else {
        return Ok(());
    };
    let fact = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
    if fact.datum_type.is_float() && is_open(&op, fact) {
        model.node_mut(id).op = Box::new(OpenSum(op));
    }
    Ok(())
}

/// Whether an axis of a reduction is not known to have elements.
fn is_open(op: &Reduce, input: &TypedFact) -> bool {
    op.axes.iter().any(|axis| input.shape.get(*axis).is_none_or(|dim| dim.as_i64().is_none()))
}

typed_op!(OpenSum, |op| op.0.name(), |op| format!("axes: {:?}", op.0.axes));

impl EvalOp for OpenSum {
    op_out_of_plan!();

    fn eval(&self, context: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = inputs.first().context("a sum has data")?;
        if input.len() > 0 {
            return self.0.eval(context, inputs);
        }
        let mut shape: TVec<usize> = input.shape().into();
        for axis in &self.0.axes {
            *shape.get_mut(*axis).context("an axis of the data")? = 1;
        }
        Ok(tvec!(Tensor::zero_dt(input.datum_type(), &shape)?.into_tvalue()))
    }
}

impl TypedOp for OpenSum {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        self.0.output_facts(inputs)
    }

    fn cost(&self, inputs: &[&TypedFact]) -> TractResult<TVec<(Cost, TDim)>> {
        self.0.cost(inputs)
    }

    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        self.0.axes_mapping(inputs, outputs)
    }

    along_axes!(self, self.0.axes, |axes| OpenSum(Reduce::new(axes, Reducer::Sum)));

    /// It goes as soon as the sizes are known.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let input = model.outlet_fact(*node.inputs.first().context("a sum has data")?)?;
        if is_open(&self.0, input) || input.shape.volume() == 0.to_dim() {
            return Ok(None);
        }
        TypedModelPatch::replace_single_op(model, node, &node.inputs, self.0.clone()).map(Some)
    }

    as_op!();
}

impl Save for OpenSum {
    const NAME: &'static str = "tract_onnx_cast_open_sum";

    fn save(&self) -> Saved {
        Saved::default().with(&self.0.axes)
    }

    fn restore(_: Label, row: &mut Row) -> TractResult<OpenSum> {
        Ok(OpenSum(Reduce::new(row.take()?, Reducer::Sum)))
    }
}
