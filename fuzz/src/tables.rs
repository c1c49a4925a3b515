//! The operators there are, and their attributes: from the tables of the project.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All operators, and the names of the functions that models are given.
pub static OPERATORS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let rows = include_str!("../../src/onnx/operators/schemas.tsv").lines();
    let names = rows.filter(|row| !row.starts_with('#')).filter_map(|row| row.split('\t').next());
    names.filter(|name| !name.is_empty()).chain(["f", "g", "h"]).collect()
});

/// The attributes of the operators, each with its type.
static ATTRIBUTES: LazyLock<HashMap<&'static str, Vec<(&'static str, &'static str)>>> =
    LazyLock::new(|| {
        let mut attributes: HashMap<_, Vec<_>> = HashMap::new();
        let mut operator = "";
        for row in include_str!("../../src/onnx/operators/attributes.tsv").lines() {
            let mut columns = row.split('\t');
            operator = columns.next().filter(|name| !name.is_empty()).unwrap_or(operator);
            for column in columns.nth(1).unwrap_or_default().split(' ') {
                if let Some((name, ty)) = column.split_once(':') {
                    let ty = ty.split(['=', '!']).next().unwrap_or(ty);
                    attributes.entry(operator).or_default().push((name, ty));
                }
            }
        }
        attributes
    });

/// One of the attributes of an operator.
pub fn attribute(operator: &str, choice: usize) -> Option<(&'static str, &'static str)> {
    let all = ATTRIBUTES.get(operator)?;
    all.get(choice % all.len()).copied()
}
