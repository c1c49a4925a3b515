//! What a quantiser does to the outputs.

use serde::{Deserialize, Serialize};

use crate::cli::measure::number::Num;
use crate::cli::message::single_line;

/// What a quantiser does to the outputs where no other one is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QuantizerEffect {
    /// The tensor that it quantises.
    pub(crate) tensor: String,
    /// `activation`, `weight` or `bias`.
    pub(crate) kind: String,
    /// What the tensor becomes.
    #[serde(rename = "type")]
    pub(crate) ty: String,
    /// The nodes that it is for.
    pub(crate) nodes: Vec<String>,
    pub(crate) outputs: Vec<OutputEffect>,
}

/// What it does to an output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OutputEffect {
    pub(crate) name: String,
    /// The ratio of signal to noise in decibels: infinite where the output is the same. Nothing
    /// where the model fails.
    pub(crate) sqnr: Option<Num>,
}

impl QuantizerEffect {
    /// The output that fares worst, and its ratio.
    fn worst(&self) -> Option<(&str, f64)> {
        let ratio = |output: &OutputEffect| match output.sqnr {
            Some(Num(sqnr)) if !sqnr.is_nan() => sqnr,
            _ => f64::NEG_INFINITY,
        };
        let outputs = self.outputs.iter().map(|output| (output.name.as_str(), ratio(output)));
        outputs.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The noise of the output that fares worst, relative to its signal.
    pub(super) fn noise(&self) -> f64 {
        self.worst().map_or(0.0, |(_, sqnr)| 10f64.powf(-sqnr / 10.0))
    }

    /// The effect in words.
    pub(crate) fn in_words(&self) -> String {
        let tensor = single_line(&self.tensor);
        match self.worst() {
            Some((_, f64::INFINITY)) | None => format!("`{tensor}` alone changes no output"),
            Some((name, f64::NEG_INFINITY)) => {
                format!("`{tensor}` alone spoils output `{}`", single_line(name))
            }
            Some((name, sqnr)) => {
                format!("`{tensor}` alone leaves output `{}` {sqnr:.1} dB", single_line(name))
            }
        }
    }
}
