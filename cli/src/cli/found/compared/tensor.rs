//! A tensor of both sides of a comparison, and how they differ.

use serde::{Deserialize, Serialize};

use crate::cli::found::finding::{Code, FindingRow};
use crate::cli::found::scores::ScoreMetrics;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::reach::ReportedReach;
use crate::cli::measure::reach::STANDS_FOR_INFINITY;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{counted, single_line};

/// How two tensors were found to belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PairedBy {
    #[default]
    Name,
    Position,
    Values,
    Structure,
}

/// How sure that is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    #[default]
    Certain,
    Likely,
}

/// One tensor of both sides.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ComparedTensor {
    pub(crate) name: String,
    /// The converted side's name, where it is another.
    pub(crate) converted_name: Option<String>,
    pub(crate) paired_by: PairedBy,
    pub(crate) confidence: Confidence,
    pub(crate) reference_type: String,
    pub(crate) converted_type: String,
    pub(crate) shape: Vec<usize>,
    /// Why the tensors cannot be compared, such as different shapes.
    pub(crate) problem: Option<String>,
    pub(crate) elements: u64,
    pub(crate) passed: bool,
    /// Whether every value is the same, the sign of zeros included.
    pub(crate) identical: bool,
    /// Elements beyond the tolerance.
    pub(crate) mismatches: u64,
    /// Elements that are not the same value.
    pub(crate) differing: u64,
    /// Where only one side is NaN.
    pub(crate) nan_differences: u64,
    /// Where only one side is infinite, or both with other signs.
    pub(crate) infinity_differences: u64,
    /// Where both sides are NaN.
    pub(crate) both_nan: u64,
    pub(crate) max_abs: Num,
    pub(crate) max_rel: Num,
    pub(crate) max_ulp: Num,
    pub(crate) mean_ulp: Num,
    pub(crate) cosine: Option<Num>,
    /// The ratio of the reference's power to that of the errors, in decibels.
    pub(crate) sqnr: Option<Num>,
    /// The share of rows, along the last axis, with the largest element at the same place, and of
    /// their five largest elements.
    pub(crate) top1: Option<Num>,
    pub(crate) top5: Option<Num>,
    /// Of outputs that are scores, how far they are apart as distributions.
    pub(crate) scores: Option<ScoreMetrics>,
    /// The smallest tolerances that would pass, each on its own; none passes where NaN or
    /// infinities differ.
    pub(crate) passing_atol: Option<Num>,
    pub(crate) passing_rtol: Option<Num>,
    pub(crate) tolerance: Tolerance,
    /// Why it did not pass, in words.
    pub(crate) why: Option<String>,
    /// The first mismatch in words, of those where only one side is a finite number if there are
    /// any.
    pub(crate) first_mismatch: Option<String>,
    /// The reference's values.
    pub(crate) source: SourceRange,
    /// What the converted side's type can hold.
    pub(crate) target: Option<ReportedReach>,
    /// How many finite values of the reference the converted side's type cannot hold even after
    /// rounding.
    pub(crate) beyond_target: u64,
    /// Pairs of ⌊log₁₀ of the relative error⌋ and how many elements have it; identical ones are
    /// left out.
    pub(crate) errors_log10: Vec<(i32, u64)>,
}

impl ComparedTensor {
    /// What it is called in the converted model.
    pub(crate) fn converted(&self) -> &str {
        self.converted_name.as_ref().unwrap_or(&self.name)
    }

