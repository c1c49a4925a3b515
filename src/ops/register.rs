//! Operators of ours in the place of tract's own.

use tract_onnx::Onnx;

use super::{at_opset, cast, expand, if_, measured};

/// Makes a tract `Onnx` build `Cast` and `CastLike` nodes with this crate's op, and `If` nodes so that a cast after one
/// sees the branch that runs.
///
/// This alone serves models whose element types tract knows. The exotic ones (BFLOAT16, float8, …) need the model to be
/// rewritten first, which [`CastOnnx`](crate::CastOnnx) does.
pub fn register(onnx: &mut Onnx) {
    onnx.op_register.insert("Cast", cast::inference::build);
    onnx.op_register.insert("CastLike", cast::inference::build);
    if_::register(onnx);
    expand::register(onnx);
}

/// Makes an `Onnx` build the nodes that only the rewrite makes: those of other opsets than the model's, and shapes that are
/// measured when the model runs.
pub(crate) fn register_private(onnx: &mut Onnx) {
    at_opset::register(onnx);
    measured::register(onnx);
}
