//! What a comparison finds of outputs that are scores: how far they are apart as distributions.

use serde::{Deserialize, Serialize};

use crate::cli::measure::number::Num;
use crate::cli::message::counted;

/// How far two models' scores are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoreMetrics {
    pub(crate) kind: ScoreKind,
    /// Rows that are distributions in both models, and others, which have a NaN or no finite
    /// element.
    pub(crate) rows: u64,
    pub(crate) rows_left_out: u64,
    /// The Kullback-Leibler divergence of the converted model's rows from the reference's, in nats.
    pub(crate) kl_mean: Estimate,
    pub(crate) kl_median: Estimate,
    pub(crate) kl_999: Estimate,
    /// The share of rows whose largest element is at the same place.
    pub(crate) same_top: Estimate,
    /// Where the tokens are known.
    pub(crate) perplexity: Option<Perplexity>,
}

/// What a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScoreKind {
    Logits,
    Probabilities,
}

/// A number and its standard error; `None` where there are too few values for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) value: Num,
    pub(crate) error: Option<Num>,
}

/// How well the models foresee the tokens that were given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Perplexity {
    pub(crate) tokens: u64,
    pub(crate) reference: Estimate,
    pub(crate) converted: Estimate,
    /// ln(converted / reference), and that ratio.
    pub(crate) ln_ratio: Estimate,
    pub(crate) ratio: Estimate,
}

impl Estimate {
    fn in_words(&self) -> String {
        let Estimate { value, error } = self;
        error.map_or_else(|| value.to_string(), |error| format!("{value} ± {error}"))
    }

    fn in_percent(&self) -> String {
        let percent = |number: Num| Num(100.0 * number.0);
        let hundredfold = Estimate { value: percent(self.value), error: self.error.map(percent) };
        format!("{} %", hundredfold.in_words())
    }
}

impl ScoreMetrics {
    /// The same in words.
    pub(crate) fn in_words(&self) -> String {
        let ScoreMetrics { rows, kl_mean, kl_median, kl_999, same_top, .. } = self;
        let mut sentence = format!(
            "KL divergence {} (median {}, 99.9 % {}), the same top-1 in {} of {}",
            kl_mean.in_words(),
            kl_median.in_words(),
            kl_999.in_words(),
            same_top.in_percent(),
            counted(rows, "row"),
        );
        if let Some(Perplexity { tokens, reference, converted, ratio, .. }) = &self.perplexity {
            let (a, b) = (reference.value, converted.value);
            let ratio = ratio.in_words();
            sentence += &format!(
                ", perplexity {b} against {a}, ratio {ratio} of {}",
                counted(tokens, "token")
            );
        }
        if self.rows_left_out > 0 {
            sentence +=
                &format!("; {} left out, as no distribution", counted(self.rows_left_out, "row"));
        }
        sentence
    }
}
