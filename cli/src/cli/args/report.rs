//! What can be typed about where reports go.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::input_file::open_regular;

/// The rows of a table where nobody says how many.
pub(crate) const TOP: usize = 20;

/// Where a report goes besides the terminal.
#[derive(Args, Clone, Default)]
pub(crate) struct ReportArgs {
    /// Write one JSON object (schema: docs/report-format.md); `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(crate) json: Option<PathBuf>,
    /// Write a page for the browser: one file that works without a network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write Markdown for a pull request's comment; `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.md", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(crate) markdown: Option<PathBuf>,
    /// Write JUnit's XML, for CI.
    #[arg(long, value_name = "FILE.xml")]
    pub(crate) junit: Option<PathBuf>,
    /// Write node data for Model Explorer, which colours the graph by them.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) model_explorer: Option<PathBuf>,
    /// Limits for a model [default: NAME.tolerance.toml beside NAME.onnx, of two models the
    /// converted one].
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) tolerance: Option<PathBuf>,
    /// How many rows and lines of a list to show at the terminal, in Markdown and on the page; the
    /// others are counted, or folded.
    #[arg(long, value_name = "N", default_value_t = TOP)]
    pub(crate) top: usize,
    /// Print only the verdict and what is wrong.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// How many models to run at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) jobs: u64,
}

/// How much of what was found is shown to people.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// As many rows of a table and lines of a list as this.
    pub(crate) top: usize,
    /// Only what is wrong, and the verdict.
    pub(crate) is_quiet: bool,
}

/// Where the JSON of a command that writes no other report goes.
#[derive(Args, Clone, Default)]
pub(crate) struct JsonArgs {
    /// Write one JSON object (schema: docs/report-format.md); `-` or nothing for standard output.
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    pub(crate) json: Option<PathBuf>,
}

impl ReportArgs {
    /// How much is shown to people.
    pub(crate) fn shown(&self) -> Shown {
        Shown { top: self.top, is_quiet: self.quiet }
    }

    /// How many models to run at once.
    pub(crate) fn jobs(&self) -> usize {
        usize::try_from(self.jobs).unwrap_or(1)
    }
}

/// The command line with `--json FILE` and `--markdown FILE` as one word each: the file may be left
/// out, so what follows counts as one only if it cannot be a model or a folder of them.
pub(crate) fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = vec![];
    let mut are_options_over = false;
    for word in words {
        are_options_over |= word == "--";
        let kind = match joined.last().and_then(|last| last.to_str()) {
            Some("--json") => Some(("json", b'{')),
            Some("--markdown") => Some(("md", b'#')),
            _ => None,
        };
        let is_report = kind.is_some_and(|(extension, first)| {
            word == "-" || is_report(Path::new(&word), extension, first)
        });
        match joined.last_mut() {
            Some(option) if !are_options_over && is_report => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

/// Whether standard output is for JSON, in a call that may be wrong otherwise.
pub(crate) fn asks_for_json(words: &[OsString]) -> bool {
    let mut options = words.iter().take_while(|word| *word != "--");
    options.any(|word| word == "--json" || word == "--json=-")
}

/// Names of what is read.
const READ: [&str; 6] = ["onnx", "pb", "npy", "npz", "toml", "html"];

/// Whether a path is where a report goes: by its extension, or by another that nothing has that is
/// read, if there is no file, or one that begins as such a report does. A word without an extension
/// may be a folder that is misspelt.
fn is_report(path: &Path, extension: &str, first: u8) -> bool {
    let Some(found) = path.extension().and_then(OsStr::to_str) else { return false };
    let begins_so = || {
        let mut byte = [first];
        open_regular(path).and_then(|file| file.into_file().read(&mut byte)).is_ok()
            && byte == [first]
    };
    let is_option = path.to_str().is_some_and(|word| word.starts_with('-'));
    found == extension
        || !(is_option || READ.contains(&found))
            && (!path.exists() || path.is_file() && begins_so())
}
