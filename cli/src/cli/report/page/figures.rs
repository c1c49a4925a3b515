//! The figures at the top of a comparison.

use super::grouped;
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::measure::number::Num;

/// Figures, with what they mean.
pub(super) fn of_comparison(pair: &Compared) -> Vec<(String, String)> {
    let figure = |value: String, what: &str| (value, what.to_owned());
    if pair.is_of_weights {
        let weights = &pair.head.weights;
        return vec![
            figure(weights.compared.to_string(), "weights compared"),
            figure(weights.exact.to_string(), "equal"),
            figure(weights.rounded.to_string(), "rounded"),
            figure(weights.changed.len().to_string(), "changed otherwise"),
        ];
    }
    let changed = pair.casts.added.len() + pair.casts.removed.len() + pair.casts.retargeted.len();
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    let worst = pair.outputs.iter().map(|output| output.max_abs.0).fold(0.0, f64::max);
    // The largest error would hide that other elements have none, for they are NaN or infinite on
    // one side.
    let error = match pair.outputs.iter().map(ComparedTensor::apart).sum() {
        0 => figure(Num(worst).to_string(), "largest absolute error"),
        count => figure(grouped(count), "NaN or infinite on one side"),
    };
    let count = pair.outputs.len();
    vec![
        figure(count.to_string(), if count == 1 { "output" } else { "outputs" }),
        figure(failed.to_string(), "beyond the tolerance"),
        error,
        figure(changed.to_string(), "casts added, removed or retargeted"),
    ]
}
