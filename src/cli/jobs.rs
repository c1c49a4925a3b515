//! Many pieces of work at once, each with a worker process of its own, and the answers in order.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::supervisor::Supervisor;

/// Does the work for every item, at most `jobs` at once, and shows how far it is; only on a terminal.
pub(super) fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    max_memory: Option<u64>,
    work: impl Fn(&T, &mut Supervisor) -> R + Sync,
) -> Vec<R> {
    let bar = progress_bar(items.len());
    let next = AtomicUsize::new(0);
    let answers: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let serve = || {
        let mut supervisor = Supervisor::new(max_memory);
        while let Some((item, answer)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).zip(answers.get(index))
        } {
            let done = work(item, &mut supervisor);
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        let serve = &serve;
        // Where there is no further thread to be had, this one does what is left.
        let more = 1..jobs.clamp(1, items.len().max(1));
        let _more: Vec<_> =
            more.map(|_| thread::Builder::new().spawn_scoped(scope, serve)).collect();
        serve();
    });
    bar.finish_and_clear();
    let answer =
        |answer: Mutex<Option<R>>| answer.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.into_iter().filter_map(answer).collect()
}

/// A bar on standard error, or for a single piece of work something that moves; it shows itself only on a terminal.
pub(super) fn progress_bar(pieces: usize) -> ProgressBar {
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
