//! What can be typed after `onnx-cast run`.

use std::path::PathBuf;

use clap::Args;

use super::input::InputArgs;

/// Run a model and show its outputs.
///
/// FILE is an ONNX TensorProto (.pb), a NumPy array (.npy) or an archive of arrays by input name
/// (.npz).
///
/// An element type that NumPy lacks is given in a .npy as bit patterns of the same width (uint16
/// for BFLOAT16; uint8 for the float8, float6 and float4 types and the small unsigned integers;
/// int8 for the small signed ones), as an array of the ml_dtypes package, or as float32 or float64
/// values, which are then cast as ONNX casts them. Otherwise the array must have the input's own
/// type.
///
/// An input that is not given gets random values. Its symbolic dimensions come from --set, else
/// from the shapes of the given inputs, else they are 1.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast run model.onnx --set batch=4 --seed 7
  onnx-cast run model.onnx -i x=x.npy -i scale=scale.pb -o outputs
  onnx-cast run model.onnx -i inputs.npz -o outputs.npz
  onnx-cast run model/ --json")]
pub(crate) struct RunArgs {
    /// The model, or a folder with a model.onnx, which then runs on the first set of inputs beside it.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Folder for the outputs, written as output_0.pb, output_1.pb, …, or a file for NumPy: a .npz, or a .npy for one output.
    #[arg(short, long, value_name = "DIR|FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
