//! `onnx-cast rerecord`: the outputs of recorded inputs once more.

use super::record::write_recordings;
use crate::cli::args::input::InputArgs;
use crate::cli::args::record::RerecordArgs;
use crate::cli::judge::status::Status;
use crate::cli::report::terminal::Output;
use crate::cli::work::record::RecordRequest;

/// Changes recordings.
///
/// # Errors
///
/// When the model or a recorded input cannot be used.
pub(crate) fn rerecord(
    args: RerecordArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let RerecordArgs { model, folder } = args;
    let model = model.unwrap_or_else(|| folder.join("model.onnx"));
    let input = InputArgs::default();
    let request = RecordRequest { model, folder, input, sets: 0, is_anew: true };
    write_recordings(&request, max_memory, output)
}
