//! Reports for a pull request's comment.

use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::finding::{FindingRow, Severity};
use crate::cli::found::head::Head;
use crate::cli::found::status::Status;
use crate::cli::message::{single_line, without_middle};
use crate::cli::report::{phrases, remarks, verdict};

/// A comment on GitHub takes 65,536 characters; what is beyond is counted.
const MOST: usize = 64_000;
/// A table ends there.
const TABLE: usize = 14_000;
/// Names and sentences are cut there, in their middle.
const NAME: usize = 120;
const SENTENCE: usize = 600;
/// How many rows stand open; others are folded.
const OPEN_ROWS: usize = 10;

/// Paragraphs, which empty lines separate.
type MarkdownBlocks = Vec<String>;

pub(crate) fn of_audits(models: &[Audited], top: usize) -> String {
    joined(models.iter().map(|model| (model.head.status, of_audit(model, top))).collect())
}

pub(crate) fn of_comparisons(pairs: &[Compared], top: usize) -> String {
    joined(pairs.iter().map(|pair| (pair.head.status, of_comparison(pair, top))).collect())
}

/// The worst first, as far as there is room.
fn joined(mut parts: Vec<(Status, MarkdownBlocks)>) -> String {
    let mut blocks: MarkdownBlocks = vec![];
    if parts.len() > 1 {
        blocks.push(format!("**{}**", phrases::tally(parts.iter().map(|(status, _)| *status))));
        parts.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    }
    blocks.extend(parts.into_iter().flat_map(|(_, blocks)| blocks));
    let (mut text, mut length, mut left_out) = (String::new(), 0, 0);
    for block in &blocks {
        length += block.chars().count() + 2;
        if length > MOST {
            left_out += 1;
            continue;
        }
        text += &format!("{block}\n\n");
    }
    if left_out > 0 {
        text += &format!("… and {left_out} more paragraphs, for which a comment has no room\n");
    }
    format!("{}\n", text.trim_end())
}

fn of_audit(model: &Audited, top: usize) -> MarkdownBlocks {
    let head = &model.head;
    let mut blocks =
        vec![format!("### {} `onnx-cast audit` {}", mark(head.status), code(&model.model))];
    if let Some(problem) = head.problem() {
        blocks.push(sentence(problem));
        return blocks;
    }
    blocks.push(format!("{}.", sentence(&phrases::casts_in_words(model))));
    if let Some((why, next)) = verdict::of_audit(model) {
        blocks.push(format!("**Why:** {}", sentence(&why)));
        blocks.push(format!("**What to do:** {}", sentence(&next)));
    }
    blocks.extend(warnings(head));
    let error = |row: &FindingRow| {
        let line = format!("**{}:** {}", row.code.entry().label, sentence(&row.in_words()));
        if row.help.is_empty() { line } else { format!("{line} ({})", sentence(&row.help)) }
    };
    blocks.extend(list(head.of(Severity::Error).map(error), top));
    blocks.extend(cast_tables(&model.casts));
    if let Some(words) = phrases::roundings_in_words(model) {
        blocks.push(words);
        blocks.extend(cast_tables(&model.roundings));
    }
    let notes = remarks::note_lines(head).into_iter().chain(remarks::part_lines(head));
    blocks.extend(list(notes.map(|note| sentence(&note)), top));
    blocks
}

fn of_comparison(pair: &Compared, top: usize) -> MarkdownBlocks {
    let (reference, converted) = (code(&pair.reference), code(&pair.converted));
    let (mark, head) = (mark(pair.head.status), &pair.head);
    let mut blocks =
        vec![format!("### {mark} `onnx-cast compare` {converted} against {reference}")];
    if let Some(problem) = head.problem() {
        blocks.push(sentence(problem));
        return blocks;
    }
    let sets = head.inputs.sets_in_words(head.sets);
    blocks.push(format!("{}; {}.", sentence(&verdict::verdict(pair).1), sentence(&sets)));
    if head.status == Status::Failed {
        let cause = verdict::cause(pair);
        blocks.extend(cause.map(|line| format!("**Why:** {}.", sentence(&line))));
        let further = verdict::culprits(pair).skip(1).map(|line| sentence(&line));
        blocks.extend(list(further, top));
        if let Some(next) = verdict::next_step(pair) {
            let command = next.command.map(|command| format!(" {}", code(&command)));
            let command = command.unwrap_or_default();
            blocks.push(format!("**What to do:** {}{command}", sentence(&next.words)));
        }
    }
    blocks.extend(warnings(head));
    blocks.extend(tensor_tables(&pair.outputs));
    for (what, place) in verdict::divergences(pair) {
        blocks.push(format!("**{what}:** {}", sentence(&verdict::divergence_in_words(place))));
        blocks.extend(phrases::beyond_in_words(&place.tensor).map(|beyond| sentence(&beyond)));
        blocks.extend(place.cast.iter().flat_map(|cast| cast_tables(std::slice::from_ref(cast))));
        if let Some(culprit) = &place.culprit {
            blocks.push(format!("{}:", phrases::CULPRIT));
            blocks.extend(cast_tables(std::slice::from_ref(culprit)));
        }
    }
    blocks.extend(list(remarks::of_comparison(pair).iter().map(|line| sentence(line)), top));
    blocks
}

fn cast_tables(casts: &[AuditedCast]) -> MarkdownBlocks {
    let row = |cast: &AuditedCast| {
        vec![
            code(&cast.node),
            phrases::cast_types(cast),
            cast.elements.to_string(),
            sentence(&phrases::what_happened(cast)),
            phrases::ulps_of(cast),
            phrases::range_in_words(&cast.source),
        ]
    };
    let heads = ["node", "types", "elements", "outcome", "max ulp", "source"];
    tables(&heads, casts.iter().map(row).collect())
}

