//! Nodes of another opset than the model's.
//!
//! A model-local function imports operators on its own, while tract builds every node by the opset of the model. A node
//! of such a function is wrapped: the wrapper's builder builds it by the function's opset.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::ops::unimpl::UnimplementedOp;

use crate::onnx::lowered::{AT_OPSET, Lowered};
use crate::ops::host::stock::Built;

/// Makes an `Onnx` build wrapped nodes.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(AT_OPSET, build);
}

fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let mut inner = node.clone();
    let onnx_operator_set_version = Lowered::unwrap_opset(&mut inner)?;
    let context = ParsingContext { onnx_operator_set_version, ..context.clone() };
    match context.framework.op_register.0.get(&inner.op_type) {
        Some(build) => build(&context, &inner),
        // As tract's parser does with an operator it does not have.
        None => {
            let op_type = inner.op_type.clone();
            let op = UnimplementedOp::new(inner.output.len(), op_type, format!("{inner:?}"));
            Ok((op.into(), vec![]))
        }
    }
}
