//! An error in one line, whatever it was made of, and what it is about.

use std::fmt::{self, Display, Write};
use std::sync::{Mutex, PoisonError};

pub(super) use onnx_cast_graph::counted;
use onnx_cast_graph::is_unprintable;
use serde::{Deserialize, Serialize};
use tract_onnx_cast::{Error, ErrorKind};

/// What an error is about. Programs tell by it a call that is wrong from a model that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProblemKind {
    /// The call: an option, a path to write to, a file of limits.
    Call,
    /// A model, or tensors that were saved in its place.
    Model,
    /// An input, or how it fits the model.
    Input,
    /// The memory or the time that the work was given.
    Limit,
}

/// An error of which it is known what it is about; its message is one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ReportedProblem {
    pub(super) kind: ProblemKind,
    pub(super) message: String,
}

impl ReportedProblem {
    /// The error in one line, about what it says, or else about that.
    pub(super) fn of(error: &anyhow::Error, otherwise: ProblemKind) -> ReportedProblem {
        let otherwise = if is_out_of_memory(error) { ProblemKind::Limit } else { otherwise };
        ReportedProblem { kind: kind_of(error).unwrap_or(otherwise), message: one_line(error) }
    }
}

impl Display for ReportedProblem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ReportedProblem {}

/// What an error is about, where it says so.
pub(super) fn kind_of(error: &anyhow::Error) -> Option<ProblemKind> {
    let attached = error.downcast_ref::<ReportedProblem>();
    let mut links = error.chain().filter_map(|link| link.downcast_ref::<ReportedProblem>());
    attached.or_else(|| links.next()).map(|problem| problem.kind)
}

/// The result, its error reduced to one line that is about this, unless it says something else.
pub(super) fn about<T>(kind: ProblemKind, result: anyhow::Result<T>) -> anyhow::Result<T> {
    result.map_err(|error| ReportedProblem::of(&error, kind).into())
}

/// How many bytes of memory this process may have, where somebody has said.
static MEMORY: Mutex<Option<u64>> = Mutex::new(None);

/// Says how many bytes of memory this process may have, which messages tell.
pub(super) fn tell_memory(bytes: u64) {
    *MEMORY.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
}

/// How to give more memory than this process may have, as a message ends.
pub(super) fn more_memory(bytes: u64) -> String {
    format!("; --max-memory raises the limit of {}", size_in_words(bytes))
}

/// This crate's own error in a chain of causes.
fn own(error: &anyhow::Error) -> Option<&Error> {
    error.downcast_ref().or_else(|| error.chain().find_map(|link| link.downcast_ref()))
}

/// Whether memory has run out.
pub(super) fn is_out_of_memory(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<InOneLine>() {
        Some(whole) => is_out_of_memory(&whole.error),
        None => own(error).is_some_and(|own| own.kind() == ErrorKind::Memory),
    }
}

/// How many characters of one error in a chain of causes are shown, and of the whole line. tract's
/// errors can hold whole nodes, with their constants.
const LINK_CHARS: usize = 300;
const LINE_CHARS: usize = 1000;

/// The error and its causes. This crate's own errors name the place themselves, so what stands
/// above them in the chain is left out.
pub(super) fn one_line(error: &anyhow::Error) -> String {
    let links: Vec<String> = error.chain().map(|link| single_line(&link.to_string())).collect();
    let first =
        error.chain().position(|link| link.downcast_ref().is_some_and(Error::names_its_place));
    // An error that was attached to another as its context is in the chain under a type of
    // anyhow's.
    let attached =
        error.downcast_ref().filter(|own: &&Error| own.names_its_place()).map(Error::to_string);
    let first = first.or_else(|| {
        attached.and_then(|own| links.iter().position(|link| *link == single_line(&own)))
    });
    let links = links.get(first.unwrap_or(0)..).unwrap_or_default();
    let link_chars = if links.len() > 1 { LINK_CHARS } else { LINE_CHARS };
    let mut line = String::new();
    for link in links {
        if line.contains(link.as_str()) {
            continue; // many errors repeat their cause
        }
        let separator = if line.is_empty() { "" } else { ": " };
        let _ = write!(line, "{separator}{}", without_middle(link, link_chars));
    }
    let mut line = without_middle(&line, LINE_CHARS);
    match own(error) {
        Some(own) if own.limit() == Some("loaded_nodes") => {
            line.push_str("; --max-nodes raises it")
        }
        Some(own) if own.kind() == ErrorKind::Memory => {
            let limit = *MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            line.extend(limit.map(more_memory));
        }
        _ => {}
    }
    line
}

