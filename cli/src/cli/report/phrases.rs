//! Sentences and parts of them that the reports have in common, whatever they are written in.

use tract_onnx_cast::audit::{FindingKind, Outcome};

use crate::cli::found::audited::{AuditFinding, Audited, AuditedCast};
use crate::cli::found::compared::{CastName, Compared, ComparedTensor, GraphNode, Parting};
use crate::cli::found::status::Status;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::single_line;
use crate::cli::report::coverage::wrong_weights;

/// Introduces the cast that may have caused a difference which shows only further on in the graph.
pub(crate) const CULPRIT: &str = "the worst cast before it that the reference does not have";

/// What there is to say of a model without casts.
pub(crate) const NO_CASTS: &str = "no Cast and no CastLike";

/// What there is to say of a model in which nothing is audited.
pub(crate) const NOTHING_TO_AUDIT: &str = "no Cast and no CastLike, nor a QuantizeLinear";

/// What an audit has to say of operators on half precision, if the model has any.
pub(crate) fn roundings_in_words(model: &Audited) -> Option<String> {
    let (all, more) = (model.rounded, model.roundings.len());
    (all > 0).then(|| match more {
        0 => format!(
            "{all} result(s) of operators on half precision, none of which did more than round"
        ),
        _ => format!(
            "{all} result(s) of operators on half precision, of which {more} did more than round:"
        ),
    })
}

/// The first lines of a list, and how many others there are.
pub(crate) fn folded(mut lines: Vec<String>, top: usize) -> Vec<String> {
    // A line that says that there is one more would take as much room as that one.
    if lines.len() > top.saturating_add(1) {
        let more = lines.len() - top;
        lines.truncate(top);
        lines.push(format!("… and {more} more (--top N shows more, --json all)"));
    }
    lines
}

/// What there is to say of casts beyond the first ones of a table, the worst of which come first.
pub(crate) fn casts_left_out(casts: &[AuditedCast], top: usize) -> String {
    let rest = casts.get(top..).unwrap_or_default();
    let spoiled = rest.iter().filter(|cast| cast.damaged() > 0).count();
    match (rest.len(), spoiled) {
        (0, _) => String::new(),
        (more, 0) => format!("\n… and {more} more, none of which spoiled a value (--top N)"),
        (more, spoiled) => {
            format!("\n… and {more} more, of which {spoiled} spoiled values (--top N)")
        }
    }
}

/// Those of the tensors that a table shows, in their order: those that failed before the others.
pub(crate) fn worst_tensors(tensors: &[ComparedTensor], top: usize) -> Vec<&ComparedTensor> {
    let mut places: Vec<usize> = (0..tensors.len()).collect();
    places.sort_by_key(|place| tensors.get(*place).is_none_or(|tensor| tensor.passed));
    places.truncate(top);
    places.sort_unstable();
    places.iter().filter_map(|place| tensors.get(*place)).collect()
}

/// How many tensors a table does not show.
pub(crate) fn tensors_left_out(tensors: &[ComparedTensor], top: usize) -> String {
    let failed = tensors.iter().filter(|tensor| !tensor.passed).count();
    match (tensors.len().saturating_sub(top), failed.saturating_sub(top)) {
        (0, _) => String::new(),
        (more, 0) => format!("\n… and {more} more, all within the tolerance (--top N)"),
        (more, failed) => format!("\n… and {more} more, of which {failed} failed (--top N)"),
    }
}

/// A relative error. Beside values near zero it can be any number: beyond 10 it says no more than that.
pub(crate) fn relative(error: Num) -> String {
    if error.0 > 10.0 { "> 10".into() } else { error.to_string() }
}

/// An error in units of the last place. More of them than a type has in a power of two say no more than that.
pub(crate) fn last_places(error: Num) -> String {
    if error.0 > 1e6 { "> 1e6".into() } else { error.to_string() }
}

