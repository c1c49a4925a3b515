//! Models that a program holds as messages of tract-onnx's: made or changed by it, or read from elsewhere than a file.

use std::path::Path;

use tract_onnx::pb::ModelProto;

use super::loaded::Loaded;
use super::loader::CastOnnx;
use crate::error::Result;
use crate::passes::diagnostics::Survey;

pub use crate::onnx::spec::CastSpec;

/// As [`CastOnnx::load`], of a model whose external data is in `folder`.
///
/// ```
/// use tract_onnx::prelude::Framework;
/// use tract_onnx_cast::{model_proto, onnx};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/node/cast_opset19_FLOAT_to_FLOAT8E4M3FN/model.onnx");
/// let mut file = std::fs::File::open(path)?;
/// let message = onnx().proto_model_for_read(&mut file)?;
/// assert_eq!(model_proto::load(&onnx(), message, None)?.casts().count(), 1);
/// # tract_onnx::prelude::TractResult::Ok(())
/// ```
///
/// # Errors
///
/// As [`CastOnnx::load`].
pub fn load(onnx: &CastOnnx, model: ModelProto, folder: Option<&Path>) -> Result<Loaded> {
    onnx.load_proto(model, folder)
}

/// As [`CastOnnx::survey`], of a model whose external data is in `folder`.
///
/// # Errors
///
/// As [`CastOnnx::survey`].
pub fn survey(onnx: &CastOnnx, model: ModelProto, folder: Option<&Path>) -> Result<Survey> {
    onnx.survey_proto(model, folder)
}
