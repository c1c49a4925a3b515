//! How far the work is, on standard error.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

/// How often something is told where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// A progress bar, and where there is no terminal, a line every ten seconds.
pub(crate) struct Teller {
    bar: ProgressBar,
    said: Arc<Mutex<String>>,
    lines: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Teller {
    pub(crate) fn of(pieces: usize) -> Teller {
        let bar = progress_bar(pieces);
        let said = Arc::<Mutex<String>>::default();
        let lines = bar.is_hidden().then(|| {
            let (sender, is_done) = mpsc::channel::<()>();
            let (said, start) = (said.clone(), Instant::now());
            let tell = move || {
                while is_done.recv_timeout(EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let seconds = start.elapsed().as_secs();
                    let about = if said.is_empty() { "" } else { ", " };
                    let _ = writeln!(io::stderr(), "progress: {seconds} s{about}{said}");
                }
            };
            (sender, thread::spawn(tell))
        });
        Teller { bar, said, lines }
    }

    /// Says what is worked on.
    pub(crate) fn tell(&self, what: String) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = what.clone();
        self.bar.set_message(what);
    }

    /// One piece more is done.
    pub(crate) fn end_piece(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.lines.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
