//! How each of several sets of inputs fared.

use serde::{Deserialize, Serialize};

use super::compared::tensor::ComparedTensor;
use super::finding::{Code, FindingRow};
use crate::cli::measure::number::Num;
use crate::cli::message::single_line;

/// How many of the worst stand in a sentence.
const TOLD: usize = 3;

/// How one set fared.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SampleResult {
    /// What the set is called.
    pub(crate) sample: String,
    pub(crate) passed: bool,
    /// The output or the cast that fared worst on it; empty where nothing is to be said of any.
    pub(crate) worst: String,
    /// √(Σ (y − x)² / Σ x²) of that output; infinite where one side alone is NaN or infinite, or
    /// nothing can be compared. Of a cast the share of its values that it spoilt.
    pub(crate) error: Num,
    /// Values beyond the tolerance, or spoilt ones, of all outputs or casts.
    pub(crate) mismatches: u64,
}

impl SampleResult {
    /// How the outputs of a set fared.
    pub(crate) fn of_outputs(sample: &str, outputs: &[ComparedTensor]) -> SampleResult {
        let errors = outputs.iter().map(|output| (output.relative_error(), output));
        let worst =
            errors.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(error, _)| *error > 0.0);
        SampleResult {
            sample: sample.into(),
            passed: outputs.iter().all(|output| output.passed),
            error: Num(worst.map_or(0.0, |(error, _)| error)),
            worst: worst.map(|(_, output)| output.name.clone()).unwrap_or_default(),
            mismatches: outputs.iter().map(|output| output.mismatches).sum(),
        }
    }
}

/// Puts the worst first.
pub(crate) fn sort(samples: &mut [SampleResult]) {
    samples.sort_by(|a, b| {
        let graver = b.error.0.total_cmp(&a.error.0);
        a.passed.cmp(&b.passed).then(graver).then(b.mismatches.cmp(&a.mismatches))
    });
}

/// A row of how many failed, and of the worst.
pub(crate) fn finding(samples: &[SampleResult], by: &str) -> Option<FindingRow> {
    let failed = samples.iter().filter(|sample| !sample.passed).count();
    let told = |sample: &&SampleResult| !sample.passed || sample.error.0 > 0.0;
    let worst = samples.iter().filter(told).take(TOLD).map(|sample| {
        let SampleResult { sample, worst, error, .. } = sample;
        format!("{} (`{}` {error})", single_line(sample), single_line(worst))
    });
    let worst: Vec<String> = worst.collect();
    if samples.len() < 2 || worst.is_empty() {
        return None;
    }
    let (count, worst) = (samples.len(), worst.join(", "));
    let failed = if failed == 0 { String::new() } else { format!("{failed} of {count} fail; ") };
    let sentence = format!("{failed}the worst, by {by}: {worst}");
    Some(FindingRow::new(Code::BySample, sentence))
}
