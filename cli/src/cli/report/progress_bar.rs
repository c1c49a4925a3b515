//! How far the work is, on standard error.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on standard error: how many pieces are done, for how long they have been at it, and a
/// message, which is what is worked on. Where there is no terminal, nothing is shown.
pub(crate) fn progress_bar(pieces: usize) -> ProgressBar {
    let bar = ProgressBar::new(pieces as u64);
    let template = match pieces {
        1 => "{spinner} {elapsed} {wide_msg}",
        _ => "{spinner} {pos}/{len} {elapsed} {wide_msg}",
    };
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
