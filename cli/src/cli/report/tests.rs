//! How long reports take that list many casts.

use std::collections::BTreeMap;

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::cli::args::report::Shown;
use crate::cli::found::audited::{Audited, AuditedCast};
use crate::cli::found::compared::{CastChanges, CastName, Compared};
use crate::cli::found::finding::{Code, FindingRow};
use crate::cli::found::head::Head;
use crate::cli::found::profile::{Profile, ProfilePoint};
use crate::cli::found::status::Status;
use crate::cli::measure::metrics::Metrics;
use crate::cli::measure::number::Num;
use crate::cli::measure::tolerance::Tolerance;
use crate::cli::report::terminal::Output;
use crate::cli::report::{json, junit, markdown, model_explorer, page, plain_text};
use crate::cli::tensor::NamedTensor;

/// Of a chain of casts, of which each overflows.
fn audited(count: usize) -> Audited {
    let cast = |place: usize| AuditedCast {
        node: format!("cast_{place}"),
        op: "Cast".into(),
        graph: "chain".into(),
        input: format!("v{place}"),
        output: format!("v{}", place + 1),
        from: Some("FLOAT".into()),
        to: Some("FLOAT16".into()),
        runs: 1,
        elements: 8,
        outcomes: BTreeMap::from([(Code::Overflowed, 2), (Code::Exact, 6)]),
        ..AuditedCast::default()
    };
    let casts: Vec<AuditedCast> = (0..count).map(cast).collect();
    let beyond =
        |cast: &AuditedCast| FindingRow::at(&cast.node, "", Code::Overflowed, "overflowed 2");
    let rows = casts.iter().map(beyond).collect();
    let head = Head { status: Status::Failed, sets: 1, rows, ..Head::default() };
    Audited { model: "m.onnx".into(), head, casts, ..Audited::default() }
}

fn compared(audited: &Audited) -> Compared {
    let tensor = |name: &str| {
        let held = |x: f32| NamedTensor {
            name: name.into(),
            ty: ElementType::Float,
            tensor: tensor1(&[x, 2.0]),
        };
        let (a, b) = (held(1.0), held(1.5));
        let mut metrics = Metrics::new(&a, &b, Tolerance::default());
        metrics.add(&a, &b).expect("FLOATs");
        metrics.finish()
    };
    let names = || audited.casts.iter().map(|cast| cast.output.as_str());
    let point = |(depth, cast): (usize, &AuditedCast)| ProfilePoint {
        tensor: cast.output.clone(),
        node: cast.node.clone(),
        op: "Cast".into(),
        depth,
        error: Num(0.1),
    };
    let added = |cast: &AuditedCast| CastName {
        node: cast.node.clone(),
        graph: cast.graph.clone(),
        from: cast.from.clone(),
        to: cast.to.clone(),
    };
    let added = audited.casts.iter().map(added).collect();
    Compared {
        reference: "a.onnx".into(),
        converted: "b.onnx".into(),
        head: Head { status: Status::Failed, sets: 1, ..Head::default() },
        outputs: vec![tensor("y")],
        tensors: names().map(tensor).collect(),
        casts: CastChanges { added, ..CastChanges::default() },
        profile: Profile {
            graph: "chain".into(),
            points: audited.casts.iter().enumerate().map(point).collect(),
            around: vec![],
        },
        converted_casts: audited.casts.clone(),
        ..Compared::default()
    }
}

type ReportWriter = (&'static str, fn(&[Audited], &[Compared], usize) -> usize);

/// The reports, each as long as it gets, which is what is handed back.
const REPORTS: [ReportWriter; 6] = [
    ("terminal", |audited, compared, top| {
        let (shown, output) = (Shown { top, is_quiet: false }, Output::stdout());
        let audits = plain_text::of_audits(audited, shown, &output);
        let pairs = plain_text::of_comparisons(compared, shown, &output);
        audits.len() + pairs.len()
    }),
    ("markdown", |audited, compared, top| {
        let audits = markdown::of_audits(audited, top);
        audits.len() + markdown::of_comparisons(compared, top).len()
    }),
    ("JSON", |audited, compared, _| {
        let audits = json::of_audits(audited).expect("JSON");
        audits.len() + json::of_comparisons(compared).expect("JSON").len()
    }),
    ("page", |audited, compared, top| {
        let audits = page::of_audits(audited, top).expect("a page");
        let pairs = page::of_comparisons(compared, top).expect("a page");
        audits.len() + pairs.len()
    }),
    ("JUnit", |audited, compared, _| {
        let audits = junit::of_audits(audited).expect("XML");
        audits.len() + junit::of_comparisons(compared).expect("XML").len()
    }),
    ("Model Explorer", |audited, compared, _| {
        let audits = model_explorer::of_audits(audited).expect("JSON");
        let pairs = model_explorer::of_comparisons(compared).expect("JSON");
        audits.len() + pairs.len()
    }),
];

/// The least time of several that this thread computes for so many calls; others only make it
/// longer, by what they leave of the caches.
fn least(calls: usize, work: &dyn Fn() -> usize) -> f64 {
    let computed = || -> f64 {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
        told.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let timed = || {
        let start = computed();
        (0..calls).for_each(|_| _ = std::hint::black_box(work()));
        computed() - start
    };
    (0..3).map(|_| timed()).fold(f64::INFINITY, f64::min)
}

/// Ten times as much memory is slower memory, for any report. What JSON takes, which is written in
/// one pass, tells how much slower. What goes over the reports again and again grows by more in
/// every measurement, what a busy machine slows down in some.
#[test]
fn reports_take_ten_times_as_long_for_ten_times_as_many_casts() {
    let of = |count| {
        let audited = audited(count);
        ([compared(&audited)], [audited], count)
    };
    let (few, many) = (of(1_000), of(10_000));
    let growth = |write: fn(&[Audited], &[Compared], usize) -> usize| {
        let time = |calls, (compared, audited, count): &([Compared; 1], [Audited; 1], usize)| {
            least(calls, &|| write(audited, compared, *count))
        };
        // The clock is coarse, so a short report is written often.
        let calls = if time(1, &many) < 5e7 { 10 } else { 1 };
        10.0 * time(calls, &many) / time(10 * calls, &few)
    };
    let json = REPORTS.iter().find(|(name, _)| *name == "JSON").expect("is one of them");
    let one_pass = growth(json.1);
    assert!(one_pass < 20.0, "JSON: {one_pass}");
    for (name, write) in REPORTS {
        let most = 1.5 * one_pass.max(10.0);
        let mut growths = (0..5).map(|_| growth(write)).inspect(|growth| println!("{growth}"));
        let is_linear = growths.any(|growth| growth <= most);
        assert!(is_linear, "{name}: more than {most}, one pass is {one_pass}");
    }
}
