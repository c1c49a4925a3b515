//! The work of `onnx-cast record` and `rerecord`: goldens of a model in the layout that `test` and every ONNX runtime read.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, ensure};
use prost::Message;
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::*;
use tract_onnx_cast::tensor_proto;

use super::copy::copy_model;
use super::model::{Model, Ran};
use super::notes::add_once;
use super::request::{Kind, Request};
use crate::cli::args::input::InputArgs;
use crate::cli::input::cases::{self, Case};
use crate::cli::input::declared::{Declared, Input};
use crate::cli::input::sets::{self, Set};
use crate::cli::message::at;
use crate::cli::output_file::{Drafts, locked};
use crate::cli::tensor::NamedTensor;

/// What to record.
#[derive(Serialize, Deserialize)]
pub(crate) struct RecordRequest {
    pub(crate) model: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) input: InputArgs,
    /// Sets of random inputs, each with the next seed.
    pub(crate) sets: u64,
    /// Whether the outputs of sets that are there are computed anew and changed; else new sets are added.
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
    pub(crate) change: Change,
    pub(crate) folder: String,
}

/// What was done to a set.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Change {
    Kept,
    Added,
    Changed,
}

impl RecordedSet {
    fn new(change: Change, folder: &Path) -> RecordedSet {
        RecordedSet { change, folder: folder.display().to_string() }
    }
}

impl Request for RecordRequest {
    const KIND: Kind = Kind::Record;

    type Answer = Recorded;

    fn answer(&self) -> TractResult<Recorded> {
        if self.is_anew { change(self) } else { add(self) }
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

fn add(request: &RecordRequest) -> TractResult<Recorded> {
    let model = Model::open(&request.model)?;
    let input = InputArgs { sets: Some(request.sets), ..request.input.clone() };
    let new = sets::gather(&model.takes, &request.model, &input)?;
    // Everything is run before anything is written: an error leaves the folder as it was.
    let mut notes = vec![];
    let runs = new.iter().map(|set| {
        let inputs = inputs(&model.takes, set)?;
        let Ran { outputs, note } = model.clone().run(set.tensors.clone())?;
        add_once(&mut notes, note);
        Ok((inputs, files(&outputs)?))
    });
    let runs = runs.collect::<TractResult<Vec<_>>>()?;
    let (folder, target) = (&request.folder, request.folder.join("model.onnx"));
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let _lock = locked(folder);
    let mut drafts = Drafts::default();
    copy_model(&request.model, &target, false, &mut drafts)?;
    let mut there: Vec<(PathBuf, PathBuf)> =
        sets_there(folder, &target)?.into_iter().map(|set| (set.clone(), set)).collect();
    let mut places = (0u64..).map(|number| folder.join(format!("test_data_set_{number}")));
    let mut sets = vec![];
    for (inputs, outputs) in runs {
        let same = there.iter().find(|(_, held)| holds(held, "input_", &inputs));
        if let Some((set, held)) = same {
            let name = set.display();
            ensure!(
                holds(held, "output_", &outputs),
                "{name}: has these inputs and other outputs; `onnx-cast rerecord` changes them"
            );
            sets.push(RecordedSet::new(Change::Kept, set));
            continue;
        }
        let set = places.find(|set| !set.exists()).unwrap_or_default();
        let draft = drafts.folder(&set)?;
        write(&draft, "input_", &inputs)?;
        write(&draft, "output_", &outputs)?;
        sets.push(RecordedSet::new(Change::Added, &set));
        there.push((set, draft));
    }
    drafts.put()?;
    Ok(Recorded { sets, notes })
}

/// Runs the recorded inputs through the model again, and writes the outputs that have changed.
fn change(request: &RecordRequest) -> TractResult<Recorded> {
    let target = request.folder.join("model.onnx");
    let model = Model::open(&request.model)?;
    let there = sets_there(&request.folder, &target)?;
    ensure!(!there.is_empty(), "{}: holds no test_data_set_*", request.folder.display());
    let (mut outputs, mut notes) = (vec![], vec![]);
    for set in &there {
        let case = Case { path: set.clone(), model: target.clone(), set: set.clone() };
        let run = sets::of_case(&model.takes, &case)?;
        let ran = at(set.display(), model.clone().run(run.tensors))?;
        add_once(&mut notes, ran.note);
        outputs.push(files(&ran.outputs)?);
    }
    let _lock = locked(&request.folder);
    let mut drafts = Drafts::default();
    copy_model(&request.model, &target, true, &mut drafts)?;
    let mut sets = vec![];
    for (set, outputs) in there.iter().zip(outputs) {
        let is_same = holds(set, "output_", &outputs);
        if !is_same {
            let draft = drafts.folder(set)?;
            let old = numbered(set, "output_")?;
            take_over(set, &draft, &|path| old.iter().any(|output| output == path))
                .with_context(|| set.display().to_string())?;
            write(&draft, "output_", &outputs)?;
        }
        let change = if is_same { Change::Kept } else { Change::Changed };
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
            fs::copy(&old, &new)?;
        }
    }
    Ok(())
}

fn sets_there(folder: &Path, model: &Path) -> TractResult<Vec<PathBuf>> {
    let sets = cases::sets_in(folder, model)?.into_iter().map(|case| case.set);
    Ok(sets.filter(|set| set != folder).collect())
}

fn inputs(model: &Declared, set: &Set) -> TractResult<Vec<Vec<u8>>> {
    let write = |(input, tensor): (&Input, &Tensor)| {
        Ok(tensor_proto::write(&input.name, input.ty, tensor)?.encode_to_vec())
    };
    model.inputs.iter().zip(&set.tensors).map(write).collect()
}

fn files(outputs: &[NamedTensor]) -> TractResult<Vec<Vec<u8>>> {
    let write = |output: &NamedTensor| {
        let proto = tensor_proto::write(&output.name, output.ty, &output.tensor)?;
        Ok(proto.encode_to_vec())
    };
    outputs.iter().map(write).collect()
}

fn numbered(set: &Path, prefix: &str) -> TractResult<Vec<PathBuf>> {
    let case = Case { path: set.into(), model: set.into(), set: set.into() };
    if prefix == "input_" { case.inputs() } else { case.outputs() }
}

/// Whether a set has exactly these files.
fn holds(set: &Path, prefix: &str, wanted: &[Vec<u8>]) -> bool {
    let is =
        |(path, bytes): (&PathBuf, &Vec<u8>)| fs::read(path).is_ok_and(|found| found == *bytes);
    numbered(set, prefix)
        .is_ok_and(|found| found.len() == wanted.len() && found.iter().zip(wanted).all(is))
}

/// Writes files into the draft of a set.
fn write(set: &Path, prefix: &str, files: &[Vec<u8>]) -> TractResult<()> {
    for (index, bytes) in files.iter().enumerate() {
        let path = set.join(format!("{prefix}{index}.pb"));
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
