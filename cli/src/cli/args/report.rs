//! What can be typed about where reports go.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;

/// Where a report goes besides the terminal.
#[derive(Args, Clone, Default)]
pub(crate) struct ReportArgs {
    /// Write one JSON object (schema: docs/report-format.md); `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(crate) json: Option<PathBuf>,
    /// Write a page to look at: one file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write Markdown for a pull request's comment; `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.md", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(crate) markdown: Option<PathBuf>,
    /// Limits for a model [default: NAME.tolerance.toml beside NAME.onnx, of two models the converted one].
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) tolerance: Option<PathBuf>,
    /// How many models to run at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) jobs: u64,
}

impl ReportArgs {
    /// How many models to run at once.
    pub(crate) fn jobs(&self) -> usize {
        usize::try_from(self.jobs).unwrap_or(1)
    }
}

/// The command line with `--json FILE.json` and `--markdown FILE.md` as one word each: the file may be left out, so what
/// follows counts as one only by its name.
pub(crate) fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
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
