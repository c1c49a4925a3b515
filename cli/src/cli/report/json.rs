//! What `--json` prints: one object, whose schema docs/report-format.md describes.

use serde::{Serialize, Serializer};

use crate::cli::found::audited::Audited;
use crate::cli::found::compared::Compared;
use crate::cli::measure::number::Num;
use crate::cli::measure::value::Value;
use crate::cli::message::Problem;

/// JSON of a value, on one line without control characters: a terminal in UTF-8 obeys those from U+0080 on as well, which JSON
/// allows in strings.
///
/// # Errors
///
/// When the value is nothing that JSON has.
pub(crate) fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string(value)?;
    if !json.contains(char::is_control) {
        return Ok(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() {
            // Only strings hold any.
            escaped += &format!("\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Ok(escaped)
}

/// An element.
pub(crate) struct JsonValue<'a>(pub(crate) &'a Value);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // With as many digits as tell FLOATs apart.
            Value::Float(Num(x)) if x.is_finite() => serializer.serialize_f32(*x as f32),
            Value::Float(x) | Value::Double(x) => x.serialize(serializer),
            Value::Signed(x) => serializer.serialize_i64(*x),
            Value::Unsigned(x) => serializer.serialize_u64(*x),
            Value::Bool(x) => serializer.serialize_bool(*x),
            Value::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// The object of a verb. Its version is 1: a change that a reader of the JSON could notice needs a new one.
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
pub(crate) fn of_problem(error: &Problem) -> anyhow::Result<String> {
    document("error", &serde_json::json!({ "error": error }))
}

/// The report of `audit`.
pub(crate) fn of_audits(models: &[Audited]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Audits<'a> {
        models: &'a [Audited],
    }
    document("audit", &Audits { models })
}

/// The report of `compare`.
pub(crate) fn of_comparisons(comparisons: &[Compared]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Comparisons<'a> {
        comparisons: &'a [Compared],
    }
    document("compare", &Comparisons { comparisons })
}
