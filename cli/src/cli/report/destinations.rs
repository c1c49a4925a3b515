//! Where the reports of `audit` and `compare` go: files and standard output.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::cli::args::report::{JsonArgs, ReportArgs};
use crate::cli::input::args::InputArgs;
use crate::cli::message::{ReportedProblem, at, printable};
use crate::cli::output_file::{folder_of, try_file, write_whole};
use crate::cli::report::terminal::Output;

/// Refuses to write two reports to one place, or one over what is read.
/// Fails when that is what the options say.
pub(crate) fn check_places<'a>(
    to: &'a ReportArgs,
    input: &InputArgs,
    models: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    for (option, path) in
        [("--report", &to.report), ("--junit", &to.junit), ("--model-explorer", &to.model_explorer)]
    {
        let is_on_screen = path.as_deref().is_some_and(is_standard_output);
        ensure!(!is_on_screen, "{option}: it needs a file");
    }
    let options = [
        ("--report", &to.report),
        ("--json", &to.json),
        ("--markdown", &to.markdown),
        ("--junit", &to.junit),
        ("--model-explorer", &to.model_explorer),
    ];
    let written = options.map(|(option, path)| (option, path.as_ref()));
    check_files(&written, input, models.chain(to.tolerance.as_deref()))
}

/// Refuses, before any work is done, to write where nothing can be written, two files to one place,
/// or one over what is read. Fails when that is what the options say.
pub(crate) fn check_files<'a>(
    written: &[(&str, Option<&PathBuf>)],
    input: &InputArgs,
    read: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    let mut taken: Vec<PathBuf> = read.map(place_of).collect();
    taken.extend(input.files().map(|file| place_of(&file)));
    for (option, path) in written {
        let Some(path) = path else { continue };
        let (shown, folder, place) = (path.display(), folder_of(path), place_of(path));
        let (missing, has_folder) = (folder.display(), is_standard_output(path) || folder.exists());
        ensure!(has_folder, "{option}: {shown}: there is no folder {missing}");
        let is_free = !taken.contains(&place);
        ensure!(is_free, "{option}: {shown} is already read or written by this call");
        if !is_standard_output(path) {
            at(option, try_file(path))?;
        }
        taken.push(place);
    }
    Ok(())
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn takes_standard_output(to: &ReportArgs) -> bool {
    [&to.json, &to.markdown].into_iter().flatten().any(|path| is_standard_output(path))
}

/// The one spelling of a path to something that exists; another path as it is.
fn place_of(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

/// Makes a report in one form, if it is wanted.
type Export<'a> = &'a dyn Fn() -> anyhow::Result<String>;

/// What there is to write, in every form.
pub(crate) struct Exports<'a> {
    pub(crate) json: Export<'a>,
    pub(crate) page: Export<'a>,
    pub(crate) markdown: Export<'a>,
    pub(crate) junit: Export<'a>,
    pub(crate) model_explorer: Export<'a>,
    pub(crate) text: &'a dyn Fn(&Output) -> String,
}

impl Exports<'_> {
    /// Writes what was asked for. If there was a single piece of work and it could not be done,
    /// only files are written: the error says it all. Fails when a file cannot be written, or a
    /// piece of work could not be done: `problems` has one for each, or nothing.
    pub(crate) fn write(
        &self,
        to: &ReportArgs,
        problems: impl ExactSizeIterator<Item = Option<ReportedProblem>>,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let pieces = problems.len();
        let problems: Vec<ReportedProblem> = problems.flatten().collect();
        let is_lone = pieces == 1 && !problems.is_empty();
        for (path, make) in [(&to.report, self.page), (&to.junit, self.junit)] {
            if let Some(path) = path {
                write_file(path, &make()?)?;
            }
        }
        if let Some(path) = to.model_explorer.as_ref().filter(|_| !is_lone) {
            write_file(path, &(self.model_explorer)()?)?;
        }
        for (path, text) in [(&to.json, self.json), (&to.markdown, self.markdown)] {
            match path {
                Some(path) if is_standard_output(path) && is_lone => {}
                Some(path) if is_standard_output(path) => output.line(text()?.trim_end())?,
                Some(path) => write_file(path, &text()?)?,
                None => {}
            }
        }
        if !takes_standard_output(to) && !is_lone {
            let text = (self.text)(output);
            output.line(text.trim_end())?;
        }
        match &problems[..] {
            [] => Ok(()),
            [problem] => Err(problem.clone().into()),
            [ReportedProblem { kind, message }, rest @ ..] => {
                let message = format!("{message} (and {} more)", rest.len());
                Err(ReportedProblem { kind: *kind, message }.into())
            }
        }
    }
}

/// Writes JSON where it is wanted, and the lines unless the JSON takes their place. Names and paths
/// in them are shown as [`printable`] has them. Fails when it cannot be written.
pub(crate) fn write_json(
    to: &JsonArgs,
    json: Export,
    lines: &[String],
    output: &mut Output,
) -> anyhow::Result<()> {
    match &to.json {
        Some(path) if is_standard_output(path) => return output.line(&json()?),
        Some(path) => write_file(path, &json()?)?,
        None => {}
    }
    lines.iter().try_for_each(|line| output.line(&printable(line)))
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text.as_bytes())
}
