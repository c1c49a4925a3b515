//! How a comparison or an audit went, in a sentence; where the graphs part; and what to do about
//! it.

use super::phrases::{
    cast_types, is_measured, passing, range_in_words, tolerance, type_name, what_happened,
};
use super::remarks::wrong_weights;
use crate::cli::found::audited::Audited;
use crate::cli::found::compared::{Compared, ComparedTensor, Divergence, GraphNode};
use crate::cli::found::status::Status;
use crate::cli::message::single_line;

/// Whether a comparison has passed, and a sentence that says why.
pub(crate) fn verdict(pair: &Compared) -> (bool, String) {
    let count = pair.outputs.len();
    let outputs = if count == 1 { "the output" } else { "every output" };
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    match pair.head.status {
        Status::Unusable => (false, "the two cannot be compared".into()),
        Status::Failed if failed > 0 => {
            let given = tolerances(pair.outputs.iter().filter(|output| !output.passed));
            (false, format!("{failed} of {count} output(s) beyond the tolerance: {given}"))
        }
        Status::Failed => match wrong_weights(&pair.head.weights) {
            Some(wrong) => {
                let so = if pair.identical { "equal" } else { "within the tolerance" };
                (false, format!("{outputs} is {so} on these inputs, but {wrong}"))
            }
            None if pair.outputs.iter().any(|output| output.elements > output.both_nan) => {
                let inside = pair.tensors.iter().filter(|tensor| !tensor.passed).count();
                (false, format!("{inside} tensor(s) inside beyond the tolerance"))
            }
            None => (false, "nothing was compared: no output has a value other than NaN".into()),
        },
        Status::Passed
            if pair.identical && pair.head.weights.exact < pair.head.weights.compared =>
        {
            let differ = pair.head.weights.compared - pair.head.weights.exact;
            (true, format!("{outputs} is equal on these inputs, though {differ} weight(s) differ"))
        }
        Status::Passed if pair.identical => (true, format!("{outputs} is exactly equal")),
        Status::Passed if pair.outputs.iter().all(|output| output.differing == 0) => {
            (true, format!("{outputs} is equal, but for the signs of zeros"))
        }
        Status::Passed => (true, format!("{outputs} is within the tolerance")),
    }
}

/// By what all outputs were judged.
pub(crate) fn tolerances_in_words(pair: &Compared) -> String {
    tolerances(pair.outputs.iter())
}

fn tolerances<'a>(outputs: impl Iterator<Item = &'a ComparedTensor>) -> String {
    let mut given: Vec<String> = vec![];
    for output in outputs {
        let said = tolerance(&output.tolerance);
        if !given.contains(&said) {
            given.push(said);
        }
    }
    match &given[..] {
        [one] if one.is_empty() => "none was given, so values must be equal".into(),
        [one] => one.clone(),
        _ => "each its own".into(),
    }
}

/// The tensors where the graphs part, the gravest first: the first with NaN or infinities of its
/// own, the first with values that its type cannot hold, and the first that differs too much, which
/// may only have drifted; a tensor that is several of these is told once.
pub(crate) fn divergences(pair: &Compared) -> impl Iterator<Item = (&'static str, &Divergence)> {
    let places = &pair.divergences;
    let all = [
        ("the first tensor with NaN or infinities of its own", &places.first_damage),
        ("the tensor where the error grows most", &places.largest_jump),
        ("the first tensor whose values the converted type cannot hold", &places.first_beyond),
        ("the first tensor where they part", &places.first_difference),
    ];
    let mut told: Vec<(&str, &Divergence)> = vec![];
    for (what, place) in all {
        let Some(place) = place else { continue };
        if told.iter().all(|(_, other)| other.tensor.name != place.tensor.name) {
            told.push((what, place));
        }
    }
    told.into_iter()
}

