//! Sentences and parts of them that the reports have in common, whatever they are written in.

use tract_onnx_cast::audit::Outcome;

use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::ComparedTensor;
use crate::cli::found::status::Status;
use crate::cli::measure::number::Num;
use crate::cli::measure::range::SourceRange;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::message::{counted, single_line};

/// Introduces the cast that may have caused a difference which shows only further on in the graph.
pub(crate) const CULPRIT: &str = "root cause, a cast that only the converted model has";

/// What there is to say of a model without casts.
pub(crate) const NO_CASTS: &str = "no Cast and no CastLike";

/// What there is to say of a model in which nothing is audited.
pub(crate) const NOTHING_TO_AUDIT: &str =
    "no Cast and no CastLike, nor a QuantizeLinear: nothing to audit";

/// The limits of an audit where nobody gives any.
pub(crate) const DEFAULT_LIMITS: &str =
    "default: no value may overflow, become or lose NaN, wrap around or be undefined";

/// What an audit has to say of operators on half precision, if the model has any.
pub(crate) fn roundings_in_words(model: &Audited) -> Option<String> {
    let (all, more) = (model.rounded, model.roundings.len());
    let results = counted(all, "result");
    (all > 0).then(|| match more {
        0 => format!("{results} of operators on half precision, none of which did more than round"),
        _ => format!(
            "{results} of operators on half precision, of which {more} did more than round:"
        ),
    })
}

/// A sentence of ours as HTML, in which names stand between backquotes; one without a partner is
/// shown as it is.
pub(crate) fn coded(text: &str, escaped: impl Fn(&str) -> String) -> String {
    let mut parts = text.split('`').peekable();
    let (mut html, mut is_code) = (String::new(), false);
    while let Some(part) = parts.next() {
        html += &match (is_code, parts.peek()) {
            (true, Some(_)) => format!("<code>{}</code>", escaped(part)),
            (true, None) => escaped(&format!("`{part}")),
            (false, _) => escaped(part),
        };
        is_code = !is_code;
    }
    html
}

