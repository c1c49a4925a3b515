//! Reports for people at a terminal.

use super::phrases;
use super::table::table;
use super::terminal::{BAD, DOUBTFUL, GOOD, Output};
use crate::cli::judge::audited::{AuditFinding, Audited, AuditedCast};
use crate::cli::judge::compared::{Compared, ComparedTensor};
use crate::cli::judge::number::Num;
use crate::cli::judge::status::Status;
use crate::cli::message::{shortened, single_line};

/// How much of a name a table shows.
const NAME_CHARS: usize = 60;

/// What audits found.
pub(crate) fn of_audits(models: &[Audited], output: &Output) -> String {
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
    let mut lines = vec![format!("{name}: {}", phrases::casts_in_words(model))];
    lines.extend(cast_table(&model.casts));
    lines.extend(phrases::roundings_in_words(model));
    lines.extend(cast_table(&model.roundings));
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
    lines.extend(warning_lines(&model.warnings, output));
    if model.exceeded.is_empty() && !model.casts.is_empty() {
        lines.push(output.paint(GOOD, "every cast is within its limits"));
    }
    lines.join("\n")
}

fn cast_table(casts: &[AuditedCast]) -> Option<String> {
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
            phrases::type_name(&cast.from).into(),
            phrases::type_name(&cast.to).into(),
            cast.elements.to_string(),
            cast.max_abs.to_string(),
            cast.max_rel.to_string(),
            cast.max_ulp.to_string(),
            phrases::range_in_words(&cast.source),
            phrases::what_happened(cast),
        ]
    });
    let all: Vec<Vec<String>> =
        [heads.map(String::from).to_vec()].into_iter().chain(rows).collect();
    (all.len() > 1).then(|| table(&all))
}

fn finding_lines(findings: &[AuditFinding]) -> impl Iterator<Item = String> {
    findings.iter().map(|finding| {
        let kind = if finding.is_error { "invalid" } else { "note" };
        format!("{kind}: `{}`: {}", single_line(&finding.node), single_line(&finding.text))
    })
}

fn warning_lines(warnings: &[String], output: &Output) -> impl Iterator<Item = String> {
    warnings
        .iter()
        .map(|warning| format!("{} {}", output.paint(DOUBTFUL, "warning:"), single_line(warning)))
}

/// What comparisons found.
pub(crate) fn of_comparisons(pairs: &[Compared], output: &Output) -> String {
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
    let mut lines = vec![format!("{name}: {}", pair.inputs.sets_in_words(pair.sets))];
    lines.extend(tensor_table(&pair.outputs));
    if !pair.tensors.is_empty() {
        lines.push("tensors that both graphs have:".into());
        lines.extend(tensor_table(&pair.tensors));
    }
    lines.extend(pair.notes.iter().map(|note| format!("note: {}", single_line(note))));
    lines.extend(phrases::change_lines(pair));
    lines.extend(
        pair.tolerance_file.iter().map(|file| format!("tolerances of {}", single_line(file))),
    );
    for (what, parting) in phrases::partings(pair) {
        lines.push(format!("{what}: {}", phrases::parting_in_words(parting)));
        lines.extend(phrases::beyond_in_words(&parting.tensor).map(|beyond| format!("  {beyond}")));
        lines.extend(parting.cast.iter().filter_map(|cast| cast_table(std::slice::from_ref(cast))));
        if let Some(culprit) = &parting.culprit {
            lines.push(format!("{}:", phrases::CULPRIT));
            lines.extend(cast_table(std::slice::from_ref(culprit)));
        }
    }
    lines.extend(warning_lines(&pair.warnings, output));
    let (style, verdict) = phrases::verdict(pair);
    lines.push(output.paint(if style { GOOD } else { BAD }, &verdict));
    lines.join("\n")
}

fn tensor_table(tensors: &[ComparedTensor]) -> Option<String> {
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
            phrases::types(tensor),
            measured(tensor, tensor.max_abs),
            measured(tensor, tensor.max_rel),
            measured(tensor, tensor.max_ulp),
            measured(tensor, tensor.mean_ulp),
            tensor.cosine.map_or("-".to_owned(), |Num(cosine)| format!("{cosine:.6}")),
            phrases::passing(tensor),
            phrases::result(tensor),
        ]
    });
    let all: Vec<Vec<String>> =
        [heads.map(String::from).to_vec()].into_iter().chain(rows).collect();
    (all.len() > 1).then(|| table(&all))
}

fn measured(tensor: &ComparedTensor, number: Num) -> String {
    if phrases::is_measured(tensor) { number.to_string() } else { "-".into() }
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
