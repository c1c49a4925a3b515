//! How far two models' scores are apart as distributions: the Kullback-Leibler divergence, the same
//! top token and the perplexity, with llama.cpp's arithmetic (`perplexity --kl-divergence`), so
//! that figures can be held beside its own.
//!
//! A row along the last axis is a distribution: softmax of logits, or probabilities as they are. As
//! llama.cpp stores it, the reference's is rounded to 16 bits: 65,535 steps of log p from the
//! largest one to 16 below it.

use std::collections::BTreeMap;

use tract_onnx::prelude::*;
use tract_onnx_cast::Family;

use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::scores::{Estimate, Perplexity, ScoreKind, ScoreMetrics};
use crate::cli::measure::number::Num;
use crate::cli::tensor::{NamedTensor, elements};

/// The last axis of a language model's logits is at least so long.
const VOCABULARY: usize = 1000;
/// What else is so long, by a part of its name.
const NO_LOGITS: [&str; 6] = ["hidden", "embed", "state", "feature", "pool", "present"];
/// How far the sum of probabilities may be off 1.
const OFF_ONE: f32 = 1e-2;
/// How far below the largest one log p ends.
const DEPTH: f32 = 16.0;
const STEPS: f32 = 65_535.0;
/// Of fewer values a standard error is none.
const FEW: usize = 10;

/// What was found of outputs that are scores, over all sets.
#[derive(Default)]
pub(crate) struct Scores(BTreeMap<String, Option<OutputScores>>);

/// The rows of one output.
struct OutputScores {
    kind: ScoreKind,
    left_out: u64,
    divergences: Vec<f32>,
    sum: f64,
    squares: f64,
    same_top: u64,
    likelihoods: Likelihoods,
}

/// Sums over the tokens that came next: of −ln p in both models, of their squares and of their
/// products.
#[derive(Default)]
struct Likelihoods {
    count: usize,
    converted: (f64, f64),
    reference: (f64, f64),
    products: f64,
}

impl Scores {
    /// Compares an output of a set. `tokens` are the tokens of the rows, in order, with the length
    /// of a sequence, where they are known. Fails when a tensor is not of its type's carrier.
    pub(crate) fn add(
        &mut self,
        reference: &NamedTensor,
        converted: &NamedTensor,
        tokens: Option<&[i64]>,
    ) -> TractResult<()> {
        let shape = reference.tensor.shape();
        let is_float = |output: &NamedTensor| matches!(output.ty.family(), Family::Float(_));
        let length = shape.last().copied().unwrap_or(0);
        let is_known = self.0.get(&reference.name);
        if shape != converted.tensor.shape()
            || !(is_float(reference) && is_float(converted))
            || length < 2
            || reference.tensor.len() == 0
            || matches!(is_known, Some(None))
        {
            return Ok(());
        }
        let a: Vec<f32> = elements(reference.ty, &reference.tensor)?;
        let rows = self
            .0
            .entry(reference.name.clone())
            .or_insert_with(|| kind(&reference.name, shape, &a).map(OutputScores::of));
        let Some(rows) = rows else { return Ok(()) };
        let b: Vec<f32> = elements(converted.ty, &converted.tensor)?;
        let sequence = shape.len().checked_sub(2).and_then(|axis| shape.get(axis)).copied();
        let sequence = sequence.unwrap_or(1);
        for (place, (a, b)) in a.chunks_exact(length).zip(b.chunks_exact(length)).enumerate() {
            let is_last = (place + 1) % sequence == 0;
            let next = tokens.filter(|_| !is_last).and_then(|tokens| tokens.get(place + 1));
            let next = next.and_then(|token| usize::try_from(*token).ok());
            rows.add(a, b, next.filter(|next| *next < length));
        }
        Ok(())
    }

    /// Puts what was found to the outputs.
    pub(crate) fn put(self, outputs: &mut [ComparedTensor]) {
        for (name, rows) in self.0 {
            let metrics = rows.and_then(OutputScores::finish);
            if let Some(output) = outputs.iter_mut().find(|output| output.name == name) {
                output.scores = metrics;
            }
        }
    }
}

