//! An operator that this crate does not know.

use tract_onnx::tract_hir::internal::*;

/// An operator of somebody else's: twice what it takes.
#[derive(Debug, Clone)]
pub struct Doubled;

impl Expansion for Doubled {
    fn name(&self) -> StaticName {
        "Doubled".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        s: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        s.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        s.equals(&outputs[0].shape, &inputs[0].shape)
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let add = tract_onnx::tract_hir::ops::math::add();
        model.wire_node(prefix, add, &[inputs[0], inputs[0]])
    }
}
