//! What `--json` prints, where that is not what a worker answers as it is.

use serde::{Serialize, Serializer};

use crate::cli::judge::audited::Audited;
use crate::cli::judge::compared::Compared;
use crate::cli::judge::number::Num;
use crate::cli::judge::value::Value;
use crate::cli::message::Problem;

/// The version of what `audit --json` writes, which docs/report-format.md describes. A change that a reader of the JSON
/// could notice needs a new one.
const AUDIT_SCHEMA: &str = "onnx-cast/audit/1";
/// As [`AUDIT_SCHEMA`], of `compare --json`.
const COMPARE_SCHEMA: &str = "onnx-cast/compare/1";
/// As [`AUDIT_SCHEMA`], of what every `--json` prints where the exit status is 2.
const ERROR_SCHEMA: &str = "onnx-cast/error/1";

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

/// What is written in the place of an answer that there is not.
pub(crate) fn of_problem(problem: &Problem) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Refusal<'a> {
        schema: &'static str,
        error: &'a Problem,
    }
    serde_json::to_string(&Refusal { schema: ERROR_SCHEMA, error: problem })
}

/// The report of `audit`.
pub(crate) fn of_audits(models: &[Audited]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Audits<'a> {
        schema: &'static str,
        models: &'a [Audited],
    }
    serde_json::to_string(&Audits { schema: AUDIT_SCHEMA, models })
}

/// The report of `compare`.
pub(crate) fn of_comparisons(comparisons: &[Compared]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Comparisons<'a> {
        schema: &'static str,
        comparisons: &'a [Compared],
    }
    serde_json::to_string(&Comparisons { schema: COMPARE_SCHEMA, comparisons })
}
