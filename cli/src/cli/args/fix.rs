//! What can be typed after `onnx-cast fix`.

use std::path::PathBuf;

use clap::Args;

use super::report::JsonArgs;

/// Mend a model whose types contradict each other, and take out casts that change nothing.
///
/// A Cast whose `to` contradicts what the model declares and its users need gets the right one; so do declared types that
/// contradict what is computed. Where operators would mix types, the input is taken from before a cast, or a Cast is added.
/// Casts and chains of casts that change no value go. Nothing else in the file changes: fields that this program does not
/// know, names, the order, and references to external data stay byte for byte.
///
/// The exit status is 1 if something is left that cannot be mended.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast fix model_fp16.onnx -o fixed.onnx
  onnx-cast fix model_fp16.onnx -o fixed.onnx --json=changes.json")]
pub(crate) struct FixArgs {
    /// The model.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    /// The mended model: another file.
    #[arg(short, long, value_name = "FIXED.onnx")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) to: JsonArgs,
}