/// Whether an output holds scores, and which.
fn kind(name: &str, shape: &[usize], values: &[f32]) -> Option<ScoreKind> {
    let length = *shape.last()?;
    let is_distribution = |row: &[f32]| {
        let is_within = row.iter().all(|p| (0.0..=1.0).contains(p));
        is_within && (row.iter().sum::<f32>() - 1.0).abs() < OFF_ONE
    };
    if values.chunks_exact(length).all(is_distribution) {
        return Some(ScoreKind::Probabilities);
    }
    let name = name.to_ascii_lowercase();
    let is_called = name.contains("logits");
    let is_other = NO_LOGITS.iter().any(|word| name.contains(word));
    (is_called || length >= VOCABULARY && !is_other).then_some(ScoreKind::Logits)
}

impl OutputScores {
    fn of(kind: ScoreKind) -> OutputScores {
        OutputScores {
            kind,
            left_out: 0,
            divergences: vec![],
            sum: 0.0,
            squares: 0.0,
            same_top: 0,
            likelihoods: Likelihoods::default(),
        }
    }

    fn add(&mut self, reference: &[f32], converted: &[f32], next: Option<usize>) {
        let logits = |row: &[f32]| -> Vec<f32> {
            match self.kind {
                ScoreKind::Logits => row.to_vec(),
                ScoreKind::Probabilities => row.iter().map(|p| p.ln()).collect(),
            }
        };
        let (a, b) = (logits(reference), logits(converted));
        let (Some(base), Some(other)) = (Distribution::of(&a), Distribution::of(&b)) else {
            self.left_out += 1;
            return;
        };
        let stored = base.stored(&a);
        let mut divergence = 0.0;
        for (log_p, logit) in stored.iter().zip(&b) {
            if *log_p > -DEPTH {
                divergence += f64::from(log_p.exp() * (log_p - logit + other.log_sum));
            }
        }
        // A divergence is negative by rounding alone.
        let divergence = if divergence <= 0.0 { 0.0 } else { divergence };
        self.sum += divergence;
        self.squares += divergence * divergence;
        self.divergences.push(divergence as f32);
        self.same_top += u64::from(largest(&stored) == largest(&b));
        let token = next.and_then(|next| Some((*stored.get(next)?, *b.get(next)?)));
        if let Some((log_p, logit)) = token {
            self.likelihoods.add(-log_p, other.log_sum - logit);
        }
    }

    fn finish(mut self) -> Option<ScoreMetrics> {
        let count = self.divergences.len();
        if count == 0 {
            return None;
        }
        self.divergences.sort_by(f32::total_cmp);
        let same = self.same_top as f64 / count as f64;
        let same_error = (same * (1.0 - same) / (count as f64 - 1.0)).sqrt();
        let quantile = |share: f64| Estimate {
            value: Num(f64::from(quantile(&self.divergences, share as f32))),
            error: quantile_error(&self.divergences, share).map(Num),
        };
        Some(ScoreMetrics {
            kind: self.kind,
            rows: count as u64,
            rows_left_out: self.left_out,
            kl_mean: mean(self.sum, self.squares, count),
            kl_median: quantile(0.5),
            kl_999: quantile(0.999),
            same_top: Estimate { value: Num(same), error: (count > 1).then_some(Num(same_error)) },
            perplexity: self.likelihoods.finish(),
        })
    }
}

/// What softmax divides by, and the ends of a row.
struct Distribution {
    largest: f32,
    smallest: f32,
    /// ln Σ exp(x).
    log_sum: f32,
    /// ln Σ exp(x − the largest x).
    log_sum_off: f32,
}

impl Distribution {
    /// Of a row of logits; `None` where it is no distribution.
    fn of(logits: &[f32]) -> Option<Distribution> {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let smallest = logits.iter().copied().fold(f32::INFINITY, f32::min);
        if !largest.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
            return None;
        }
        let sum: f64 = logits.iter().map(|logit| f64::from((logit - largest).exp())).sum();
        let log_sum_off = sum.ln() as f32;
        Some(Distribution { largest, smallest, log_sum: largest + log_sum_off, log_sum_off })
    }

    /// The logarithms of the row's probabilities as they are stored in 16 bits each.
    fn stored(&self, logits: &[f32]) -> Vec<f32> {
        let least = self.smallest.max(self.largest - DEPTH);
        let lowest = least - self.largest - self.log_sum_off;
        let scale = (self.largest - least) / STEPS;
        let inverse = 1.0 / scale;
        let step = |logit: &f32| {
            if scale > 0.0 && *logit > least {
                (inverse * (logit - least)).round_ties_even()
            } else {
                0.0
            }
        };
        logits.iter().map(|logit| scale * step(logit) + lowest).collect()
    }
}

