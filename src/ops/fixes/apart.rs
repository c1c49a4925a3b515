//! An identity that tract's optimiser does not see through.

use tract_onnx::tract_core::internal::*;
use tract_onnx::tract_core::ops::change_axes::{AxisChangeConsequence, AxisOp, InOut};
use tract_onnx::tract_core::ops::einsum::EinSum;

use super::grounded::is_grounded;
use super::products::operands::may_take;
use crate::ops::host::element_wise::{mapping_apart, typed_op};
use crate::ops::host::hook::{Mapped, Patch};
use crate::ops::host::saved::{members, save};

members! {
    /// What must not come over an [`Apart`], and so when it may go.
    pub(crate) enum Keeps {
        /// An expansion, of which a product would forget the size. It goes when there can be none,
        /// or no product is left.
        Expansion,
        /// A selection of every n-th element.
        Steps,
        /// All changes of axes.
        Axes,
    }
}

/// The identity, over which nothing comes that has to do with some axes. What it is given beside
/// its first input stays where it is, for nothing else.
#[derive(Debug, Clone, Eq)]
pub(crate) struct Apart {
    pub(crate) keeps: Keeps,
    pub(crate) axes: TVec<usize>,
}

/// One that keeps all axes is like no other: tract puts either of two that are alike and have
/// several inputs in the place of the other, and has neither (tract-core,
/// `optim/push_split_down.rs`).
impl PartialEq for Apart {
    fn eq(&self, other: &Apart) -> bool {
        self.keeps != Keeps::Axes && self.keeps == other.keeps && self.axes == other.axes
    }
}

impl Apart {
    fn is_grounded(&self, model: &TypedModel, input: OutletId) -> TractResult<bool> {
        for axis in &self.axes {
            if !is_grounded(model, input, *axis)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

typed_op!(Apart, "Apart", |op| format!("{:?} of axes {:?}", op.keeps, op.axes));

impl EvalOp for Apart {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, mut inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        inputs.truncate(1);
        Ok(inputs)
    }
}

impl TypedOp for Apart {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        Ok(inputs.iter().take(1).map(|fact| fact.without_value()).collect())
    }

    /// The axes of the output are those of the input, save those that are kept apart.
    fn axes_mapping(&self, inputs: &[&TypedFact], outputs: &[&TypedFact]) -> Mapped {
        if self.keeps == Keeps::Expansion {
            return AxesMapping::natural(inputs, outputs);
        }
        mapping_apart(inputs, &self.axes)
    }

    fn change_axes(
        &self,
        model: &TypedModel,
        node: &TypedNode,
        _io: InOut,
        change: &AxisOp,
    ) -> TractResult<Option<AxisChangeConsequence>> {
        if self.keeps == Keeps::Axes {
            return Ok(None);
        }
        let axes: Option<TVec<usize>> =
            self.axes.iter().map(|axis| change.transform_axis(*axis)).collect();
        let Some(axes) = axes else { return Ok(None) };
        let op = Box::new(Apart { axes, ..self.clone() });
        Ok(Some(AxisChangeConsequence::new(model, node, Some(op), change)))
    }

    /// It goes as soon as it is known that no expansion can come.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [input] = &*node.inputs else { return Ok(None) };
        if self.keeps != Keeps::Expansion {
            return Ok(None);
        }
        let successors = node.outputs.iter().flat_map(|output| output.successors.iter());
        for inlet in successors {
            if !may_take(model, node, *inlet)? && !self.is_grounded(model, *input)? {
                return Ok(None);
            }
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    /// It goes where the product has become an operator that takes what it is given.
    fn fuse(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let successors = node.outputs.iter().flat_map(|output| output.successors.iter());
        if self.keeps != Keeps::Expansion
            || successors.into_iter().any(|inlet| model.node(inlet.node).op_is::<EinSum>())
            || model.outputs.iter().any(|outlet| outlet.node == node.id)
        {
            return Ok(None);
        }
        TypedModelPatch::shunt_one_op(model, node)
    }

    as_op!();
}

save!(Apart, "tract_onnx_cast_apart", { keeps, axes });
