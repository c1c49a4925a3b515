//! Outputs that were saved: by `onnx-cast run -o`, as a test case's, or by another runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;

use super::cases::{self, Case};
use super::files::{self, Format};
use super::polygraphy;
use crate::cli::message::at;
use crate::cli::tensor::NamedTensor;

/// What one side of a comparison holds.
pub(crate) enum Content {
    /// A model's file, and the sets of data beside it.
    Model(PathBuf, Vec<Case>),
    /// Outputs, a list for each set.
    Saved(Vec<SavedOutputs>),
}

/// The outputs of one run, and its inputs if they were saved as well.
#[derive(Clone)]
pub(crate) struct SavedOutputs {
    /// What the outputs are called.
    pub(crate) names: Vec<String>,
    pub(crate) case: Option<Case>,
    held: OutputStorage,
}

/// Where outputs are.
#[derive(Clone)]
enum OutputStorage {
    /// In memory: a file has them all, which is not read twice.
    Here(Rc<Vec<NamedTensor>>),
    /// In the files of a folder, of which there may be more than fit in memory.
    Files(Vec<PathBuf>),
}

impl SavedOutputs {
    fn of(outputs: Vec<NamedTensor>) -> SavedOutputs {
        SavedOutputs {
            names: names_of(&outputs),
            case: None,
            held: OutputStorage::Here(Rc::new(outputs)),
        }
    }

    /// The outputs. Fails when a file is not what it was when the outputs were found.
    pub(crate) fn outputs(&self) -> TractResult<Vec<NamedTensor>> {
        match &self.held {
            OutputStorage::Here(outputs) => Ok(outputs.to_vec()),
            OutputStorage::Files(files) => read_all(files),
        }
    }
}

fn names_of(outputs: &[NamedTensor]) -> Vec<String> {
    outputs.iter().map(|output| output.name.clone()).collect()
}

fn read_all(files: &[PathBuf]) -> TractResult<Vec<NamedTensor>> {
    files.iter().enumerate().map(|(index, file)| tensor(file, index)).collect()
}

/// Finds out what a path is, and reads outputs. Fails when it is nothing that can be compared.
pub(crate) fn read(path: &Path) -> TractResult<Content> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    let outputs = match Format::of(path) {
        _ if metadata.is_dir() => return folder(path),
        Some(Format::TensorProto) if files::is_tensor_proto(path)? => vec![tensor(path, 0)?],
        Some(Format::Npy) => vec![files::read_npy(path)?.into_output(|| unnamed(0))?],
        Some(Format::Npz) => {
            let arrays = files::read_npz(path, |_| true)?.into_iter();
            let arrays = arrays.filter_map(|(name, array)| Some((name, array?)));
            let outputs = arrays.map(|(name, array)| array.into_output(|| name));
            outputs.collect::<TractResult<_>>()?
        }
        None if polygraphy::is_it(path) => {
            let saved = polygraphy::read(path)?.into_iter().map(SavedOutputs::of);
            return Ok(Content::Saved(saved.collect()));
        }
        Some(Format::TensorProto) | None => {
            return Ok(Content::Model(path.into(), cases::beside(path)));
        }
    };
    Ok(Content::Saved(vec![SavedOutputs::of(outputs)]))
}

fn tensor(path: &Path, index: usize) -> TractResult<NamedTensor> {
    let is_numbered = |stem: &str| stem.starts_with("output_");
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.filter(|stem| !is_numbered(stem)).unwrap_or_else(|| unnamed(index));
    files::read_tensor_proto(path)?.into_output(|| name)
}

fn unnamed(index: usize) -> String {
    format!("output {index}")
}

fn folder(path: &Path) -> TractResult<Content> {
    let model = path.join("model.onnx");
    if model.is_file() {
        let sets = cases::sets_in(path, &model)?.into_iter().filter(Case::has_inputs);
        return Ok(Content::Model(model, sets.collect()));
    }
    let mut saved = vec![];
    for case in cases::sets_in(path, &model)? {
        let mut files = at(case.set.display(), case.outputs())?;
        if files.is_empty() {
            files = at(case.set.display(), named_tensors(&case.set))?;
        }
        ensure!(
            !files.is_empty(),
            "{}: holds neither a model.onnx nor an output_0.pb",
            case.set.display()
        );
        let names = names_of(&read_all(&files)?);
        let has_inputs = !at(case.set.display(), case.inputs())?.is_empty();
        let (case, held) = (has_inputs.then_some(case), OutputStorage::Files(files));
        saved.push(SavedOutputs { names, case, held });
    }
    Ok(Content::Saved(saved))
}

/// The .pb files of a folder that are no inputs, in the order of their names: a runtime has saved
/// its tensors there.
fn named_tensors(folder: &Path) -> TractResult<Vec<PathBuf>> {
    let mut files = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_input = name.is_some_and(|name| name.starts_with("input_"));
        if matches!(Format::of(&path), Some(Format::TensorProto)) && !is_input {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
