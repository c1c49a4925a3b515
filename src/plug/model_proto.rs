//! Models that a program holds as messages of tract-onnx's: made or changed by it, or read from
//! elsewhere than a file.

use std::path::Path;

use tract_onnx::pb::ModelProto;

use super::loaded::Loaded;
use super::loader::CastOnnx;
use crate::error::{Error, Result};
use crate::onnx::beside;
use crate::onnx::node::refusal;
use crate::passes::diagnostics::Survey;

pub use crate::onnx::cast_spec::CastSpec;

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

/// The model with its functions in the place of their calls, and nothing else changed: what a
/// function's nodes and values are called has the call's name in front.
///
/// # Errors
///
/// When the model is not sound, or a function imports another version of the operators than the
/// model.
pub fn inlined(onnx: &CastOnnx, model: ModelProto, folder: Option<&Path>) -> Result<ModelProto> {
    let graph = onnx.inlined(model, folder).map_err(Error::of)?;
    let nodes = graph.all_nodes(graph.main()).into_iter().map(|id| graph.node(id));
    if let Some(node) = nodes.into_iter().find(|node| node.opset != graph.opset) {
        let problem = format!(
            "is of a function that imports opset {}, and the model imports {}",
            node.opset, graph.opset
        );
        return Err(refusal(node, problem));
    }
    Ok(graph.export(|_, _| {}))
}

/// Reads a model's file, of which large weights stay where they are: they are external data of the
/// file itself, and whoever runs the model reads each where it is needed. Where that cannot be, as
/// of a file behind a link, it is read whole.
///
/// # Errors
///
/// When the file cannot be read, is no model, or is beyond the [`Limits`](crate::Limits).
pub fn light(onnx: &CastOnnx, path: &Path) -> Result<ModelProto> {
    onnx.light_proto(path).map_err(Error::of)
}

/// An error for each tensor whose data is not beside the model, in `folder`, as it says: the file
/// is missing, or too short. No data is read.
pub fn missing_data(model: &ModelProto, folder: &Path) -> Vec<Error> {
    beside::missing(model, folder).collect()
}

/// As [`CastOnnx::survey`], of a model whose external data is in `folder`.
///
/// # Errors
///
/// As [`CastOnnx::survey`].
pub fn survey(onnx: &CastOnnx, model: ModelProto, folder: Option<&Path>) -> Result<Survey> {
    onnx.survey_proto(model, folder)
}
