//! What a conversion did to the weights of a model: plain data, and how it is judged.
//!
//! This is part of the schema that docs/report-format.md describes.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::finding::{Code, FindingRow};
use crate::cli::measure::number::Num;
use crate::cli::measure::reach::STANDS_FOR_INFINITY;
use crate::cli::measure::weight::alike::Alike;
use crate::cli::measure::weight::change::WeightChange;
use crate::cli::message::counted;

/// The constants of two models: initializers, and what `Constant` nodes hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ComparedWeights {
    /// How many pairs there are.
    pub(crate) compared: usize,
    /// Those whose values are the same, and those that are only rounded to their type.
    pub(crate) exact: usize,
    pub(crate) rounded: usize,
    /// Floating-point weights of some size that have no counterpart: folded, fused with others, or
    /// left out.
    pub(crate) unpaired_reference: Vec<String>,
    pub(crate) unpaired_converted: Vec<String>,
    /// Those that are more than rounded, the worst first.
    pub(crate) changed: Vec<ComparedWeight>,
}

/// A weight that is more than rounded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ComparedWeight {
    pub(crate) name: String,
    /// The converted side's name, where it is another.
    pub(crate) converted_name: Option<String>,
    /// The path of the graph below the main one; empty for the main one.
    pub(crate) graph: String,
    pub(crate) reference_type: String,
    pub(crate) converted_type: String,
    pub(crate) shape: Vec<usize>,
    /// How the two were found to belong together: `name`, `values` or `place`, the node that takes
    /// them.
    pub(crate) paired_by: String,
    pub(crate) elements: u64,
    /// Elements by outcome, as of a cast; `clipped` and `changed` besides.
    pub(crate) outcomes: BTreeMap<Code, u64>,
    pub(crate) max_abs: Num,
    /// Where the largest difference is, in words.
    pub(crate) largest: Option<String>,
    /// Which of the values that differ no run has read, in words.
    pub(crate) unexercised: Option<String>,
    /// Whether this alone makes the conversion fail.
    pub(crate) is_error: bool,
    /// What was found, in words.
    pub(crate) text: String,
    /// The constants of the converted model that hold it.
    #[serde(skip)]
    pub(crate) roots: HashSet<String>,
    /// Whether its codes have scales or zero points that put its values off.
    #[serde(skip)]
    pub(crate) is_rescaled: bool,
}

impl ComparedWeight {
    /// Whether all that became of it is that values which stand for an infinity were cut off.
    pub(crate) fn is_mask(&self) -> bool {
        let is_cut = |code: &Code| matches!(code, Code::Saturated | Code::Clipped);
        let is_kept = |code: &Code| matches!(code, Code::Exact | Code::Rounded);
        let counts = || self.outcomes.iter().filter(|(_, count)| **count > 0);
        !self.is_error
            && self.max_abs.0 >= STANDS_FOR_INFINITY
            && counts().any(|(code, _)| is_cut(code))
            && counts().all(|(code, _)| is_cut(code) || is_kept(code))
    }

    /// Says what was found, and whether it is an error: `unread` is which of the values that differ
    /// no run has read, and `shows` whether the outputs differ, `None` where nothing has run. A
    /// weight of other values altogether, such as one that has been joined with a scale behind it,
    /// is right where they do not.
    pub(crate) fn judge(
        &mut self,
        (change, alike): (&WeightChange, Option<Alike>),
        unread: Option<String>,
        shows: Option<bool>,
    ) {
        let told = match alike {
            Some(Alike::Times(by)) => format!("; all are about {} times what they were", Num(by)),
            Some(Alike::Moved(by)) => {
                format!("; all are off by about {} alike, as by another zero point", Num(by))
            }
            Some(Alike::Folded) => "; each channel is a number of times what it was".into(),
            Some(Alike::Compensated) => {
                "; its codes make up for one another's errors, as GPTQ chooses them".into()
            }
            None if self.is_rescaled => "; it has other scales or zero points".into(),
            Some(Alike::Near) | None => String::new(),
        };
        let is_wrong = matches!(alike, Some(Alike::Times(_) | Alike::Moved(_)));
        let is_compensated = alike == Some(Alike::Compensated);
        let is_right = is_compensated || matches!(alike, Some(Alike::Folded | Alike::Near));
        let is_another = shows.unwrap_or(true) && change.is_another() && !is_right;
        let is_suspect = is_wrong || is_another || shows.is_none() && change.is_told_by_type();
        let is_local = change.is_local() && !is_compensated;
        self.is_error = change.is_damage() || is_suspect || unread.is_some() || is_local;
        self.unexercised = unread;
        let count = |code: &Code| self.outcomes.get(code).copied().unwrap_or(0);
        let worst = [
            Code::Overflowed,
            Code::BecameNan,
            Code::NanLost,
            Code::Clipped,
            Code::Saturated,
            Code::Wrapped,
            Code::Changed,
            Code::Flushed,
        ];
        let parts = worst.iter().filter(|code| count(code) > 0).map(|code| match code {
            Code::Changed => format!("{} changed beyond rounding", count(code)),
            code => format!("{} {}", count(code), code.name().replace('_', " ")),
        });
        let mut text = format!("of {} ", counted(self.elements, "value"));
        text += &parts.collect::<Vec<_>>().join(", ");
        for more in self.largest.iter().chain(&self.unexercised) {
            text += "; ";
            text += more;
        }
        self.text = text + &told;
    }
}

impl ComparedWeights {
    /// The weights that alone make the conversion fail.
    pub(crate) fn errors(&self) -> impl Iterator<Item = FindingRow> {
        let wrong = self.changed.iter().filter(|weight| weight.is_error);
        wrong.map(|weight| {
            let sentence = format!("weight `{}`: {}", weight.name, weight.text);
            FindingRow::new(Code::WrongWeight, sentence)
        })
    }

    /// Says that weights of the main graph are right: their channels were moved, and others make up
    /// for it.
    pub(crate) fn excuse(&mut self, moved: &HashSet<String>) {
        let is_moved =
            |weight: &&mut ComparedWeight| weight.graph.is_empty() && moved.contains(&weight.name);
        for weight in self.changed.iter_mut().filter(is_moved) {
            weight.is_error = false;
            weight.text += "; its channels were moved, and another weight makes up for it";
        }
        self.sort();
    }

    /// Puts the worst first: what fails, then what is changed most.
    pub(crate) fn sort(&mut self) {
        self.changed.sort_by_cached_key(|weight| {
            let changed: u64 =
                [Code::Changed, Code::Clipped].iter().filter_map(|c| weight.outcomes.get(c)).sum();
            std::cmp::Reverse((weight.is_error, changed))
        });
    }
}
