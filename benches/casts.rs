//! Casts through a tract plan: ours, tract's own, and a memcpy that moves the same bytes, one after
//! the other. Criterion measures; at the end a table of ratios, also in
//! `target/criterion/casts.md`.
//!
//! `ONNX_CAST_BENCH=all` takes every pair instead of the usual ones; it takes hours.

mod pairs;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pairs::{PAIRS, input, ours, stock};
use test_tools::criterion::Criterion;
use test_tools::serde_json;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

const SIZES: [usize; 5] = [1, 100, 16 << 10, 1 << 20, 16 << 20];

fn main() -> TractResult<()> {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .configure_from_args();
    let mut table = String::from(
        "| elements | pair | ns/element | memcpy/ours | stock/ours |\n|---|---|---|---|---|\n",
    );
    for elements in SIZES {
        for (from, to) in chosen() {
            let has_text = [from, to].contains(&ElementType::String);
            if has_text && elements > 1 << 20 {
                continue;
            }
            let name = format!("{elements}/{from}-{to}");
            measure(&mut criterion, &name, from, to, elements)?;
            if let Some(row) = row(&name, elements) {
                table.push_str(&row);
            }
        }
    }
    criterion.final_summary();
    fs::write("target/criterion/casts.md", &table).ok();
    println!("{table}");
    Ok(())
}

fn chosen() -> Vec<(ElementType, ElementType)> {
    if std::env::var("ONNX_CAST_BENCH").is_ok_and(|which| which == "all") {
        let every = ElementType::ALL.iter().copied();
        let pairs = every.clone().flat_map(|from| every.clone().map(move |to| (from, to)));
        return pairs.filter(|(from, to)| from != to).collect();
    }
    PAIRS.to_vec()
}

fn measure(
    criterion: &mut Criterion,
    name: &str,
    from: ElementType,
    to: ElementType,
    elements: usize,
) -> TractResult<()> {
    let x = input(from, elements)?;
    let mut group = criterion.benchmark_group(name);
    let plan = ours(from, to, elements)?;
    group.bench_function("ours", |b| b.iter(|| plan.run(tvec!(x.clone())).expect("a run")));
    if let Some(plan) = stock(from, to, elements) {
        group.bench_function("stock", |b| b.iter(|| plan.run(tvec!(x.clone()))));
    }
    if let (Some(read), Some(written)) = (from.carrier_bytes(), to.carrier_bytes()) {
        // A copy of n bytes reads n and writes n.
        let source = vec![1u8; elements * (read + written) / 2];
        let mut target = source.clone();
        group.bench_function("memcpy", |b| {
            b.iter(|| {
                target.copy_from_slice(std::hint::black_box(&source));
                std::hint::black_box(&mut target);
            })
        });
    }
    group.finish();
    Ok(())
}

/// The medians that Criterion has kept, as a row; `None` if a filter left the pair out.
fn row(name: &str, elements: usize) -> Option<String> {
    let median = |function: &str| {
        let folder = name.replace('/', "_");
        let path = Path::new("target/criterion").join(folder).join(function);
        let text = fs::read_to_string(path.join("new/estimates.json")).ok()?;
        let estimates: serde_json::Value = serde_json::from_str(&text).ok()?;
        estimates["median"]["point_estimate"].as_f64()
    };
    let ours = median("ours")?;
    let ratio =
        |other: Option<f64>| other.map_or("–".into(), |other| format!("{:.2}", other / ours));
    let mut row = String::new();
    let pair = name.split('/').nth(1)?.replace('-', " → ");
    let per_element = ours / elements as f64;
    let (memcpy, stock) = (ratio(median("memcpy")), ratio(median("stock")));
    writeln!(row, "| {elements} | {pair} | {per_element:.3} | {memcpy} | {stock} |").ok()?;
    Some(row)
}
