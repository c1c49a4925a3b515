//! Reports as a page: one HTML file that needs no other, in light and dark, for screens of any
//! size.
//!
//! - `figures`: at the top of a comparison; `conversion`: what `convert` tells besides
//! - `charts`: of errors and ranges; `both_errors`: of inner tensors, beside the band
//! - `drawing`: the part of the graph where it breaks; `svg`: what every drawing needs
//!
//! A hostile model may have any names: the template engine escapes them, as the template's name
//! ends in .html.

mod both_errors;
mod charts;
mod conversion;
mod drawing;
mod figures;
mod svg;

use minijinja::{Environment, HtmlEscape, Value, context};
use onnx_cast_graph::is_unprintable;
use serde::Serialize;

use crate::cli::caller;
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{Compared, ComparedTensor, Divergence};
use crate::cli::found::finding::{Code, Severity};
use crate::cli::found::status::Status;
use crate::cli::measure::number::Num;
use crate::cli::message::single_line;
use crate::cli::report::{phrases, remarks, verdict};
pub(crate) use conversion::of_conversion;
use drawing::drawing;

const TEMPLATE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Charts are drawn of that many casts or tensors, the worst ones; the tables have all of them.
const CHARTS: usize = 60;
/// The charts of so many casts that spoil values are unfolded.
const OPEN_CHARTS: usize = 3;
/// Of more models than that, those that passed are folded.
const OPEN_SECTIONS: usize = 4;
/// How many remarks stand before the tables; the reader can unfold the others.
const LINES: usize = 8;

#[derive(Serialize)]
struct Page {
    /// The verdict, as tabs and prints have no more room.
    title: String,
    /// What pages of this kind are about.
    subtitle: &'static str,
    is_good: bool,
    /// How many passed and failed, if there are several.
    tally: Option<String>,
    /// Those that failed first.
    sections: Vec<Section>,
    /// What was typed.
    call: String,
    version: &'static str,
}

