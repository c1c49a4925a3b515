//! Sentences of weights, of what the original does as well, and of what no run has reached.

use crate::cli::found::audited::Audited;
use crate::cli::found::compared::Compared;
use crate::cli::found::coverage::Unexercised;
use crate::cli::found::weights::{ComparedWeight, ComparedWeights};
use crate::cli::message::single_line;
use crate::cli::report::phrases::{change_lines, names};

/// What the conversion did to the constants: a line for each that is more than rounded, the worst first.
pub(crate) fn weight_lines(weights: &ComparedWeights) -> Vec<String> {
    let alone = |all: &[String], whose: &str| {
        (!all.is_empty()).then(|| {
            let (count, names) = (all.len(), names(all.iter().map(String::as_str)));
            format!(
                "{count} weight(s) of the {whose} have no counterpart to be compared with: {names}"
            )
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
        graph => format!(" in `{}`", single_line(graph)),
    };
    let renamed = weight.converted_name.as_ref();
    let renamed =
        renamed.map_or(String::new(), |name| format!(", `{}` converted", single_line(name)));
    let types = match weight.reference_type == weight.converted_type {
        true => weight.reference_type.clone(),
        false => format!("{} → {}", weight.reference_type, weight.converted_type),
    };
    let what = if weight.is_error { "wrong weight" } else { "changed weight" };
    let (name, text) = (single_line(&weight.name), single_line(&weight.text));
    format!("{what} `{name}`{place}{renamed} ({types}): {text}")
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

/// All that there is to say of a comparison besides its tensors, the weights first.
pub(crate) fn remarks(pair: &Compared) -> impl Iterator<Item = String> {
    let parts = unexercised_lines(&pair.unexercised);
    let weights = weight_lines(&pair.weights).into_iter();
    weights.chain(pair.notes.iter().cloned()).chain(parts).chain(change_lines(pair))
}

/// What an audit found besides casts: of the weights, what the original does as well, and what no run has reached.
pub(crate) fn audit_remarks(model: &Audited) -> Vec<String> {
    let excused =
        model.excused.iter().map(|text| format!("as in the original: {}", single_line(text)));
    let weights = weight_lines(&model.weights).into_iter();
    weights.chain(excused).chain(unexercised_lines(&model.unexercised)).collect()
}

/// What no run has reached.
pub(crate) fn unexercised_lines(unexercised: &[Unexercised]) -> Vec<String> {
    let line = |part: &Unexercised| format!("not exercised: {}", single_line(&part.text));
    unexercised.iter().map(line).collect()
}
