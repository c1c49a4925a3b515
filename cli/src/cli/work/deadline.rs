//! How long tract may take to load a model, however long running it takes: a small file can be such that tract's optimiser takes hours.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is being loaded, and how long that may take.
struct Loading {
    allowed: Option<Duration>,
    since: Option<(Instant, Duration)>,
}

static LOADING: Mutex<Loading> = Mutex::new(Loading { allowed: None, since: None });

fn loading() -> MutexGuard<'static, Loading> {
    LOADING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets how long each load may take from now on; `None` is as long as it likes.
pub(crate) fn allow(allowed: Option<Duration>) {
    *loading() = Loading { allowed, since: None };
}

/// Loads a model, or a part of that.
pub(crate) fn within<T>(load: impl FnOnce() -> T) -> T {
    /// Ends the load, also where it panics.
    struct Outermost;

    impl Drop for Outermost {
        fn drop(&mut self) {
            loading().since = None;
        }
    }

    let is_within = loading().since.is_some();
    if is_within {
        return load();
    }
    loading().since = Some((Instant::now(), computed()));
    let _outermost = Outermost;
    load()
}

/// Has a thread look how long loads take, and calls `late` where one takes too long.
pub(crate) fn watch(late: impl Fn(Duration) + Send + 'static) {
    const OFTEN: Duration = Duration::from_millis(50);
    let look = move || {
        loop {
            thread::sleep(OFTEN);
            let Loading { allowed, since } = &*loading();
            if let (Some(allowed), Some((start, before))) = (allowed, since) {
                // A machine that is busy with something else is no reason to give up.
                let spent = start.elapsed().min(computed().saturating_sub(*before));
                if spent > *allowed {
                    late(*allowed);
                }
            }
        }
    };
    // Without a thread to be had nobody looks.
    let _ = thread::Builder::new().spawn(look);
}

/// How long the process has computed; where the system does not tell, as long as anything.
fn computed() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name comes second, in brackets, and may have spaces; from the twelfth field after it are the times.
    let mut fields = stat.rsplit_once(')').map(|(_, fields)| fields.split(' ').skip(12));
    let mut ticks = || fields.as_mut()?.next()?.parse::<u32>().ok();
    match (ticks(), ticks()) {
        (Some(user), Some(system)) => TICK * user + TICK * system,
        _ => {
            static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
            START.elapsed()
        }
    }
}
