//! What tract asks of an operator that makes each element of the element at the same place.

/// Its axes are those of its inputs.
macro_rules! natural_axes {
    () => {
        fn axes_mapping(
            &self,
            inputs: &[&TypedFact],
            outputs: &[&TypedFact],
        ) -> TractResult<AxesMapping> {
            AxesMapping::natural(inputs, outputs)
        }
    };
}

/// It has one input: axes may change, and be cut, before it as well as behind it.
macro_rules! element_wise {
    () => {
        $crate::ops::host::element_wise::natural_axes!();

        fn change_axes(
            &self,
            model: &TypedModel,
            node: &TypedNode,
            _io: tract_onnx::tract_core::ops::change_axes::InOut,
            change: &tract_onnx::tract_core::ops::change_axes::AxisOp,
        ) -> TractResult<Option<tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence>> {
            use tract_onnx::tract_core::ops::change_axes::AxisChangeConsequence;
            Ok(Some(AxisChangeConsequence::new(model, node, None, change)))
        }

        fn slice(
            &self,
            patch: &mut TypedModelPatch,
            _model: &TypedModel,
            node: &TypedNode,
            _prefix: &str,
            inputs: &[OutletId],
            _output_axis: usize,
            _start: &TDim,
            _end: &TDim,
        ) -> TractResult<Option<TVec<OutletId>>> {
            patch.wire_node(&node.name, &node.op, inputs).map(Some)
        }
    };
}

pub(crate) use {element_wise, natural_axes};
