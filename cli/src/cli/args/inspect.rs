//! What can be typed after `onnx-cast inspect`.

use std::path::PathBuf;

use clap::Args;

/// List a model's Cast, CastLike, QuantizeLinear and DequantizeLinear nodes, those in subgraphs included, and what becomes
/// of each.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast inspect model.onnx
  onnx-cast inspect model.onnx --json")]
pub(crate) struct InspectArgs {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
