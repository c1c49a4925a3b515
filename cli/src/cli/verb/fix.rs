//! `onnx-cast fix`: a model's file, mended.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use onnx_cast_graph::all_tensors;
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::TractResult;
use tract_onnx_cast::mend::{Change, ChangeKind, Mended, mend};

use crate::cli::args::report::JsonArgs;
use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::model_file;
use crate::cli::input_file::read_regular;
use crate::cli::message::single_line;
use crate::cli::output_file::{folder_of, write_whole};
use crate::cli::process::jobs::ask;
use crate::cli::process::request::Request;
use crate::cli::report::destinations::{check_files, write_json};
use crate::cli::report::json;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::verb::Verb;
use crate::cli::work::model::{Loader, is_model};

/// Correct types that contradict each other, and remove casts that change nothing.
///
/// A Cast whose `to` contradicts what the model declares and its users need gets the right one; so
/// do declared types that contradict what is computed. Where operators would mix types, the input
/// is taken from before a cast, or a Cast is added. Casts and chains of casts that change no value
/// go. Nothing else in the file changes: fields that this program does not know, names, the order,
/// and references to external data stay byte for byte.
///
/// The exit status is 1 if something is left that cannot be corrected.
#[derive(Args, Serialize, Deserialize)]
#[command(after_help = "Examples:
  onnx-cast fix model_fp16.onnx -o fixed.onnx
  onnx-cast fix model_fp16.onnx -o fixed.onnx --json=changes.json")]
pub(crate) struct Fix {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The corrected model: another file.
    #[arg(short, long, value_name = "FIXED.onnx")]
    output: PathBuf,
    #[serde(skip)]
    #[command(flatten)]
    to: JsonArgs,
}

impl Verb for Fix {
    type Request = Fix;

    /// Writes the mended file, and says what was changed and what was left.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let fix = Fix { model: model_file(self.model)?, ..self };
        let written = [("-o", Some(&fix.output)), ("--json", fix.to.json.as_ref())];
        check_files(&written, &InputArgs::default(), [fix.model.as_path()].into_iter())?;
        let Mending { fixed, mut lines } = ask(&fix, resources)?;
        print_notes(&fix.model, &fixed.notes);
        lines.extend(fixed.left.iter().map(|left| format!("left as it is: {}", single_line(left))));
        let (file, changed) = (fix.output.display(), fixed.changes.len());
        lines.push(match (changed, fixed.left.len()) {
            (0, 0) => format!("{file}: nothing to fix, the same bytes"),
            (_, 0) => format!("{file}: {changed} fixed"),
            (_, left) => format!("{file}: {changed} fixed, {left} left"),
        });
        write_json(&fix.to, &|| json::document("fix", &fixed), &lines, output)?;
        Ok(if fixed.left.is_empty() { Status::Passed } else { Status::Failed })
    }
}

/// What became of a model, and a line for each change.
#[derive(Serialize, Deserialize)]
pub(crate) struct Mending {
    fixed: Fixed,
    lines: Vec<String>,
}

/// What became of a model, as `--json` prints it.
#[derive(Serialize, Deserialize)]
struct Fixed {
    model: String,
    output: String,
    changes: Vec<FixedPart>,
    /// What is wrong and stays so.
    left: Vec<String>,
    notes: Vec<String>,
}

/// Something that was changed.
#[derive(Serialize, Deserialize)]
struct FixedPart {
    kind: String,
    place: String,
    from: String,
    to: String,
    /// The same in words.
    text: String,
}

impl Request for Fix {
    const NAME: &'static str = "fix";

    type Answer = Mending;

    fn answer(&self, _: &Loader) -> TractResult<Mending> {
        let mended = mend(&read_regular(&self.model)?).map_err(Into::into);
        let Mended { bytes, changes, left, .. } = is_model(&self.model, mended)?;
        let notes = self.note_on_data(&bytes)?.into_iter().collect();
        write_whole(&self.output, &bytes)?;
        let (model, output) = (self.model.display().to_string(), self.output.display().to_string());
        let lines = changes.iter().map(line).collect();
        let changes = changes.into_iter().map(part).collect();
        Ok(Mending { fixed: Fixed { model, output, changes, left, notes }, lines })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn running(&self) -> Vec<&Path> {
        vec![]
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.output)
    }
}

impl Fix {
    /// A note that the model's external data is looked for beside the new file, where that is
    /// another folder.
    fn note_on_data(&self, bytes: &[u8]) -> TractResult<Option<String>> {
        let folder = |path: &Path| {
            let folder = folder_of(path);
            folder.canonicalize().with_context(|| folder.display().to_string())
        };
        let (from, to) = (folder(&self.model)?, folder(&self.output)?);
        let model = ModelProto::decode(bytes)?;
        let is_elsewhere = from != to
            && model.graph.iter().flat_map(all_tensors).any(|held| !held.external_data.is_empty());
        Ok(is_elsewhere.then(|| {
            let (from, to) = (from.display(), to.display());
            format!(
                "the model's external data stays in {from}: it is looked for in {to} from now on"
            )
        }))
    }
}

fn part(change: Change) -> FixedPart {
    let text = line(&change);
    let Change { kind, place, from, to, .. } = change;
    FixedPart { kind: kind.name().into(), place, from, to, text }
}

fn line(change: &Change) -> String {
    let [place, from, to] = [&change.place, &change.from, &change.to].map(|text| single_line(text));
    match change.kind {
        ChangeKind::To => format!("Cast `{place}`: `to` was {from}, is {to}"),
        ChangeKind::ValueInfo => format!("value `{place}`: declared {from}, is {to}"),
        ChangeKind::Output => format!("output `{place}`: declared {from}, is {to}"),
        ChangeKind::Input => format!("node `{place}`: takes `{to}` in the place of `{from}`"),
        ChangeKind::Added => format!("Cast `{place}`: added, from {from} to {to}"),
        _ if to.is_empty() => format!("Cast `{place}`: removed, as nothing uses `{from}` any more"),
        _ => format!("Cast `{place}`: removed, as `{from}` is `{to}`"),
    }
}