/// What can be said of casts without a run. Casts that change nothing share a line.
pub(crate) fn finding_lines(findings: &[AuditFinding]) -> Vec<String> {
    let is_idle =
        |finding: &&AuditFinding| finding.kind == FindingKind::NoOp.name() && !finding.is_error;
    let idle: Vec<&AuditFinding> = findings.iter().filter(is_idle).collect();
    let mut lines = vec![];
    for finding in findings {
        let share = idle.len() > 1 && is_idle(&finding);
        let (node, text) = (single_line(&finding.node), single_line(&finding.text));
        match finding.is_error {
            _ if share => {}
            true => lines.insert(0, format!("invalid: `{node}`: {text}")),
            false => lines.push(format!("note: `{node}`: {text}")),
        }
    }
    if idle.len() > 1 {
        let nodes = names(idle.iter().map(|finding| finding.node.as_str()));
        lines.push(format!("note: {} casts cast a type to itself: {nodes}", idle.len()));
    }
    lines
}

/// Some names of a list, and how many others there are.
pub(super) fn names<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    const NAMED: usize = 3;
    let count = all.len();
    let some: Vec<String> =
        all.take(NAMED).map(|name| format!("`{}`", single_line(name))).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    some.join(", ") + &more
}

/// An element type that the model may not tell.
pub(crate) fn type_name(ty: &Option<String>) -> &str {
    ty.as_deref().unwrap_or("?")
}

/// The types of a cast.
pub(crate) fn cast_types(cast: &AuditedCast) -> String {
    format!("{} → {}", type_name(&cast.from), type_name(&cast.to))
}

/// How many casts have been seen, and on how many inputs.
pub(crate) fn casts_in_words(model: &Audited) -> String {
    let sets = model.inputs.sets_in_words(model.sets);
    match model.casts.len() {
        0 => NOTHING_TO_AUDIT.into(),
        1 => format!("1 cast, {sets}"),
        casts => format!("{casts} casts, {sets}"),
    }
}

/// The counts that are not zero, the worst first.
pub(crate) fn what_happened(cast: &AuditedCast) -> String {
    let worst_first = Outcome::ALL.iter().rev().map(|outcome| outcome.name());
    let counts = worst_first.map(|name| (name, cast.count(name)));
    let more = [
        ("made_infinite", cast.made_infinite),
        ("made_nan", cast.made_nan),
        ("became_subnormal", cast.became_subnormal),
        ("sign_lost", cast.sign_lost),
    ];
    let parts = counts.chain(more).filter(|(_, count)| *count > 0);
    let mut parts: Vec<String> =
        parts.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    let came = [
        ("NaN in the source", cast.source.nans),
        ("infinite in the source", cast.source.infinities),
    ];
    parts.extend(
        came.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")),
    );
    if cast.runs == 0 {
        parts.push("did not run".into());
    } else if parts.is_empty() {
        parts.push("no elements".into());
    }
    if cast.constant {
        parts.push("(constant)".into());
    }
    parts.join(", ")
}

pub(crate) fn range_in_words(range: &SourceRange) -> String {
    match (range.min, range.max) {
        (Some(min), Some(max)) => format!("{min} … {max}"),
        _ => "-".into(),
    }
}

