//! Where probes write what they count.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tract_onnx::prelude::{TValue, TVec, Tensor, TractResult};

use super::counts::CastStats;
use super::pool;
use super::watched::WatchedOp;
use crate::cast::element_type::ElementType;

/// Tensors of so many elements are counted while the model runs on: fewer are counted before a
/// thread has woken up, and more are divided among all threads.
const COUNTED_LATER: std::ops::Range<usize> = 1 << 14..1 << 22;

/// What was counted for each cast of a model.
#[derive(Debug)]
pub(super) struct Records {
    all: Vec<Mutex<CastRecord>>,
    /// What was counted before the model ran.
    known: Mutex<Vec<CastRecord>>,
    /// How many tensors are still to be counted.
    pending: Mutex<usize>,
    is_done: Condvar,
}

/// What was counted for one cast.
#[derive(Debug, Clone, Default)]
pub(super) struct CastRecord {
    pub(super) types: Option<(ElementType, ElementType)>,
    pub(super) stats: CastStats,
    /// How often the cast ran.
    pub(super) runs: u64,
    /// Whether what comes next is what came before.
    pub(super) is_closed: bool,
}

impl CastRecord {
    /// Adds what was counted elsewhere of the same cast, in other runs or in the same one.
    pub(super) fn merge(&mut self, other: &CastRecord, is_same_run: bool) {
        if !self.is_closed && other.runs > 0 {
            self.types = other.types;
            self.stats.merge(&other.stats);
            self.runs += if is_same_run { 0 } else { other.runs };
        }
    }
}

impl Records {
    pub(super) fn new(casts: usize) -> Records {
        Records {
            all: (0..casts).map(|_| Mutex::default()).collect(),
            known: Mutex::default(),
            pending: Mutex::new(0),
            is_done: Condvar::new(),
        }
    }

    /// Does something to a record, which is sound whatever another thread was doing to it when it
    /// panicked.
    pub(super) fn with<R>(
        &self,
        place: usize,
        act: impl FnOnce(&mut CastRecord) -> R,
    ) -> Option<R> {
        let record = self.all.get(place)?;
        Some(act(&mut record.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Keeps what was counted so far as what is known before the model runs.
    pub(super) fn keep(&self) {
        self.wait();
        let known = (0..self.all.len()).filter_map(|place| self.with(place, |r| r.clone()));
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
    }

    /// Goes back to what was known before the model ran.
    pub(super) fn begin_anew(&self) {
        self.wait();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, before) in known.iter().enumerate() {
            self.with(place, |record| record.clone_from(before));
        }
    }

    /// Counts what a cast has done.
    pub(super) fn add(
        &self,
        place: usize,
        watched: &WatchedOp,
        inputs: &[TValue],
        y: &Tensor,
    ) -> TractResult<()> {
        self.add_by(place, watched, inputs, y, pool::threads())
    }

    /// As [`Records::add`], while the model runs on where that is worth it. Few tensors wait at a
    /// time; beyond them the model's own thread counts.
    pub(super) fn add_later(
        self: &Arc<Records>,
        place: usize,
        watched: &WatchedOp,
        inputs: TVec<TValue>,
        y: TValue,
    ) -> TractResult<()> {
        let is_between = COUNTED_LATER.contains(&y.len());
        if !is_between || pool::threads() == 1 {
            return self.add(place, watched, &inputs, &y);
        }
        let Some(waiting) = Waiting::enter(self) else {
            return self.add_by(place, watched, &inputs, &y, 1);
        };
        let watched = watched.clone();
        pool::later(move || {
            let counted = waiting.0.add_by(place, &watched, &inputs, &y, 1);
            debug_assert!(counted.is_ok(), "a cast's input and output are of its types");
            // The tensors go before anybody is told that all is done.
            drop((inputs, y));
            drop(waiting);
        });
        Ok(())
    }

    fn add_by(
        &self,
        place: usize,
        watched: &WatchedOp,
        inputs: &[TValue],
        y: &Tensor,
        threads: usize,
    ) -> TractResult<()> {
        if self.with(place, |record| record.is_closed).unwrap_or(true) {
            return Ok(());
        }
        let stats = watched.measure(inputs, y, threads)?;
        self.with(place, |record| {
            record.types = Some(watched.types());
            record.stats.merge(&stats);
            record.runs += 1;
        });
        Ok(())
    }

    /// Returns when everything has been counted.
    pub(super) fn wait(&self) {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.is_done.wait_while(pending, |pending| *pending > 0);
        drop(done.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A tensor that is to be counted, until it is dropped.
struct Waiting(Arc<Records>);

impl Waiting {
    /// `None` if there are enough.
    fn enter(records: &Arc<Records>) -> Option<Waiting> {
        let mut pending = records.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = *pending < 2 * pool::threads();
        *pending += usize::from(is_free);
        is_free.then(|| Waiting(records.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.0.pending.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.is_done.notify_all();
    }
}

#[cfg(test)]
mod tests;
