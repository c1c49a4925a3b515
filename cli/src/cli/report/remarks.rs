//! Lines about what was found besides tensors and casts: weights, notes, and casts that only one of
//! two models has.

use std::collections::{BTreeMap, BTreeSet};

use super::phrases::{both_types, type_name};
use crate::cli::found::compared::{CastName, Compared};
use crate::cli::found::finding::{Code, FindingRow, Severity};
use crate::cli::found::head::Head;
use crate::cli::found::weights::{ComparedWeight, ComparedWeights};
use crate::cli::message::{counted, listed, quoted, single_line};

/// A row as a line.
pub(crate) fn line(row: &FindingRow) -> String {
    format!("{}: {}", row.code.entry().label, single_line(&row.in_words()))
}

/// The notes about how something was done, and what to know of the values.
pub(crate) fn note_lines(head: &Head) -> Vec<String> {
    head.of(Severity::Note).filter(|row| is_general(row)).map(line).collect()
}

fn is_general(row: &FindingRow) -> bool {
    matches!(
        row.code,
        Code::Remark | Code::NotFinite | Code::LookedAt | Code::BySample | Code::Scores
    )
}

/// The most notes of a kind that stand as they are; of more the first does, and how many others
/// there are.
const ALIKE: usize = 3;

/// The weights that are more than rounded, and notes about parts of the model. Notes that are alike
/// share a line.
pub(crate) fn part_lines(head: &Head) -> Vec<String> {
    let mut lines = weight_lines(&head.weights);
    let idle: Vec<&FindingRow> = head.of(Severity::Note).filter(|r| r.code == Code::NoOp).collect();
    let shared = idle.len() > 1;
    let rows: Vec<&FindingRow> = head.of(Severity::Note).filter(|row| !is_general(row)).collect();
    let mut told: BTreeMap<Code, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.code.is_static()) {
        *told.entry(row.code).or_default() += 1;
    }
    let mut seen: BTreeSet<Code> = BTreeSet::new();
    for row in rows.into_iter().filter(|row| !shared || row.code != Code::NoOp) {
        match told.get(&row.code).copied().unwrap_or(0) {
            count if count <= ALIKE => lines.push(line(row)),
            count if seen.insert(row.code) => {
                lines.push(format!("{}; and {} more like it", line(row), count - 1));
            }
            _ => {}
        }
    }
    if shared {
        let nodes = names(idle.iter().map(|row| row.node.as_str()));
        lines.push(format!("note: {} casts cast a type to itself: {nodes}", idle.len()));
    }
    lines
}

/// What a verdict alone does not say: the weights that are wrong, and what no run has reached.
pub(crate) fn doubt_lines(head: &Head) -> Vec<String> {
    let wrong = head.weights.changed.iter().filter(|weight| weight.is_error).map(weight_line);
    wrong
        .chain(head.of(Severity::Note).filter(|row| row.code == Code::NotExercised).map(line))
        .collect()
}

/// All that there is to say of a comparison besides its tensors, the weights first.
pub(crate) fn of_comparison(pair: &Compared) -> Vec<String> {
    let notes = pair.head.sentences_of(Code::Remark);
    let samples = pair
        .head
        .rows
        .iter()
        .filter(|row| matches!(row.code, Code::BySample | Code::Scores))
        .map(line);
    let parts = part_lines(&pair.head);
    samples.chain(parts).chain(notes).chain(change_lines(pair)).collect()
}

/// What the conversion did to the constants: a line for each that is more than rounded, the worst
/// first.
fn weight_lines(weights: &ComparedWeights) -> Vec<String> {
    let alone = |all: &[String], whose: &str| {
        (!all.is_empty()).then(|| {
            let (count, names) =
                (counted(all.len(), "weight"), names(all.iter().map(String::as_str)));
            format!("nothing to compare {count} of the {whose} with: {names}")
        })
    };
    let unpaired = [
        alone(&weights.unpaired_reference, "original"),
        alone(&weights.unpaired_converted, "conversion"),
    ];
    weights.changed.iter().map(weight_line).chain(unpaired.into_iter().flatten()).collect()
}

fn weight_line(weight: &ComparedWeight) -> String {
    let place = match weight.graph.as_str() {
        "" => String::new(),
        graph => format!(" in {}", quoted(graph)),
    };
    let renamed = weight.converted_name.as_ref();
    let renamed = renamed.map_or(String::new(), |name| format!(", {} converted", quoted(name)));
    let types = both_types(&weight.reference_type, &weight.converted_type);
    let what = if weight.is_error {
        "wrong weight"
    } else if weight.is_mask() {
        "harmless, as a mask is:"
    } else {
        "changed weight"
    };
    let (name, text) = (quoted(&weight.name), single_line(&weight.text));
    format!("{what} {name}{place}{renamed} ({types}): {text}")
}

/// Why a comparison whose outputs are right has failed: the weights that are not.
pub(crate) fn wrong_weights(weights: &ComparedWeights) -> Option<String> {
    let wrong = weights.changed.iter().filter(|weight| weight.is_error);
    let wrong: Vec<&str> = wrong.map(|weight| weight.name.as_str()).collect();
    match wrong.len() {
        0 => None,
        1 => Some(format!("the weight {} is wrong", names(wrong.into_iter()))),
        count => Some(format!("{count} weights are wrong: {}", names(wrong.into_iter()))),
    }
}

/// Some names of a list, and how many others there are.
fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    listed(all.map(quoted), 3)
}

/// Casts that only one of the two models has, or that cast to something else.
pub(crate) fn change_lines(pair: &Compared) -> Vec<String> {
    let types = |name: &CastName| format!("{} to {}", type_name(&name.from), type_name(&name.to));
    let cast = |name: &CastName| format!("{} {}", quoted(&name.node), types(name));
    let is_idle = |name: &&CastName| name.from.is_some() && name.from == name.to;
    let change = |what: &str, all: &[CastName]| {
        let (idle, others): (Vec<&CastName>, Vec<&CastName>) = all.iter().partition(is_idle);
        let (idle, mut lines) = match idle.len() {
            0 | 1 => (vec![], all.iter().collect()),
            _ => (idle, others),
        };
        let mut lines: Vec<String> =
            lines.drain(..).map(|name| format!("cast {what}: {}", cast(name))).collect();
        if !idle.is_empty() {
            let nodes = names(idle.iter().map(|name| name.node.as_str()));
            lines.push(format!("{} casts of a type to itself {what}: {nodes}", idle.len()));
        }
        lines
    };
    let added = change("added", &pair.casts.added);
    let removed = change("removed", &pair.casts.removed);
    let retargeted = pair.casts.retargeted.iter().map(|both| {
        format!("cast retargeted: {}, was {}", cast(&both.converted), types(&both.reference))
    });
    retargeted.chain(added).chain(removed).collect()
}
