//! Progress messages from worker to supervisor.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::cli::message::single_line;

/// Stands at the start of a line on a worker's standard output that says what comes next.
pub(crate) const PROGRESS: &str = "onnx-cast progress: ";

/// Says what comes next. Only a worker does: standard output is the supervisor's there.
pub(crate) fn tell(what: impl Display) {
    // Whoever does not read it does not miss it.
    let _ = writeln!(io::stdout(), "{PROGRESS}{}", single_line(&what.to_string()));
}

/// What work is counted in.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Nodes,
}

/// Work of a known size, of which is told how far it is, and how long it will take.
pub(crate) struct Progress {
    what: String,
    unit: Unit,
    total: u64,
    done: u64,
    start: Instant,
    told: Instant,
}

impl Progress {
    /// Work that begins.
    pub(crate) fn of(what: impl Display, total: u64, unit: Unit) -> Progress {
        let what = what.to_string();
        tell(&what);
        let now = Instant::now();
        Progress { what, unit, total, done: 0, start: now, told: now }
    }

    /// Says that more of it is done.
    pub(crate) fn add(&mut self, more: u64) {
        const EVERY: Duration = Duration::from_millis(500);
        self.done = self.done.saturating_add(more);
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            tell(self.in_words(self.start.elapsed()));
        }
    }

    fn in_words(&self, elapsed: Duration) -> String {
        let Progress { what, unit, total, done, .. } = self;
        let size = match unit {
            Unit::Bytes => {
                let megabytes = |bytes: u64| bytes as f64 / 1e6;
                format!("{:.0} of {:.0} MB", megabytes(*done), megabytes(*total))
            }
            Unit::Nodes => format!("{done} of {total} nodes"),
        };
        // A body may run many times.
        if done > total || *done == 0 {
            return what.clone();
        }
        let left = elapsed.as_secs_f64() * (total - done) as f64 / *done as f64;
        format!("{what}: {size}, {left:.0} s left")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        let told = |done, total, unit| {
            let progress = Progress { done, ..Progress::of("at it", total, unit) };
            progress.in_words(Duration::from_secs(30))
        };
        assert_eq!(told(100, 400, Unit::Nodes), "at it: 100 of 400 nodes, 90 s left");
        assert_eq!(told(3_000_000, 4_500_000, Unit::Bytes), "at it: 3 of 4 MB, 15 s left");
        assert_eq!(told(500, 400, Unit::Nodes), "at it");
        assert_eq!(told(0, 0, Unit::Bytes), "at it");
    }
}
