//! Reports for people at a terminal.

use super::facts::{
    Audited, CastFacts, Compared, FindingFacts, Parting, RangeFacts, Status, TensorFacts,
    ToleranceFacts,
};
use super::message::{shortened, single_line};
use super::num::Num;
use super::show::table;
use super::terminal::{BAD, GOOD, Output};

/// What stands before a cast that may be the reason why graphs part later.
pub(super) const CULPRIT: &str = "the worst cast before it that the reference does not have";

/// How much of a name a table shows.
const NAME_CHARS: usize = 60;

pub(super) fn of_audits(models: &[Audited], output: &Output) -> String {
    let parts = models.iter().map(|model| of_audit(model, output));
    let mut text = parts.collect::<Vec<_>>().join("\n\n");
    if models.len() > 1 {
        text += &tally(models.iter().map(|model| model.status));
    }
    text
}

fn of_audit(model: &Audited, output: &Output) -> String {
    let name = single_line(&model.model);
    if let Some(problem) = &model.problem {
        return format!("{name}: {} {}", output.paint(BAD, "unusable:"), single_line(problem));
    }
    let mut lines = vec![format!("{name}: {}", casts_in_words(model.casts.len(), model.sets))];
    lines.extend(cast_table(&model.casts));
    lines.extend(model.notes.iter().map(|note| format!("note: {}", single_line(note))));
    lines.extend(finding_lines(&model.findings));
    lines
        .extend(model.tolerance_file.iter().map(|file| format!("limits of {}", single_line(file))));
    for exceeded in &model.exceeded {
        lines.push(format!(
            "{} {}",
            output.paint(BAD, "beyond the limits:"),
            single_line(exceeded)
        ));
    }
    if model.exceeded.is_empty() && !model.casts.is_empty() {
        lines.push(output.paint(GOOD, "every cast is within its limits"));
    }
    lines.join("\n")
}

pub(super) fn casts_in_words(casts: usize, sets: usize) -> String {
    let sets = if sets == 1 { "1 set".to_owned() } else { format!("{sets} sets") };
    match casts {
        0 => "no Cast and no CastLike".into(),
        1 => format!("1 cast, {sets} of inputs"),
        casts => format!("{casts} casts, {sets} of inputs"),
    }
}

fn cast_table(casts: &[CastFacts]) -> Option<String> {
    let heads = [
        "node",
        "from",
        "to",
        "elements",
        "max abs",
        "max rel",
        "max ulp",
        "source",
        "what became of them",
    ];
    let rows = casts.iter().map(|cast| {
        vec![
            shortened(&single_line(&cast.node), NAME_CHARS),
            cast.from.clone().unwrap_or("?".into()),
            cast.to.clone().unwrap_or("?".into()),
            cast.elements.to_string(),
            cast.max_abs.to_string(),
            cast.max_rel.to_string(),
            cast.max_ulp.to_string(),
            range_in_words(&cast.source),
            what_happened(cast),
        ]
    });
    let all: Vec<Vec<String>> =
        [heads.map(String::from).to_vec()].into_iter().chain(rows).collect();
    (all.len() > 1).then(|| table(&all))
}

