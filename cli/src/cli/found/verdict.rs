//! The verdict as plain data: whether a conversion is broken, or only rounded.
//! `verb/compare/local/judge` makes it.
//!
//! This is part of the schema that docs/report-format.md describes.

use serde::{Deserialize, Serialize};

use super::compared::tensor::ComparedTensor;
use super::finding::{Code, FindingRow};
use crate::cli::measure::number::Num;

/// What the arithmetic says of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The outputs are the same.
    Same,
    /// They differ as the types round.
    Rounded,
    /// The types explain the error, and the outputs are of little use.
    Imprecise,
    /// No rounding explains it.
    Broken,
}

impl Verdict {
    /// As reports write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Rounded => "rounded",
            Verdict::Imprecise => "imprecise",
            Verdict::Broken => "broken",
        }
    }

    /// Whether a comparison without a tolerance passes.
    pub(crate) const fn passes(self) -> bool {
        matches!(self, Verdict::Same | Verdict::Rounded)
    }
}

/// What a local error looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FaultKind {
    Weight,
    Attribute,
    Axis,
    Scale,
    ZeroPoint,
    Epsilon,
    Operator,
    Input,
    InputOrder,
    MissingNode,
    AddedNode,
    /// A kernel of another runtime that is off for its own inputs.
    Kernel,
    /// The type does not reach as far as the values.
    Overflow,
    /// The type is too coarse for what is computed.
    Coarse,
    Unexplained,
}

/// A node to blame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Culprit {
    pub(crate) node: String,
    pub(crate) op: String,
    /// What it makes, in the converted model.
    pub(crate) tensor: String,
    /// How far an element is off that is made of the reference's inputs, and by how much rounding
    /// may put it off.
    pub(crate) local_error: Num,
    pub(crate) bound: Num,
    pub(crate) kind: FaultKind,
    pub(crate) text: String,
}

/// The errors of a tensor inside, relative to the reference's size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BothErrors {
    pub(crate) tensor: String,
    pub(crate) node: String,
    pub(crate) op: String,
    /// With the errors of all before it; what the node alone adds to exact inputs; and what the
    /// conversion's roundings make of it, one way or the other.
    pub(crate) accumulated: Option<Num>,
    pub(crate) local: Num,
    pub(crate) band: Option<Num>,
}

/// The verdict, and what it stands on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Judgement {
    pub(crate) verdict: Option<Verdict>,
    /// Why, in a sentence.
    #[serde(rename = "verdict_reason")]
    pub(crate) reason: String,
    /// Whether saved tensors are of other inputs than those that are compared, or may be.
    #[serde(default)]
    pub(crate) other_inputs: bool,
    /// The nodes to blame, the first first.
    pub(crate) culprits: Vec<Culprit>,
    /// What was looked at inside, in the order of computation.
    #[serde(rename = "errors_inside")]
    pub(crate) errors: Vec<BothErrors>,
    /// With which seeds the conversion ran with its roundings perturbed.
    #[serde(rename = "band_seeds")]
    pub(crate) seeds: Vec<u64>,
}

impl Judgement {
    /// Whether there is an error that no rounding explains.
    pub(crate) fn is_broken(&self) -> bool {
        self.verdict == Some(Verdict::Broken)
    }

    /// What fails a comparison that no tolerance judges.
    pub(crate) fn finding(&self) -> Option<FindingRow> {
        let code = match self.verdict? {
            Verdict::Broken => Code::Broken,
            Verdict::Imprecise => Code::Imprecise,
            Verdict::Same | Verdict::Rounded => return None,
        };
        let node = self.culprits.first().map_or("", |culprit| culprit.node.as_str());
        Some(FindingRow::at(node, "", code, self.reason.clone()))
    }
}

/// How many times as far as it is here an output of many elements may be off, for other inputs.
const MARGIN: f64 = 1.5;
/// How much more of it, over the root of their number, one of few elements may be off: its error is
/// left to chance.
const OF_FEW: f64 = 4.0;
/// The roundings of the band are a unit off, one way or the other. Those of a conversion are spread
/// over half a unit both ways, whose root mean square is a unit over the root of 12.
const OF_BAND: f64 = 0.288_675_134_594_812_9;
/// The error to allow where there is none and none was sampled: 64 roundings of FLOAT.
const LEAST: f64 = 4e-6;

impl Judgement {
    /// A tolerance file whose limits this conversion keeps, with a margin for other inputs.
    /// The error says why there is none: the verdict is none that passes.
    pub(crate) fn suggested(&self, outputs: &[ComparedTensor]) -> Result<String, String> {
        if !self.verdict.is_some_and(Verdict::passes) {
            let verdict = self.verdict.map_or("not known", Verdict::name);
            return Err(format!("no tolerance is suggested: the verdict is {verdict}"));
        }
        let limit = |output: &ComparedTensor| {
            let row = self.errors.iter().rev().find(|row| row.tensor == output.converted());
            let band = |row: &BothErrors| row.band.map(|band| Num(band.0 * OF_BAND));
            let inside = row.into_iter().flat_map(|row| [row.accumulated, band(row)]);
            let measured = output.sqnr.map(|ratio| Num(10f64.powf(-ratio.0 / 20.0)));
            let errors = inside.chain([measured]).flatten().map(|error| error.0);
            let most = errors.filter(|error| error.is_finite()).fold(LEAST, f64::max);
            // What JSON quotes, TOML reads.
            let name = serde_json::Value::from(output.name.as_str());
            let margin = MARGIN * (1.0 + OF_FEW / (output.elements.max(1) as f64).sqrt());
            let ratio = (-200.0 * (margin * most).log10()).floor() / 10.0;
            let limit = if output.sqnr.is_none() && output.differing == 0 {
                "atol = 0.0".to_owned()
            } else {
                format!("sqnr = {ratio:?}")
            };
            format!("[compare.output.{name}]\n{limit}\n")
        };
        Ok(outputs.iter().map(limit).collect::<Vec<_>>().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit of an output of which there are so many elements, in decibels.
    fn limit(sqnr: f64, band: f64, elements: u64) -> f64 {
        let (ratio, name) = (|sqnr: f64| Num(10f64.powf(-sqnr / 20.0)), "y".to_owned());
        let row = BothErrors {
            tensor: name.clone(),
            node: String::new(),
            op: String::new(),
            accumulated: None,
            local: Num(0.0),
            band: Some(ratio(band)),
        };
        let (verdict, errors) = (Some(Verdict::Rounded), vec![row]);
        let judgement = Judgement { verdict, errors, ..Judgement::default() };
        let output = ComparedTensor {
            sqnr: Some(Num(sqnr)),
            differing: 1,
            name,
            elements,
            ..ComparedTensor::default()
        };
        let file = judgement.suggested(&[output]).expect("a file");
        let limit = file.trim_end().rsplit_once("sqnr = ").expect("a limit").1;
        limit.parse().expect("a number")
    }

    #[test]
    fn a_limit_is_not_far_below_what_a_conversion_has() {
        // 10.8 dB above the band, or what was measured where that is less; then the margin.
        assert!((limit(58.5, 46.2, 1_000_000) - (46.2 + 10.8 - 3.6)).abs() <= 0.1);
        assert!((limit(50.0, 46.2, 1_000_000) - (50.0 - 3.6)).abs() <= 0.1);
        assert!((limit(50.0, 90.0, 8) - (50.0 - 11.2)).abs() <= 0.1);
    }
}
