//! What `post_transform` makes of the scores of a row.

/// The scores of a row by the name of their transform; by any other name as they are.
pub(super) fn transformed(transform: &str, scores: Vec<f64>) -> Vec<f64> {
    /// What is as small counts as 0, which stays.
    const NOTHING: f64 = 1e-7;
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let keeps = transform == "SOFTMAX_ZERO";
    let power = |x: f64| {
        if keeps && x.abs() <= NOTHING { x * (-greatest).exp() } else { (x - greatest).exp() }
    };
    match transform {
        "LOGISTIC" => scores.into_iter().map(logistic).collect(),
        "PROBIT" => scores.into_iter().map(probit).collect(),
        "SOFTMAX" | "SOFTMAX_ZERO" => {
            let powers: Vec<f64> = scores.into_iter().map(power).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        }
        _ => scores,
    }
}

pub(super) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The inverse of the normal distribution, by Winitzki's approximation, which is what onnx's
/// evaluator (`aionnxml/_common_classifier.py`) and ONNX Runtime (`ml_common.h`) compute.
fn probit(share: f64) -> f64 {
    const A: f64 = 0.147;
    let x = 2.0 * share - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let half = 2.0 / (std::f64::consts::PI * A) + 0.5 * log;
    let size = ((half * half - log / A).sqrt() - half).sqrt();
    std::f64::consts::SQRT_2 * if x < 0.0 { -size } else { size }
}
