//! Threads that count, for to start one takes as long as to count many elements. They are not the
//! program's executor: what the model computes with is none of an audit's business.

use std::sync::OnceLock;
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// How many there are, once there is work for them.
pub(super) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Does something to each of several, at the same time.
pub(super) fn each<T: Send>(all: &mut [T], act: impl Fn(usize, &mut T) + Sync + Send) {
    match pool() {
        Some(pool) => pool.install(|| {
            all.par_iter_mut().enumerate().for_each(|(index, one)| act(index, one));
        }),
        None => all.iter_mut().enumerate().for_each(|(index, one)| act(index, one)),
    }
}

/// Does something at some time, while the caller goes on.
pub(super) fn later(act: impl FnOnce() + Send + 'static) {
    match pool() {
        Some(pool) => pool.spawn(act),
        None => act(),
    }
}

/// `None` where there are no threads to be had, as in a browser; counting goes on without.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let start = || {
        let builder = ThreadPoolBuilder::new().num_threads(threads());
        builder.thread_name(|index| format!("audit-{index}")).build().ok()
    };
    POOL.get_or_init(start).as_ref()
}