/// The counts that are not zero, the worst first.
pub(super) fn what_happened(cast: &CastFacts) -> String {
    let worst_first =
        tract_onnx_cast::audit::Outcome::ALL.iter().rev().map(|outcome| outcome.name());
    let counts = worst_first.map(|name| (name, cast.count(name)));
    let more = [("became_subnormal", cast.became_subnormal), ("sign_lost", cast.sign_lost)];
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

pub(super) fn range_in_words(range: &RangeFacts) -> String {
    match (range.min, range.max) {
        (Some(min), Some(max)) => format!("{min} … {max}"),
        _ => "-".into(),
    }
}

fn finding_lines(findings: &[FindingFacts]) -> impl Iterator<Item = String> {
    findings.iter().map(|finding| {
        let kind = if finding.is_error { "invalid" } else { "note" };
        format!("{kind}: `{}`: {}", single_line(&finding.node), single_line(&finding.text))
    })
}

pub(super) fn of_comparisons(pairs: &[Compared], output: &Output) -> String {
    let parts = pairs.iter().map(|pair| of_comparison(pair, output));
    let mut text = parts.collect::<Vec<_>>().join("\n\n");
    if pairs.len() > 1 {
        text += &tally(pairs.iter().map(|pair| pair.status));
    }
    text
}

fn of_comparison(pair: &Compared, output: &Output) -> String {
    let (reference, converted) = (single_line(&pair.reference), single_line(&pair.converted));
    let name = format!("{converted} against {reference}");
    if let Some(problem) = &pair.problem {
        return format!("{name}: {} {}", output.paint(BAD, "unusable:"), single_line(problem));
    }
    let sets = if pair.sets == 1 { "1 set".into() } else { format!("{} sets", pair.sets) };
    let mut lines = vec![format!("{name}: {sets} of inputs")];
    lines.extend(tensor_table(&pair.outputs));
    if !pair.tensors.is_empty() {
        lines.push("tensors that both graphs have:".into());
        lines.extend(tensor_table(&pair.tensors));
    }
    lines.extend(pair.notes.iter().map(|note| format!("note: {}", single_line(note))));
    lines.extend(change_lines(pair));
    lines.extend(
        pair.tolerance_file.iter().map(|file| format!("tolerances of {}", single_line(file))),
    );
    for (what, parting) in partings(pair) {
        lines.push(format!("{what}: {}", parting_in_words(parting)));
        lines.extend(beyond_in_words(&parting.tensor).map(|beyond| format!("  {beyond}")));
        lines.extend(parting.cast.iter().filter_map(|cast| cast_table(std::slice::from_ref(cast))));
        if let Some(culprit) = &parting.culprit {
            lines.push(format!("{CULPRIT}:"));
            lines.extend(cast_table(std::slice::from_ref(culprit)));
        }
    }
    let (style, verdict) = verdict(pair);
    lines.push(output.paint(if style { GOOD } else { BAD }, &verdict));
    lines.join("\n")
}

/// Whether it is good, and the one sentence that says what came out.
pub(super) fn verdict(pair: &Compared) -> (bool, String) {
    let count = pair.outputs.len();
    let outputs = if count == 1 { "the output" } else { "every output" };
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    match pair.status {
        Status::Unusable => (false, "the two cannot be compared".into()),
        Status::Failed if failed > 0 => {
            (false, format!("{failed} of {count} output(s) beyond the tolerance"))
        }
        Status::Failed => {
            (false, "nothing was compared: no output has a value other than NaN".into())
        }
        Status::Passed if pair.identical => (true, format!("{outputs} is exactly equal")),
        Status::Passed if pair.outputs.iter().all(|output| output.differing == 0) => {
            (true, format!("{outputs} is equal, but for the signs of zeros"))
        }
        Status::Passed => (true, format!("{outputs} is within the tolerance")),
    }
}

fn tensor_table(tensors: &[TensorFacts]) -> Option<String> {
    let heads = [
        "name",
        "types",
        "max abs",
        "max rel",
        "max ulp",
        "mean ulp",
        "cosine",
        "would pass with",
        "result",
    ];
    let rows = tensors.iter().map(|tensor| {
        vec![
            shortened(&single_line(&tensor.name), NAME_CHARS),
            types(tensor),
            measured(tensor, tensor.max_abs),
            measured(tensor, tensor.max_rel),
            measured(tensor, tensor.max_ulp),
            measured(tensor, tensor.mean_ulp),
            tensor.cosine.map_or("-".to_owned(), |Num(cosine)| format!("{cosine:.6}")),
            passing(tensor),
            result(tensor),
        ]
    });
    let all: Vec<Vec<String>> =
        [heads.map(String::from).to_vec()].into_iter().chain(rows).collect();
    (all.len() > 1).then(|| table(&all))
}

fn measured(tensor: &TensorFacts, number: Num) -> String {
    if is_measured(tensor) { number.to_string() } else { "-".into() }
}

/// Whether there were values on both sides whose difference is a number.
pub(super) fn is_measured(tensor: &TensorFacts) -> bool {
    let apart = tensor.nan_differences + tensor.infinity_differences;
    tensor.problem.is_none() && (tensor.elements == 0 || tensor.elements > apart)
}

/// The smallest tolerances that would pass.
pub(super) fn passing(tensor: &TensorFacts) -> String {
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

pub(super) fn types(tensor: &TensorFacts) -> String {
    match tensor.reference_type == tensor.converted_type {
        true => tensor.reference_type.clone(),
        false => format!("{} → {}", tensor.reference_type, tensor.converted_type),
    }
}

/// How a tensor fared.
pub(super) fn result(tensor: &TensorFacts) -> String {
    match tensor {
        _ if tensor.problem.is_some() || !tensor.passed => format!("FAIL: {}", difference(tensor)),
        _ if tensor.elements == 0 => "no elements".into(),
        _ if tensor.both_nan == tensor.elements => "nothing but NaN".into(),
        _ if tensor.identical => "equal".into(),
        _ if tensor.differing == 0 => "equal, but for the signs of zeros".into(),
        _ => format!("within {}", tolerance(&tensor.tolerance)),
    }
}

/// What is wrong with a tensor.
pub(super) fn difference(tensor: &TensorFacts) -> String {
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
    {
        // In full: what is wanted may be near 1.
        let found = found.map_or("undefined".into(), |found| found.0.to_string());
        parts.push(format!("cosine {found}, at least {} is wanted", least.0));
    }
    parts.extend(tensor.first_mismatch.iter().map(|first| single_line(first)));
    parts.join(", ")
}

/// Where the graphs part, and where it gets bad if that is elsewhere.
pub(super) fn partings(pair: &Compared) -> impl Iterator<Item = (&'static str, &Parting)> {
    let all = [
        ("the first tensor where they part", &pair.first_difference),
        ("the first tensor with NaN or infinities of its own", &pair.first_damage),
        ("the first tensor whose values the converted type cannot hold", &pair.first_beyond),
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
pub(super) fn parting_in_words(parting: &Parting) -> String {
    format!(
        "`{}`, which {} `{}` makes: {}",
        single_line(&parting.tensor.name),
        single_line(&parting.op),
        single_line(&parting.node),
        difference(&parting.tensor)
    )
}

/// What the converted side's type cannot hold.
pub(super) fn beyond_in_words(tensor: &TensorFacts) -> Option<String> {
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

fn tolerance(tolerance: &ToleranceFacts) -> String {
    let ToleranceFacts { rtol, atol, ulp, cosine } = tolerance;
    let parts = [("rtol", rtol), ("atol", atol), ("ulp", ulp), ("cosine", cosine)];
    let given =
        parts.iter().filter_map(|(name, number)| Some(format!("{name} {}", number.as_ref()?)));
    given.collect::<Vec<_>>().join(", ")
}

/// Casts that only one of the two models has, or that cast to something else.
pub(super) fn change_lines(pair: &Compared) -> Vec<String> {
    let or = |ty: &Option<String>| ty.clone().unwrap_or("?".into());
    let cast = |name: &super::facts::CastName| {
        format!("`{}` {} to {}", single_line(&name.node), or(&name.from), or(&name.to))
    };
    let added = pair.casts.added.iter().map(|name| format!("cast added: {}", cast(name)));
    let removed = pair.casts.removed.iter().map(|name| format!("cast removed: {}", cast(name)));
    let retargeted = pair.casts.retargeted.iter().map(|both| {
        let (was, is) = (&both.reference, &both.converted);
        format!("cast retargeted: {}, was {} to {}", cast(is), or(&was.from), or(&was.to))
    });
    added.chain(removed).chain(retargeted).collect()
}

fn tally(statuses: impl Iterator<Item = Status>) -> String {
    let (mut passed, mut failed, mut unusable) = (0, 0, 0);
    for status in statuses {
        *(match status {
            Status::Passed => &mut passed,
            Status::Failed => &mut failed,
            Status::Unusable => &mut unusable,
        }) += 1;
    }
    format!("\n\n{passed} passed, {failed} failed, {unusable} unusable")
}
