//! Reports as a page: one HTML file that needs no other, in light and dark, for large screens and small.
//!
//! A hostile model may have any names: the template engine escapes them, as the template's name ends in .html.

use minijinja::{Environment, HtmlEscape, Value, context};
use serde::Serialize;

use super::{charts, coverage, phrases};
use crate::cli::judge::audited::{Audited, AuditedCast};
use crate::cli::judge::compared::{Compared, ComparedTensor, Parting};
use crate::cli::judge::number::Num;
use crate::cli::judge::status::Status;

const TEMPLATE: &str = include_str!("page/report.html");
const STYLE: &str = include_str!("page/report.css");
const SCRIPT: &str = include_str!("page/report.js");

/// Charts are drawn of that many casts or tensors, the worst ones; the tables have all of them.
const CHARTS: usize = 100;
/// So many remarks stand before the tables; the reader can unfold the others.
const LINES: usize = 8;

#[derive(Serialize)]
struct Page {
    title: &'static str,
    sections: Vec<Section>,
}

/// One model, or one comparison.
#[derive(Serialize)]
struct Section {
    name: String,
    is_good: bool,
    verdict: String,
    /// What it was judged on.
    inputs: String,
    warnings: Vec<String>,
    /// Figures that are worth a place at the top, with what they mean.
    figures: Vec<(String, String)>,
    lines: Vec<String>,
    more_lines: Vec<String>,
    partings: Vec<PartingView>,
    tensors: Vec<TensorView>,
    casts_title: &'static str,
    casts: Vec<CastView>,
}

#[derive(Serialize)]
struct PartingView {
    what: &'static str,
    text: String,
    beyond: Option<String>,
    chart: Option<String>,
    reference_type: String,
    converted_type: String,
    cast: Option<CastView>,
    culprit: Option<CastView>,
}

#[derive(Serialize)]
struct CastView {
    node: String,
    graph: String,
    types: String,
    elements: u64,
    damaged: u64,
    lost: u64,
    what: String,
    max_abs: Cell,
    max_rel: Cell,
    max_ulp: Cell,
    range: String,
    holds: Option<String>,
    chart: Option<String>,
}

#[derive(Serialize)]
struct TensorView {
    name: String,
    types: String,
    passed: bool,
    max_abs: Cell,
    max_rel: Cell,
    max_ulp: Cell,
    mean_ulp: Cell,
    cosine: Option<Cell>,
    passing: String,
    result: String,
    errors: Option<String>,
}

/// A number as people read it, and the key by which the page sorts its rows.
#[derive(Serialize)]
struct Cell {
    shown: String,
    key: f64,
}

impl From<Num> for Cell {
    fn from(number: Num) -> Cell {
        Cell { shown: number.to_string(), key: number.0.clamp(f64::MIN, f64::MAX) }
    }
}

pub(crate) fn of_audits(models: &[Audited]) -> anyhow::Result<String> {
    let sections = models.iter().map(audit_section).collect();
    render(&Page { title: "What the casts do to the numbers", sections })
}

pub(crate) fn of_comparisons(pairs: &[Compared]) -> anyhow::Result<String> {
    let sections = pairs.iter().map(comparison_section).collect();
    render(&Page { title: "A model and its conversion", sections })
}

fn render(page: &Page) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.add_filter("coded", coded);
    environment.add_template("report.html", TEMPLATE)?;
    let template = environment.get_template("report.html")?;
    Ok(template
        .render(context! { page, style => STYLE, script => SCRIPT, culprit => phrases::CULPRIT })?)
}

