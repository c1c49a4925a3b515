//! `onnx-cast record`, and what `rerecord` shares with it: goldens of a model, in the layout that
//! `test` and every ONNX runtime read.

pub(crate) mod copy;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;

use crate::cli::args::resources::Resources;
use crate::cli::found::status::Status;
use crate::cli::input::args::InputArgs;
use crate::cli::input::cases::{self, Case, model_file};
use crate::cli::input::sets;
use crate::cli::input_file::{open_regular, read_regular};
use crate::cli::message::{add_once, at, single_line};
use crate::cli::output_file::{Drafts, locked, try_folder};
use crate::cli::process::jobs::ask;
use crate::cli::process::request::Request;
use crate::cli::report::terminal::{Output, print_notes};
use crate::cli::tensor::write_tensors;
use crate::cli::verb::Verb;
use crate::cli::work::model::{Loader, Model, RunResult};
use copy::copy_model;

/// Record a model's outputs, to be replayed by `onnx-cast test`.
///
/// Adds test_data_set_* folders with input_*.pb and output_*.pb to DIR, and the model if it is not
/// there. Nothing that is there is changed; `rerecord` does that. With -i, a folder stands for the
/// sets of inputs in it.
#[derive(Args)]
#[command(after_help = "Examples:
  onnx-cast record model.onnx goldens/model --sets 3
  onnx-cast record model.onnx goldens/model -i x=x.npy
  onnx-cast test goldens")]
pub(crate) struct Record {
    /// The model, or a folder with a model.onnx.
    #[arg(value_name = "MODEL.onnx")]
    model: PathBuf,
    /// The folder of the recordings.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten, next_help_heading = "Inputs")]
    input: InputArgs,
    /// How many sets of random inputs, each with the next seed.
    #[arg(long, value_name = "N", help_heading = "Inputs", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sets: u64,
}

impl Verb for Record {
    type Request = RecordRequest;

    /// Adds recordings.
    fn run(self, resources: Resources, output: &mut Output) -> anyhow::Result<Status> {
        let Record { model, folder, input, sets } = self;
        ensure!(sets == 1 || input.inputs.is_empty(), "--sets is for random inputs, without -i");
        let model = model_file(model)?;
        let request = RecordRequest { model, folder, input, sets, is_anew: false };
        write_recordings(&request, resources, output)
    }
}

/// Has a worker write recordings, and says what became of each.
/// Fails when a worker says that they cannot be written.
pub(super) fn write_recordings(
    request: &RecordRequest,
    resources: Resources,
    output: &mut Output,
) -> anyhow::Result<Status> {
    let Recorded { sets, notes } = ask(request, resources)?;
    print_notes(&request.model, &notes);
    output.line(&sets.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(Status::Passed)
}

fn line(set: &RecordedSet) -> String {
    let change = match set.change {
        SetChange::Unchanged => "kept",
        SetChange::Added => "added",
        SetChange::Changed => "changed",
    };
    format!("{change} {}", single_line(&set.folder))
}

/// What to record.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordRequest {
    pub(crate) model: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) input: InputArgs,
    /// Sets of random inputs, each with the next seed.
    pub(crate) sets: u64,
    /// Whether the outputs of sets that are there are computed anew and changed; else new sets are
    /// added.
    pub(crate) is_anew: bool,
}

/// What was recorded.
#[derive(Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) sets: Vec<RecordedSet>,
    pub(crate) notes: Vec<String>,
}

/// A set of inputs and outputs.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordedSet {
    pub(crate) change: SetChange,
    pub(crate) folder: String,
}

/// What was done to a set.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum SetChange {
    Unchanged,
    Added,
    Changed,
}

impl RecordedSet {
    fn new(change: SetChange, folder: &Path) -> RecordedSet {
        RecordedSet { change, folder: folder.display().to_string() }
    }
}

impl Request for RecordRequest {
    const NAME: &'static str = "record";

    type Answer = Recorded;

    fn answer(&self, loader: &Loader) -> TractResult<Recorded> {
        let folder = &self.folder;
        let is_wanted = !self.is_anew || folder.is_dir();
        let _made = is_wanted.then(|| try_folder(folder)).transpose()?;
        let model = loader.open(&self.model)?;
        if self.is_anew {
            return change(self, model);
        }
        add(self, model, &loader.read(&self.model)?)
    }

    fn model(&self) -> &Path {
        &self.model
    }

    fn places(&self) -> Vec<PathBuf> {
        self.input.files().collect()
    }

    fn output(&self) -> Option<&Path> {
        Some(&self.folder)
    }
}

