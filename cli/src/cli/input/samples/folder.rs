//! Samples in the files of a folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tract_onnx::prelude::*;

use super::{Other, Sample, cases_in, lines, natural};
use crate::cli::input::declared::Declared;
use crate::cli::input::files::{self, Format};
use crate::cli::message::{at, counted};

/// The samples in a folder: in ONNX's layout of test cases; or, in the natural order of their
/// names, archives, files of JSON lines and folders of arrays named as the inputs; or, where the
/// model has one input, arrays. Fails when there is none, or a file is there that is no sample.
pub(super) fn of(model: &Declared, folder: &Path, file: &Path) -> TractResult<Vec<Sample>> {
    let cases = cases_in(folder, file)?;
    if !cases.is_empty() {
        return Ok(cases.into_iter().map(Sample::Case).collect());
    }
    if let Some(sample) = of_names(model, folder) {
        return Ok(vec![Sample::Other(sample)]);
    }
    let name = folder.display();
    let is_only = model.inputs.len() == 1;
    let mut samples = vec![];
    for path in entries(folder)? {
        match Format::of(&path) {
            _ if path.is_dir() => samples.extend(at(&name, of(model, &path, file))?),
            _ if lines::is_it(&path) => samples.extend(lines::of(&path)?),
            Some(Format::Npz) => samples.push(Sample::Other(of_archive(path))),
            Some(_) if is_only => samples.push(Sample::Other(of_array(model, path))),
            _ => {
                let file = path.file_name().unwrap_or_default().display();
                anyhow::bail!("-i {name}: `{file}` is no sample of the model's inputs")
            }
        }
    }
    ensure!(!samples.is_empty(), "-i {name}: holds no sample, such as input_0.pb or a .npz");
    Ok(samples)
}

/// The input and the folder that `NAME=FOLDER` names.
pub(super) fn named<'a>(model: &Declared, argument: &'a str) -> Option<(usize, &'a Path)> {
    let mut inputs = model.inputs.iter().enumerate();
    inputs.find_map(|(place, input)| {
        let folder = argument.strip_prefix(input.name.as_str())?.strip_prefix('=')?;
        Path::new(folder).is_dir().then_some((place, Path::new(folder)))
    })
}

/// The samples that a folder for each input holds, of which those at the same place belong
/// together. Fails when an input has no folder, or folders hold other numbers of files.
pub(super) fn of_inputs(model: &Declared, arguments: &[String]) -> TractResult<Vec<Sample>> {
    let mut columns: Vec<Option<Vec<PathBuf>>> = model.inputs.iter().map(|_| None).collect();
    for argument in arguments {
        let because = "where one input is given as a folder of samples, all are";
        let (place, folder) = named(model, argument).context(because)?;
        let column = columns.get_mut(place).context("an input")?;
        ensure!(column.replace(entries(folder)?).is_none(), "-i {argument}: is given twice");
    }
    let given = model.inputs.iter().zip(columns);
    let column = |(input, column): (&crate::cli::input::declared::Input, Option<Vec<PathBuf>>)| {
        let column = column.with_context(|| format!("there are no samples of `{}`", input.name))?;
        Ok((input.name.clone(), column))
    };
    let columns: Vec<(String, Vec<PathBuf>)> = given.map(column).collect::<TractResult<_>>()?;
    let count = columns.first().map_or(0, |(_, column)| column.len());
    for (name, column) in &columns {
        let found = column.len();
        ensure!(
            found == count && count > 0,
            "`{name}` has {}, the first input {count}",
            counted(found, "sample")
        );
    }
    let sample = |place: usize| {
        let files = columns
            .iter()
            .filter_map(|(name, column)| Some((name.clone(), column.get(place)?.clone())));
        Sample::Other(of_files(files.collect()))
    };
    Ok((0..count).map(sample).collect())
}

/// What is in a folder, in the natural order of the names, but for hidden files.
fn entries(folder: &Path) -> TractResult<Vec<PathBuf>> {
    let name = || folder.display().to_string();
    let mut paths = vec![];
    for entry in fs::read_dir(folder).with_context(name)? {
        let path = entry.with_context(name)?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            paths.push(path);
        }
    }
    paths.sort_by_cached_key(|path| natural(path));
    Ok(paths)
}

/// A folder that holds an array for each input, by its name.
fn of_names(model: &Declared, folder: &Path) -> Option<Other> {
    let file = |name: &String| {
        let files = ["npy", "pb"].map(|extension| folder.join(format!("{name}.{extension}")));
        Some((name.clone(), files.into_iter().find(|file| file.is_file())?))
    };
    let files = model.inputs.iter().map(|input| file(&input.name)).collect::<Option<Vec<_>>>()?;
    (!files.is_empty()).then(|| Other { name: folder.display().to_string(), ..of_files(files) })
}

/// A sample of a file for each input.
fn of_files(files: Vec<(String, PathBuf)>) -> Other {
    let name = files.first().map(|(_, file)| file.display().to_string()).unwrap_or_default();
    Other::of_arrays(name, move |_| {
        files
            .iter()
            .map(|(name, file)| Ok((name.clone(), Some(files::read_array(file)?))))
            .collect()
    })
}

/// A file that is a sample of a model with one input.
fn of_array(model: &Declared, path: PathBuf) -> Other {
    let input = model.inputs.first().map(|input| input.name.clone()).unwrap_or_default();
    of_files(vec![(input, path)])
}

fn of_archive(path: PathBuf) -> Other {
    Other::of_arrays(path.display().to_string(), move |model| {
        files::read_npz(&path, |name| model.input(name).is_some())
    })
}