/// The place of the first of the largest elements.
fn largest(values: &[f32]) -> usize {
    let first =
        values.iter().enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
    first.map_or(0, |(place, _)| place)
}

/// A mean and its standard error, of sums of values and of their squares.
fn mean(sum: f64, squares: f64, count: usize) -> Estimate {
    let (mean, spread) = moments(sum, squares, count);
    Estimate { value: Num(mean), error: (count > FEW).then_some(Num(spread)) }
}

/// A mean, and the standard error that it has if there are enough values.
fn moments(sum: f64, squares: f64, count: usize) -> (f64, f64) {
    let mean = sum / count as f64;
    let variance = squares / count as f64 - mean * mean;
    let is_known = variance > 0.0 && count > FEW;
    (mean, if is_known { (variance / (count as f64 - 1.0)).sqrt() } else { 0.0 })
}

/// A quantile of sorted values, between the two that are nearest.
fn quantile(sorted: &[f32], share: f32) -> f32 {
    let place = share * sorted.len().saturating_sub(1) as f32;
    let (below, part) = (place.floor(), place.fract());
    let at = |place: f32| sorted.get(place as usize).or(sorted.last()).copied().unwrap_or(f32::NAN);
    if part == 0.0 {
        return at(below);
    }
    (1.0 - part) * at(below) + part * at(below + 1.0)
}

/// The standard error of a quantile: half the way between the values that lie a standard deviation
/// of their rank apart from it.
fn quantile_error(sorted: &[f32], share: f64) -> Option<f64> {
    let count = sorted.len() as f64;
    let spread = (count * share * (1.0 - share)).sqrt();
    // Where there is no value so far out, nobody knows how far it would be.
    let at = |rank: f64| {
        let place = Some(rank).filter(|rank| *rank >= 0.0)? as usize;
        sorted.get(place).copied().map(f64::from)
    };
    let ends = at((count * share + spread).ceil()).zip(at((count * share - spread).floor()));
    ends.filter(|_| sorted.len() > FEW).map(|(high, low)| (high - low) / 2.0)
}

impl Likelihoods {
    /// Adds −ln p of a token that came next. They are DOUBLE only in sums.
    fn add(&mut self, reference: f32, converted: f32) {
        self.count += 1;
        self.converted.0 += f64::from(converted);
        self.converted.1 += f64::from(converted * converted);
        self.reference.0 += f64::from(reference);
        self.reference.1 += f64::from(reference * reference);
        self.products += f64::from(converted * reference);
    }

    fn finish(self) -> Option<Perplexity> {
        let Likelihoods { count, converted, reference, products } = self;
        if count == 0 {
            return None;
        }
        let (ln_b, error_b) = moments(converted.0, converted.1, count);
        let (ln_a, error_a) = moments(reference.0, reference.1, count);
        let n = count as f64;
        let covariance = if count < FEW { 0.0 } else { (products / n - ln_a * ln_b) / (n - 1.0) };
        let variance = error_a * error_a + error_b * error_b - 2.0 * covariance;
        // Rounding may make it less than nothing.
        let ln_error = variance.max(0.0).sqrt();
        let estimate = |value: f64, error: f64| Estimate {
            value: Num(value),
            error: (count > FEW).then_some(Num(error)),
        };
        let ln_ratio = ln_b - ln_a;
        Some(Perplexity {
            tokens: count as u64,
            reference: estimate(ln_a.exp(), ln_a.exp() * error_a),
            converted: estimate(ln_b.exp(), ln_b.exp() * error_b),
            ln_ratio: estimate(ln_ratio, ln_error),
            ratio: estimate(ln_ratio.exp(), ln_ratio.exp() * ln_error),
        })
    }
}
