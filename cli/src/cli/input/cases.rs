//! Finding test cases in the layout of ONNX's own: `model.onnx` beside `input_*.pb` and
//! `output_*.pb`, or beside `test_data_set_*` folders that hold them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

/// A model and one set of data for it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Case {
    /// What the user calls it: the model's folder or, where the model has several sets, the set's.
    pub(crate) path: PathBuf,
    /// The model's file.
    pub(crate) model: PathBuf,
    /// The folder of inputs and expected outputs.
    pub(crate) set: PathBuf,
}

impl Case {
    /// Whether it was found beside a model that was named by its file.
    pub(crate) fn is_beside(&self) -> bool {
        self.path == self.model
    }

    /// Whether it has files of inputs, and none is missing.
    pub(crate) fn has_inputs(&self) -> bool {
        self.inputs().is_ok_and(|files| !files.is_empty())
    }

    /// The files of the inputs, in their order.
    pub(crate) fn inputs(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.data("input_")
    }

    /// The files of the expected outputs, in their order.
    pub(crate) fn outputs(&self) -> anyhow::Result<Vec<PathBuf>> {
        self.data("output_")
    }

    /// The files `<prefix>0.pb`, `<prefix>1.pb`, …, of which none may be missing.
    fn data(&self, prefix: &str) -> anyhow::Result<Vec<PathBuf>> {
        let files = numbered(&self.set, prefix, ".pb")?;
        for (position, file) in files.iter().enumerate() {
            let expected = format!("{prefix}{position}.pb");
            ensure!(file.ends_with(&expected), "{expected} is missing");
        }
        Ok(files)
    }
}

/// The model that a path means, whether it is there or not: itself, or the model.onnx of a folder.
pub(crate) fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("model.onnx") } else { path.into() }
}

/// The model that a path means: itself, or the model.onnx of a folder.
/// Fails when it is a folder without one, or standard input.
pub(crate) fn model_file(path: PathBuf) -> anyhow::Result<PathBuf> {
    ensure!(
        path.as_os_str() != "-",
        "-: a model is read from a file, for its tensors may lie in others beside it"
    );
    if !path.is_dir() {
        return Ok(path);
    }
    let model = path.join("model.onnx");
    ensure!(
        model.is_file(),
        "{}: is neither a file nor a folder with a model.onnx",
        path.display()
    );
    Ok(model)
}

/// The cases in these folders and below, in the order of the names.
/// Fails when a path is no folder, a folder cannot be read, or there is no case in one.
pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<Vec<Case>> {
    let mut cases = vec![];
    for path in paths {
        let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
        ensure!(metadata.is_dir(), "{}: is a file: name the folder that it is in", path.display());
        let before = cases.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry?;
            if entry.file_name() == "model.onnx" && !entry.file_type().is_dir() {
                cases.extend(cases_of(entry.path())?);
            }
        }
        ensure!(cases.len() > before, "{}: no folder with a model.onnx in it", path.display());
    }
    Ok(cases)
}

/// The sets of data in a folder: those in its test_data_set_* folders, or else its own.
/// Fails when the folder cannot be read.
pub(crate) fn sets_in(folder: &Path, model: &Path) -> anyhow::Result<Vec<Case>> {
    let sets = numbered(folder, "test_data_set_", "")?;
    let is_only = sets.is_empty();
    let sets = if is_only { vec![folder.into()] } else { sets };
    let case = |set: PathBuf| Case { path: set.clone(), model: model.into(), set };
    Ok(sets.into_iter().map(case).collect())
}

/// The sets of data beside a model's file that have inputs: a model.onnx with test_data_set_*
/// folders is a test case, however it is named.
pub(crate) fn beside(file: &Path) -> Vec<Case> {
    let folder = match file.parent() {
        _ if file.file_name() != Some("model.onnx".as_ref()) => return vec![],
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let has_inputs = |set: &PathBuf| numbered(set, "input_", ".pb").is_ok_and(|i| !i.is_empty());
    let sets = numbered(folder, "test_data_set_", "").unwrap_or_default();
    let case = |set| Case { path: file.into(), model: file.into(), set };
    sets.into_iter().filter(has_inputs).map(case).collect()
}

/// A model without any data is a case too, one that cannot pass: to skip it would look like
/// success.
fn cases_of(model: &Path) -> anyhow::Result<Vec<Case>> {
    let folder = model.parent().unwrap_or(Path::new("."));
    let has_data = |prefix| anyhow::Ok(!numbered(folder, prefix, ".pb")?.is_empty());
    let mut sets = numbered(folder, "test_data_set_", "")?;
    if sets.is_empty() || has_data("input_")? || has_data("output_")? {
        sets.insert(0, folder.into());
    }
    let is_only = sets.len() == 1;
    let case = |set: PathBuf| Case {
        path: if is_only { folder.into() } else { set.clone() },
        model: model.into(),
        set,
    };
    Ok(sets.into_iter().map(case).collect())
}

/// The entries of a folder with such names, by the number in between: 10 comes after 9.
fn numbered(folder: &Path, prefix: &str, suffix: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut entries = vec![];
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name();
        let between = name.to_str().and_then(|n| n.strip_prefix(prefix)?.strip_suffix(suffix));
        let number = between.map(|text| text.parse::<u64>().unwrap_or(u64::MAX));
        entries.extend(number.map(|number| (number, folder.join(&name))));
    }
    entries.sort();
    Ok(entries.into_iter().map(|(_, path)| path).collect())
}
