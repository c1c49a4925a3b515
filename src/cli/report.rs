//! Where the reports of `audit` and `compare` go: files and standard output.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::inputs::{self, InputArgs};
use super::terminal::Output;

/// Where a report goes besides the terminal.
#[derive(Args, Clone, Default)]
pub(super) struct ReportArgs {
    /// Write one JSON object (schema: docs/report-format.md); `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
    /// Write a page to look at: one file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write Markdown for a pull request's comment; `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.md", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    markdown: Option<PathBuf>,
    /// Limits for a model [default: NAME.tolerance.toml beside NAME.onnx, of two models the converted one].
    #[arg(long, value_name = "FILE.toml")]
    pub(super) tolerance: Option<PathBuf>,
    /// How many models to run at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: u64,
}

impl ReportArgs {
    /// How many models to run at once.
    pub(super) fn jobs(&self) -> usize {
        usize::try_from(self.jobs).unwrap_or(1)
    }

    fn takes_standard_output(&self) -> bool {
        [&self.json, &self.markdown].into_iter().flatten().any(|path| is_standard_output(path))
    }

    /// Refuses to write two reports to one place, or one over what is read.
    ///
    /// # Errors
    ///
    /// When that is what the options say.
    pub(super) fn check<'a>(
        &self,
        models: impl Iterator<Item = &'a Path>,
        input: &InputArgs,
    ) -> anyhow::Result<()> {
        let mut taken: Vec<PathBuf> = models.map(place_of).collect();
        taken.extend(input.inputs.iter().map(|argument| place_of(&inputs::file_of(argument))));
        taken.extend(self.tolerance.as_deref().map(place_of));
        let options =
            [("--report", &self.report), ("--json", &self.json), ("--markdown", &self.markdown)];
        for (option, path) in options {
            let Some(path) = path else { continue };
            let is_page = option == "--report";
            ensure!(!(is_page && is_standard_output(path)), "--report: a page needs a file");
            let place = place_of(path);
            ensure!(
                !taken.contains(&place),
                "{option}: {} is already read or written by this call",
                path.display()
            );
            taken.push(place);
        }
        Ok(())
    }
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A path that is the same however it is spelled, where there is something.
fn place_of(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.into())
}

/// The command line with `--json FILE.json` and `--markdown FILE.md` as one word each: the file may be left out, so what
/// follows counts as one only by its name.
pub(super) fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = vec![];
    let mut are_options_over = false;
    for word in words {
        are_options_over |= word == "--";
        let extension = match joined.last().and_then(|last| last.to_str()) {
            Some("--json") => Some("json"),
            Some("--markdown") => Some("md"),
            _ => None,
        };
        let is_file = |wanted| Path::new(&word).extension() == Some(OsStr::new(wanted));
        match joined.last_mut() {
            Some(option)
                if !are_options_over && extension.is_some_and(|e| word == "-" || is_file(e)) =>
            {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// What there is to write, in every form.
pub(super) struct Report<'a> {
    pub(super) json: String,
    pub(super) page: &'a dyn Fn() -> anyhow::Result<String>,
    pub(super) markdown: &'a dyn Fn() -> String,
    pub(super) words: &'a dyn Fn(&Output) -> String,
}

impl Report<'_> {
    /// Writes what was asked for. Of a single piece of work that could not be done, files alone.
    ///
    /// # Errors
    ///
    /// When a file cannot be written, or a piece of work could not be done: `problems` has one for each, or nothing.
    pub(super) fn write(
        &self,
        to: &ReportArgs,
        problems: impl ExactSizeIterator<Item = Option<String>>,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let pieces = problems.len();
        let problems: Vec<String> = problems.flatten().collect();
        let is_lone = pieces == 1 && !problems.is_empty();
        if let Some(path) = &to.report {
            write_file(path, &(self.page)()?)?;
        }
        let texts: [(&Option<PathBuf>, &dyn Fn() -> String); 2] =
            [(&to.json, &|| self.json.clone()), (&to.markdown, &|| (self.markdown)())];
        for (path, text) in texts {
            match path {
                Some(path) if is_standard_output(path) && is_lone => {}
                Some(path) if is_standard_output(path) => output.line(text().trim_end())?,
                Some(path) => write_file(path, &text())?,
                None => {}
            }
        }
        if !to.takes_standard_output() && !is_lone {
            let text = (self.words)(output);
            output.line(text.trim_end())?;
        }
        match &problems[..] {
            [] => Ok(()),
            [problem] => bail!("{problem}"),
            [first, rest @ ..] => bail!("{first} (and {} more)", rest.len()),
        }
    }
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
