//! A state of no content, which keeps tract from folding a node when a model is typed: of a node
//! without a state whose value is known, it makes a constant (`tract-hir/src/infer/model.rs`,
//! `into_typed`).

use tract_onnx::tract_core::internal::*;

/// The state. The operator computes by itself.
#[derive(Debug, Clone)]
pub(crate) struct Claimed;

impl OpState for Claimed {
    fn eval(
        &mut self,
        context: &EvalContext,
        op: &dyn Op,
        inputs: TVec<TValue>,
    ) -> TractResult<TVec<TValue>> {
        op.eval(context, inputs)
    }

    fn reset_lanes(&mut self, _: &[LaneId]) -> TractResult<()> {
        Ok(())
    }
}
