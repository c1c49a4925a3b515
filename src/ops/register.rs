//! Operators of ours in the place of tract's own.

use tract_onnx::Onnx;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::TractResult;
use tract_onnx::tract_hir::internal::InferenceOp;

use super::{at_opset, cast, expand, greater, if_, measured};

/// Makes a tract `Onnx` build `Cast` and `CastLike` nodes with this crate's op, and `If` nodes so that a cast after one
/// sees the branch that runs.
///
/// This alone serves models whose element types tract knows. The exotic ones (BFLOAT16, float8, …) need the model to be
/// rewritten first, which [`CastOnnx`](crate::CastOnnx) does.
pub fn register(onnx: &mut Onnx) {
    onnx.op_register.insert("Cast", cast::build);
    onnx.op_register.insert("CastLike", cast::build);
    if_::register(onnx);
    expand::register(onnx);
    greater::register(onnx);
}

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

/// Makes an `Onnx` build the nodes that only the rewrite makes: those of other opsets than the model's, and shapes that are
/// measured when the model runs.
pub(crate) fn register_private(onnx: &mut Onnx) {
    at_opset::register(onnx);
    measured::register(onnx);
}
