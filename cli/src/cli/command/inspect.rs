//! `onnx-cast inspect`: a model's Cast and CastLike nodes, and its quantisers.

use anyhow::bail;
use serde::Serialize;

use crate::cli::args::inspect::InspectArgs;
use crate::cli::input::cases::model_file;
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::phrases;
use crate::cli::report::table::table;
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::inspect::{
    InspectRequest, Inspected, InspectedCast, InspectedQuantizer, InspectedWidening,
};

/// The version of what `--json` prints, which docs/report-format.md describes.
const SCHEMA: &str = "onnx-cast/inspect/1";

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    casts: &'a [InspectedCast],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    quantizers: &'a [InspectedQuantizer],
    /// Left out where there are none: most models compute in the types that they say.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    computed_in_float: &'a [InspectedWidening],
}

const HEADS: [&str; 9] =
    ["node", "op", "from", "to", "version", "saturate", "round_mode", "graph", "fate"];

const QUANTIZER_HEADS: [&str; 10] =
    ["node", "op", "x", "scale", "y", "axis", "block_size", "version", "graph", "fate"];

/// Lists the nodes.
///
/// # Errors
///
/// When the model cannot be read, or, the list written, when a cast is wrong.
pub(crate) fn inspect(
    args: InspectArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let request = InspectRequest { model: model_file(args.model)? };
    let inspected = Supervisor::new(max_memory).ask(&request)?.about(&request.model)?;
    output.line(&if args.json { of_json(&inspected)? } else { of_tables(&inspected) })?;
    let path = request.model.display();
    for problem in &inspected.others {
        print_note(&format!("{path}: cannot be run: {problem}"));
    }
    let Some((first, more)) = inspected.wrong_casts.split_first() else {
        return Ok(Status::Passed);
    };
    for problem in more {
        print_note(&format!("{path}: {problem}"));
    }
    bail!("{path}: {first}")
}

fn of_json(inspected: &Inspected) -> anyhow::Result<String> {
    let Inspected { casts, quantizers, widened, .. } = inspected;
    Ok(serde_json::to_string(&Report {
        schema: SCHEMA,
        casts,
        quantizers,
        computed_in_float: widened,
    })?)
}

fn of_tables(inspected: &Inspected) -> String {
    let Inspected { casts, quantizers, widened, .. } = inspected;
    let mut parts = vec![];
    if !casts.is_empty() {
        parts.push(of_rows(&HEADS, casts.iter().map(row)));
    }
    if !quantizers.is_empty() {
        parts.push(of_rows(&QUANTIZER_HEADS, quantizers.iter().map(quantizer_row)));
    }
    if parts.is_empty() {
        parts.push(phrases::NO_CASTS.into());
    }
    let lines = phrases::computed_in_float(widened);
    [vec![parts.join("\n\n")], lines].concat().join("\n")
}

fn of_rows(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads = heads.iter().map(|head| (*head).into()).collect();
    table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
}

fn quantizer_row(quantizer: &InspectedQuantizer) -> Vec<String> {
    let InspectedQuantizer { declared, fate } = quantizer;
    let block_size = match declared.block_size {
        0 => "-".into(),
        size => size.to_string(),
    };
    vec![
        single_line(&declared.node),
        declared.op.clone(),
        phrases::type_name(&declared.x).into(),
        phrases::type_name(&declared.scale).into(),
        phrases::type_name(&declared.y).into(),
        declared.axis.to_string(),
        block_size,
        declared.version.to_string(),
        single_line(&declared.graph),
        fate.clone(),
    ]
}

fn row(cast: &InspectedCast) -> Vec<String> {
    let InspectedCast { declared, fate } = cast;
    let or_none = |text: Option<String>| text.unwrap_or("-".into());
    vec![
        single_line(&declared.node),
        declared.op.clone(),
        phrases::type_name(&declared.from).into(),
        phrases::type_name(&declared.to).into(),
        declared.version.to_string(),
        or_none(declared.saturate.map(|value| value.to_string())),
        or_none(declared.round_mode.clone()),
        single_line(&declared.graph),
        fate.clone(),
    ]
}
