//! `onnx-cast rerecord`: the outputs of recorded inputs once more.

use std::path::PathBuf;

use clap::Args;

use super::record::{RecordRequest, write_recordings};
use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::input::args::InputArgs;
use crate::cli::report::terminal::Output;
use crate::cli::verb::Verb;

/// Run recorded inputs again, and change the outputs that `record` has written.
///
/// The model is DIR's own, or MODEL.onnx, which then takes its place.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast rerecord goldens/model
  onnx-cast rerecord goldens/model new.onnx")]
pub(crate) struct Rerecord {
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The model from now on.
    #[arg(value_name = "MODEL.onnx")]
    model: Option<PathBuf>,
}

impl Verb for Rerecord {
    type Request = RecordRequest;

    /// Changes recordings.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let Rerecord { model, folder } = self;
        let model = model.unwrap_or_else(|| folder.join("model.onnx"));
        let input = InputArgs::default();
        let request = RecordRequest { model, folder, input, sets: 0, is_anew: true };
        write_recordings(&request, resources, output)
    }
}
