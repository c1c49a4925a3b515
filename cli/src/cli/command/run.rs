//! `onnx-cast run`: a model's outputs for given or random inputs.

use std::path::Path;

use anyhow::ensure;
use serde::Serialize;

use crate::cli::args::input::InputArgs;
use crate::cli::args::run::RunArgs;
use crate::cli::input::cases::{Case, model_file, sets_in};
use crate::cli::judge::inputs::Inputs;
use crate::cli::judge::status::Status;
use crate::cli::message::{ErrorKind, about, single_line};
use crate::cli::process::supervisor::Supervisor;
use crate::cli::report::json::JsonValue;
use crate::cli::report::table::table;
use crate::cli::report::terminal::{Output, print_note};
use crate::cli::work::run::{RunAnswer, RunOutput, RunRequest};

/// The version of what `--json` prints, which docs/report-format.md describes.
const SCHEMA: &str = "onnx-cast/run/1";

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    inputs: Inputs,
    outputs: Vec<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    r#type: &'a str,
    shape: &'a [usize],
    values: Vec<JsonValue<'a>>,
}

/// Runs the model, writes the outputs' files and shows what they hold.
///
/// # Errors
///
/// When the model or an input cannot be used, or a file cannot be written.
pub(crate) fn run(
    args: RunArgs,
    max_memory: Option<u64>,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let RunArgs { model, input, output: written, json } = args;
    let case = about(ErrorKind::Input, recorded(&model, &input))?;
    let model = model_file(model)?;
    let request = RunRequest { model, input, case, output: written };
    let answer = Supervisor::new(max_memory).ask(&request)?.about(&request.model)?;
    let RunAnswer { outputs, inputs, note } = answer;
    if let Some(note) = &note {
        print_note(&format!("{}: {note}", request.model.display()));
    }
    output.line(&match json {
        true => {
            let outputs = outputs.iter().map(shown).collect();
            serde_json::to_string(&Report { schema: SCHEMA, inputs, outputs, note })?
        }
        false => table(&outputs.iter().map(row).collect::<Vec<_>>()),
    })?;
    Ok(Status::Passed)
}

/// The recorded set to run on: that of a folder that `-i` gives, or, without any `-i`, the first beside the model of a folder.
fn recorded(model: &Path, input: &InputArgs) -> anyhow::Result<Option<Case>> {
    let folder = match &input.inputs[..] {
        [] if model.is_dir() => model,
        [folder] if Path::new(folder).is_dir() => Path::new(folder),
        inputs => {
            let folder = inputs.iter().find(|input| Path::new(input).is_dir());
            ensure!(folder.is_none(), "-i is given a folder and more, but a run takes one set");
            return Ok(None);
        }
    };
    let has_data = |case: &Case| case.inputs().is_ok_and(|inputs| !inputs.is_empty());
    let sets: Vec<Case> = sets_in(folder, model)?.into_iter().filter(has_data).collect();
    let count = sets.len();
    let is_asked_for = !input.inputs.is_empty();
    let name = folder.display();
    ensure!(!is_asked_for || count > 0, "-i {name}: holds no input_0.pb");
    ensure!(
        !is_asked_for || count == 1,
        "-i {name}: holds {count} sets of inputs, a run takes one"
    );
    if count > 0 {
        input.check_nothing_is_random("those of the folder are recorded")?;
    }
    Ok(sets.into_iter().next())
}

fn shown(output: &RunOutput) -> Shown<'_> {
    let RunOutput { name, ty, shape, values } = output;
    Shown { name, r#type: ty, shape, values: values.iter().map(JsonValue).collect() }
}

fn row(output: &RunOutput) -> Vec<String> {
    let RunOutput { name, ty, shape, values } = output;
    let mut texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    if shape.iter().product::<usize>() > values.len() {
        texts.push("…".into());
    }
    vec![single_line(name), ty.clone(), format!("{shape:?}"), texts.join(" ")]
}
