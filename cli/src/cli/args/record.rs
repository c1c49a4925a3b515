//! What can be typed after `onnx-cast record` and `onnx-cast rerecord`.

use std::path::PathBuf;

use clap::Args;

use super::input::InputArgs;

/// Record a model's outputs, to be replayed by `onnx-cast test`.
///
/// Adds test_data_set_* folders with input_*.pb and output_*.pb to DIR, and the model if it is not there. Nothing that is
/// there is changed; `rerecord` does that. With -i, a folder stands for the sets of inputs in it.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast record model.onnx goldens/model --sets 3
  onnx-cast record model.onnx goldens/model -i x=x.npy
  onnx-cast test goldens")]
pub(crate) struct RecordArgs {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How many sets of random inputs, each with the next seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) sets: u64,
}

/// Run recorded inputs again, and change the outputs that `record` has written.
///
/// The model is DIR's own, or MODEL.onnx, which then takes its place.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast rerecord goldens/model
  onnx-cast rerecord goldens/model new.onnx")]
pub(crate) struct RerecordArgs {
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The model from now on.
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: Option<PathBuf>,
}