/// How many pieces of work went how.
pub(crate) fn tally(all: impl Iterator<Item = Status> + Clone) -> String {
    let count = |status| all.clone().filter(|found| *found == status).count();
    let [passed, failed, unusable] = [Status::Passed, Status::Failed, Status::Unusable].map(count);
    format!("{passed} passed, {failed} failed, {unusable} unusable")
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

/// What there is to say of the casts that a table does not show.
pub(crate) fn casts_left_out(casts: &[AuditedCast], shown: &[&AuditedCast]) -> String {
    let spoiled = casts.iter().filter(|cast| cast.damaged() > 0).count();
    let shown_spoiled = shown.iter().filter(|cast| cast.damaged() > 0).count();
    match (casts.len() - shown.len(), spoiled - shown_spoiled) {
        (0, _) => String::new(),
        (all, 0) if shown.is_empty() => {
            format!("{}, none of which changed a value (--top N)", counted(all, "cast"))
        }
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

/// A relative error. Beside values near zero it can be any number: beyond 10 it says no more than
/// that.
pub(crate) fn relative(error: Num) -> String {
    if error.0 > 10.0 { "> 10".into() } else { error.to_string() }
}

/// An error in units of the last place. More of them than a type has in a power of two say no more
/// than that.
pub(crate) fn last_places(error: Num) -> String {
    if error.0 > 1e6 { "> 1e6".into() } else { error.to_string() }
}

/// A largest error of a cast; infinite where a value has become so.
pub(crate) fn error_of(cast: &AuditedCast, shown: String) -> String {
    let infinite = cast.count(Outcome::Overflowed) + cast.made_infinite > 0;
    if infinite { "∞".into() } else { shown }
}

/// The largest error of a cast in units of the last place, which codes do not have.
pub(crate) fn ulps_of(cast: &AuditedCast) -> String {
    if cast.is_quantizer() { "-".into() } else { error_of(cast, last_places(cast.max_ulp)) }
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
    let sets = model.head.inputs.sets_in_words(model.head.sets);
    match model.casts.len() {
        0 if model.rounded == 0 => NOTHING_TO_AUDIT.into(),
        0 => format!("no casts, {sets}"),
        casts => format!("{}, {sets}", counted(casts, "cast")),
    }
}

/// The counts that are not zero, the worst first.
pub(crate) fn what_happened(cast: &AuditedCast) -> String {
    let worst_first = Outcome::ALL.iter().rev();
    let counts = worst_first.map(|outcome| (outcome.name(), cast.count(*outcome)));
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

/// Whether there were values on both sides whose difference is a number.
pub(crate) fn is_measured(tensor: &ComparedTensor) -> bool {
    tensor.problem.is_none() && (tensor.elements == 0 || tensor.elements > tensor.apart())
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
    both_types(&tensor.reference_type, &tensor.converted_type)
}

/// A type, or the two where it is another.
pub(super) fn both_types(reference: &str, converted: &str) -> String {
    if reference == converted { reference.into() } else { format!("{reference} → {converted}") }
}

/// How a tensor fared.
pub(crate) fn result(tensor: &ComparedTensor) -> String {
    match tensor {
        _ if tensor.problem.is_some() || !tensor.passed => "FAIL".into(),
        _ if tensor.elements == 0 => "no elements".into(),
        _ if tensor.both_nan == tensor.elements => "all NaN".into(),
        _ if tensor.identical => "equal".into(),
        _ if tensor.differing == 0 => "equal, but for the signs of zeros".into(),
        _ => match tolerance(&tensor.tolerance) {
            // Without a tolerance it passes by the verdict.
            given if given.is_empty() => format!("rounded{}", integers_in_words(tensor)),
            given => format!("within {given}{}", integers_in_words(tensor)),
        },
    }
}

/// A line for each tensor that failed: why.
pub(crate) fn failures(tensors: &[&ComparedTensor]) -> Vec<String> {
    let failed = tensors.iter().filter(|tensor| tensor.problem.is_some() || !tensor.passed);
    failed.map(|t| format!("FAIL `{}`: {}", single_line(&t.name), t.difference())).collect()
}

/// The share of integers that are others, for whom an error says little.
fn integers_in_words(tensor: &ComparedTensor) -> String {
    let is_integer = |ty: &str| ty.starts_with("INT") || ty.starts_with("UINT") || ty == "BOOL";
    if tensor.elements == 0 || !is_integer(&tensor.converted_type) {
        return String::new();
    }
    let share = Num(100.0 * tensor.differing as f64 / tensor.elements as f64);
    format!(", {} of {} differ ({share} %)", tensor.differing, counted(tensor.elements, "value"))
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

/// What the converted side's type cannot hold.
pub(crate) fn beyond_in_words(tensor: &ComparedTensor) -> Option<String> {
    let target = tensor.target.as_ref().filter(|_| tensor.beyond_target > 0)?;
    Some(format!(
        "in the reference its values are {}, and {} of {} are beyond the range of {}, {} … {}",
        range_in_words(&tensor.source),
        tensor.beyond_target,
        counted(tensor.elements, "value"),
        tensor.converted_type,
        target.min,
        target.max,
    ))
}

/// What something was judged by, as it is typed.
pub(crate) fn tolerance(tolerance: &Tolerance) -> String {
    let given = tolerance.parts().map(|(name, part)| format!("{name} {}", typed(part)));
    given.collect::<Vec<_>>().join(", ")
}

/// A number as somebody would type it.
fn typed(number: f64) -> String {
    let plain = number.to_string();
    let short = format!("{number:e}");
    let typed = if short.len() < plain.len() { short } else { plain };
    // One that was computed has more digits than anybody types.
    if typed.len() > 8 { Num(number).to_string() } else { typed }
}
