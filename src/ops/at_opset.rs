//! Nodes of another opset than the model's.
//!
//! A model-local function imports operators on its own, while tract builds every node by the opset of the model. A node
//! of such a function is wrapped: the wrapper's builder builds it by the function's opset.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;
use tract_onnx::tract_hir::ops::unimpl::UnimplementedOp;

use crate::onnx::annotation::AT_OPSET;
use crate::onnx::node::refusal;

/// Makes an `Onnx` build wrapped nodes.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(AT_OPSET, build);
}

fn build(
    context: &ParsingContext,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let mut inner = node.clone();
    let at = inner.attribute.iter().position(|attribute| attribute.name == AT_OPSET);
    let wrapper = at.map(|at| inner.attribute.remove(at));
    let op_type = wrapper.as_ref().and_then(|wrapper| std::str::from_utf8(&wrapper.s).ok());
    let (Some(wrapper), Some(op_type)) = (&wrapper, op_type) else {
        return Err(refusal(node, "is this crate's own operator"))?;
    };
    inner.op_type = op_type.into();
    let context = ParsingContext { onnx_operator_set_version: wrapper.i, ..context.clone() };
    match context.framework.op_register.0.get(op_type) {
        Some(build) => build(&context, &inner),
        // As tract's parser does with an operator it does not have.
        None => {
            let op = UnimplementedOp::new(inner.output.len(), op_type, format!("{inner:?}"));
            Ok((op.into(), vec![]))
        }
    }
}
