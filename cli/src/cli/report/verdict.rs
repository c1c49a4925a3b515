//! How a comparison or an audit went, in a sentence; where the graphs part; why; and what to
//! do about it.

use std::path::Path;

use tract_onnx_cast::audit::Outcome;

use super::phrases::{
    cast_types, is_measured, passing, range_in_words, tolerance, type_name, what_happened,
};
use super::remarks::wrong_weights;
use crate::cli::caller::{is_python, told};
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{CastName, Compared, ComparedTensor, Divergence, GraphNode};
use crate::cli::found::finding::{Code, FindingRow, Severity};
use crate::cli::found::status::Status;
use crate::cli::found::verdict::{Culprit, FaultKind, Verdict};
use crate::cli::found::weights::ComparedWeights;
use crate::cli::message::{counted, listed, quoted, single_line};

/// Whether a comparison has passed, and a sentence that says why.
pub(crate) fn verdict(pair: &Compared) -> (bool, String) {
    if pair.is_of_weights {
        return by_weights(pair);
    }
    let (is_good, text) = by_outputs(pair);
    let Some(verdict) = pair.judgement.verdict.filter(|_| pair.head.status != Status::Unusable)
    else {
        return (is_good, text);
    };
    let (name, reason) = (verdict.name(), single_line(&pair.judgement.reason));
    match verdict {
        Verdict::Same => (is_good, text),
        _ if pair.is_judged_by_tolerance => (is_good, format!("{text}; by its arithmetic {name}")),
        _ if verdict.passes() != is_good => (is_good, text),
        _ => (is_good, format!("{name}: {reason}")),
    }
}

/// How a comparison of nothing but weights has gone.
fn by_weights(pair: &Compared) -> (bool, String) {
    let ComparedWeights { compared, exact, rounded, changed, .. } = &pair.head.weights;
    let is_good = pair.head.status == Status::Passed;
    let weights = counted(compared, "weight");
    let text = match wrong_weights(&pair.head.weights) {
        Some(wrong) => format!("of {weights} compared, {wrong}"),
        None if *compared == 0 => "no weights were compared".into(),
        None if pair.identical => format!("of {weights} compared, every element is equal"),
        None => format!(
            "of {weights} compared, {exact} are equal, {rounded} rounded to their type, \
             {} changed, which may be right",
            changed.len()
        ),
    };
    (is_good, text)
}

fn by_outputs(pair: &Compared) -> (bool, String) {
    let count = pair.outputs.len();
    let outputs = if count == 1 { "the output" } else { "every output" };
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    match pair.head.status {
        Status::Unusable => (false, "the two cannot be compared".into()),
        Status::Failed if failed > 0 => {
            let given = tolerances(pair.outputs.iter().filter(|output| !output.passed));
            (
                false,
                format!("{failed} of {} beyond the tolerance: {given}", counted(count, "output")),
            )
        }
        Status::Failed => match (wrong_weights(&pair.head.weights), only_narrow(pair)) {
            (_, Some(narrow)) => {
                (false, format!("{outputs} is right on these inputs, but {}", narrow.sentence))
            }
            (Some(wrong), _) => {
                let so = if pair.identical { "equal" } else { "within the tolerance" };
                (false, format!("{outputs} is {so} on these inputs, but {wrong}"))
            }
            _ if pair.outputs.iter().any(|output| output.elements > output.both_nan) => {
                let inside = pair.tensors.iter().filter(|tensor| !tensor.passed).count();
                (false, format!("{} inside beyond the tolerance", counted(inside, "tensor")))
            }
            _ => (false, "nothing was compared: no output has a value other than NaN".into()),
        },
        Status::Passed
            if pair.identical && pair.head.weights.exact < pair.head.weights.compared =>
        {
            let differ = pair.head.weights.compared - pair.head.weights.exact;
            (
                true,
                format!(
                    "{outputs} is equal on these inputs, but not all weights: {differ} of {}",
                    counted(pair.head.weights.compared, "weight")
                ),
            )
        }
        Status::Passed if pair.identical => (true, format!("{outputs} is exactly equal")),
        Status::Passed if pair.outputs.iter().all(|output| output.differing == 0) => {
            (true, format!("{outputs} is equal, but for the signs of zeros"))
        }
        Status::Passed => (true, format!("{outputs} is within the tolerance")),
    }
}

