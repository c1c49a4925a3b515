//! Whether a model has been converted to half precision.

use onnx_cast_graph::tensor_type;
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx_cast::ElementType::{self, BFloat16, Float, Float16};

/// The type of half precision that most floating-point weights of a model have; of a model without
/// weights, that most of its inputs and outputs have.
pub(crate) fn half_type(model: &ModelProto) -> Option<ElementType> {
    let graph = model.graph.as_ref()?;
    let held = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|a| a.t.as_ref());
    let weights = graph.initializer.iter().chain(held);
    let elements = |tensor: &TensorProto| {
        tensor.dims.iter().fold(1u64, |all, dim| all.saturating_mul(dim.unsigned_abs()))
    };
    let weights: Vec<_> = weights.map(|tensor| (tensor.data_type, elements(tensor))).collect();
    most(&weights).or_else(|| {
        let ends = graph.input.iter().chain(&graph.output);
        let ends = ends.filter_map(|end| tensor_type(end.r#type.as_ref()));
        most(&ends.map(|tensor| (tensor.elem_type, 1)).collect::<Vec<_>>())
    })?
}

/// The type of most floating-point elements, where it is one of half precision; nothing at all
/// where there are none of these.
fn most(counted: &[(i32, u64)]) -> Option<Option<ElementType>> {
    let count = |ty: ElementType| {
        let these = counted.iter().filter(|(found, _)| *found == ty as i32);
        these.fold(0u64, |all, (_, elements)| all.saturating_add(*elements))
    };
    let (half, brain, float) = (count(Float16), count(BFloat16), count(Float));
    let most = if half > brain { (half, Float16) } else { (brain, BFloat16) };
    (half.max(brain).max(float) > 0).then(|| (most.0 > float).then_some(most.1))
}
