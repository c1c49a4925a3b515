//! `onnx-cast run`: a model's outputs for given or random inputs.

mod numpy;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::args::resources::Resources;
use crate::cli::found::inputs::Inputs;
use crate::cli::found::look::InputLook;
use crate::cli::found::status::Status;
use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::{Case, model_file, sets_in};
use crate::cli::input::declared::Declared;
use crate::cli::input::files::Format;
use crate::cli::input::recipe::Recipe;
use crate::cli::input::sets::{self, RunInputs};
use crate::cli::measure::value::{ElementValue, values};
use crate::cli::message::{ProblemKind, about, printable, single_line};
use crate::cli::output_file::{Drafts, locked, try_file, try_folder};
use crate::cli::process::jobs::ask;
use crate::cli::process::request::Request;
use crate::cli::progress::tell;
use crate::cli::report::json::{self, JsonValue};
use crate::cli::report::table::table;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::tensor::NamedTensor;
use crate::cli::verb::Verb;
use crate::cli::work::engine::Engine;
use crate::cli::work::model::{Loader, RunResult};

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
/// An input that is not given gets random values that suit the nodes that take it. Its symbolic
/// dimensions are what the model's weights make them, or come from --set, else from the shapes of
/// the given inputs, else they are chosen: never 1 where the model runs with others. A note names
/// these inputs and says what they were given.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast run model.onnx --set batch=4 --seed 7
  onnx-cast run model.onnx -i x=x.npy -i scale=scale.pb -o outputs
  onnx-cast run model.onnx -i inputs.npz -o outputs.npz
  onnx-cast run model/ --json")]
pub(crate) struct Run {
    /// The model, or a folder with a model.onnx, which then runs on the first set of inputs beside
    /// it.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// Write the outputs: into a folder, as output_0.pb, output_1.pb, …, or into a file for NumPy,
    /// a .npz, or a .npy for one output. A new folder whose name has an ending is given as
    /// `name.v1/`.
    #[arg(short, long, value_name = "DIR|FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct RunReport<'a> {
    inputs: &'a Inputs,
    outputs: Vec<ShownOutput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: &'a Option<String>,
}

#[derive(Serialize)]
struct ShownOutput<'a> {
    name: &'a str,
    r#type: &'a str,
    shape: &'a [usize],
    values: Vec<JsonValue<'a>>,
}

impl Verb for Run {
    type Request = RunRequest;

    /// Runs the model, writes the outputs' files and shows what they hold.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let Run { model, input, output: written, json } = self;
        let case = about(ProblemKind::Input, recorded(&model, &input))?;
        let model = model_file(model)?;
        written.as_deref().map_or(Ok(()), check_ending)?;
        let request = RunRequest { model, input, case, output: written };
        let RunAnswer { inputs, outputs, note, written } = &ask(&request, resources)?;
        print_notes(&request.model, note.as_slice());
        if json {
            let outputs = outputs.iter().map(shown).collect();
            output.line(&json::document("run", &RunReport { inputs, outputs, note })?)?;
        } else {
            output.line(&table(&outputs.iter().map(row).collect::<Vec<_>>()))?;
            written_in_words(written).map_or(Ok(()), |line| output.line(&printable(&line)))?;
        }
        Ok(Status::Passed)
    }
}

/// The recorded set to run on where nothing is given: the first beside the model of a folder.
fn recorded(model: &Path, input: &InputArgs) -> anyhow::Result<Option<Case>> {
    if !model.is_dir() || !input.inputs.is_empty() {
        return Ok(None);
    }
    let case = sets_in(model, model)?.into_iter().find(Case::has_inputs);
    if case.is_some() {
        input.check_nothing_is_random("those of the folder are recorded")?;
        input.check_all_is_taken("those of the folder are recorded")?;
    }
    Ok(case)
}