/// A message that does not come as an error, in one line.
pub(super) fn shortened_line(text: &str) -> String {
    without_middle(&single_line(text), LINK_CHARS)
}

/// The result, its error reduced to one line that begins with the place. As a single line,
/// [`one_line`] keeps it whole.
pub(super) fn at<T, E: Into<anyhow::Error>>(
    place: impl Display,
    result: Result<T, E>,
) -> anyhow::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        let message = format!("{place}: {}", one_line(&error));
        match kind_of(&error) {
            Some(kind) => ReportedProblem { kind, message }.into(),
            None => InOneLine { message, error }.into(),
        }
    })
}

/// An error in one line that says more than it did, and what it was.
#[derive(Debug)]
pub(super) struct InOneLine {
    pub(super) message: String,
    pub(super) error: anyhow::Error,
}

impl Display for InOneLine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InOneLine {}

/// The text without line breaks and other characters that would not be seen as themselves, which a
/// file could use to write over the screen.
pub(super) fn single_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join(" ");
    printable(&joined)
}

/// The line with a mark in the place of each character that would not be seen as itself.
pub(super) fn printable(line: &str) -> String {
    line.chars().map(|c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A name as sentences have it.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", single_line(name))
}

/// The names that there are, for somebody who gave another.
pub(super) fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
    const NAMED: usize = 8;
    let all: Vec<String> = all.into_iter().map(quoted).collect();
    if all.is_empty() { "none".into() } else { listed(all.into_iter(), NAMED) }
}

/// The first parts of a list, at most so many, and how many others there are.
pub(super) fn listed(all: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let some = all.take(most).collect::<Vec<_>>().join(", ");
    some + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// A size, in the largest unit of which it has one.
pub(super) fn size_in_words(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    match bytes {
        ..KIB => counted(bytes, "byte"),
        KIB..MIB => format!("{:.1} KiB", bytes as f64 / KIB as f64),
        MIB..GIB => format!("{:.1} MiB", bytes as f64 / MIB as f64),
        _ => format!("{:.1} GiB", bytes as f64 / GIB as f64),
    }
}

/// The text with so many characters at most, the middle left out: a name or an error begins with
/// its subject and ends with what tells it from others.
pub(super) fn without_middle(text: &str, chars: usize) -> String {
    let length = text.chars().count();
    if length <= chars {
        return text.into();
    }
    let end = chars / 2;
    let start = chars.saturating_sub(1 + end);
    let tail: String = text.chars().skip(length - end).collect();
    format!("{}…{tail}", text.chars().take(start).collect::<String>())
}

/// The start of the text, if it has more characters than that.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into(),
    }
}

/// Adds a note unless it is there.
pub(super) fn add_once(notes: &mut Vec<String>, note: Option<String>) {
    notes.extend(note.filter(|note| !notes.contains(note)));
}

#[cfg(test)]
mod tests {
    use tract_onnx::prelude::TractResult;
    use tract_onnx_cast::untrusted::{OUT_OF_MEMORY, without_panic};

    use super::*;

    #[test]
    fn a_limit_that_nobody_has_set_is_not_told() {
        // The workers of a program set it, and no test does.
        let error = without_panic(|| -> TractResult<()> { panic!("{OUT_OF_MEMORY}") });
        assert_eq!(one_line(&error.unwrap_err()), OUT_OF_MEMORY);
    }

    #[test]
    fn a_cut_name_has_as_many_characters_as_wanted() {
        for chars in 1..30 {
            assert_eq!(without_middle(&"ä".repeat(40), chars).chars().count(), chars);
        }
    }
}
