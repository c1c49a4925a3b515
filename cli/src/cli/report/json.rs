//! What `--json` prints: one object, whose schema docs/report-format.md describes.

use onnx_cast_graph::is_unprintable;
use serde::{Serialize, Serializer};

use crate::cli::found::audited::Audited;
use crate::cli::found::compared::Compared;
use crate::cli::found::finding::{Code, FindingRow, Severity};
use crate::cli::found::head::Head;
use crate::cli::measure::number::Num;
use crate::cli::measure::value::ElementValue;
use crate::cli::message::ReportedProblem;
use crate::cli::report::verdict;

/// JSON of a value, on one line without control characters: a terminal in UTF-8 obeys those from
/// U+0080 on as well, which JSON allows in strings. Fails when the value is nothing that JSON has.
pub(crate) fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    if !json.contains(is_unprintable) {
        return Ok(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            // Only strings hold any.
            escaped += &format!("\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Ok(escaped)
}

/// An element.
pub(crate) struct JsonValue<'a>(pub(crate) &'a ElementValue);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // With as many digits as tell FLOATs apart.
            ElementValue::Float(Num(x)) if x.is_finite() => serializer.serialize_f32(*x as f32),
            ElementValue::Float(x) | ElementValue::Double(x) => x.serialize(serializer),
            ElementValue::Signed(x) => serializer.serialize_i64(*x),
            ElementValue::Unsigned(x) => serializer.serialize_u64(*x),
            ElementValue::Bool(x) => serializer.serialize_bool(*x),
            ElementValue::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// The object of a verb. Its version is 1: a change that a reader of the JSON could notice needs a
/// new one.
pub(crate) fn document(verb: &str, value: &impl Serialize) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: String,
        #[serde(flatten)]
        value: &'a T,
    }
    Ok(to_string(&Document { schema: format!("onnx-cast/{verb}/1"), value })?)
}

/// What is written in the place of an answer that there is not, where the exit status is 2.
pub(crate) fn of_problem(error: &ReportedProblem) -> anyhow::Result<String> {
    document("error", &serde_json::json!({ "error": error }))
}

/// The rows of a report under the names that its readers know them by.
#[derive(Serialize)]
struct ReportRows<'a> {
    problem: Option<&'a str>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

impl ReportRows<'_> {
    fn of(head: &Head) -> ReportRows<'_> {
        let (notes, more) = (head.sentences_of(Code::Remark), head.sentences_of(Code::NotFinite));
        let notes = [notes, more].concat();
        ReportRows { problem: head.problem(), notes, warnings: head.sentences(Severity::Warning) }
    }
}

/// The report of `audit`.
pub(crate) fn of_audits(models: &[Audited]) -> anyhow::Result<String> {
    /// What can be told of a cast without a run.
    #[derive(Serialize)]
    struct OfCast<'a> {
        kind: Code,
        node: &'a str,
        graph: &'a str,
        text: &'a str,
        is_error: bool,
    }
    #[derive(Serialize)]
    struct JsonAudit<'a> {
        #[serde(flatten)]
        model: &'a Audited,
        #[serde(flatten)]
        rows: ReportRows<'a>,
        cause: Option<String>,
        next: Option<String>,
        findings: Vec<OfCast<'a>>,
        exceeded: Vec<String>,
        excused: Vec<String>,
    }
    #[derive(Serialize)]
    struct Audits<'a> {
        models: Vec<JsonAudit<'a>>,
    }
    fn of_cast(row: &FindingRow) -> OfCast<'_> {
        OfCast {
            kind: row.code,
            node: &row.node,
            graph: &row.graph,
            text: &row.sentence,
            is_error: row.code == Code::Contradicted,
        }
    }
    fn of_audit(model: &Audited) -> JsonAudit<'_> {
        let Audited { head, .. } = model;
        let of_casts = head.rows.iter().filter(|row| row.code.is_static());
        let (findings, rows) = (of_casts.map(of_cast).collect(), ReportRows::of(head));
        let (exceeded, excused) =
            (head.sentences(Severity::Error), head.sentences_of(Code::Excused));
        let (cause, next) = verdict::of_audit(model).unzip();
        JsonAudit { model, rows, cause, next, findings, exceeded, excused }
    }
    document("audit", &Audits { models: models.iter().map(of_audit).collect() })
}

/// The report of `compare`.
pub(crate) fn of_comparisons(comparisons: &[Compared]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Comparison<'a> {
        #[serde(flatten)]
        pair: &'a Compared,
        #[serde(flatten)]
        rows: ReportRows<'a>,
        cause: Option<String>,
        next: Option<String>,
    }
    #[derive(Serialize)]
    struct Comparisons<'a> {
        comparisons: Vec<Comparison<'a>>,
    }
    fn comparison(pair: &Compared) -> Comparison<'_> {
        let next = verdict::next_step(pair);
        let next = next.map(|next| next.command.unwrap_or(next.words));
        Comparison { pair, rows: ReportRows::of(&pair.head), cause: verdict::cause(pair), next }
    }
    let comparisons = comparisons.iter();
    document("compare", &Comparisons { comparisons: comparisons.map(comparison).collect() })
}
