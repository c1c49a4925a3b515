use std::collections::BTreeMap;
use std::fmt::Write;
use std::{env, fs};

use super::table::{self, Honoured, HonouredRow, row};
use crate::onnx::operators::alone::ALONE;
use crate::onnx::operators::attributes::{self, Version};

/// Operators that tract has in its register and ONNX does not have, or that tract cannot type.
const NOT_COMPUTED: [&str; 2] = ["ConstantLike", "Rsqrt"];

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operators.md");

const INTRODUCTION: &str = "\
# Operators: what is computed, and what is refused

`make operator-page` makes this page from the tables in `src/onnx/operators`, which a test compares. A node that asks for
anything that is not here is refused with its name, the attribute, its value and the opset, when the model is loaded. So is
one of a domain that is not here, unless you have registered the operator yourself.

An attribute may always have its default. \"any value\" are those that ONNX allows: shapes, axes and the like are checked
against each other where they are used. Versions are those of the default domain's opset.
";

#[test]
fn every_operator_that_can_be_built_has_a_row() {
    let onnx = crate::plug::loader::onnx();
    let domains = ["", "ai.onnx.ml", "com.microsoft"];
    for operator in onnx.operators().filter(|operator| !operator.contains(':')) {
        let has_row = domains.iter().any(|domain| row(domain, operator).is_some());
        let is_left_out = NOT_COMPUTED.contains(&operator);
        assert!(has_row != is_left_out, "{operator}: honoured.tsv says what is computed of it");
    }
}

#[test]
fn the_page_has_what_the_tables_have() {
    let page = page();
    if env::var_os("ONNX_CAST_WRITE_OPERATOR_PAGE").is_some() {
        fs::write(PAGE, &page).expect("a page that can be written");
    }
    let kept = fs::read_to_string(PAGE).expect("a page").replace("\r\n", "\n");
    assert!(kept == page, "docs/operators.md: `make operator-page` writes it anew");
}

fn page() -> String {
    let mut page = INTRODUCTION.to_string();
    for (domain, title) in [
        ("", "ONNX's own domain"),
        ("ai.onnx.ml", "`ai.onnx.ml`"),
        ("com.microsoft", "`com.microsoft`"),
    ] {
        let names = operators_of(domain);
        writeln!(page, "\n## {title}\n").unwrap();
        page += "| operator | versions | any value | these values | without effect | refused | remark |\n";
        page += "|---|---|---|---|---|---|---|\n";
        let computed = names.iter().filter_map(|name| Some((name, row(domain, name)?)));
        for (name, row) in computed {
            page += &rows_of(domain, name, row);
        }
        let is_alone = |name: &str| ALONE.contains(&(domain, name));
        let missing = names.iter().filter(|name| row(domain, name).is_none());
        let (alone, missing): (Vec<&str>, Vec<&str>) = missing.partition(|name| is_alone(name));
        let list = |names: &[&str]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<String>>().join(", ")
        };
        if !alone.is_empty() {
            writeln!(page, "\nNode by node, and in no plan: {}.", list(&alone)).unwrap();
        }
        writeln!(page, "\nNot there: {}.", list(&missing)).unwrap();
    }
    page
}

fn operators_of(domain: &str) -> Vec<&'static str> {
    let mut names: Vec<_> = attributes::operators(domain).collect();
    names.sort_unstable();
    names
}

/// A row for each run of versions of which the same is said.
fn rows_of(domain: &str, name: &str, row: &HonouredRow) -> String {
    let mut runs: Vec<(Vec<String>, Vec<i64>)> = vec![];
    for version in attributes::all(domain, name) {
        let cells = if domain.is_empty() && version.since < row.since {
            let is_refused = "the version".to_string();
            vec![String::new(), String::new(), String::new(), is_refused]
        } else {
            cells(version, row)
        };
        match runs.last_mut() {
            Some((above, versions)) if *above == cells => versions.push(version.since),
            _ => runs.push((cells, vec![version.since])),
        }
    }
    let mut rows = String::new();
    for (cells, versions) in runs {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        let (versions, cells) = (versions.join(", "), cells.join(" | "));
        let remark = table::remark(domain, name);
        writeln!(rows, "| {name} | {versions} | {cells} | {remark} |").unwrap();
    }
    rows.replace("|  |", "| |").replace("|  |", "| |")
}

/// The columns of the attributes and of what is refused.
fn cells(version: &Version, row: &HonouredRow) -> Vec<String> {
    let mut cells: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for attribute in &version.attributes {
        let name = format!("`{}`", attribute.name);
        let with_default = |values: &str| match attribute.default {
            Some(default) if !values.split(", ").any(|value| value == default) => {
                format!("{name}: {default}, {values}")
            }
            _ => format!("{name}: {values}"),
        };
        let (column, cell) = match row.attribute(attribute.name) {
            Some(Honoured::All | Honoured::WithDefault) => (0, name),
            Some(Honoured::Only(values)) => (1, with_default(&values.join(", "))),
            Some(Honoured::NumberOfOutputs) => (1, format!("{name}: as many as there are")),
            Some(Honoured::Aligned) => (1, format!("{name}: the last dimensions")),
            Some(Honoured::WithoutEffect) => (2, name),
            None => match attribute.default {
                Some(default) => (1, format!("{name}: {default}")),
                None => (3, name),
            },
        };
        cells.entry(column).or_default().push(cell);
    }
    let refused = cells.entry(3).or_default();
    for (place, types) in &row.inputs {
        let types: Vec<_> = types.iter().map(ToString::to_string).collect();
        let of = if types.is_empty() { String::new() } else { format!(" of {}", types.join(", ")) };
        refused.push(format!("input {place}{of}"));
    }
    refused.extend(row.outputs.iter().map(|place| format!("output {place}")));
    (0..4).map(|column| cells.get(&column).map_or(String::new(), |cell| cell.join("; "))).collect()
}
