//! `onnx-cast keep`: the smallest set of nodes to keep in FLOAT when a model is converted.

use serde::Serialize;

use crate::cli::args::keep::KeepArgs;
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::node_lists::NodeLists;
use crate::cli::report::progress::progress_bar;
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::keep::{KeepRequest, Kept};

/// The version of what `--json` prints, which docs/report-format.md describes.
const SCHEMA: &str = "onnx-cast/keep/1";

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: String,
    to: &'a str,
    #[serde(flatten)]
    kept: &'a Kept,
    formats: &'a NodeLists,
}

/// Finds the list and shows it as converters take it.
///
/// # Errors
///
/// When the model or an input cannot be used.
pub(crate) fn keep(
    args: KeepArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let written = [("--json", args.to.json.as_ref())];
    check_files(&written, &args.input, [args.model.as_path()].into_iter())?;
    let (tolerance, fallback) = args.tolerances();
    let mut input = args.input.with_sets(args.sets);
    // Each set is a run.
    input.sets = input.sets.or(Some(1));
    let request = KeepRequest { model: args.model, to: args.ty, input, tolerance, fallback };
    let bar = progress_bar(1);
    let outcome = Supervisor::new(max_memory)
        .ask_and_follow(&request, |phase| bar.set_message(phase.to_owned()));
    bar.finish_and_clear();
    let kept = outcome?.about(&request.model)?;
    for note in &kept.notes {
        print_note(&format!("{}: {note}", request.model.display()));
    }
    let names: Vec<&str> = kept.keep.iter().map(|node| node.node.as_str()).collect();
    let formats = NodeLists::of(&names, request.to == "BFLOAT16");
    let (model, to) = (request.model.display().to_string(), request.to.as_str());
    let text = text(&model, to, &kept, &formats);
    let report = Report { schema: SCHEMA, model, to, kept: &kept, formats: &formats };
    write_json(&args.to, &|| Ok(serde_json::to_string(&report)?), &text, output)?;
    Ok(if kept.problem.is_none() { Status::Passed } else { Status::Failed })
}

fn text(model: &str, to: &str, kept: &Kept, formats: &NodeLists) -> String {
    let runs = kept.runs;
    if let Some(problem) = &kept.problem {
        return format!("{model} as {to}: {problem} ({runs} runs)");
    }
    if kept.keep.is_empty() {
        return format!("{model} as {to}: no node needs to stay in FLOAT ({runs} runs)");
    }
    let count = kept.keep.len();
    let confirmed = match kept.confirmed {
        true => "with any one less the conversion fails",
        false => "not each was tried alone",
    };
    let mut lines =
        vec![format!("{model} as {to}: keep {count} node(s) in FLOAT, {confirmed} ({runs} runs)")];
    for node in &kept.keep {
        lines.push(format!("{} `{}`: {}", node.op_type, single_line(&node.node), node.why));
    }
    lines.push(String::new());
    lines.extend(formats.lines());
    lines.join("\n")
}