fn shown(output: &RunOutput) -> ShownOutput<'_> {
    let RunOutput { name, r#type, shape, values } = output;
    ShownOutput { name, r#type, shape, values: values.iter().map(JsonValue).collect() }
}

fn row(output: &RunOutput) -> Vec<String> {
    let RunOutput { name, r#type, shape, values } = output;
    let mut texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    if shape.iter().product::<usize>() > values.len() {
        texts.push("…".into());
    }
    vec![single_line(name), r#type.clone(), format!("{shape:?}"), texts.join(" ")]
}

/// How many of an output's values are told.
const TOLD_VALUES: usize = 10;

/// A model to run.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub(crate) model: PathBuf,
    pub(crate) input: InputArgs,
    /// The set of recorded inputs to run on, instead of what `input` says.
    pub(crate) case: Option<Case>,
    /// Where the outputs are written: a .npy, a .npz or a folder.
    pub(crate) output: Option<PathBuf>,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunAnswer {
    inputs: Inputs,
    outputs: Vec<RunOutput>,
    note: Option<String>,
    /// The files that hold the outputs.
    written: Vec<PathBuf>,
}

/// An output of the model.
#[derive(Serialize, Deserialize)]
struct RunOutput {
    name: String,
    r#type: String,
    shape: Vec<usize>,
    /// The first ones.
    values: Vec<ElementValue>,
}

impl Request for RunRequest {
    const NAME: &'static str = "run";

    const RUNS_ONCE: bool = true;

    type Answer = RunAnswer;

    fn answer(&self, loader: &Loader) -> TractResult<RunAnswer> {
        let (file, folder) = match &self.output {
            Some(path) if is_numpy(path) => (Some(path), None),
            path => (None, path.as_ref()),
        };
        let _made = folder.map(|folder| try_folder(folder)).transpose()?;
        file.map_or(Ok(()), |file| try_file(file))?;
        tell("loading");
        let given = self.given_early(loader)?;
        let model = loader.open(&self.model)?;
        file.map_or(Ok(()), |file| numpy::check(&model.output_names(), file))?;
        let given = given.filter(|(inputs, _)| *inputs == named(&model.takes));
        let given = given.map(|(_, given)| given);
        let read = || sets::one(&model.takes, &self.model, &self.input);
        let mut look = InputLook::default();
        let (tensors, random, mut notes) = match &self.case {
            Some(case) => {
                let (tensors, notes) = sets::of_case(&model.takes, case)?;
                (tensors, vec![], notes)
            }
            None => match given.map_or_else(read, Ok)? {
                RunInputs::Sample(tensors, notes) => (tensors, vec![], notes),
                RunInputs::Given(given) => {
                    let proto = loader.read_light(&self.model)?;
                    let recipe = Recipe::of(&model.source(&proto), &self.input, given, 1)?;
                    look = recipe.look(1);
                    (recipe.tensors(0, self.input.seed)?, recipe.random, recipe.notes)
                }
            },
        };
        let random = (!random.is_empty()).then_some((random, self.input.seed, look));
        let inputs = Inputs::of(model.takes.inputs.len(), [random].into_iter());
        notes.extend(inputs.note());
        let RunResult { outputs, note } = model.run_told(tensors)?;
        notes.extend(note);
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        let written = match (file, folder) {
            (Some(file), _) => {
                numpy::write(&outputs, file)?;
                vec![file.clone()]
            }
            (None, Some(folder)) => write_folder(&outputs, folder)?,
            (None, None) => vec![],
        };
        let outputs = outputs.into_iter().map(told).collect::<TractResult<_>>()?;
        Ok(RunAnswer { outputs, inputs, note, written })
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().chain(self.case.iter().map(|case| case.set.clone())).collect()
    }

    fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

impl RunRequest {
    /// What `-i` gives, read before a plan loads the whole model: the head of its file says what it
    /// takes. With the inputs that are wanted so.
    fn given_early(&self, loader: &Loader) -> TractResult<Option<(NamedTypes, RunInputs)>> {
        if loader.interprets() || self.case.is_some() || self.input.inputs.is_empty() {
            return Ok(None);
        }
        // What is wrong with the model is told by what loads it.
        let Ok(head) = loader.by(Engine::Nodes, None).open(&self.model) else { return Ok(None) };
        let given = sets::one(&head.takes, &self.model, &self.input)?;
        Ok(Some((named(&head.takes), given)))
    }
}

/// Inputs by their names, with their types.
type NamedTypes = Vec<(String, ElementType)>;

fn named(takes: &Declared) -> NamedTypes {
    takes.inputs.iter().map(|input| (input.name.clone(), input.ty)).collect()
}

/// Whether a path is where NumPy's arrays go.
fn is_numpy(path: &Path) -> bool {
    matches!(Format::of(path), Some(Format::Npy | Format::Npz)) && !path.is_dir()
}

/// Refuses a new folder whose name looks like a file's of a kind that nothing writes.
fn check_ending(path: &Path) -> anyhow::Result<()> {
    let is_plain = path.is_dir() || path.extension().is_none() || is_numpy(path);
    // What ends with a separator is a folder, whatever its name.
    let is_folder = path.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    let problem = || -> anyhow::Result<()> {
        bail!("{}: outputs are written as .npz or .npy, or into a folder", path.display())
    };
    about(ProblemKind::Call, if is_plain || is_folder { Ok(()) } else { problem() })
}

/// What was written, for people.
fn written_in_words(files: &[PathBuf]) -> Option<String> {
    let (first, last) = (files.first()?.display(), files.last()?.display());
    Some(match files.len() {
        1 => format!("wrote {first}"),
        count => format!("wrote {count} files, {first} to {last}"),
    })
}

/// Writes the outputs as files of a folder, all at once.
fn write_folder(outputs: &[NamedTensor], folder: &Path) -> TractResult<Vec<PathBuf>> {
    let mut drafts = Drafts::default();
    let mut written = vec![];
    for (position, output) in outputs.iter().enumerate() {
        let path = folder.join(format!("output_{position}.pb"));
        drafts.file(&path, &output.to_proto()?.encode_to_vec())?;
        written.push(path);
    }
    let _lock = locked(folder);
    drafts.put()?;
    remove_stale(folder, outputs.len())?;
    Ok(written)
}

/// Removes what an earlier run of a model with more outputs has left: `test` would take it for an
/// output of this one.
fn remove_stale(folder: &Path, outputs: usize) -> TractResult<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("output_")?.strip_suffix(".pb"));
        let number = number.and_then(|number| number.parse::<usize>().ok());
        if number.is_some_and(|number| number >= outputs) {
            let path = folder.join(&name);
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

fn told(output: NamedTensor) -> TractResult<RunOutput> {
    let NamedTensor { name, ty, tensor } = output;
    let values = values(ty, &tensor, 0..TOLD_VALUES)?;
    Ok(RunOutput { name, r#type: ty.name().into(), shape: tensor.shape().to_vec(), values })
}