/// HTML of a text: what stands between backquotes becomes code, and everything is escaped.
fn coded(text: &str) -> Value {
    let mut html = String::new();
    let mut parts = text.split('`').peekable();
    let mut is_code = false;
    while let Some(part) = parts.next() {
        let part = HtmlEscape(part);
        html += &match (is_code, parts.peek()) {
            (true, Some(_)) => format!("<code>{part}</code>"),
            // A backquote without a partner is shown as it is.
            (true, None) => format!("`{part}"),
            (false, _) => part.to_string(),
        };
        is_code = !is_code;
    }
    Value::from_safe_string(html)
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

/// The remarks that are shown, and those that are folded.
fn split(mut lines: Vec<String>) -> (Vec<String>, Vec<String>) {
    let rest = if lines.len() > LINES + 1 { lines.split_off(LINES) } else { vec![] };
    (lines, rest)
}

fn audit_section(model: &Audited) -> Section {
    let total = |count: fn(&AuditedCast) -> u64| model.casts.iter().map(count).sum::<u64>();
    let figure = |value: u64, what: &str| (grouped(value), what.to_owned());
    let verdict = match (&model.problem, model.exceeded.len(), model.casts.len() + model.rounded) {
        (Some(problem), _, _) => problem.clone(),
        (None, 0, 0) => phrases::NOTHING_TO_AUDIT.into(),
        (None, 0, _) => "every cast is within its limits".into(),
        (None, 1, _) => "1 thing is beyond the limits".into(),
        (None, count, _) => format!("{count} things are beyond the limits"),
    };
    let findings = model.findings.iter().map(|finding| {
        let kind = if finding.is_error { "invalid: " } else { "" };
        format!("{kind}`{}`: {}", finding.node, finding.text)
    });
    let exceeded = model.exceeded.iter().map(|text| format!("beyond the limits: {text}"));
    let notes = model.notes.iter().cloned().chain(coverage::audit_remarks(model));
    let (lines, more_lines) = split(exceeded.chain(notes).chain(findings).collect());
    Section {
        name: model.model.clone(),
        is_good: model.status == Status::Passed,
        verdict,
        inputs: model.inputs.sets_in_words(model.sets),
        warnings: model.warnings.clone(),
        figures: match model.casts.len() as u64 {
            0 => vec![],
            casts => vec![
                figure(casts, if casts == 1 { "cast" } else { "casts" }),
                figure(total(|cast| cast.elements), "values"),
                figure(total(AuditedCast::damaged), "spoiled"),
                figure(total(AuditedCast::lost), "saturated or flushed"),
            ],
        },
        lines,
        more_lines,
        partings: vec![],
        tensors: vec![],
        casts_title: "Casts, the worst first",
        casts: cast_views(&model.casts).into_iter().chain(cast_views(&model.roundings)).collect(),
    }
}

fn comparison_section(pair: &Compared) -> Section {
    let (is_good, verdict) = phrases::verdict(pair);
    let changed = pair.casts.added.len() + pair.casts.removed.len() + pair.casts.retargeted.len();
    let failed = pair.outputs.iter().filter(|output| !output.passed).count();
    let worst = pair.outputs.iter().map(|output| output.max_abs.0).fold(0.0, f64::max);
    let apart = |output: &ComparedTensor| output.nan_differences + output.infinity_differences;
    let figure = |value: String, what: &str| (value, what.to_owned());
    // The largest error would hide that other elements have none, for they are NaN or infinite on one side.
    let error = match pair.outputs.iter().map(apart).sum() {
        0 => figure(Num(worst).to_string(), "largest absolute error"),
        count => figure(grouped(count), "NaN or infinite on one side"),
    };
    let count = pair.outputs.len();
    let figures = vec![
        figure(count.to_string(), if count == 1 { "output" } else { "outputs" }),
        figure(failed.to_string(), "beyond the tolerance"),
        error,
        figure(changed.to_string(), "casts added, removed or retargeted"),
    ];
    let (lines, more_lines) = split(coverage::remarks(pair).collect());
    Section {
        name: format!("{} against {}", pair.converted, pair.reference),
        is_good,
        verdict: pair.problem.clone().unwrap_or(verdict),
        inputs: pair.inputs.sets_in_words(pair.sets),
        warnings: pair.warnings.clone(),
        figures: if pair.problem.is_some() { vec![] } else { figures },
        lines,
        more_lines,
        partings: phrases::partings(pair)
            .map(|(what, parting)| parting_view(what, parting))
            .collect(),
        tensors: pair
            .outputs
            .iter()
            .chain(&pair.tensors)
            .enumerate()
            .map(|(index, tensor)| tensor_view(tensor, index < CHARTS))
            .collect(),
        casts_title: "Casts of the converted model, the worst first",
        casts: cast_views(&pair.converted_casts),
    }
}

fn parting_view(what: &'static str, parting: &Parting) -> PartingView {
    let tensor = &parting.tensor;
    PartingView {
        what,
        text: phrases::parting_in_words(parting),
        beyond: phrases::beyond_in_words(tensor),
        chart: charts::exponents(&tensor.source, tensor.target.as_ref()),
        reference_type: tensor.reference_type.clone(),
        converted_type: tensor.converted_type.clone(),
        cast: parting.cast.as_ref().map(|cast| cast_view(cast, true)),
        culprit: parting.culprit.as_ref().map(|cast| cast_view(cast, false)),
    }
}

fn cast_views(casts: &[AuditedCast]) -> Vec<CastView> {
    casts.iter().enumerate().map(|(index, cast)| cast_view(cast, index < CHARTS)).collect()
}

fn cast_view(cast: &AuditedCast, has_chart: bool) -> CastView {
    let chart = has_chart.then(|| charts::exponents(&cast.source, cast.target.as_ref())).flatten();
    CastView {
        node: cast.node.clone(),
        graph: cast.graph.clone(),
        types: phrases::cast_types(cast),
        elements: cast.elements,
        damaged: cast.damaged(),
        lost: cast.lost(),
        what: phrases::what_happened(cast),
        max_abs: cast.max_abs.into(),
        max_rel: cast.max_rel.into(),
        max_ulp: cast.max_ulp.into(),
        range: phrases::range_in_words(&cast.source),
        holds: cast.target.as_ref().map(|target| format!("{} … {}", target.min, target.max)),
        chart,
    }
}

fn tensor_view(tensor: &ComparedTensor, has_charts: bool) -> TensorView {
    let errors = has_charts.then(|| charts::errors(tensor)).flatten();
    let measured = |number: Num| match phrases::is_measured(tensor) {
        true => number.into(),
        false => Cell { shown: "-".into(), key: -1.0 },
    };
    TensorView {
        name: tensor.name.clone(),
        types: phrases::types(tensor),
        passed: tensor.passed,
        max_abs: measured(tensor.max_abs),
        max_rel: measured(tensor.max_rel),
        max_ulp: measured(tensor.max_ulp),
        mean_ulp: measured(tensor.mean_ulp),
        cosine: tensor.cosine.map(|Num(x)| Cell { shown: format!("{x:.6}"), key: x }),
        passing: phrases::passing(tensor),
        result: phrases::result(tensor),
        errors,
    }
}
