//! The operators, how each is drawn and what it should make; and what ONNX says of their versions and types.

use std::collections::HashMap;
use std::sync::LazyLock;

use tract_onnx_cast::ElementType;

use crate::answer::Oracle;
use crate::draw::Draw;
use crate::{functions, operands};

/// Operators that are drawn alike.
#[derive(Clone, Copy)]
pub struct Row {
    /// The operators, apart by spaces.
    pub op: &'static str,
    /// Makes a node, and names the output that a chain goes on with.
    pub draw: fn(&mut Draw) -> Option<usize>,
    pub oracle: Oracle,
}

pub const fn row(op: &'static str, draw: fn(&mut Draw) -> Option<usize>, oracle: Oracle) -> Row {
    Row { op, draw, oracle }
}

/// A row for each operator.
pub fn rows() -> Vec<Row> {
    let rows = [functions::ROWS, operands::ROWS].into_iter().flatten();
    rows.flat_map(|row| row.op.split_whitespace().map(|op| Row { op, ..*row })).collect()
}

const SCHEMAS: &str = include_str!("../../src/onnx/operators/schemas.tsv");

/// A version of an operator: the opset that it came with, and the types of its first input.
struct Version {
    since: i64,
    types: Vec<ElementType>,
}

static VERSIONS: LazyLock<HashMap<&str, Vec<Version>>> = LazyLock::new(|| {
    let mut versions: HashMap<&str, Vec<Version>> = HashMap::new();
    let mut columns = [""; 6];
    for line in SCHEMAS.lines() {
        for (column, own) in columns.iter_mut().zip(line.split('\t')) {
            if !own.is_empty() {
                *column = own;
            }
        }
        let [op, since, _, inputs, _, variables] = columns;
        let first = inputs.split(' ').next().unwrap_or_default().trim_end_matches(['?', '*']);
        let variable =
            variables.split(' ').find_map(|entry| entry.strip_prefix(first)?.strip_prefix('='));
        let names = variable.unwrap_or(first).split(',');
        let types = names.filter_map(ElementType::from_name).collect();
        let since = since.parse().expect("a version");
        versions.entry(op).or_default().push(Version { since, types });
    }
    versions
});

/// The newest opset that the tests write.
const NEWEST: i64 = 25;
/// Before it, operators were broadcast by attributes.
const OLDEST: i64 = 7;

/// The opsets with which each version of an operator can be had.
pub fn opsets(op: &str) -> Vec<(i64, i64)> {
    let Some(versions) = VERSIONS.get(op) else { return vec![(21, 21)] };
    let since: Vec<i64> = versions.iter().map(|version| version.since).collect();
    let ends = since.iter().skip(1).map(|next| next - 1).chain([NEWEST]);
    let ranges = since.iter().zip(ends).map(|(since, end)| (*since.max(&OLDEST), end));
    ranges
        .filter(|(since, end)| since <= end)
        .map(|(since, end)| (since, end.min(NEWEST)))
        .collect()
}

/// Whether ONNX's operator takes a type as its first input.
pub fn takes(op: &str, opset: i64, ty: ElementType) -> bool {
    let Some(versions) = VERSIONS.get(op) else { return true };
    let version = versions.iter().rfind(|version| version.since <= opset);
    version.is_some_and(|version| version.types.contains(&ty))
}
