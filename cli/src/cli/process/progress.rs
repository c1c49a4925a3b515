//! Progress messages from worker to supervisor.

use std::fmt::Display;
use std::io::{self, Write};

use crate::cli::message::single_line;

/// Stands at the start of a line on a worker's standard output that says what comes next.
pub(crate) const PROGRESS: &str = "onnx-cast progress: ";

/// Says what comes next. Only a worker does: standard output is the supervisor's there.
pub(crate) fn tell(what: impl Display) {
    // Whoever does not read it does not miss it.
    let _ = writeln!(io::stdout(), "{PROGRESS}{}", single_line(&what.to_string()));
}
