//! `onnx-cast fix`: a model's file, mended.

use std::path::Path;

use serde::Serialize;

use crate::cli::args::fix::FixArgs;
use crate::cli::args::input::InputArgs;
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::fix::{FixRequest, Fixed, FixedPart};

/// The version of what `--json` prints, which docs/report-format.md describes.
const SCHEMA: &str = "onnx-cast/fix/1";

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    #[serde(flatten)]
    fixed: &'a Fixed,
}

/// Writes the mended file, and says what was changed and what was left.
///
/// # Errors
///
/// When the model cannot be read, or a file cannot be written.
pub(crate) fn fix(
    args: FixArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let FixArgs { model, output: file, to } = args;
    let written = [("-o", Some(&file)), ("--json", to.json.as_ref())];
    check_files(&written, &InputArgs::default(), [model.as_path()].into_iter())?;
    let request = FixRequest { model, output: file };
    let fixed = Supervisor::new(max_memory).ask(&request)?.about(&request.model)?;
    for note in &fixed.notes {
        print_note(&format!("{}: {note}", request.model.display()));
    }
    write_json(
        &to,
        &|| Ok(serde_json::to_string(&Report { schema: SCHEMA, fixed: &fixed })?),
        &text(&fixed, &request.output),
        output,
    )?;
    Ok(if fixed.left.is_empty() { Status::Passed } else { Status::Failed })
}

fn text(fixed: &Fixed, output: &Path) -> String {
    let Fixed { changes, left, .. } = fixed;
    let mut lines: Vec<String> = changes.iter().map(line).collect();
    lines.extend(left.iter().map(|problem| format!("left as it is: {}", single_line(problem))));
    let (output, changed) = (output.display(), changes.len());
    lines.push(match (changed, left.len()) {
        (0, 0) => format!("{output}: nothing to fix, the same bytes"),
        (_, 0) => format!("{output}: {changed} fixed"),
        (_, left) => format!("{output}: {changed} fixed, {left} left"),
    });
    lines.join("\n")
}

fn line(part: &FixedPart) -> String {
    let FixedPart { kind, place, from, to } = part;
    let [place, from, to] = [place, from, to].map(|text| single_line(text));
    match kind.as_str() {
        "to" => format!("Cast `{place}`: `to` was {from}, is {to}"),
        "value_info" => format!("value `{place}`: declared {from}, is {to}"),
        "output" => format!("output `{place}`: declared {from}, is {to}"),
        "input" => format!("node `{place}`: takes `{to}` in the place of `{from}`"),
        "added" => format!("Cast `{place}`: added, from {from} to {to}"),
        _ if to.is_empty() => format!("Cast `{place}`: removed, as nothing uses `{from}` any more"),
        _ => format!("Cast `{place}`: removed, as `{from}` is `{to}`"),
    }
}