/// Which tensor it is, what makes it, and how it differs.
pub(crate) fn divergence_in_words(place: &Divergence) -> String {
    let tensor = &place.tensor;
    let is_number = tensor.mismatches > 0 && is_measured(tensor);
    let size = if is_number { format!(", by {} at most", tensor.max_abs) } else { String::new() };
    format!(
        "`{}`, which {} `{}` makes: {}{size}{}",
        single_line(&tensor.name),
        single_line(&place.op),
        single_line(&place.node),
        tensor.difference(),
        on_the_way(place)
    )
}

/// What only one of the two models computes between the tensor and those before it. The worst cast
/// stands before the others; alone it is told on its own.
fn on_the_way(place: &Divergence) -> String {
    const NAMED: usize = 3;
    let mut text = String::new();
    let sides =
        [("the converted model", &place.only_converted), ("the reference", &place.only_reference)];
    let worst = place.culprit.as_ref().map(|cast| &cast.node);
    for (side, nodes) in sides {
        if nodes.iter().all(|node| worst == Some(&node.node)) {
            continue;
        }
        let node =
            |node: &GraphNode| format!("{} `{}`", single_line(&node.op), single_line(&node.node));
        let some: Vec<String> = nodes.iter().take(NAMED).map(node).collect();
        let more = match nodes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text += &format!("; on the way, only {side} has {}{more}", some.join(", "));
    }
    text
}

/// What is wrong and where, in a sentence; `None` where nothing is.
pub(crate) fn headline(pair: &Compared) -> Option<String> {
    let (_, place) = divergences(pair).next()?;
    let tensor = &place.tensor;
    let name = single_line(&tensor.name);
    let cause = place.culprit.as_ref().or(place.cast.as_ref());
    let cause = cause.filter(|cast| cast.damaged() + cast.lost() > 0);
    let what = match tensor {
        _ if tensor.nan_differences > 0 => "has NaN that the reference does not have",
        _ if tensor.infinity_differences > 0 => "has infinities that the reference does not have",
        _ if tensor.beyond_target > 0 => "is of a type that does not hold its values",
        _ => "is the first that is off by more than the tolerance",
    };
    Some(match cause {
        Some(cast) => format!(
            "`{name}` {what}, for the {} `{}` ({}) before it does this: {}; its source is {}{}",
            single_line(&cast.op),
            single_line(&cast.node),
            cast_types(cast),
            what_happened(cast),
            range_in_words(&cast.source),
            cast.target
                .as_ref()
                .map_or(String::new(), |t| format!(", its target ends at {}", t.max)),
        ),
        None => format!(
            "`{name}`, which {} `{}` makes, {what}",
            single_line(&place.op),
            single_line(&place.node)
        ),
    })
}

/// What to do about a comparison that failed.
pub(crate) fn of_comparison(pair: &Compared) -> Option<String> {
    let (_, place) = divergences(pair).next()?;
    let cast = place.culprit.as_ref().or(place.cast.as_ref());
    let tensor = &place.tensor;
    let apart = tensor.apart() + tensor.beyond_target;
    let node = single_line(cast.map_or(&place.node, |cast| &cast.node));
    Some(match apart {
        0 => format!(
            "It drifts: if {} is too far, keep the nodes before `{}` in the reference's type; else a tolerance that passes is {}.",
            tensor.max_abs,
            single_line(&tensor.name),
            pair.outputs.iter().find(|output| !output.passed).map_or("none".into(), passing)
        ),
        _ => format!(
            "Keep the nodes about `{node}` in a type that holds their values, such as FLOAT, and cast behind them, where the values are small again."
        ),
    })
}

/// What an audit's failure is in a sentence, and what to do about it.
pub(crate) fn of_audit(model: &Audited) -> Option<String> {
    let worst = model.casts.iter().chain(&model.roundings).find(|cast| cast.damaged() > 0)?;
    let node = single_line(&worst.node);
    let holds =
        worst.target.as_ref().map_or(String::new(), |t| format!(", which ends at {}", t.max));
    Some(format!(
        "`{node}` ({}) spoils values: its source is {}, its target {}{holds}. Keep the nodes about it in a type that holds them, or allow it with --allow if that is meant.",
        cast_types(worst),
        range_in_words(&worst.source),
        type_name(&worst.to),
    ))
}
