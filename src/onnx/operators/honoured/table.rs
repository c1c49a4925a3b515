//! The table of what is honoured, whose first lines say what its columns are.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::attributes::qualified;
use crate::cast::element_type::ElementType;

const TABLE: &str = include_str!("../honoured.tsv");

/// What is computed of an operator.
#[derive(Debug, Clone)]
pub(crate) struct HonouredRow {
    /// The oldest version.
    pub(crate) since: i64,
    attributes: Vec<(&'static str, Honoured)>,
    /// The inputs that are refused, by place: of these types, or any where there are none.
    pub(crate) inputs: Vec<(usize, Vec<ElementType>)>,
    /// The outputs that are refused, by place.
    pub(crate) outputs: Vec<usize>,
}

/// What values of an attribute are honoured beside its default.
#[derive(Debug, Clone)]
pub(crate) enum Honoured {
    All,
    /// All, and the default is to be written down.
    WithDefault,
    WithoutEffect,
    Only(Vec<&'static str>),
    NumberOfOutputs,
    /// An axis by which two shapes are aligned as they are without it.
    Aligned,
}

/// By domain and operator.
static ROWS: LazyLock<HashMap<&str, HashMap<&str, HonouredRow>>> = LazyLock::new(|| {
    let mut rows: HashMap<&str, HashMap<&str, HonouredRow>> = HashMap::new();
    for (operators, row) in lines().filter_map(read) {
        for (domain, operator) in operators.map(qualified) {
            rows.entry(domain).or_default().insert(operator, row.clone());
        }
    }
    rows
});

/// What is computed of an operator, if it is one that something here computes. `domain` is empty
/// for the default one.
pub(crate) fn row(domain: &str, operator: &str) -> Option<&'static HonouredRow> {
    ROWS.get(domain)?.get(operator)
}

/// The operators of the table, with their domains.
#[cfg(test)]
pub(crate) fn operators() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROWS.iter().flat_map(|(domain, rows)| rows.keys().map(|operator| (*domain, *operator)))
}

/// What the table remarks on an operator.
#[cfg(test)]
pub(crate) fn remark(domain: &str, operator: &str) -> &'static str {
    let is_of = |line: &&'static str| {
        entries(line.split('\t').next().unwrap_or_default())
            .any(|name| qualified(name) == (domain, operator))
    };
    lines().find(is_of).and_then(|line| line.split('\t').nth(4)).unwrap_or_default()
}

impl HonouredRow {
    /// What is honoured of an attribute; its default alone where this is `None`.
    pub(crate) fn attribute(&self, name: &str) -> Option<&Honoured> {
        self.attributes.iter().find(|(own, _)| *own == name).map(|(_, honoured)| honoured)
    }

    /// The names of the attributes of which more than the default is honoured.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.attributes.iter().map(|(name, _)| *name)
    }
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

fn read(line: &'static str) -> Option<(impl Iterator<Item = &'static str>, HonouredRow)> {
    let mut columns = line.split('\t').chain(std::iter::repeat(""));
    let mut column = || columns.next().unwrap_or_default();
    let (operators, since, attributes, refused) = (column(), column(), column(), column());
    let since = if since.is_empty() { 1 } else { since.parse().ok()? };
    let attributes = entries(attributes).map(attribute).collect();
    let (mut inputs, mut outputs) = (vec![], vec![]);
    for entry in entries(refused) {
        match entry.strip_prefix("out") {
            Some(place) => outputs.push(place.parse().ok()?),
            None => inputs.push(input(entry.strip_prefix("in")?)?),
        }
    }
    Some((entries(operators), HonouredRow { since, attributes, inputs, outputs }))
}

fn entries(column: &'static str) -> impl Iterator<Item = &'static str> {
    column.split(' ').filter(|entry| !entry.is_empty())
}

/// `axis`, `mode=DCR|CRD`, `num_outputs=outputs`, `axis=last`, `momentum~` or `alpha+`.
fn attribute(entry: &'static str) -> (&'static str, Honoured) {
    if let Some(name) = entry.strip_suffix('~') {
        return (name, Honoured::WithoutEffect);
    }
    if let Some(name) = entry.strip_suffix('+') {
        return (name, Honoured::WithDefault);
    }
    match entry.split_once('=') {
        Some((name, "last")) => (name, Honoured::Aligned),
        Some((name, "outputs")) => (name, Honoured::NumberOfOutputs),
        Some((name, values)) => (name, Honoured::Only(values.split('|').collect())),
        None => (entry, Honoured::All),
    }
}

/// `3` or `0:INT8,INT16`.
fn input(entry: &'static str) -> Option<(usize, Vec<ElementType>)> {
    let (place, types) = entry.split_once(':').unwrap_or((entry, ""));
    let types = types.split(',').filter(|ty| !ty.is_empty()).map(ElementType::from_name);
    Some((place.parse().ok()?, types.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::operators::attributes::all;

    #[test]
    fn every_row_is_read_and_of_attributes_that_there_are() {
        for line in lines() {
            let (operators, row) = read(line).unwrap_or_else(|| panic!("{line}"));
            let operators: Vec<_> = operators.map(qualified).collect();
            let has = |name: &str, (domain, operator): &(&str, &str)| {
                all(domain, operator).iter().any(|version| version.attribute(name).is_some())
            };
            for name in row.names() {
                assert!(operators.iter().any(|operator| has(name, operator)), "{name}: {line}");
            }
            for (domain, operator) in operators {
                assert!(!all(domain, operator).is_empty(), "{domain}::{operator}");
            }
        }
        assert!(operators().count() > 150);
    }

    #[test]
    fn an_operator_has_one_row() {
        let count = lines().filter_map(read).flat_map(|(operators, _)| operators).count();
        assert_eq!(operators().count(), count);
    }
}
