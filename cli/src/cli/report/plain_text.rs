//! Reports for people at a terminal.

use clap::builder::styling::Style;
use tract_onnx_cast::audit::Outcome;

use super::table::{TableLayout, fitted};
use super::terminal::{BAD, DOUBTFUL, GOOD, Output};
use super::{phrases, remarks, verdict};
use crate::cli::args::report::{Shown, TOP};
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::finding::{FindingRow, Severity};
use crate::cli::found::head::Head;
use crate::cli::found::status::Status;
use crate::cli::measure::number::Num;
use crate::cli::message::single_line;

/// How many further nodes to blame are told.
const FURTHER: usize = 3;

/// How reports are shown, and where.
#[derive(Clone, Copy)]
struct Terminal<'a> {
    shown: Shown,
    output: &'a Output,
}

/// What audits found.
pub(crate) fn of_audits(models: &[Audited], shown: Shown, output: &Output) -> String {
    let terminal = Terminal { shown, output };
    let part = |model: &Audited| (model.head.status, terminal.of_audit(model));
    terminal.joined(models.iter().map(part).collect())
}

/// What comparisons found.
pub(crate) fn of_comparisons(pairs: &[Compared], shown: Shown, output: &Output) -> String {
    let terminal = Terminal { shown, output };
    let part = |pair: &Compared| (pair.head.status, terminal.of_comparison(pair));
    terminal.joined(pairs.iter().map(part).collect())
}

