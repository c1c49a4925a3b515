//! What can be found, as one table, and a row of what was.
//!
//! Every report is made of such rows. A new finding is a line of the table below, its line in
//! docs/report-format.md, and the place where it is found; one that needs no run is a `FindingKind`
//! of the same name besides.

use serde::{Deserialize, Serialize};
use tract_onnx_cast::audit::{FindingKind, Outcome};

use super::status::Status;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Something to know.
    Note,
    /// Why the verdict may be another on other inputs.
    Warning,
    /// What fails a model or a comparison.
    Error,
}

/// What there is to say of a code. Its help, and what it means, are also in docs/report-format.md.
pub(crate) struct CodeEntry {
    pub(crate) code: Code,
    /// The code in JSON, in limits and in sentences.
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// What stands before a sentence of it.
    pub(crate) label: &'static str,
    /// What to do about it.
    pub(crate) help: &'static str,
}

macro_rules! codes {
    ($($code:ident = $name:literal, $severity:ident, $label:literal, $help:literal;)*) => {
        /// What was found. Codes stay as they are: scripts and limits name them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub(crate) enum Code {
            $(#[serde(rename = $name)] $code),*
        }

        /// The table, in the order of the codes.
        pub(crate) const TABLE: &[CodeEntry] = &[
            $(CodeEntry {
                code: Code::$code,
                name: $name,
                severity: Severity::$severity,
                label: $label,
                help: $help,
            }),*
        ];
    };
}

codes! {
    // What becomes of the values of a cast, or of a weight.
    Exact = "exact", Error, "beyond the limits", "";
    Rounded = "rounded", Error, "beyond the limits", "";
    Truncated = "truncated", Error, "beyond the limits", "round before the cast, or allow it";
    Flushed = "flushed", Error, "beyond the limits", "keep the nodes about it in a wider type, or scale the values up";
    Saturated = "saturated", Error, "beyond the limits", "choose a scale that covers the values";
    NanLost = "nan_lost", Error, "beyond the limits", "keep the nodes about it in a type that has NaN";
    Wrapped = "wrapped", Error, "beyond the limits", "keep the wider integer type";
    Overflowed = "overflowed", Error, "beyond the limits", "keep the nodes about it in a type that holds the values";
    BecameNan = "became_nan", Error, "beyond the limits", "keep the nodes about it in a type that holds the values";
    Undefined = "undefined", Error, "beyond the limits", "clip the values to the integer type's range before the cast";
    Clipped = "clipped", Error, "beyond the limits", "raise the converter's limit of magnitudes";
    Changed = "changed", Error, "beyond the limits", "convert the weight anew";
    // What else is counted of a cast.
    MadeInfinite = "made_infinite", Error, "beyond the limits", "keep the operator in FLOAT";
    MadeNan = "made_nan", Error, "beyond the limits", "keep the operator in FLOAT";
    BecameSubnormal = "became_subnormal", Error, "beyond the limits", "";
    SignLost = "sign_lost", Error, "beyond the limits", "";
    SaturatedShare = "saturated_share", Error, "beyond the limits", "calibrate the quantiser on real data";
    MaxAbs = "max_abs", Error, "beyond the limits", "";
    MaxRel = "max_rel", Error, "beyond the limits", "";
    MaxUlp = "max_ulp", Error, "beyond the limits", "";
    // What can be told of a model without a run.
    Contradicted = "contradicted", Error, "invalid", "`onnx-cast fix` corrects the declaration";
    NoOp = "no_op", Note, "note", "`onnx-cast fix` takes the cast out";
    WidenedBefore = "widened_before", Note, "note", "";
    NarrowedBefore = "narrowed_before", Note, "note", "";
    Int64ToInt32 = "int64_to_int32", Note, "note", "";
    FloatToInteger = "float_to_integer", Note, "note", "";
    // What fails a whole model or comparison.
    WrongWeight = "wrong_weight", Error, "beyond the limits", "compare the weight's values with the original's, and convert it anew";
    NothingSeen = "nothing_seen", Error, "beyond the limits", "give other inputs with -i";
    BeyondTolerance = "beyond_tolerance", Error, "beyond the tolerance", "";
    DiffersInside = "differs_inside", Error, "beyond the tolerance", "";
    Broken = "broken", Error, "broken", "";
    Imprecise = "imprecise", Error, "imprecise", "`onnx-cast keep` finds what to leave in FLOAT";
    NothingCompared = "nothing_compared", Error, "beyond the tolerance", "give other inputs with -i";
    // What to know about a verdict.
    RandomInputs = "random_inputs", Warning, "warning", "give real ones with -i";
    Swapped = "swapped", Warning, "warning", "give the original first, then its conversion";
    LooksNarrow = "looks_narrow", Warning, "looked at too little", "give inputs with -i, or sizes with --set";
    LittleHeadroom = "little_headroom", Warning, "warning", "";
    Remark = "remark", Note, "note", "";
    LookedAt = "looked_at", Note, "looked at", "give real inputs with -i, or sizes with --set";
    NotFinite = "not_finite", Note, "note", "`onnx-cast compare` finds where it arises";
    Excused = "excused", Note, "as in the original", "";
    NotExercised = "not_exercised", Note, "not exercised", "give inputs that reach it";
    BySample = "by_sample", Note, "by sample", "";
    Scores = "scores", Note, "scores", "";
    OperatorsSaw = "operators_saw", Note, "operators saw", "say where inputs lie with --range";
}

