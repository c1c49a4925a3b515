//! The elements at the same place of two axes.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ndarray::Axis;

use crate::ops::host::element_wise::typed_op;
use crate::ops::host::hook::refused;
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// Leaves the first of two axes, with the elements of which the places along both are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagonal {
    /// For messages.
    pub(super) node: Label,
    /// In order.
    pub(super) axes: [usize; 2],
}

impl Diagonal {
    /// The shape of the output, of an input of this one.
    fn shape<D: DimLike>(&self, shape: &[D]) -> TractResult<TVec<D>> {
        let [first, second] = self.axes;
        let (Some(a), Some(b)) = (shape.get(first), shape.get(second)) else {
            bail!(refused(&self.node, "Einsum", "has an input of another rank"));
        };
        if a != b {
            let problem = format!("takes the diagonal of {a} by {b} elements");
            bail!(refused(&self.node, "Einsum", problem));
        }
        let mut shape: TVec<D> = shape.into();
        shape.remove(second);
        Ok(shape)
    }

    fn diagonal<T: Datum + Copy>(&self, input: &Tensor) -> TractResult<Tensor> {
        let [first, second] = self.axes;
        let shape = self.shape(input.shape())?;
        let view = input.to_plain_array_view::<T>()?;
        let mut output = Tensor::zero_dt(T::datum_type(), &shape)?;
        let mut elements = output.to_plain_array_view_mut::<T>()?;
        for (place, mut slice) in elements.axis_iter_mut(Axis(first)).enumerate() {
            let slab = view.index_axis(Axis(second), place);
            slice.assign(&slab.index_axis(Axis(first), place));
        }
        Ok(output)
    }
}

typed_op!(Diagonal, "Diagonal");

impl EvalOp for Diagonal {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let output =
            dispatch_copy!(Self::diagonal(input.datum_type().unquantized())(self, &input))?;
        Ok(tvec!(output.into_tvalue()))
    }
}

impl TypedOp for Diagonal {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let [input] = inputs else { bail!("has {} inputs, not 1", inputs.len()) };
        Ok(tvec!(input.datum_type.fact(self.shape(&input.shape.to_tvec())?)))
    }

    as_op!();
}

save!(Diagonal, "tract_onnx_cast_diagonal", node { axes }, |op| ensure!(
    op.axes[0] < op.axes[1],
    "has the axes {:?}",
    op.axes
));
