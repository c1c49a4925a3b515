//! Where probes write what they count.

use std::sync::{Mutex, PoisonError};

use tract_onnx::prelude::{Tensor, TractResult};

use super::counts::CastStats;
use super::measure::measure_conversion;
use crate::conversion::Conversion;
use crate::element_type::ElementType;

/// What was counted for each cast of a model.
#[derive(Debug)]
pub(super) struct Records(Vec<Mutex<Record>>);

/// What was counted for one cast.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) types: Option<(ElementType, ElementType)>,
    pub(super) stats: CastStats,
    /// How often the cast ran.
    pub(super) runs: u64,
    /// Whether what comes next is what came before.
    pub(super) is_closed: bool,
}

impl Records {
    pub(super) fn new(casts: usize) -> Records {
        Records((0..casts).map(|_| Mutex::default()).collect())
    }

    /// Does something to a record, which is sound whatever another thread was doing to it when it panicked.
    pub(super) fn with<R>(&self, place: usize, act: impl FnOnce(&mut Record) -> R) -> Option<R> {
        let record = self.0.get(place)?;
        Some(act(&mut record.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Counts what a cast has done.
    pub(super) fn add(
        &self,
        place: usize,
        conversion: &Conversion,
        x: &Tensor,
        y: &Tensor,
    ) -> TractResult<()> {
        if self.with(place, |record| record.is_closed).unwrap_or(true) {
            return Ok(());
        }
        let (from, to) = (conversion.from(), conversion.to());
        let stats = measure_conversion(conversion, x, y)?;
        self.with(place, |record| {
            record.types = Some((from, to));
            record.stats.merge(&stats);
            record.runs += 1;
        });
        Ok(())
    }
}
