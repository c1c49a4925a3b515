//! How far the work is, on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, or a spinner for a single piece of work. Where there is no terminal, nothing is shown.
pub(crate) fn progress_bar(pieces: usize) -> ProgressBar {
    let bar = ProgressBar::new(pieces as u64);
    let template = if pieces > 1 { "{wide_bar} {pos}/{len} {eta}" } else { "{spinner} {elapsed}" };
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
