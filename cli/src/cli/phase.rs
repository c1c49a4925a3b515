//! What a worker is at, said while it works.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands at the start of a line on standard output that says what comes next.
pub(super) const PHASE: &str = "onnx-cast phase: ";

static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// From here on there is somebody who reads what this process is at.
pub(super) fn tell() {
    IS_TOLD.store(true, Ordering::Relaxed);
}

/// Says what comes next.
pub(super) fn enter(what: impl Display) {
    if IS_TOLD.load(Ordering::Relaxed) {
        // Whoever does not read it does not miss it.
        let _ = writeln!(io::stdout(), "{PHASE}{}", super::message::single_line(&what.to_string()));
    }
}
