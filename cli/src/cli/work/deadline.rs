//! How long tract may take to load a model, however long running it takes: a small file can be such
//! that tract's optimiser takes hours.

use std::error::Error;
use std::fmt::{self, Display};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The deadline of a worker's loads.
#[derive(Clone, Default)]
pub(crate) struct Deadline(Arc<Mutex<Loading>>);

/// What is being loaded, and how long that may take.
#[derive(Default)]
struct Loading {
    allowed: Option<Duration>,
    /// When it began, and how long the process had computed by then.
    since: Option<(Instant, Duration)>,
}

/// Fewer nodes may be such that tract is soon done with them.
const MANY_NODES: usize = 6 << 10;
/// A plan of more takes tract half a second and more, by the square of them. One run node by node
/// takes a time in proportion to them.
pub(crate) const NODES_FOR_ONE_RUN: usize = 1280;

/// That a plan takes longer to make than a model takes to run without.
#[derive(Debug)]
pub(crate) struct NotWorthIt {
    pub(crate) nodes: usize,
}

impl Display for NotWorthIt {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let nodes = self.nodes;
        write!(
            f,
            "a plan of its {nodes} nodes takes tract longer than one run; --engine plan makes it"
        )
    }
}

impl Error for NotWorthIt {}

/// That a model takes longer to load than it may.
#[derive(Debug)]
pub(crate) struct TooLong {
    allowed: Duration,
    /// How many nodes it has, if these alone say so.
    nodes: Option<usize>,
}

impl TooLong {
    /// What has taken longer than this.
    pub(crate) fn than(allowed: Duration) -> TooLong {
        TooLong { allowed, nodes: None }
    }
}

impl Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let seconds = self.allowed.as_secs();
        match self.nodes {
            Some(nodes) => write!(f, "tract would take longer to load a model of {nodes} nodes")?,
            None => f.write_str("tract takes longer to load this model")?,
        }
        write!(
            f,
            " than {seconds} s, which is for a file of this size; --timeout says how long all may take"
        )
    }
}

impl Error for TooLong {}

/// Ends a load, also where it panics.
struct Outermost<'a>(&'a Deadline);

impl Drop for Outermost<'_> {
    fn drop(&mut self) {
        self.0.loading().since = None;
    }
}

impl Deadline {
    fn loading(&self) -> MutexGuard<'_, Loading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how long each load may take from now on; `None` is as long as it likes.
    pub(crate) fn allow(&self, allowed: Option<Duration>) {
        *self.loading() = Loading { allowed, since: None };
    }

    /// Fails where a load of so many nodes would end too late, as that is not known before it does.
    /// What tract changes of a model it goes through all of it for, so the time goes by the square
    /// of the nodes; of fewer there may be little that it changes.
    pub(crate) fn check(&self, nodes: usize) -> Result<(), TooLong> {
        const SECONDS_A_PAIR: f64 = 2e-7;
        let seconds = nodes as f64 * nodes as f64 * SECONDS_A_PAIR;
        let is_late = |allowed: &Duration| nodes > MANY_NODES && seconds > allowed.as_secs_f64();
        let allowed = self.loading().allowed.filter(is_late);
        allowed.map_or(Ok(()), |allowed| Err(TooLong { allowed, nodes: Some(nodes) }))
    }

    /// Loads a model, or a part of that.
    pub(crate) fn within<T>(&self, load: impl FnOnce() -> T) -> T {
        let is_within = self.loading().since.is_some();
        if is_within {
            return load();
        }
        self.loading().since = Some((Instant::now(), computed()));
        let _outermost = Outermost(self);
        load()
    }

    /// Has a thread look how long loads take, and calls `late` where one takes too long.
    pub(crate) fn watch(&self, late: impl Fn(Duration) + Send + 'static) {
        const OFTEN: Duration = Duration::from_millis(50);
        let deadline = self.clone();
        let look = move || {
            loop {
                thread::sleep(OFTEN);
                let Loading { allowed, since } = &*deadline.loading();
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
}

/// How long the process has computed; where the system does not tell, as long as anything.
fn computed() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name comes second, in brackets, and may have spaces; from the twelfth field after it are
    // the times.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_alone_are_too_late() {
        let deadline = Deadline::default();
        assert!(deadline.check(1_000_000).is_ok());
        deadline.allow(Some(Duration::from_secs(30)));
        assert!(deadline.check(6_000).is_ok() && deadline.check(12_000).is_ok());
        let told = deadline.check(13_000).map_err(|late| late.to_string());
        let told = told.expect_err("it would take 34 s");
        assert!(
            told.starts_with("tract would take longer to load a model of 13000 nodes than 30 s")
        );
        deadline.allow(Some(Duration::from_secs(4)));
        assert!(deadline.check(6_144).is_ok() && deadline.check(6_145).is_err());
    }
}
