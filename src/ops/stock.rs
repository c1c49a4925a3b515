//! Taking the place of one of tract's own operators.

use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::InferenceOp;

/// What tract has an operator built by.
type Build = fn(&ParsingContext, &NodeProto) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// Registers `build` in place of tract's own operator: one that somebody else has registered is theirs.
pub(crate) fn replace_stock(onnx: &mut Onnx, operator: &'static str, build: Build) {
    let stock = tract_onnx::onnx().op_register.0.get(operator).copied();
    let current = onnx.op_register.0.get(operator).copied();
    if let (Some(stock), Some(current)) = (stock, current)
        && std::ptr::fn_addr_eq(stock, current)
    {
        onnx.op_register.insert(operator, build);
    }
}