fn add(request: &RecordRequest, model: Model, proto: &ModelProto) -> TractResult<Recorded> {
    let input = InputArgs { sets: Some(request.sets), ..request.input.clone() };
    let new = sets::gather(&model.source(proto), &request.model, &input)?;
    let (folder, target) = (&request.folder, request.folder.join("model.onnx"));
    // Everything is run before anything is put in its place: an error leaves the folder as it was.
    // What is run is written at once, for there may be more of it than fits in memory.
    let (mut drafts, mut runs, mut notes) = (Drafts::default(), vec![], vec![]);
    for set in &new {
        let tensors = set.tensors()?;
        let draft = drafts.folder_in(folder)?;
        write_tensors(&model.takes.named(tensors.clone()), "input_", &draft)?;
        let RunResult { outputs, note } = model.clone().run_told(tensors)?;
        add_once(&mut notes, note);
        write_tensors(&outputs, "output_", &draft)?;
        runs.push(draft);
    }
    let _lock = locked(folder);
    copy_model(&request.model, &target, false, &mut drafts)?;
    let there = sets_there(folder, &target)?.into_iter();
    let mut there: Vec<HeldSet> = there.map(|set| HeldSet::of(set.clone(), set)).collect();
    let mut places = (0u64..).map(|number| folder.join(format!("test_data_set_{number}")));
    let mut sets = vec![];
    for draft in runs {
        let inputs = inputs_of(&draft);
        let is_same =
            |held: &&HeldSet| held.inputs == inputs && hold_the_same(&held.draft, &draft, "input_");
        if let Some(HeldSet { set, draft: held, .. }) = there.iter().find(is_same) {
            let name = set.display();
            ensure!(
                hold_the_same(held, &draft, "output_"),
                "{name}: has these inputs and other outputs; `onnx-cast rerecord` changes them"
            );
            sets.push(RecordedSet::new(SetChange::Unchanged, set));
            continue;
        }
        let set = places.find(|set| !set.exists()).unwrap_or_default();
        drafts.assign(&draft, &set);
        sets.push(RecordedSet::new(SetChange::Added, &set));
        there.push(HeldSet { set, draft, inputs });
    }
    drafts.put()?;
    Ok(Recorded { sets, notes })
}

/// A set that is there or will be.
struct HeldSet {
    set: PathBuf,
    /// Where it is as long as the work goes on.
    draft: PathBuf,
    /// A number that sets of the same inputs share.
    inputs: u64,
}

impl HeldSet {
    fn of(set: PathBuf, draft: PathBuf) -> HeldSet {
        HeldSet { inputs: inputs_of(&draft), set, draft }
    }
}

/// The number of a set's inputs.
fn inputs_of(set: &Path) -> u64 {
    let files = numbered(set, "input_").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    files.iter().filter_map(|file| read_regular(file).ok()).for_each(|file| file.hash(&mut hasher));
    hasher.finish()
}

/// Runs the recorded inputs through the model again, and writes the outputs that have changed.
fn change(request: &RecordRequest, model: Model) -> TractResult<Recorded> {
    let target = request.folder.join("model.onnx");
    let there = sets_there(&request.folder, &target)?;
    ensure!(!there.is_empty(), "{}: holds no test_data_set_*", request.folder.display());
    let (mut drafts, mut runs, mut notes) = (Drafts::default(), vec![], vec![]);
    for set in &there {
        let case = Case { path: set.clone(), model: target.clone(), set: set.clone() };
        let (tensors, _) = sets::of_case(&model.takes, &case)?;
        let ran = at(set.display(), model.clone().run_told(tensors))?;
        add_once(&mut notes, ran.note);
        let new = drafts.folder_in(&request.folder)?;
        write_tensors(&ran.outputs, "output_", &new)?;
        runs.push(new);
    }
    let _lock = locked(&request.folder);
    copy_model(&request.model, &target, true, &mut drafts)?;
    let mut sets = vec![];
    for (set, new) in there.iter().zip(runs) {
        let is_same = hold_the_same(set, &new, "output_");
        if !is_same {
            let draft = drafts.folder(set)?;
            let old = numbered(set, "output_")?;
            take_over(&new, &draft, &|_| false)
                .and_then(|()| take_over(set, &draft, &|path| old.iter().any(|o| o == path)))
                .with_context(|| set.display().to_string())?;
        }
        let change = if is_same { SetChange::Unchanged } else { SetChange::Changed };
        sets.push(RecordedSet::new(change, set));
    }
    drafts.put()?;
    Ok(Recorded { sets, notes })
}

/// Gives a folder what another holds, but for some files.
fn take_over(from: &Path, to: &Path, is_left: &impl Fn(&Path) -> bool) -> io::Result<()> {
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            fs::create_dir(&new)?;
            take_over(&old, &new, is_left)?;
        } else if !is_left(&old) && fs::hard_link(&old, &new).is_err() {
            open_regular(&old)?;
            fs::copy(&old, &new)?;
        }
    }
    Ok(())
}

fn sets_there(folder: &Path, model: &Path) -> TractResult<Vec<PathBuf>> {
    let sets = cases::sets_in(folder, model)?.into_iter().map(|case| case.set);
    Ok(sets.filter(|set| set != folder).collect())
}

fn numbered(set: &Path, prefix: &str) -> TractResult<Vec<PathBuf>> {
    let case = Case { path: set.into(), model: set.into(), set: set.into() };
    if prefix == "input_" { case.inputs() } else { case.outputs() }
}

/// Whether two sets have the same files.
fn hold_the_same(a: &Path, b: &Path, prefix: &str) -> bool {
    let read = |path: &PathBuf| read_regular(path).ok();
    let is_same =
        |(a, b): (&PathBuf, &PathBuf)| read(a).is_some_and(|bytes| Some(bytes) == read(b));
    match (numbered(a, prefix), numbered(b, prefix)) {
        (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(is_same),
        _ => false,
    }
}
