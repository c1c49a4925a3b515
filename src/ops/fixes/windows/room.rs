//! A look at the sizes of axes that only a run tells: whether a window has room in them.

use tract_onnx::tract_core::internal::*;

use super::counted_window;
use crate::ops::host::element_wise::{natural_axes, same_facts, typed_op};
use crate::ops::host::hook::{Patch, refused};
use crate::ops::host::label::Label;
use crate::ops::host::saved::save;

/// The identity, which fails where an axis has not as many places as a window needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HasRoom {
    /// For messages, as the operator and the version of the default domain.
    pub(super) node: Label,
    pub(super) operator: Label,
    pub(super) opset: i64,
    /// Each with the places of the window, and of the padding.
    pub(super) axes: TVec<(usize, (i64, i64))>,
}

typed_op!(HasRoom, "HasRoom", |op| format!("{:?}", op.axes));

impl EvalOp for HasRoom {
    op_out_of_plan!();

    fn eval(&self, _: &EvalContext, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = inputs.first().context("has an input")?;
        for (axis, (window, padding)) in &self.axes {
            let size = *input.shape().get(*axis).context("an axis of the input")?;
            if i64::try_from(size)?.saturating_add(*padding) < *window {
                let problem = counted_window(*window, size, *padding);
                let problem = format!("{problem}, the model imports {}", self.opset);
                bail!(refused(&self.node, &self.operator, problem));
            }
        }
        Ok(inputs)
    }
}

impl TypedOp for HasRoom {
    same_facts!();

    natural_axes!();

    /// Sizes that have become known are looked at once.
    fn declutter(&self, model: &TypedModel, node: &TypedNode) -> Patch {
        let [input] = &*node.inputs else { return Ok(None) };
        let shape = &model.outlet_fact(*input)?.shape;
        let has_room = |(axis, (window, padding)): &(usize, (i64, i64))| {
            let size = shape.get(*axis).and_then(|dim| dim.as_i64());
            size.is_some_and(|size| size.saturating_add(*padding) >= *window)
        };
        if self.axes.iter().all(has_room) {
            return TypedModelPatch::shunt_one_op(model, node);
        }
        Ok(None)
    }

    as_op!();
}

save!(HasRoom, "tract_onnx_cast_has_room", node { operator, opset, axes });
