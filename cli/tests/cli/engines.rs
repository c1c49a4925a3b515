//! What checks runs a model node by node, what deploys it by a plan, or node by node where tract
//! can make no plan of it.

use std::time::Instant;

use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::tensor1;
use tract_onnx_cast::ElementType::{self, Bool, Float, Float16, Int64};

use crate::common::hostile::crowds;
use crate::common::proto::{
    graph, graph_attribute, int64, model, node, shaped, symbol, tensor, unshaped, untyped, value,
};
use crate::program::{Folder, cast, json, onnx_cast, refused, said, stderr, stdout};

/// A `Loop`, which tract does not have: three times x is bounded, scaled and rounded to FLOAT16.
fn looping(scale: f32, bounded_by: &str) -> ModelProto {
    let steps = [
        node(bounded_by, &["x"], &["bounded"], vec![]),
        node("Mul", &["bounded", "scale"], &["scaled"], vec![]),
        cast("down", "scaled", "half", Float16),
        cast("up", "half", "next", Float),
        node("Identity", &["on"], &["still_on"], vec![]),
    ];
    let inputs = [value("i", Int64, &[]), value("on", Bool, &[]), untyped("x")];
    let body = graph(&inputs, &steps, &[value("still_on", Bool, &[]), untyped("next")]);
    let nodes = [node("Loop", &["count", "", "v"], &["y"], vec![graph_attribute("body", body)])];
    let mut main = graph(&[value("v", Float, &[4])], &nodes, &[unshaped("y", Float)]);
    main.initializer = vec![int64("count", &[3]), tensor("scale", ElementType::Float, &[scale])];
    model(17, main)
}

#[test]
fn what_has_no_plan_runs_node_by_node() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &looping(1.5, "Tanh"));
    let told = "it was run node by node: node `Loop_y` (Loop)";
    let v = folder.tensor("v.pb", Float, tensor1(&[1f32, 2.0, 3.0, 4.0]));
    let run = stderr(&onnx_cast(["run", &a, "-i", &format!("v={v}")]));
    assert!(run.contains(told), "{run}");
    let report = json(&said(0, &["audit", &a, "--sets", "1", "--json"]));
    let down = &report["models"][0]["casts"][0];
    assert_eq!((&down["node"], &down["elements"]), (&"down".into(), &12.into()), "{report}");
    let same = said(0, &["compare", &a, &a]);
    assert!(!same.contains("node by node") && same.contains("exactly equal"), "{same}");
    let other = folder.message("b.onnx", &looping(1.5, "Sigmoid"));
    let report = json(&said(1, &["compare", &a, &other, "--json"]));
    assert_eq!(report["comparisons"][0]["verdict"], "broken", "{report}");
    for arguments in [vec!["audit", &a], vec!["compare", &a, &a], vec!["run", &a]] {
        let line = refused(&[&arguments[..], &["--engine", "plan"]].concat());
        assert!(
            line.contains("`Loop_y` (Loop): is computed node by node and in no plan"),
            "{line}"
        );
    }
}

#[test]
fn both_engines_count_and_compare_alike() {
    let model = crate::program::in_repository("models/whole/rms_norm_FLOAT16_fixed");
    let original = crate::program::in_repository("models/whole/rms_norm_FLOAT");
    let by = |engine: &str, arguments: &[&str]| {
        let report = said(0, &[arguments, &["--json", "--engine", engine]].concat());
        json(&report)
    };
    let [planned, walked] = ["plan", "nodes"].map(|engine| by(engine, &["audit", &model]));
    assert_eq!(planned["models"][0]["casts"], walked["models"][0]["casts"]);
    let [planned, walked] = ["plan", "nodes"].map(|engine| {
        by(engine, &["compare", &original, &model, "--rtol", "1e-2", "--atol", "1e-2"])
    });
    let output = |report: &serde_json::Value| report["comparisons"][0]["verdict"].clone();
    assert_eq!(output(&planned), output(&walked));
}