    /// What is wrong with it, in words.
    pub(crate) fn difference(&self) -> String {
        if let Some(problem) = &self.problem {
            return single_line(problem);
        }
        let mut parts = vec![];
        if self.mismatches > 0 {
            let values = counted(self.elements, "value");
            parts.push(format!("{} of {values} differ", self.mismatches));
        }
        if self.nan_differences > 0 {
            parts.push(format!("{} NaN on one side", self.nan_differences));
        }
        if self.infinity_differences > 0 {
            parts.push(format!("{} infinite on one side", self.infinity_differences));
        }
        if let (true, Some(least), found) =
            (self.mismatches == 0, self.tolerance.cosine, self.cosine)
            && found.is_none_or(|Num(found)| found < least)
        {
            // With all digits: a cosine and the one that is wanted may both be near 1.
            let found = found.map_or("undefined".into(), |found| found.0.to_string());
            parts.push(format!("cosine {found}, at least {} is wanted", least));
        }
        if let (true, Some(least)) = (self.mismatches == 0, self.tolerance.sqnr)
            && self.sqnr.is_none_or(|Num(found)| found < least)
        {
            let found = self.sqnr.map_or("undefined".into(), |found| found.to_string());
            parts.push(format!("SQNR {found} dB, at least {least} is wanted"));
        }
        parts.extend(self.first_mismatch.iter().map(|first| single_line(first)));
        if parts.is_empty() && self.differing > 0 {
            let (differing, elements) = (self.differing, self.elements);
            parts.push(format!(
                "{differing} of {} differ, by {} at most",
                counted(elements, "value"),
                self.max_abs
            ));
        }
        parts.join(", ")
    }

    /// Whether the values that its type cannot hold are a mask's, which stand for an infinity.
    pub(crate) fn is_masked(&self) -> bool {
        let (low, high) = (self.source.min, self.source.max);
        let end = self.target.as_ref().map_or(f64::INFINITY, |target| target.max.0);
        self.apart() == 0
            && low.is_some_and(|Num(low)| low <= -STANDS_FOR_INFINITY)
            && high.is_some_and(|Num(high)| high <= end)
    }

    /// How far it is off: its largest error by its largest value; infinite where NaN or infinities
    /// differ.
    pub(crate) fn largest_error(&self) -> f64 {
        let magnitude = |number: Option<Num>| number.map_or(0.0, |number| number.0.abs());
        let peak = magnitude(self.source.min).max(magnitude(self.source.max));
        match self {
            _ if self.problem.is_some() || self.apart() > 0 => f64::INFINITY,
            _ if self.max_abs.0 == 0.0 => f64::from(u8::from(self.differing > 0)),
            _ if peak == 0.0 => f64::INFINITY,
            _ => self.max_abs.0 / peak,
        }
    }

    /// How far it is off beyond what it may be: 0 if it passes.
    pub(crate) fn excess(&self) -> f64 {
        if self.passed { 0.0 } else { self.largest_error() }
    }

    /// The relative error as a whole, √(Σ (y − x)² / Σ x²); infinite where NaN or infinities
    /// differ, or nothing tells how far it is off.
    pub(crate) fn relative_error(&self) -> f64 {
        match self.sqnr {
            _ if self.apart() > 0 || self.problem.is_some() => f64::INFINITY,
            Some(Num(sqnr)) => 10f64.powf(-sqnr / 20.0),
            None if self.differing > 0 => f64::INFINITY,
            None => 0.0,
        }
    }

    /// A row of its scores, where they differ.
    pub(crate) fn scores_in_words(&self) -> Option<FindingRow> {
        let scores = self.scores.as_ref().filter(|_| !self.identical)?;
        Some(FindingRow::at(&self.name, "", Code::Scores, scores.in_words()))
    }

    /// How many values are NaN or infinite on one side alone.
    pub(crate) fn apart(&self) -> u64 {
        self.nan_differences + self.infinity_differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> ComparedTensor {
        let max_abs = Num(0.5);
        ComparedTensor { elements: 8, differing: 2, max_abs, ..ComparedTensor::default() }
    }

    #[test]
    fn what_differs_within_the_limits_is_told_where_nothing_else_is() {
        assert_eq!(tensor().difference(), "2 of 8 values differ, by 0.5000 at most");
        let equal = ComparedTensor { differing: 0, ..tensor() };
        assert_eq!(equal.difference(), "");
        let beyond = ComparedTensor { mismatches: 1, ..tensor() };
        assert_eq!(beyond.difference(), "1 of 8 values differ");
        let first = ComparedTensor { first_mismatch: Some("at [0]".into()), ..tensor() };
        assert_eq!(first.difference(), "at [0]");
        let apart = ComparedTensor { nan_differences: 3, ..tensor() };
        assert_eq!(apart.difference(), "3 NaN on one side");
    }
}
