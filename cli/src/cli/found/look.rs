//! How wide a verdict on inputs that were made up has looked.

use serde::{Deserialize, Serialize};

use crate::cli::measure::number::Num;
use crate::cli::message::counted;

/// What was chosen of the inputs that nobody gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct InputLook {
    /// The sizes of dimensions that nobody set.
    pub(crate) sizes: Vec<DimensionSizes>,
    /// The scales of floats that are plain numbers, from set to set.
    pub(crate) scales: Vec<f64>,
    /// The sizes of sets that were left out, since they cost too much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
    /// What the inputs were taken for.
    pub(crate) inputs: Vec<LookedAt>,
    /// What a search found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<LookFurther>,
    /// The numbers that operators were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) operators: Vec<OperatorNumbers>,
}

/// The numbers that an operator was given, wherever it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperatorNumbers {
    pub(crate) operator: String,
    pub(crate) low: Num,
    pub(crate) high: Num,
}

/// A search for inputs that show more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LookFurther {
    /// Runs that it made.
    pub(crate) steps: usize,
    /// Whether the time was over before it ended.
    pub(crate) is_cut: bool,
    /// The largest relative error of an output before.
    pub(crate) error_before: Num,
    /// What it found worse, a line each, of the sets that were added.
    pub(crate) found: Vec<String>,
}

impl LookFurther {
    fn in_words(&self) -> String {
        // Where time ends it, the number is another each time.
        let search = if self.is_cut {
            "a search that ran to its time limit".to_owned()
        } else {
            format!("a search of {}", counted(self.steps, "step"))
        };
        let found = match &self.found[..] {
            [] => "nothing worse".to_owned(),
            found => found.join("; and "),
        };
        format!("{search} found {found}")
    }
}

/// The sizes of a dimension, one for each set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DimensionSizes {
    pub(crate) dimension: String,
    pub(crate) sizes: Vec<usize>,
}

/// What an input was taken for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LookedAt {
    pub(crate) name: String,
    pub(crate) taken_for: String,
    /// Empty for plain numbers.
    pub(crate) why: String,
}

impl InputLook {
    /// Whether nothing was chosen.
    pub(crate) fn is_empty(&self) -> bool {
        *self == InputLook::default()
    }

    /// The line, as a note.
    pub(crate) fn note(&self) -> Option<String> {
        Some(format!("chosen inputs: {}", self.in_words()?))
    }

    /// The numbers that operators were given, those of the largest first, in one line.
    pub(crate) fn operators_in_words(&self) -> Option<String> {
        let reach = |seen: &OperatorNumbers| seen.low.0.abs().max(seen.high.0.abs());
        let mut all: Vec<&OperatorNumbers> = self.operators.iter().collect();
        all.sort_by(|a, b| reach(b).total_cmp(&reach(a)));
        let told =
            |seen: &&OperatorNumbers| format!("{} {} … {}", seen.operator, seen.low, seen.high);
        let told: Vec<String> = all.iter().map(told).collect();
        (!told.is_empty())
            .then(|| few(told.into_iter(), "operators").collect::<Vec<_>>().join(", "))
    }

    /// Whether every size that somebody had to choose is 1, so that nothing along an axis was
    /// looked at.
    pub(crate) fn is_narrow(&self) -> bool {
        !self.sizes.is_empty() && self.sizes.iter().all(|sizes| sizes.sizes.iter().all(|s| *s == 1))
    }

    /// Sizes, scales, and what inputs were taken for, in one line; `None` where nothing was chosen.
    pub(crate) fn in_words(&self) -> Option<String> {
        let listed = |numbers: Vec<String>| numbers.join(", ");
        let sizes = self.sizes.iter().map(|DimensionSizes { dimension, sizes }| {
            format!("{dimension} {}", listed(sizes.iter().map(ToString::to_string).collect()))
        });
        let scales = (self.scales.len() > 1).then(|| {
            format!("floats of scale {}", listed(self.scales.iter().map(f64::to_string).collect()))
        });
        let left_out = (!self.left_out.is_empty()).then(|| {
            format!("larger sets cost too much and were left out: {}", self.left_out.join(" and "))
        });
        let mut grouped: Vec<(&LookedAt, usize)> = vec![];
        for input in self.inputs.iter().filter(|input| !input.why.is_empty()) {
            let is_alike = |(first, _): &&mut (&LookedAt, usize)| {
                first.taken_for == input.taken_for
                    || first.taken_for.starts_with("what the output")
                        && input.taken_for.starts_with("what the output")
            };
            match grouped.iter_mut().find(is_alike) {
                Some((_, more)) => *more += 1,
                None => grouped.push((input, 0)),
            }
        }
        let inputs = grouped.into_iter().map(|(first, more)| {
            let LookedAt { name, taken_for, why } = first;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("`{name}`{more} taken for {taken_for} ({why})")
        });
        let all: Vec<String> = few(sizes, "dimensions")
            .chain(left_out)
            .chain(scales)
            .chain(few(inputs, "kinds of inputs"))
            .chain(self.search.as_ref().map(LookFurther::in_words))
            .collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The first of these, and how many others there are.
fn few(all: impl ExactSizeIterator<Item = String>, what: &str) -> impl Iterator<Item = String> {
    const TOLD: usize = 8;
    let more = all.len().saturating_sub(TOLD);
    let counted = (more > 0).then(|| format!("{more} more {what}"));
    all.take(TOLD).chain(counted)
}
