//! Reports for a pull request's comment.

use super::{coverage, phrases};
use crate::cli::judge::audited::{AuditFinding, Audited, AuditedCast};
use crate::cli::judge::compared::{Compared, ComparedTensor};
use crate::cli::judge::status::Status;
use crate::cli::message::single_line;

pub(crate) fn of_audits(models: &[Audited]) -> String {
    models.iter().map(of_audit).collect::<Vec<_>>().join("\n")
}

fn of_audit(model: &Audited) -> String {
    let mut text =
        format!("### {} `onnx-cast audit` {}\n\n", mark(model.status), code(&model.model));
    if let Some(problem) = &model.problem {
        return text + &plain(problem) + "\n";
    }
    text += &format!("{}.\n\n", phrases::casts_in_words(model));
    text += &warnings(&model.warnings);
    for exceeded in &model.exceeded {
        text += &format!("- **beyond the limits:** {}\n", plain(exceeded));
    }
    text += &cast_table(&model.casts);
    if let Some(words) = phrases::roundings_in_words(model) {
        text += &format!("\n{words}\n\n{}", cast_table(&model.roundings));
    }
    for note in model.notes.iter().cloned().chain(coverage::audit_remarks(model)) {
        text += &format!("- {}\n", plain(&note));
    }
    for AuditFinding { node, text: words, is_error, .. } in &model.findings {
        let kind = if *is_error { "**invalid:** " } else { "" };
        text += &format!("- {kind}{} {}\n", code(node), plain(words));
    }
    text
}

fn warnings(warnings: &[String]) -> String {
    warnings.iter().map(|warning| format!("> ⚠️ {}\n\n", plain(warning))).collect()
}

fn cast_table(casts: &[AuditedCast]) -> String {
    let rows = casts.iter().map(|cast| {
        [
            code(&cast.node),
            phrases::cast_types(cast),
            cast.elements.to_string(),
            phrases::what_happened(cast),
            cast.max_ulp.to_string(),
            phrases::range_in_words(&cast.source),
        ]
    });
    table(["cast", "types", "elements", "what became of them", "max ulp", "source"], rows)
}

pub(crate) fn of_comparisons(pairs: &[Compared]) -> String {
    pairs.iter().map(of_comparison).collect::<Vec<_>>().join("\n")
}

fn of_comparison(pair: &Compared) -> String {
    let (reference, converted) = (code(&pair.reference), code(&pair.converted));
    let mut text = format!(
        "### {} `onnx-cast compare` {converted} against {reference}\n\n",
        mark(pair.status)
    );
    if let Some(problem) = &pair.problem {
        return text + &plain(problem) + "\n";
    }
    text += &format!("{}; {}.\n\n", phrases::verdict(pair).1, pair.inputs.sets_in_words(pair.sets));
    text += &warnings(&pair.warnings);
    let row = |tensor: &ComparedTensor| {
        [
            code(&tensor.name),
            phrases::types(tensor),
            tensor.max_abs.to_string(),
            tensor.max_rel.to_string(),
            tensor.max_ulp.to_string(),
            plain(&phrases::result(tensor)),
        ]
    };
    let heads = ["output", "types", "max abs", "max rel", "max ulp", "result"];
    text += &table(heads, pair.outputs.iter().map(row));
    for (what, parting) in phrases::partings(pair) {
        text += &format!("\n**{what}:** {}\n", plain(&phrases::parting_in_words(parting)));
        if let Some(beyond) = phrases::beyond_in_words(&parting.tensor) {
            text += &format!("\n{}\n", plain(&beyond));
        }
        if let Some(cast) = &parting.cast {
            text += &format!("\n{}", cast_table(std::slice::from_ref(cast)));
        }
        if let Some(culprit) = &parting.culprit {
            let row = cast_table(std::slice::from_ref(culprit));
            text += &format!("\n{}:\n\n{row}", phrases::CULPRIT);
        }
    }
    for line in coverage::remarks(pair) {
        text += &format!("\n- {}", plain(&line));
    }
    text + "\n"
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "✅",
        Status::Failed => "❌",
        Status::Unusable => "⚠️",
    }
}

fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&heads.map(String::from)) + &line(&heads.map(|_| "---".into()));
    let before = text.len();
    rows.for_each(|row| text += &line(&row));
    if text.len() == before { String::new() } else { text + "\n" }
}

/// A name as code. A hostile model may have any names.
fn code(name: &str) -> String {
    format!("<code>{}</code>", plain(name))
}

/// Text in which nothing means anything to Markdown or HTML.
fn plain(text: &str) -> String {
    let mut escaped = String::new();
    for c in single_line(text).chars() {
        match c {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            // What makes links, mentions of people, and formats.
            '|' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '@' | '\\' | '~' | '$' => {
                escaped += &format!("&#{};", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}