/// One model, or one comparison.
#[derive(Default, Serialize)]
struct Section {
    name: String,
    /// The model that is judged.
    subject: String,
    /// For links to it.
    number: usize,
    is_good: bool,
    verdict: String,
    /// The verdict in a word, for the title.
    judged: String,
    is_folded: bool,
    /// What is wrong and where, in a sentence, and what to do about it.
    headlines: Vec<String>,
    advice: Option<String>,
    /// The command that does it, to be copied.
    command: Option<String>,
    warnings: Vec<String>,
    /// What it was judged on and by.
    facts: Vec<(&'static str, String)>,
    /// Figures that are worth a place at the top, with what they mean.
    figures: Vec<(String, String)>,
    lines: Vec<String>,
    more_lines: Vec<String>,
    divergences: Vec<DivergenceView>,
    /// The error along the graph, and the nodes about the place where it breaks.
    error_profile: Option<String>,
    both_errors: Option<String>,
    drawing: Option<String>,
    /// The first rows of each table, and those that are folded.
    tensors: Vec<TensorView>,
    more_tensors: Vec<TensorView>,
    /// Of a conversion, what stays as it is: operator, node and reason.
    stays: Vec<[String; 3]>,
    more_stays: Vec<[String; 3]>,
    casts_title: &'static str,
    casts: Vec<CastView>,
    more_casts: Vec<CastView>,
}

#[derive(Serialize)]
struct DivergenceView {
    what: &'static str,
    /// Whether it may be no more than a drift.
    is_mild: bool,
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
    max_abs: TableCell,
    max_rel: TableCell,
    max_ulp: TableCell,
    range: String,
    holds: Option<String>,
    chart: Option<String>,
    is_open: bool,
}

#[derive(Serialize)]
struct TensorView {
    name: String,
    types: String,
    passed: bool,
    max_abs: TableCell,
    max_rel: TableCell,
    max_ulp: TableCell,
    mean_ulp: TableCell,
    cosine: Option<TableCell>,
    sqnr: Option<TableCell>,
    ranking: String,
    passing: String,
    result: String,
    why: Option<String>,
    errors: Option<String>,
}

/// A number as people read it, and the key by which the page sorts its rows.
#[derive(Serialize)]
struct TableCell {
    shown: String,
    key: f64,
}

impl From<Num> for TableCell {
    fn from(number: Num) -> TableCell {
        TableCell { shown: number.to_string(), key: number.0.clamp(f64::MIN, f64::MAX) }
    }
}

/// A number that people read otherwise.
fn cell(number: Num, shown: String) -> TableCell {
    TableCell { shown, ..TableCell::from(number) }
}

pub(crate) fn of_audits(models: &[Audited], top: usize) -> anyhow::Result<String> {
    let sections = models.iter().map(|model| audit_section(model, top)).collect();
    render("What the casts do to the numbers", sections)
}

pub(crate) fn of_comparisons(pairs: &[Compared], top: usize) -> anyhow::Result<String> {
    let sections = pairs.iter().map(|pair| comparison_section(pair, top)).collect();
    render("A model and its conversion", sections)
}

fn render(subtitle: &'static str, mut sections: Vec<Section>) -> anyhow::Result<String> {
    let good = sections.iter().filter(|section| section.is_good).count();
    let (all, bad) = (sections.len(), sections.len() - good);
    sections.sort_by_key(|section| section.is_good);
    for (number, section) in sections.iter_mut().enumerate() {
        section.number = number;
        section.is_folded = all > OPEN_SECTIONS && section.is_good;
    }
    let call = caller::call();
    let tally =
        (all > 1).then(|| format!("{bad} of {all} failed or cannot be used, {good} passed"));
    let (is_good, title) = (bad == 0, title(&sections, bad));
    let version = env!("CARGO_PKG_VERSION");
    let page = &Page { title, subtitle, is_good, tally, sections, call, version };
    let mut environment = Environment::new();
    environment.add_filter("coded", coded);
    environment.add_filter("breakable", breakable);
    environment.add_template("report.html", TEMPLATE)?;
    let template = environment.get_template("report.html")?;
    let html = template
        .render(context! { page, style => STYLE, script => SCRIPT, culprit => phrases::CULPRIT })?;
    Ok(without_control_characters(&html))
}

/// The verdict in a few words.
fn title(sections: &[Section], bad: usize) -> String {
    let last = |name: &str| {
        let parts = name.split(['/', '\\']).rev().filter(|part| !part.is_empty());
        let mut parts = parts.filter(|part| *part != "model.onnx");
        single_line(parts.next().unwrap_or(name))
    };
    match (sections, bad) {
        ([one], 0) => format!("✓ {} passes{}", last(&one.subject), one.judged),
        ([one], _) => format!("✗ {} fails{}", last(&one.subject), one.judged),
        (_, 0) => format!("✓ all {} pass", sections.len()),
        (_, bad) => format!("✗ {bad} of {} fail", sections.len()),
    }
}

/// The page without what a browser or a terminal would obey, which names may hold.
fn without_control_characters(html: &str) -> String {
    let is_odd = |c: char| is_unprintable(c) && !matches!(c, '\n' | '\t');
    html.chars().map(|c| if is_odd(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// HTML of a text: what stands between backquotes becomes code, and everything is escaped.
fn coded(text: &str) -> Value {
    Value::from_safe_string(phrases::coded(text, |part| HtmlEscape(part).to_string()))
}

/// HTML of a name that may go on in the next line behind its parts.
fn breakable(name: &str) -> Value {
    let html = HtmlEscape(name).to_string();
    // What is escaped holds neither of them.
    Value::from_safe_string(html.replace('_', "_<wbr>").replace("&#x2f;", "&#x2f;<wbr>"))
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

fn audit_section(model: &Audited, top: usize) -> Section {
    let total = |count: fn(&AuditedCast) -> u64| model.casts.iter().map(count).sum::<u64>();
    let figure = |value: u64, what: &str| (grouped(value), what.to_owned());
    let head = &model.head;
    let errors: Vec<String> = head.of(Severity::Error).map(remarks::line).collect();
    let verdict = match (head.problem(), errors.len(), model.casts.len() + model.rounded) {
        (Some(problem), _, _) => problem.into(),
        (None, 0, 0) => phrases::NOTHING_TO_AUDIT.into(),
        (None, 0, _) => "every cast is within its limits".into(),
        (None, 1, _) => "1 thing is beyond the limits".into(),
        (None, count, _) => format!("{count} things are beyond the limits"),
    };
    let (casts, more_casts) = folded(cast_views(model.casts.iter().chain(&model.roundings)), top);
    let file = head.tolerance_file.clone().unwrap_or(phrases::DEFAULT_LIMITS.into());
    let notes =
        [errors, head.sentences_of(Code::Remark), head.sentences_of(Code::NotFinite)].concat();
    let (lines, more_lines) = folded([notes, remarks::part_lines(head)].concat(), LINES);
    let facts = vec![("inputs", head.inputs.sets_in_words(head.sets)), ("limits", file)];
    let (headline, advice) = verdict::of_audit(model).unzip();
    Section {
        name: model.model.clone(),
        subject: model.model.clone(),
        is_good: head.status == Status::Passed,
        verdict,
        headlines: Vec::from_iter(headline),
        advice,
        warnings: head.sentences(Severity::Warning),
        facts: if head.error.is_some() { vec![] } else { facts },
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
        casts_title: "Casts, the worst first",
        casts,
        more_casts,
        ..Section::default()
    }
}

fn comparison_section(pair: &Compared, top: usize) -> Section {
    let head = &pair.head;
    let (is_good, verdict) = verdict::verdict(pair);
    let figures = figures::of_comparison(pair);
    let mut facts = vec![
        ("inputs", head.inputs.sets_in_words(head.sets)),
        ("tolerance", verdict::tolerances_in_words(pair)),
    ];
    facts.extend(head.tolerance_file.iter().map(|file| ("tolerances of", file.clone())));
    let all = pair.outputs.iter().chain(&pair.tensors).enumerate();
    let views = all.map(|(index, tensor)| tensor_view(tensor, index < CHARTS)).collect();
    let (tensors, more_tensors) = folded(views, top);
    let (casts, more_casts) = folded(cast_views(pair.converted_casts.iter()), top);
    let (lines, more_lines) = folded(remarks::of_comparison(pair), LINES);
    let next = verdict::next_step(pair);
    let blamed = verdict::divergences(pair).find_map(|(_, place)| place.blamed());
    let broken = pair.judgement.culprits.first().filter(|_| pair.judgement.is_broken());
    let culprit = broken.map(|culprit| &culprit.node).or(blamed.map(|cast| &cast.node));
    let gravest = pair.divergences.gravest_first().next();
    let centre = broken.map(|culprit| culprit.tensor.clone());
    let centre = centre.or_else(|| Some(gravest?.tensor.converted().to_owned()));
    let judged = pair.judgement.verdict.filter(|_| !pair.is_judged_by_tolerance);
    let judged = judged.map(|verdict| format!(": {}", verdict.name()));
    Section {
        name: format!("{} against {}", pair.converted, pair.reference),
        subject: pair.converted.clone(),
        is_good,
        verdict: head.problem().map_or(verdict, str::to_owned),
        judged: judged.unwrap_or_default(),
        headlines: verdict::reasons(pair),
        advice: next.as_ref().map(|next| next.words.clone()),
        command: next.and_then(|next| next.command),
        warnings: head.sentences(Severity::Warning),
        facts: if head.error.is_some() { vec![] } else { facts },
        figures: if head.error.is_some() { vec![] } else { figures },
        lines,
        more_lines,
        divergences: verdict::divergences(pair)
            .map(|(what, place)| divergence_view(what, place))
            .collect(),
        error_profile: charts::error_profile(&pair.profile),
        both_errors: both_errors::both_errors(&pair.judgement, centre.as_deref()),
        drawing: drawing(&pair.profile.around, culprit.map(String::as_str)),
        tensors,
        more_tensors,
        casts_title: "Casts of the converted model, the worst first",
        casts,
        more_casts,
        ..Section::default()
    }
}

/// The first rows, and the others.
fn folded<T>(mut rows: Vec<T>, top: usize) -> (Vec<T>, Vec<T>) {
    let rest = if rows.len() > top.saturating_add(1) { rows.split_off(top) } else { vec![] };
    (rows, rest)
}

fn divergence_view(what: &'static str, place: &Divergence) -> DivergenceView {
    let tensor = &place.tensor;
    DivergenceView {
        what,
        is_mild: tensor.apart() + tensor.beyond_target == 0,
        text: verdict::divergence_in_words(place),
        beyond: phrases::beyond_in_words(tensor),
        chart: charts::exponents(&tensor.source, tensor.target.as_ref()),
        reference_type: tensor.reference_type.clone(),
        converted_type: tensor.converted_type.clone(),
        cast: place.cast.as_ref().map(|cast| cast_view(cast, true)),
        culprit: place.culprit.as_ref().map(|cast| cast_view(cast, true)),
    }
}

/// Casts and operators on half precision, each the worst first: those that spoil values go before
/// all others.
fn cast_views<'a>(casts: impl Iterator<Item = &'a AuditedCast>) -> Vec<CastView> {
    let (spoil, others): (Vec<_>, Vec<_>) = casts.partition(|cast| cast.damaged() > 0);
    let view = |(index, cast)| {
        let view = cast_view(cast, index < CHARTS);
        CastView { is_open: index < OPEN_CHARTS && view.damaged > 0, ..view }
    };
    spoil.into_iter().chain(others).enumerate().map(view).collect()
}

fn cast_view(cast: &AuditedCast, has_chart: bool) -> CastView {
    let chart = has_chart.then(|| charts::exponents(&cast.source, cast.target.as_ref())).flatten();
    // What has become infinite comes before what is far off.
    let error = |number: Num, shown: String| match phrases::error_of(cast, shown) {
        shown if shown == "∞" => TableCell { shown, key: f64::MAX },
        shown => cell(number, shown),
    };
    CastView {
        node: cast.node.clone(),
        graph: cast.graph.clone(),
        types: phrases::cast_types(cast),
        elements: cast.elements,
        damaged: cast.damaged(),
        lost: cast.lost(),
        what: phrases::what_happened(cast),
        max_abs: error(cast.max_abs, cast.max_abs.to_string()),
        max_rel: error(cast.max_rel, phrases::relative(cast.max_rel)),
        max_ulp: error(cast.max_ulp, phrases::last_places(cast.max_ulp)),
        range: phrases::range_in_words(&cast.source),
        holds: cast.target.as_ref().map(|target| format!("{} … {}", target.min, target.max)),
        chart,
        is_open: false,
    }
}

fn tensor_view(tensor: &ComparedTensor, has_charts: bool) -> TensorView {
    let errors = has_charts.then(|| charts::errors(tensor)).flatten();
    let measured = |number: Num, shown: String| {
        let nothing = || TableCell { shown: "-".into(), key: -1.0 };
        if phrases::is_measured(tensor) { cell(number, shown) } else { nothing() }
    };
    TensorView {
        name: tensor.name.clone(),
        types: phrases::types(tensor),
        passed: tensor.passed,
        max_abs: measured(tensor.max_abs, tensor.max_abs.to_string()),
        max_rel: measured(tensor.max_rel, phrases::relative(tensor.max_rel)),
        max_ulp: measured(tensor.max_ulp, phrases::last_places(tensor.max_ulp)),
        mean_ulp: measured(tensor.mean_ulp, phrases::last_places(tensor.mean_ulp)),
        cosine: tensor.cosine.map(|Num(x)| TableCell { shown: format!("{x:.6}"), key: x }),
        sqnr: tensor.sqnr.map(|ratio| cell(ratio, phrases::decibels(tensor))),
        ranking: phrases::ranking(tensor),
        passing: phrases::passing(tensor),
        result: phrases::result(tensor),
        why: if tensor.passed { None } else { Some(tensor.difference()) },
        errors,
    }
}