impl Terminal<'_> {
    /// The reports, a part each, and how many went how.
    fn joined(self, parts: Vec<(Status, String)>) -> String {
        let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
        let text = texts.join(if self.shown.is_quiet { "\n" } else { "\n\n" });
        let tally = phrases::tally(parts.iter().map(|(status, _)| *status));
        if parts.len() > 1 { format!("{text}\n\n{tally}") } else { text }
    }

    fn unusable(self, name: &str, problem: &str) -> String {
        format!("{name}: {} {}", self.output.paint(BAD, "unusable:"), single_line(problem))
    }

    /// Rows of a severity, in a colour.
    fn rows(self, head: &Head, severity: Severity, style: Style) -> Vec<String> {
        let line = |row: &FindingRow| {
            let label = format!("{}:", row.code.entry().label);
            format!("{} {}", self.output.paint(style, &label), single_line(&row.in_words()))
        };
        head.of(severity).map(line).collect()
    }

    /// The verdict, and what it is about.
    fn verdict(self, is_good: bool, text: &str) -> String {
        let (style, word) = if is_good { (GOOD, "PASS") } else { (BAD, "FAIL") };
        format!("{}  {text}", self.output.paint(style, word))
    }

    fn of_audit(self, model: &Audited) -> String {
        let (name, head) = (single_line(&model.model), &model.head);
        if let Some(problem) = head.problem() {
            return self.unusable(&name, problem);
        }
        let errors = self.rows(head, Severity::Error, BAD);
        let is_good = errors.is_empty();
        let within = if !model.casts.is_empty() && is_good {
            ": every cast is within its limits"
        } else {
            ""
        };
        let words = phrases::casts_in_words(model);
        let mut lines = vec![self.verdict(is_good, &format!("{name}: {words}{within}"))];
        lines.extend(phrases::folded(errors, self.shown.top));
        if let Some((why, next)) = verdict::of_audit(model) {
            lines.extend([format!("why   {why}"), format!("next  {next}")]);
        }
        if !self.shown.is_quiet {
            lines.extend(self.cast_table(&model.casts));
            lines.extend(phrases::roundings_in_words(model));
            lines.extend(self.cast_table(&model.roundings));
            lines.extend(remarks::note_lines(head));
            lines.extend(phrases::folded(remarks::part_lines(head), self.shown.top));
            let file = head.tolerance_file.iter();
            lines.extend(file.map(|file| format!("limits of {}", single_line(file))));
        }
        lines.extend(self.rows(head, Severity::Warning, DOUBTFUL));
        lines.join("\n")
    }

    fn cast_table(self, casts: &[AuditedCast]) -> Option<String> {
        let heads = [
            "node", "from", "to", "elements", "max abs", "max rel", "max ulp", "source", "outcome",
        ];
        // Those that change nothing are only counted, unless more than the usual rows are wanted.
        let changes = |cast: &&AuditedCast| {
            let is_exact = cast.elements > 0 && cast.count(Outcome::Exact) == cast.elements;
            !is_exact || casts.len() == 1 || self.shown.top > TOP
        };
        let shown: Vec<&AuditedCast> = casts.iter().take(self.shown.top).filter(changes).collect();
        let rows = shown.iter().map(|cast| {
            vec![
                single_line(&cast.node),
                phrases::type_name(&cast.from).into(),
                phrases::type_name(&cast.to).into(),
                cast.elements.to_string(),
                phrases::error_of(cast, cast.max_abs.to_string()),
                phrases::error_of(cast, phrases::relative(cast.max_rel)),
                phrases::ulps_of(cast),
                phrases::range_in_words(&cast.source),
                phrases::what_happened(cast),
            ]
        });
        let layout = TableLayout { names: &[0], spare: &[5, 6, 4, 3, 7] };
        let table = self.table(&heads, rows.collect(), layout).unwrap_or_default();
        let text = table + &phrases::casts_left_out(casts, &shown);
        (!text.is_empty()).then(|| text.trim_start().to_owned())
    }

    fn table(self, heads: &[&str], rows: Vec<Vec<String>>, layout: TableLayout) -> Option<String> {
        let heads = heads.iter().map(|head| (*head).into()).collect();
        let all: Vec<Vec<String>> = [heads].into_iter().chain(rows).collect();
        (all.len() > 1).then(|| fitted(&all, layout, self.output.columns()))
    }

    fn of_comparison(self, pair: &Compared) -> String {
        let (reference, converted) = (single_line(&pair.reference), single_line(&pair.converted));
        let (name, head) = (format!("{converted} against {reference}"), &pair.head);
        if let Some(problem) = head.problem() {
            return self.unusable(&name, problem);
        }
        let (is_good, verdict) = verdict::verdict(pair);
        let mut lines = vec![self.verdict(is_good, &format!("{name}: {verdict}"))];
        lines.extend(verdict::cause(pair).map(|cause| format!("why   {cause}")));
        let further = verdict::culprits(pair).skip(1).map(|culprit| format!("also  {culprit}"));
        lines.extend(phrases::folded(further.collect(), FURTHER));
        lines.extend(verdict::next_step(pair).map(|next| match next.command {
            Some(command) => format!("next  {command}"),
            None => format!("next  {}", next.words),
        }));
        if self.shown.is_quiet {
            lines.extend(phrases::folded(remarks::doubt_lines(head), self.shown.top));
            lines.extend(self.rows(head, Severity::Warning, DOUBTFUL));
            return lines.join("\n");
        }
        lines.push(format!("on    {}", head.inputs.sets_in_words(head.sets)));
        lines.extend(self.rows(head, Severity::Warning, DOUBTFUL));
        lines.extend(self.tensor_table(&pair.outputs));
        if !pair.tensors.is_empty() {
            lines.push("inner tensors:".into());
            lines.extend(self.tensor_table(&pair.tensors));
        }
        for (what, place) in verdict::divergences(pair) {
            lines.push(format!("{what}: {}", verdict::divergence_in_words(place)));
            let beyond = phrases::beyond_in_words(&place.tensor);
            lines.extend(beyond.map(|beyond| format!("  {beyond}")));
            let table = |cast: &AuditedCast| self.cast_table(std::slice::from_ref(cast));
            lines.extend(place.cast.iter().filter_map(table));
            if let Some(culprit) = &place.culprit {
                lines.push(format!("{}:", phrases::CULPRIT));
                lines.extend(table(culprit));
            }
        }
        lines.extend(remarks::note_lines(head));
        lines.extend(phrases::folded(remarks::part_lines(head), self.shown.top));
        lines.extend(phrases::folded(remarks::change_lines(pair), self.shown.top));
        let file = head.tolerance_file.iter();
        lines.extend(file.map(|file| format!("tolerances of {}", single_line(file))));
        lines.join("\n")
    }

    fn tensor_table(self, tensors: &[ComparedTensor]) -> Option<String> {
        let heads = [
            "name",
            "types",
            "max abs",
            "max rel",
            "max ulp",
            "mean ulp",
            "cosine",
            "SQNR dB",
            "would pass with",
            "result",
        ];
        let measured = |tensor: &ComparedTensor, text: String| {
            if phrases::is_measured(tensor) { text } else { "-".into() }
        };
        let shown = phrases::worst_tensors(tensors, self.shown.top);
        let rows = shown.iter().map(|tensor| {
            vec![
                single_line(&tensor.name),
                phrases::types(tensor),
                measured(tensor, tensor.max_abs.to_string()),
                measured(tensor, phrases::relative(tensor.max_rel)),
                measured(tensor, phrases::last_places(tensor.max_ulp)),
                measured(tensor, phrases::last_places(tensor.mean_ulp)),
                tensor.cosine.map_or("-".to_owned(), |Num(cosine)| format!("{cosine:.6}")),
                phrases::decibels(tensor),
                phrases::passing(tensor),
                phrases::result(tensor),
            ]
        });
        let layout = TableLayout { names: &[0], spare: &[5, 4, 7, 6, 3, 2, 8] };
        let table = self.table(&heads, rows.collect(), layout)?;
        let failures = phrases::failures(&shown).into_iter().map(|line| {
            let rest = line.strip_prefix("FAIL").unwrap_or_default();
            format!("\n{}{rest}", self.output.paint(BAD, "FAIL"))
        });
        Some(
            table
                + &failures.collect::<String>()
                + &phrases::tensors_left_out(tensors, self.shown.top),
        )
    }
}
