//! Many requests at once, each thread with a worker process of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

use super::supervisor::Supervisor;

/// Does the work for every item, at most `jobs` at once. The results are in the order of the items.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    max_memory: Option<u64>,
    work: impl Fn(&T, &mut Supervisor) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let serve = || {
        let mut supervisor = Supervisor::new(max_memory);
        let mut done = vec![];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item, &mut supervisor)));
        }
    };
    let mut done = thread::scope(|scope| {
        let more = 1..jobs.clamp(1, items.len().max(1));
        // Where there is no further thread to be had, the others do what is left.
        let more = more.filter_map(|_| thread::Builder::new().spawn_scoped(scope, serve).ok());
        let more: Vec<_> = more.collect();
        let mut done = serve();
        for thread in more {
            done.extend(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
