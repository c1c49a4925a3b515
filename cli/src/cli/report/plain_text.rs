//! Reports for people at a terminal.

use crate::cli::args::report::Shown;
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{Compared, ComparedTensor};
use crate::cli::found::status::Status;
use crate::cli::measure::number::Num;
use crate::cli::message::single_line;
use crate::cli::report::table::{Layout, fitted};
use crate::cli::report::terminal::{BAD, DOUBTFUL, GOOD, Output};
use crate::cli::report::{coverage, phrases};

/// How reports are shown, and where.
#[derive(Clone, Copy)]
struct Terminal<'a> {
    shown: Shown,
    output: &'a Output,
}

/// What audits found.
pub(crate) fn of_audits(models: &[Audited], shown: Shown, output: &Output) -> String {
    let terminal = Terminal { shown, output };
    let parts = models.iter().map(|model| terminal.of_audit(model));
    let mut text = parts.collect::<Vec<_>>().join(terminal.between());
    if models.len() > 1 {
        text += &tally(models.iter().map(|model| model.status));
    }
    text
}

/// What comparisons found.
pub(crate) fn of_comparisons(pairs: &[Compared], shown: Shown, output: &Output) -> String {
    let terminal = Terminal { shown, output };
    let parts = pairs.iter().map(|pair| terminal.of_comparison(pair));
    let mut text = parts.collect::<Vec<_>>().join(terminal.between());
    if pairs.len() > 1 {
        text += &tally(pairs.iter().map(|pair| pair.status));
    }
    text
}

impl Terminal<'_> {
    fn between(self) -> &'static str {
        if self.shown.is_quiet { "\n" } else { "\n\n" }
    }

    fn of_audit(self, model: &Audited) -> String {
        let name = single_line(&model.model);
        if let Some(problem) = &model.problem {
            return format!(
                "{name}: {} {}",
                self.output.paint(BAD, "unusable:"),
                single_line(problem)
            );
        }
        let mut lines = vec![format!("{name}: {}", phrases::casts_in_words(model))];
        if !self.shown.is_quiet {
            lines.extend(self.cast_table(&model.casts));
            lines.extend(phrases::roundings_in_words(model));
            lines.extend(self.cast_table(&model.roundings));
            let notes = model.notes.iter().map(|note| format!("note: {}", single_line(note)));
            lines.extend(notes);
            lines.extend(phrases::folded(coverage::audit_remarks(model), self.shown.top));
            let findings = phrases::finding_lines(&model.findings);
            lines.extend(phrases::folded(findings, self.shown.top));
            let file = model.tolerance_file.iter();
            lines.extend(file.map(|file| format!("limits of {}", single_line(file))));
        }
        let beyond = self.output.paint(BAD, "beyond the limits:");
        let exceeded = model.exceeded.iter().map(|text| format!("{beyond} {}", single_line(text)));
        lines.extend(phrases::folded(exceeded.collect(), self.shown.top));
        lines.extend(self.warning_lines(&model.warnings));
        if model.exceeded.is_empty() && !model.casts.is_empty() {
            lines.push(self.output.paint(GOOD, "every cast is within its limits"));
        }
        lines.join("\n")
    }

    fn cast_table(self, casts: &[AuditedCast]) -> Option<String> {
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
        let rows = casts.iter().take(self.shown.top).map(|cast| {
            vec![
                single_line(&cast.node),
                phrases::type_name(&cast.from).into(),
                phrases::type_name(&cast.to).into(),
                cast.elements.to_string(),
                cast.max_abs.to_string(),
                phrases::relative(cast.max_rel),
                phrases::last_places(cast.max_ulp),
                phrases::range_in_words(&cast.source),
                phrases::what_happened(cast),
            ]
        });
        let layout = Layout { names: &[0], spare: &[5, 6, 4, 3, 7] };
        let table = self.table(&heads, rows.collect(), layout)?;
        Some(table + &phrases::casts_left_out(casts, self.shown.top))
    }

    fn table(self, heads: &[&str], rows: Vec<Vec<String>>, layout: Layout) -> Option<String> {
        let heads = heads.iter().map(|head| (*head).into()).collect();
        let all: Vec<Vec<String>> = [heads].into_iter().chain(rows).collect();
        (all.len() > 1).then(|| fitted(&all, layout, self.output.columns()))
    }

    fn warning_lines(self, warnings: &[String]) -> impl Iterator<Item = String> {
        let mark = self.output.paint(DOUBTFUL, "warning:");
        warnings.iter().map(move |warning| format!("{mark} {}", single_line(warning)))
    }

    fn of_comparison(self, pair: &Compared) -> String {
        let (reference, converted) = (single_line(&pair.reference), single_line(&pair.converted));
        let name = format!("{converted} against {reference}");
        if let Some(problem) = &pair.problem {
            return format!(
                "{name}: {} {}",
                self.output.paint(BAD, "unusable:"),
                single_line(problem)
            );
        }
        let mut lines = vec![format!("{name}: {}", pair.inputs.sets_in_words(pair.sets))];
        if !self.shown.is_quiet {
            lines.extend(self.tensor_table(&pair.outputs));
            if !pair.tensors.is_empty() {
                lines.push("tensors inside:".into());
                lines.extend(self.tensor_table(&pair.tensors));
            }
            lines.extend(pair.notes.iter().map(|note| format!("note: {}", single_line(note))));
            let reached = coverage::unexercised_lines(&pair.unexercised);
            lines.extend(phrases::folded(reached, self.shown.top));
            lines.extend(phrases::folded(phrases::change_lines(pair), self.shown.top));
            let file = pair.tolerance_file.iter();
            lines.extend(file.map(|file| format!("tolerances of {}", single_line(file))));
        }
        lines.extend(phrases::folded(coverage::weight_lines(&pair.weights), self.shown.top));
        for (what, parting) in phrases::partings(pair) {
            lines.push(format!("{what}: {}", phrases::parting_in_words(parting)));
            if self.shown.is_quiet {
                let culprit = parting.culprit.iter().map(|cast| single_line(&cast.node));
                lines.extend(culprit.map(|node| format!("{}: `{node}`", phrases::CULPRIT)));
                continue;
            }
            let beyond = phrases::beyond_in_words(&parting.tensor);
            lines.extend(beyond.map(|beyond| format!("  {beyond}")));
            let table = |cast: &AuditedCast| self.cast_table(std::slice::from_ref(cast));
            lines.extend(parting.cast.iter().filter_map(table));
            if let Some(culprit) = &parting.culprit {
                lines.push(format!("{}:", phrases::CULPRIT));
                lines.extend(table(culprit));
            }
        }
        lines.extend(self.warning_lines(&pair.warnings));
        let (is_good, verdict) = phrases::verdict(pair);
        lines.push(self.output.paint(if is_good { GOOD } else { BAD }, &verdict));
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
        let measured = |tensor: &ComparedTensor, text: String| match phrases::is_measured(tensor) {
            true => text,
            false => "-".into(),
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
        let layout = Layout { names: &[0], spare: &[5, 4, 7, 6, 3, 2, 8] };
        let table = self.table(&heads, rows.collect(), layout)?;
        Some(table + &phrases::tensors_left_out(tensors, self.shown.top))
    }
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