fn tensor_tables(tensors: &[ComparedTensor]) -> MarkdownBlocks {
    let row = |tensor: &ComparedTensor| {
        vec![
            code(&tensor.name),
            phrases::types(tensor),
            tensor.max_abs.to_string(),
            phrases::relative(tensor.max_rel),
            phrases::last_places(tensor.max_ulp),
            phrases::decibels(tensor),
            phrases::ranking(tensor),
            match phrases::result(tensor).as_str() {
                "FAIL" => format!("FAIL: {}", sentence(&tensor.difference())),
                result => sentence(result),
            },
        ]
    };
    let heads =
        ["output", "types", "max abs", "max rel", "max ulp", "SQNR dB", "top-1, top-5", "result"];
    let mut sorted: Vec<&ComparedTensor> = tensors.iter().collect();
    sorted.sort_by_key(|tensor| tensor.passed);
    tables(&heads, sorted.into_iter().map(row).collect())
}

/// The first rows, and further ones that the reader can unfold.
fn tables(heads: &[&str], rows: Vec<Vec<String>>) -> MarkdownBlocks {
    let (open, folded) = rows.split_at(rows.len().min(OPEN_ROWS));
    let mut blocks = vec![];
    if !open.is_empty() {
        blocks.push(table(heads, open).0);
    }
    if !folded.is_empty() {
        let (text, left_out) = table(heads, folded);
        let shown = folded.len() - left_out;
        let more = if left_out > 0 {
            format!(", and {left_out} that are not shown")
        } else {
            String::new()
        };
        blocks.push(format!(
            "<details><summary>{shown} more{more}</summary>\n\n{text}\n\n</details>"
        ));
    }
    blocks
}

/// A table, and how many rows there was no room for.
fn table(heads: &[&str], rows: &[Vec<String>]) -> (String, usize) {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|head| (*head).into()).collect();
    let mut lines = vec![line(&heads), line(&vec!["---".to_owned(); heads.len()])];
    let mut length = 0;
    for (index, row) in rows.iter().enumerate() {
        let row = line(row);
        length += row.chars().count();
        if length > TABLE && index > 0 {
            return (lines.join("\n"), rows.len() - index);
        }
        lines.push(row);
    }
    (lines.join("\n"), 0)
}

fn list(lines: impl Iterator<Item = String>, top: usize) -> Option<String> {
    let items = phrases::folded(lines.collect(), top.min(20));
    let items: Vec<String> = items.iter().map(|line| format!("- {line}")).collect();
    (!items.is_empty()).then(|| items.join("\n"))
}

fn warnings(head: &Head) -> impl Iterator<Item = String> {
    head.of(Severity::Warning).map(|row| format!("> ⚠️ {}", sentence(&row.in_words())))
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Passed => "✅",
        Status::Failed => "❌",
        Status::Unusable => "⚠️",
    }
}

/// A name as code. A hostile model may have any names.
fn code(name: &str) -> String {
    format!("<code>{}</code>", plain(&without_middle(&single_line(name), NAME)))
}

/// A sentence of ours, in which names stand between backquotes.
fn sentence(text: &str) -> String {
    phrases::coded(&without_middle(&single_line(text), SENTENCE), plain)
}

/// Text in which nothing means anything to Markdown or HTML.
pub(crate) fn plain(text: &str) -> String {
    let mut escaped = String::new();
    for (place, c) in text.char_indices() {
        match c {
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            // What makes formats and links in brackets.
            '|' | '`' | '*' | '_' | '[' | ']' | '!' | '#' | '@' | '\\' | '~' | '$' => {
                escaped += &format!("&#{};", u32::from(c));
            }
            c => escaped.push(c),
        }
        let (before, rest) = text.split_at(place + c.len_utf8());
        if is_inside_a_reference(before, rest) {
            escaped.push(ZERO_WIDTH_SPACE);
        }
    }
    escaped
}

/// Tears what GitHub and others make a link or a mention of, in code as well: they look for it in
/// the text that the escapes have become.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Whether a reference goes on across this place: an address (`https://`, `www.`), somebody
/// (`@name`, `name@host`) or a number (`#1`, `GH-1`).
fn is_inside_a_reference(before: &str, rest: &str) -> bool {
    let ends_with = |word: &str| {
        let start = before.len().checked_sub(word.len());
        start
            .and_then(|start| before.get(start..))
            .is_some_and(|end| end.eq_ignore_ascii_case(word))
    };
    before.ends_with(['@', '#'])
        || before.ends_with(':') && rest.starts_with('/')
        || ends_with("www") && rest.starts_with('.')
        || ends_with("gh-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_no_links_and_mention_nobody() {
        for (name, written) in [
            ("https://a.b", "https:\u{200b}//a.b"),
            ("WWW.a.b", "WWW\u{200b}.a.b"),
            ("a@b.c @d", "a&#64;\u{200b}b.c &#64;\u{200b}d"),
            ("o/r#1 GH-2", "o/r&#35;\u{200b}1 GH-\u{200b}2"),
            ("layer/x:0.weight", "layer/x:0.weight"),
        ] {
            assert_eq!(plain(name), written);
            assert_eq!(code(name), format!("<code>{written}</code>"));
        }
        // A backquote in a name ends the code, but nothing else.
        assert_eq!(sentence("`a`@b`"), "<code>a</code>&#64;\u{200b}b&#96;");
    }
}
