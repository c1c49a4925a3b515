//! `onnx-cast record`: goldens of a model.

use anyhow::ensure;

use crate::cli::args::record::RecordArgs;
use crate::cli::input::cases::model_file;
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::progress::progress_bar;
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::record::{Change, RecordRequest, Recorded, RecordedSet};

/// Adds recordings.
///
/// # Errors
///
/// When the model or an input cannot be used, or something that is there would change.
pub(crate) fn record(
    args: RecordArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let RecordArgs { model, folder, input, sets } = args;
    ensure!(sets == 1 || input.inputs.is_empty(), "--sets is for random inputs, without -i");
    let model = model_file(model)?;
    let request = RecordRequest { model, folder, input, sets, is_anew: false };
    write_recordings(&request, max_memory, output)
}

/// Has a worker write recordings, and says what became of each.
///
/// # Errors
///
/// When a worker says that they cannot be written.
pub(super) fn write_recordings(
    request: &RecordRequest,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let bar = progress_bar(1);
    let outcome = Supervisor::new(max_memory).ask(request);
    bar.finish_and_clear();
    let Recorded { sets, notes } = outcome?.about(&request.model)?;
    for note in notes {
        print_note(&format!("{}: {note}", request.model.display()));
    }
    output.line(&sets.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(Status::Passed)
}

fn line(set: &RecordedSet) -> String {
    let change = match set.change {
        Change::Kept => "kept",
        Change::Added => "added",
        Change::Changed => "changed",
    };
    format!("{change} {}", single_line(&set.folder))
}