impl Code {
    /// Its line of the table.
    pub(crate) fn entry(self) -> &'static CodeEntry {
        // The table has a line for each, at its place.
        TABLE.get(self as usize).unwrap_or(&TABLE[0])
    }

    pub(crate) fn name(self) -> &'static str {
        self.entry().name
    }

    /// The code of that name.
    pub(crate) fn named(name: &str) -> Option<Code> {
        TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.code)
    }

    /// Whether it is told of a model without a run.
    pub(crate) fn is_static(self) -> bool {
        (Code::Contradicted..=Code::FloatToInteger).contains(&self)
    }

    /// What is counted of a cast, the outcomes first.
    pub(crate) fn counted() -> impl Iterator<Item = Code> {
        let all = TABLE.iter().map(|entry| entry.code).filter(|code| *code <= Code::MaxUlp);
        all.filter(|code| !matches!(code, Code::Clipped | Code::Changed))
    }

    /// Whether a limit can be set for it: of what is counted, and of what else fails an audit.
    pub(crate) fn is_limitable(self) -> bool {
        let others = [Code::Contradicted, Code::WrongWeight, Code::NothingSeen];
        Code::counted().any(|code| code == self) || others.contains(&self)
    }
}

impl From<Outcome> for Code {
    fn from(outcome: Outcome) -> Code {
        // A test holds the table to the outcomes.
        Code::named(outcome.name()).unwrap_or(Code::Undefined)
    }
}

impl From<FindingKind> for Code {
    fn from(kind: FindingKind) -> Code {
        Code::named(kind.name()).unwrap_or(Code::Remark)
    }
}

/// A row of what was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FindingRow {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// The node or the output that it is about; empty where the sentence says it.
    pub(crate) node: String,
    /// The graph of that node.
    pub(crate) graph: String,
    pub(crate) sentence: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) help: String,
}

impl FindingRow {
    /// A finding about a whole model.
    pub(crate) fn new(code: Code, sentence: impl Into<String>) -> FindingRow {
        let CodeEntry { severity, help, .. } = *code.entry();
        let (node, graph) = (String::new(), String::new());
        FindingRow { code, severity, node, graph, sentence: sentence.into(), help: help.into() }
    }

    /// As [`FindingRow::new`], about a node.
    pub(crate) fn at(
        node: &str,
        graph: &str,
        code: Code,
        sentence: impl Into<String>,
    ) -> FindingRow {
        FindingRow { node: node.into(), graph: graph.into(), ..FindingRow::new(code, sentence) }
    }

    /// The sentence, with what it is about.
    pub(crate) fn in_words(&self) -> String {
        if self.node.is_empty() {
            self.sentence.clone()
        } else {
            format!("`{}`: {}", self.node, self.sentence)
        }
    }
}

/// Notes, a row each.
pub(crate) fn remarks(notes: impl IntoIterator<Item = String>) -> impl Iterator<Item = FindingRow> {
    notes.into_iter().map(|note| FindingRow::new(Code::Remark, note))
}

/// How a model or a comparison fares of which this was found.
pub(crate) fn status(rows: &[FindingRow]) -> Status {
    let is_failed = rows.iter().any(|row| row.severity == Severity::Error);
    if is_failed { Status::Failed } else { Status::Passed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_code_and_the_documentation_every_row() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/report-format.md");
        let document = std::fs::read_to_string(document).expect("the repository has it");
        for (place, entry) in TABLE.iter().enumerate() {
            assert_eq!(entry.code as usize, place);
            let row = format!("| `{}` | {:?} |", entry.name, entry.severity).to_lowercase();
            assert!(document.contains(&row), "docs/report-format.md lacks {row}");
        }
        assert!(Outcome::ALL.iter().all(|outcome| Code::named(outcome.name()).is_some()));
        let is_static = |kind: FindingKind| Code::named(kind.name()).is_some_and(Code::is_static);
        assert!(FindingKind::ALL.into_iter().all(is_static));
    }
}