/// What fails a comparison that nothing but `--strict` does.
fn only_narrow(pair: &Compared) -> Option<&FindingRow> {
    let mut errors = pair.head.of(Severity::Error);
    let first = errors.next().filter(|row| row.code == Code::LooksNarrow)?;
    errors.next().is_none().then_some(first)
}

/// By what all outputs were judged.
pub(crate) fn tolerances_in_words(pair: &Compared) -> String {
    match pair.judgement.verdict {
        _ if pair.is_of_weights => "none: weights are equal, or rounded to their type".into(),
        Some(_) if !pair.is_judged_by_tolerance => "none: the verdict decides".into(),
        _ => tolerances(pair.outputs.iter()),
    }
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

/// The tensors where the models diverge, the gravest first: the first with NaN or infinities of the
/// converted model alone, the first with values out of its type's range, and the first that differs
/// too much, which may only have drifted; a tensor that is several of these is told once.
pub(crate) fn divergences(pair: &Compared) -> impl Iterator<Item = (&'static str, &Divergence)> {
    let places = &pair.divergences;
    let all = [
        (
            "first tensor with NaN or infinities that the reference does not have",
            &places.first_damage,
        ),
        ("tensor where the error grows most", &places.largest_jump),
        ("first tensor out of the converted type's range", &places.first_beyond),
        ("first mismatching tensor", &places.first_difference),
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
    let is_number = tensor.mismatches > 0 && is_measured(tensor) && tensor.apart() == 0;
    let size = if is_number { format!(", by {} at most", tensor.max_abs) } else { String::new() };
    format!("{}: {}{size}{}", made(place), tensor.difference(), on_the_way(place))
}

/// A tensor, and the node that makes it.
fn made(place: &Divergence) -> String {
    let (tensor, node) = (quoted(&place.tensor.name), quoted(&place.node));
    format!("{tensor}, which {} {node} makes", single_line(&place.op))
}

/// What only one of the two models computes between the tensor and those before it. The worst cast
/// stands before the others; alone it is told on its own.
fn on_the_way(place: &Divergence) -> String {
    const NAMED: usize = 3;
    let mut text = String::new();
    let sides =
        [("the converted model", &place.only_converted), ("the reference", &place.only_reference)];
    let worst = place.culprit.as_ref().map(|cast| &cast.node);
    // What makes the tensor in one model may stand before it in the other.
    let is_maker = |node: &GraphNode| (&node.node, &node.op) == (&place.node, &place.op);
    for (side, nodes) in sides {
        let nodes: Vec<&GraphNode> = nodes.iter().filter(|node| !is_maker(node)).collect();
        if nodes.iter().all(|node| worst == Some(&node.node)) {
            continue;
        }
        let node = |node: &GraphNode| format!("{} {}", single_line(&node.op), quoted(&node.node));
        let nodes = listed(nodes.into_iter().map(node), NAMED);
        text += &format!("; before it, only {side} has {nodes}");
    }
    text
}

/// The root cause in a sentence; `None` where nothing is wrong with a tensor, and where the verdict
/// has said it.
pub(crate) fn cause(pair: &Compared) -> Option<String> {
    if pair.head.status != Status::Failed || pair.judgement.other_inputs {
        return None;
    }
    if let Some(culprit) = culprits(pair).next() {
        return Some(culprit);
    }
    let (_, place) = divergences(pair).next()?;
    let is_cause = |cast: &&AuditedCast| cast.spoils() || cast.count(Outcome::Truncated) > 0;
    let cast = place.culprit.as_ref().or(place.cast.as_ref()).filter(is_cause);
    Some(match cast {
        Some(cast) => cause_in_words(cast),
        None => format!(
            "{}, {}: {}",
            made(place),
            match &place.tensor {
                tensor if tensor.nan_differences > 0 => "has NaN that the reference does not have",
                tensor if tensor.infinity_differences > 0 =>
                    "has infinities that the reference does not have",
                tensor if tensor.beyond_target > 0 => "is of a type that does not hold its values",
                _ => "is beyond the tolerance",
            },
            place.tensor.difference()
        ),
    })
}

/// The root cause, and the other nodes that are to blame, a sentence each.
pub(crate) fn reasons(pair: &Compared) -> Vec<String> {
    cause(pair).into_iter().chain(culprits(pair).skip(1)).collect()
}

/// What no rounding explains, a sentence for each node; of what the types explain, the casts tell
/// more.
pub(crate) fn culprits(pair: &Compared) -> impl Iterator<Item = String> {
    let is_broken = pair.judgement.is_broken();
    let told = |culprit: &Culprit| {
        let Culprit { node, op, text, .. } = culprit;
        let op = if op.is_empty() { String::new() } else { format!("{} ", single_line(op)) };
        format!("{op}{}: {}", quoted(node), single_line(text))
    };
    pair.judgement.culprits.iter().filter(move |_| is_broken).map(told)
}

/// What a cast did to its values, and which these were.
fn cause_in_words(cast: &AuditedCast) -> String {
    let (node, types) = (single_line(&cast.node), cast_types(cast));
    let op = match cast.op.as_str() {
        "Cast" | "CastLike" => String::new(),
        op => format!("{}, ", single_line(op)),
    };
    if let Some(reach) = cast.reach_in_words() {
        return format!("`{node}` ({op}{types}): {reach}");
    }
    let values = range_in_words(&cast.source);
    let end = cast.target.as_ref();
    let end = end.map_or(String::new(), |t| format!("; {} ends at {}", type_name(&cast.to), t.max));
    match cast.count(Outcome::Overflowed) + cast.made_infinite {
        0 => format!("`{node}` ({op}{types}): {} of values {values}{end}", what_happened(cast)),
        count => format!(
            "`{node}` ({op}{types}) overflows: {count} of {}, {values}{end}",
            counted(cast.elements, "value")
        ),
    }
}

/// What to do next, and the command that does it if there is one.
pub(crate) struct NextStep {
    pub(crate) words: String,
    pub(crate) command: Option<String>,
}

/// What to do about a comparison that failed. No list of nodes: that has to be found by running.
pub(crate) fn next_step(pair: &Compared) -> Option<NextStep> {
    let bare = |words| Some(NextStep { words, command: None });
    if pair.head.status != Status::Failed {
        return None;
    }
    if is_swapped(pair) {
        let words = "Swap the two if the first is the conversion: it alone is in half precision.";
        return bare(words.into());
    }
    if pair.judgement.other_inputs {
        let words = told(
            "Give the inputs that the tensors were saved with by -i, or save them as well.",
            "Give the inputs that the tensors were saved with as `inputs`, or save them as well.",
        );
        return bare(words.into());
    }
    if let Some(culprit) = pair.judgement.culprits.first().filter(|_| pair.judgement.is_broken()) {
        return bare(mending(culprit));
    }
    let (_, place) = divergences(pair).next()?;
    let cast = place.culprit.as_ref().or(place.cast.as_ref()).filter(|cast| cast.spoils());
    let tensor = &place.tensor;
    let to = cast.map_or(tensor.converted_type.as_str(), |cast| type_name(&cast.to));
    let node = single_line(cast.map_or(&place.node, |cast| &cast.node));
    let is_half = ["FLOAT16", "BFLOAT16"].contains(&to);
    match (cast, tensor.apart() + tensor.beyond_target) {
        (Some(cast), _) if cast.has_wrong_scale() => {
            bare(format!("Calibrate `{node}` on real data, so that its scale covers the values."))
        }
        (None, 0) => bare(match pair.outputs.iter().find(|output| !output.passed) {
            // Nobody has asked whether it is.
            Some(_) if pair.judgement.verdict.is_none() => format!(
                "Compare without --no-verdict: the verdict tells whether `{node}` is wrong, or rounding adds up."
            ),
            Some(_) if pair.is_judged_by_tolerance => format!(
                "The error is rounding that adds up: keep the nodes before `{}` in the reference's type.",
                single_line(&tensor.name)
            ),
            Some(output) => format!(
                "The error is rounding that adds up: keep the nodes before `{}` in the reference's type, or allow it, by {}.",
                single_line(&tensor.name),
                passing(output)
            ),
            None => format!(
                "Save what `{node}` takes as well: that tells whether it is wrong, or what stands before it."
            ),
        }),
        _ if is_half && is_model(&pair.reference) => Some(keep(&pair.reference, to)),
        _ => bare(format!(
            "Keep the nodes around `{node}` in a type that holds their values, such as FLOAT, and cast after them, where the values are small again."
        )),
    }
}

/// What to do about a node that is wrong.
fn mending(culprit: &Culprit) -> String {
    let node = single_line(&culprit.node);
    match culprit.kind {
        FaultKind::Weight => format!("Convert the weight of `{node}` again."),
        FaultKind::Scale | FaultKind::ZeroPoint if is_calibrated(&culprit.op) => {
            format!("Calibrate `{node}` again, on real data.")
        }
        FaultKind::Kernel => {
            format!("Run `{node}` by another kernel, or another version of the runtime.")
        }
        _ => {
            format!("Fix `{node}` in the conversion, or convert the model with another converter.")
        }
    }
}

/// Whether an operator has a scale that somebody found by running the model: of others it is a
/// weight's, or found anew in each run, or what a normalisation multiplies by.
fn is_calibrated(op: &str) -> bool {
    matches!(op, "QuantizeLinear" | "DequantizeLinear" | "QGemm") || op.starts_with("QLinear")
}

/// Whether the reference is what a conversion looks like, and the converted model is not.
fn is_swapped(pair: &Compared) -> bool {
    let is_half = |ty: &str| ["FLOAT16", "BFLOAT16"].contains(&ty);
    let narrows = |cast: &CastName| cast.to.as_deref().is_some_and(is_half);
    let widened = |output: &ComparedTensor| {
        is_half(&output.reference_type) && output.converted_type == "FLOAT"
    };
    let is_half_before = pair.casts.removed.iter().any(narrows) || pair.outputs.iter().any(widened);
    is_half_before && pair.casts.added.is_empty()
}

fn is_model(path: &str) -> bool {
    path.ends_with(".onnx") || Path::new(path).join("model.onnx").is_file()
}

/// The step that finds the nodes to keep.
fn keep(reference: &str, to: &str) -> NextStep {
    let command = if is_python() { keep_call(reference, to) } else { keep_command(reference, to) };
    NextStep { words: "Find the nodes to keep in FLOAT:".into(), command: Some(command) }
}

/// The call of `keep` in Python, where inputs and models may be objects, which have no names here.
fn keep_call(reference: &str, to: &str) -> String {
    let reference = if Path::new(reference).exists() {
        format!("{:?}", single_line(reference))
    } else {
        "reference".into()
    };
    let is_given = std::env::args().any(|word| word.starts_with("--input="));
    let inputs = if is_given { ", inputs=inputs" } else { "" };
    format!("onnx_cast.keep({reference}, to={to:?}{inputs})")
}

/// The call of `keep` with what was said here of inputs and tolerances.
fn keep_command(reference: &str, to: &str) -> String {
    const TAKEN: [&str; 15] = [
        "-i",
        "--input",
        "--limit",
        "--shuffle",
        "--set",
        "--range",
        "--seed",
        "--sets",
        "--search",
        "--search-steps",
        "--rtol",
        "--atol",
        "--ulp",
        "--cosine",
        "--sqnr",
    ];
    let word = |word: &str| {
        let word = single_line(word);
        shlex::try_quote(&word).map(String::from).unwrap_or_default()
    };
    let mut command = format!("onnx-cast keep {} --to {to}", word(reference));
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(typed) = words.next() {
        let option = typed.split('=').next().unwrap_or_default();
        // `-ix=x.npy` is one word.
        let is_attached = typed.starts_with("-i") && typed != "-i";
        if typed == "--random" || is_attached || TAKEN.contains(&option) {
            command += &format!(" {}", word(&typed));
            let is_alone = typed == option && typed != "--random" && !is_attached;
            let value = if is_alone { words.next() } else { None };
            command.extend(value.map(|value| format!(" {}", word(&value))));
        }
    }
    command
}

/// Why an audit failed and what to do about it, in a sentence each.
pub(crate) fn of_audit(model: &Audited) -> Option<(String, String)> {
    let is_worst = |cast: &&AuditedCast| cast.damaged() > 0 || cast.has_wrong_scale();
    let worst = model.casts.iter().chain(&model.roundings).find(is_worst);
    let worst = worst.filter(|_| model.head.status == Status::Failed)?;
    let (node, to) = (single_line(&worst.node), type_name(&worst.to));
    let what = match to {
        _ if worst.has_wrong_scale() => {
            format!("Calibrate `{node}` on real data, so that its scale covers the values")
        }
        "FLOAT16" | "BFLOAT16" => {
            let keep = if is_python() {
                format!("onnx_cast.keep(original, to={to:?})")
            } else {
                format!("onnx-cast keep ORIGINAL --to {to}")
            };
            format!("Find the nodes to keep in FLOAT by `{keep}`")
        }
        _ => format!("Keep the nodes around `{node}` in a type that holds their values"),
    };
    let allow = told("--allow", "`allow`");
    let next = format!("{what}; if this is intended, raise the limit with {allow}.");
    Some((cause_in_words(worst), next))
}
