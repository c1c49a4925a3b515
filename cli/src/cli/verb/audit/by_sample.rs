//! What casts do on each set of inputs by itself.

use tract_onnx_cast::audit::{AuditRow, Outcome};

use crate::cli::found::samples::{SampleResult, sort};
use crate::cli::measure::number::Num;

/// What has been found of the sets so far. Of one set alone nothing is.
pub(super) struct AuditSamples {
    is_wanted: bool,
    /// What casts had done before the set, in their order.
    before: Vec<SampleCounts>,
    results: Vec<SampleResult>,
}

/// How many values a cast has had, how many were damaged, and how many cut off.
#[derive(Clone, Copy, Default)]
struct SampleCounts {
    values: u64,
    damaged: u64,
    cut_off: u64,
}

impl SampleCounts {
    fn of(row: &AuditRow) -> SampleCounts {
        let stats = &row.stats;
        SampleCounts {
            values: stats.elements(),
            damaged: stats.damaged(),
            cut_off: stats.count(Outcome::Saturated),
        }
    }

    fn since(self, before: SampleCounts) -> SampleCounts {
        SampleCounts {
            values: self.values.saturating_sub(before.values),
            damaged: self.damaged.saturating_sub(before.damaged),
            cut_off: self.cut_off.saturating_sub(before.cut_off),
        }
    }

    fn spoilt(self) -> u64 {
        self.damaged.saturating_add(self.cut_off)
    }

    fn share(self) -> f64 {
        self.spoilt() as f64 / self.values.max(1) as f64
    }
}

impl AuditSamples {
    pub(super) fn of(sets: usize) -> AuditSamples {
        AuditSamples { is_wanted: sets > 1, before: vec![], results: vec![] }
    }

    /// Notes what casts have done since the last set.
    pub(super) fn add(&mut self, name: &str, rows: impl FnOnce() -> Vec<AuditRow>) {
        if !self.is_wanted {
            return;
        }
        let rows = rows();
        let counts: Vec<SampleCounts> = rows.iter().map(SampleCounts::of).collect();
        let before = self.before.iter().copied().chain(std::iter::repeat(SampleCounts::default()));
        let on_it: Vec<SampleCounts> =
            counts.iter().zip(before).map(|(now, then)| now.since(then)).collect();
        let changing = rows.iter().zip(&on_it).filter(|(row, _)| !row.is_constant);
        let worst = changing.max_by(|(_, a), (_, b)| a.share().total_cmp(&b.share()));
        let worst = worst.filter(|(_, counts)| counts.spoilt() > 0);
        self.results.push(SampleResult {
            sample: name.into(),
            passed: on_it.iter().all(|counts| counts.damaged == 0),
            worst: worst.map(|(row, _)| row.cast.node.clone()).unwrap_or_default(),
            error: Num(worst.map_or(0.0, |(_, counts)| counts.share())),
            mismatches: on_it.iter().map(|counts| counts.spoilt()).sum(),
        });
        self.before = counts;
    }

    /// The results, the worst first.
    pub(super) fn finish(mut self) -> Vec<SampleResult> {
        sort(&mut self.results);
        self.results
    }
}
