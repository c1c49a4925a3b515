//! Taking the place of one of tract's own operators.

use std::collections::HashMap;
use std::sync::OnceLock;

use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::InferenceOp;

/// What tract has an operator built by.
pub(crate) type Build =
    fn(&ParsingContext, &NodeProto) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)>;

/// The builder of tract's own operator.
pub(crate) fn stock(operator: &str) -> Option<Build> {
    static STOCK: OnceLock<HashMap<String, Build>> = OnceLock::new();
    let stock = STOCK.get_or_init(|| tract_onnx::onnx().op_register.0.into_iter().collect());
    stock.get(operator).copied()
}

/// Registers `build` in place of tract's own operator: one that somebody else has registered is theirs.
pub(crate) fn replace_stock(onnx: &mut Onnx, operator: &'static str, build: Build) {
    let current = onnx.op_register.0.get(operator).copied();
    if let (Some(stock), Some(current)) = (stock(operator), current)
        && std::ptr::fn_addr_eq(stock, current)
    {
        onnx.op_register.insert(operator, build);
    }
}