/// Whether a comparison has passed, and a sentence that says why.
pub(crate) fn verdict(pair: &Compared) -> (bool, String) {
    let count = pair.outputs.len();
    let outputs = if count == 1 { "the output" } else { "every output" };
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    match pair.status {
        Status::Unusable => (false, "the two cannot be compared".into()),
        Status::Failed if failed > 0 => {
            let given = tolerances(pair.outputs.iter().filter(|output| !output.passed));
            (false, format!("{failed} of {count} output(s) beyond the tolerance: {given}"))
        }
        Status::Failed => match wrong_weights(&pair.weights) {
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
        Status::Passed if pair.identical && pair.weights.exact < pair.weights.compared => {
            let differ = pair.weights.compared - pair.weights.exact;
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

/// Whether there were values on both sides whose difference is a number.
pub(crate) fn is_measured(tensor: &ComparedTensor) -> bool {
    let apart = tensor.nan_differences + tensor.infinity_differences;
    tensor.problem.is_none() && (tensor.elements == 0 || tensor.elements > apart)
}

/// The smallest tolerances that would pass.
pub(crate) fn passing(tensor: &ComparedTensor) -> String {
    let given = [("atol", tensor.passing_atol), ("rtol", tensor.passing_rtol)];
    let given = given.iter().filter_map(|(name, number)| Some((name, (*number)?.at_least())));
    let texts: Vec<String> = given.map(|(name, number)| format!("{name} {number}")).collect();
    match tensor {
        _ if tensor.problem.is_some() => "nothing".into(),
        _ if tensor.differing == 0 => "no tolerance".into(),
        _ if texts.is_empty() => "nothing".into(),
        _ => texts.join(" or "),
    }
}

pub(crate) fn types(tensor: &ComparedTensor) -> String {
    match tensor.reference_type == tensor.converted_type {
        true => tensor.reference_type.clone(),
        false => format!("{} → {}", tensor.reference_type, tensor.converted_type),
    }
}

/// How a tensor fared.
pub(crate) fn result(tensor: &ComparedTensor) -> String {
    match tensor {
        _ if tensor.problem.is_some() || !tensor.passed => format!("FAIL: {}", difference(tensor)),
        _ if tensor.elements == 0 => "no elements".into(),
        _ if tensor.both_nan == tensor.elements => "nothing but NaN".into(),
        _ if tensor.identical => "equal".into(),
        _ if tensor.differing == 0 => "equal, but for the signs of zeros".into(),
        _ => format!("within {}{}", tolerance(&tensor.tolerance), integers_in_words(tensor)),
    }
}

/// The share of integers that are others, for whom an error says little.
fn integers_in_words(tensor: &ComparedTensor) -> String {
    let is_integer = |ty: &str| ty.starts_with("INT") || ty.starts_with("UINT") || ty == "BOOL";
    if tensor.elements == 0 || !is_integer(&tensor.converted_type) {
        return String::new();
    }
    let share = Num(100.0 * tensor.differing as f64 / tensor.elements as f64);
    format!(", {} of {} values differ ({share} %)", tensor.differing, tensor.elements)
}

/// How often the largest elements of rows are the same ones.
pub(crate) fn ranking(tensor: &ComparedTensor) -> String {
    let percent = |share: Num| format!("{} %", Num(share.0 * 100.0));
    match (tensor.top1, tensor.top5) {
        (None, _) => "-".into(),
        (Some(one), None) => percent(one),
        (Some(one), Some(five)) => format!("{}, {}", percent(one), percent(five)),
    }
}

/// A ratio of powers.
pub(crate) fn decibels(tensor: &ComparedTensor) -> String {
    match tensor.sqnr {
        Some(Num(ratio)) if ratio.is_infinite() => if ratio > 0.0 { "∞" } else { "-∞" }.into(),
        Some(Num(ratio)) => format!("{ratio:.1}"),
        None => "-".into(),
    }
}

/// What is wrong with a tensor.
pub(crate) fn difference(tensor: &ComparedTensor) -> String {
    if let Some(problem) = &tensor.problem {
        return single_line(problem);
    }
    let mut parts = vec![];
    if tensor.mismatches > 0 {
        parts.push(format!("{} of {} values differ", tensor.mismatches, tensor.elements));
    }
    if tensor.nan_differences > 0 {
        parts.push(format!("{} NaN on one side", tensor.nan_differences));
    }
    if tensor.infinity_differences > 0 {
        parts.push(format!("{} infinite on one side", tensor.infinity_differences));
    }
    if let (true, Some(least), found) =
        (tensor.mismatches == 0, tensor.tolerance.cosine, tensor.cosine)
        && found.is_none_or(|Num(found)| found < least)
    {
        // With all digits: a cosine and the one that is wanted may both be near 1.
        let found = found.map_or("undefined".into(), |found| found.0.to_string());
        parts.push(format!("cosine {found}, at least {} is wanted", least));
    }
    if let (true, Some(least)) = (tensor.mismatches == 0, tensor.tolerance.sqnr)
        && tensor.sqnr.is_none_or(|Num(found)| found < least)
    {
        let found = tensor.sqnr.map_or("undefined".into(), |found| found.to_string());
        parts.push(format!("SQNR {found} dB, at least {least} is wanted"));
    }
    parts.extend(tensor.first_mismatch.iter().map(|first| single_line(first)));
    parts.join(", ")
}

/// The tensors where the graphs part, the gravest first: the first with NaN or infinities of its own, the first with values
/// that its type cannot hold, and the first that differs too much, which may only have drifted; a tensor that is several of
/// these is told once.
pub(crate) fn partings(pair: &Compared) -> impl Iterator<Item = (&'static str, &Parting)> {
    let all = [
        ("the first tensor with NaN or infinities of its own", &pair.first_damage),
        ("the tensor where the error grows most", &pair.largest_jump),
        ("the first tensor whose values the converted type cannot hold", &pair.first_beyond),
        ("the first tensor where they part", &pair.first_difference),
    ];
    let mut told: Vec<(&str, &Parting)> = vec![];
    for (what, parting) in all {
        let Some(parting) = parting else { continue };
        if told.iter().all(|(_, other)| other.tensor.name != parting.tensor.name) {
            told.push((what, parting));
        }
    }
    told.into_iter()
}

/// Which tensor it is, what makes it, and how it differs.
pub(crate) fn parting_in_words(parting: &Parting) -> String {
    let tensor = &parting.tensor;
    let is_number = tensor.mismatches > 0 && is_measured(tensor);
    let size = if is_number { format!(", by {} at most", tensor.max_abs) } else { String::new() };
    format!(
        "`{}`, which {} `{}` makes: {}{size}{}",
        single_line(&tensor.name),
        single_line(&parting.op),
        single_line(&parting.node),
        difference(tensor),
        on_the_way(parting)
    )
}

/// What only one of the two models computes between the tensor and those before it. The worst cast stands before the others; alone it
/// is told on its own.
fn on_the_way(parting: &Parting) -> String {
    const NAMED: usize = 3;
    let mut text = String::new();
    let sides = [
        ("the converted model", &parting.only_converted),
        ("the reference", &parting.only_reference),
    ];
    let worst = parting.culprit.as_ref().map(|cast| &cast.node);
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

/// What the converted side's type cannot hold.
pub(crate) fn beyond_in_words(tensor: &ComparedTensor) -> Option<String> {
    let target = tensor.target.as_ref().filter(|_| tensor.beyond_target > 0)?;
    Some(format!(
        "{} of its values in the reference are beyond what {} holds, {} … {}: they are {}",
        tensor.beyond_target,
        tensor.converted_type,
        target.min,
        target.max,
        range_in_words(&tensor.source)
    ))
}

fn tolerance(tolerance: &Tolerance) -> String {
    let Tolerance { rtol, atol, ulp, cosine, sqnr } = *tolerance;
    let parts = [("rtol", rtol), ("atol", atol), ("ulp", ulp), ("cosine", cosine), ("sqnr", sqnr)];
    let given = parts.iter().filter_map(|(name, x)| Some(format!("{name} {}", typed((*x)?))));
    given.collect::<Vec<_>>().join(", ")
}

/// A number as somebody would type it.
fn typed(number: f64) -> String {
    let plain = number.to_string();
    let short = format!("{number:e}");
    if short.len() < plain.len() { short } else { plain }
}

/// Casts that only one of the two models has, or that cast to something else.
pub(crate) fn change_lines(pair: &Compared) -> Vec<String> {
    let cast = |name: &CastName| {
        format!(
            "`{}` {} to {}",
            single_line(&name.node),
            type_name(&name.from),
            type_name(&name.to)
        )
    };
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
        let (was, is) = (&both.reference, &both.converted);
        format!(
            "cast retargeted: {}, was {} to {}",
            cast(is),
            type_name(&was.from),
            type_name(&was.to)
        )
    });
    retargeted.chain(added).chain(removed).collect()
}
