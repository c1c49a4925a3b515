//! Nodes of another opset than the model's.
//!
//! A model-local function imports operators on its own, and the parts of a composition are of the
//! opset that it is written in, while tract builds every node by the opset of the model. Such a
//! node is wrapped: the wrapper's builder builds it by its own opset, and leaves a note of the
//! model's, which messages name.

use onnx_cast_graph::int_attribute;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::ops::unimpl::UnimplementedOp;

use crate::onnx::lowered::{AT_OPSET, Lowered};
use crate::onnx::node::int;
use crate::ops::host::stock::Built;

/// The attribute of a part that says which opset the model imports.
const IMPORTED: &str = "tract-onnx-cast:Imported";

/// Which opset the model imports that a node is of, for messages; the node itself may be of
/// another, `own`.
pub(crate) fn imported(node: &NodeProto, own: i64) -> i64 {
    int(node, IMPORTED).unwrap_or(own)
}

/// Makes an `Onnx` build wrapped nodes.
pub(crate) fn register(onnx: &mut tract_onnx::Onnx) {
    onnx.op_register.insert(AT_OPSET, build);
}

fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let mut inner = node.clone();
    let onnx_operator_set_version = Lowered::unwrap_opset(&mut inner)?;
    inner.attribute.push(int_attribute(IMPORTED, context.onnx_operator_set_version));
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