/// Columns that only weights tell: nobody guesses five.
#[test]
fn sizes_that_weights_tell_are_not_chosen() {
    let folder = Folder::new();
    let product = node("Gemm", &["x", "w"], &["p"], vec![]);
    let sizes = vec![symbol("rows"), symbol("columns")];
    let nodes = [product, cast("down", "p", "y", Float16)];
    let mut main = graph(&[shaped("x", Float, sizes)], &nodes, &[unshaped("y", Float16)]);
    let weights = TensorProto { dims: vec![5, 2], ..tensor("w", Float, &[1.; 10]) };
    main.initializer = vec![weights];
    let file = folder.message("a.onnx", &model(17, main));
    for engine in ["plan", "nodes"] {
        let run = |rest: &[&str]| onnx_cast([&["run", &file, "--engine", engine], rest].concat());
        let chosen = stderr(&run(&[]));
        assert!(chosen.contains("rows 7") && !chosen.contains("columns"), "{chosen}");
        assert!(run(&["--set", "columns=5"]).status.success());
        let line = refused(&["run", &file, "--engine", engine, "--set", "columns=6"]);
        let told = "--set columns=6: the model's weights make it 5";
        assert!(line.contains(told), "{line}");
        said(0, &["audit", &file, "--engine", engine]);
    }
}

/// So many nodes, one behind the other, that cost hardly anything.
fn chain(count: usize) -> ModelProto {
    let name = |place: usize| format!("v{place}");
    let link = |place: usize| node("Tanh", &[&name(place)], &[&name(place + 1)], vec![]);
    let nodes: Vec<_> = (0..count).map(link).collect();
    let (x, y) = (value("v0", Float, &[4]), value(&name(count), Float, &[4]));
    model(17, graph(&[x], &nodes, &[y]))
}

/// A plan of them would take longer to make than they take to run.
#[test]
fn many_nodes_run_once_node_by_node() {
    let folder = Folder::new();
    let file = folder.message("m/model.onnx", &chain(2_500));
    let x = folder.tensor("m/test_data_set_0/input_0.pb", Float, tensor1(&[1f32, 2.0, 3.0, 4.0]));
    let given = format!("v0={x}");
    let run = |rest: &[&str]| {
        let output = onnx_cast([&["run", &file, "-i", &given, "--json"], rest].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        (json(&stdout(&output))["outputs"].clone(), stderr(&output))
    };
    let told = "it was run node by node: a plan of its 2500 nodes takes tract longer than one run; \
                --engine plan makes it";
    let recorded = folder.text("m/test_data_set_0");
    let (by_nodes, note) = run(&["-o", &recorded]);
    assert!(note.contains(told), "{note}");
    // Who says how many nodes a plan may have wants one as well.
    for asked in [["--engine", "plan"], ["--max-nodes", "10000"]] {
        let (by_plan, note) = run(&asked);
        assert!(by_plan == by_nodes && note.is_empty(), "{asked:?}: {note}");
    }
    let tested = onnx_cast(["test", &folder.text("m")]);
    assert!(tested.status.success() && stderr(&tested).contains(told), "{tested:?}");
    let few = folder.message("few.onnx", &chain(1_000));
    let few = stderr(&onnx_cast(["run", &few]));
    assert!(!few.contains("node by node"), "{few}");
}

/// It is told before the time has gone by.
#[test]
fn a_plan_that_would_take_too_long_is_not_begun() {
    let folder = Folder::new();
    let file = folder.message("m.onnx", &chain(7_000));
    let told = "tract would take longer to load a model of 7000 nodes than 4 s";
    let line = refused(&["run", &file, "--engine", "plan"]);
    assert!(line.contains(told), "{line}");
    let run = stderr(&onnx_cast(["run", &file]));
    assert!(run.contains("it was run node by node: ") && run.contains(told), "{run}");
}

/// A model of which there can be no plan, and which fails node by node, is wrong about what fails
/// there.
#[test]
fn what_goes_wrong_without_a_plan_is_told() {
    let (_, model) =
        crowds().into_iter().find(|(name, _)| *name == "a loop without end").expect("a model");
    let folder = Folder::new();
    let file = folder.message("m.onnx", &model);
    let timed = |arguments: &[&str]| {
        let start = Instant::now();
        let line = refused(arguments);
        assert!(line.contains("(Loop): goes round more than 1048576 times"), "{line}");
        start.elapsed()
    };
    let once = timed(&["run", &file]);
    // No other inputs are tried: that took twenty times as long.
    let mut other = model.clone();
    other.doc_string = "another".into();
    let both = timed(&["compare", &file, &folder.message("n.onnx", &other)]);
    assert!(both < once * 8, "{both:?} in the place of {once:?}");
}
