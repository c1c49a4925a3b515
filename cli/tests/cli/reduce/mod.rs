//! `reduce`.

mod bodies;
mod command;
mod quantised;

use std::fs;

use prost::Message;
use serde_json::{Value, json};
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx_cast::ElementType::{Float, Float16};

use crate::common::proto::{Sketch, bytes, int, int64, tensor};
use crate::program::*;

/// `y = tanh(…||x - 0.5| - 0.5|…)`, so many times, with another operator in the place of one `Abs`.
fn chain(length: usize, wrong: Option<usize>) -> Vec<u8> {
    chain_with(length, wrong.as_slice())
}

/// The same with another operator in several places.
fn chain_with(length: usize, wrong: &[usize]) -> Vec<u8> {
    let mut sketch =
        Sketch::new().input("x", Float, &[3, 5]).initializer(tensor("half", Float, &[0.5f32; 5]));
    let mut last = "x".to_owned();
    for place in 0..length {
        let names = ["a", "b"].map(|letter| format!("{letter}{place}"));
        let op = if wrong.contains(&place) { "Softplus" } else { "Abs" };
        sketch = sketch.node("Sub", &[&last, "half"], &[&names[0]], vec![]).node(
            op,
            &[&names[0]],
            &[&names[1]],
            vec![],
        );
        last = names[1].clone();
    }
    bytes(&sketch.node("Tanh", &[&last], &["y"], vec![]).output("y", Float, &[3, 5]).model())
}

/// What `--json` says of a reduction into `case`.
fn reduced(folder: &Folder, status: i32, given: &[&str]) -> Value {
    let case = folder.text("case");
    let report = json(&said(status, &[&["reduce", "-o", &case, "--json"], given].concat()));
    assert_eq!(report["schema"], json!("onnx-cast/reduce/1"));
    report
}

fn model(folder: &Folder, name: &str) -> ModelProto {
    let file = fs::read(folder.path("case").join(name)).expect("the case has it");
    ModelProto::decode(&*file).expect("a model")
}

fn ops(model: &ModelProto) -> Vec<&str> {
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    nodes.map(|node| node.op_type.as_str()).collect()
}

#[test]
fn of_a_pair_the_node_is_left_at_which_it_parts() {
    let folder = Folder::new();
    let a = folder.write("a.onnx", chain(40, None));
    let b = folder.write("b.onnx", chain(40, Some(17)));
    let report = reduced(&folder, 0, &[&a, &b, "--rtol", "1e-3"]);
    let case = &report["cases"][0];
    assert_eq!(
        (&case["node"], &case["kind"]),
        (&json!("Softplus_b17"), &json!("tolerance")),
        "{report}"
    );
    assert_eq!(report["nodes"], json!(81));
    assert!(report["runs"].as_u64().is_some_and(|runs| runs <= 2 * 7 + 20), "{report}");
    assert_eq!(ops(&model(&folder, "model.onnx")), ["Softplus"]);
    assert_eq!(ops(&model(&folder, "reference.onnx")), ["Abs"]);
    let readme = fs::read_to_string(folder.path("case").join("README.md")).expect("a page");
    assert!(readme.starts_with("# `Softplus_b17` (Softplus) is beyond its tolerance"), "{readme}");
    let path = folder.text("case");
    assert!(stdout(&onnx_cast(["test", &path])).contains("0 passed, 1 failed"));
    let [a, b] = ["reference.onnx", "model.onnx"].map(|name| format!("{path}/{name}"));
    assert_eq!(onnx_cast(["compare", &a, &b, "--rtol", "1e-3"]).status.code(), Some(1));
    let other = folder.text("other");
    let again = ["reduce", &a, &b, "--rtol", "1e-3", "-o", &other];
    assert!(done(&again).contains("1 of 1 node,"));
}

/// Of the reference's values in FLOAT the wrong ones may be rounded to the right ones in FLOAT16.
#[test]
fn a_case_of_halves_fails_as_a_test() {
    let start = || Sketch::new().input("x", Float, &[1, 2]).output("y", Float, &[1, 2]);
    let right = start()
        .initializer(tensor("c", Float, &[-0.001f32, 0.3]))
        .node("Add", &["x", "c"], &["s"], vec![])
        .node("Neg", &["s"], &["y"], vec![]);
    let wrong = start()
        .initializer(tensor("c", Float16, &[-0.001f32, 0.3]))
        .cast("x", Float16, "h")
        .node("Sub", &["h", "c"], &["s"], vec![])
        .node("Neg", &["s"], &["n"], vec![])
        .cast("n", Float, "y");
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)]
        .map(|(name, sketch)| folder.write(name, bytes(&sketch.model())));
    let x = folder.write("x.jsonl", br#"{"x": [[-4.0, 0.3]]}"#);
    let report = reduced(&folder, 0, &[&a, &b, "-i", &x]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["Sub"], "{report}");
    assert!(stdout(&onnx_cast(["test", &folder.text("case")])).contains("0 passed, 1 failed"));
}

/// Once the last one is right, the outputs are, whatever comes before it.
#[test]
fn causes_that_others_hide_have_cases() {
    let folder = Folder::new();
    let a = folder.write("a.onnx", chain(20, None));
    let b = folder.write("b.onnx", chain_with(20, &[4, 9, 15]));
    let report = reduced(&folder, 0, &[&a, &b, "--rtol", "1e-3"]);
    let cases = report["cases"].as_array().expect("cases");
    let mut left: Vec<&Value> = cases.iter().map(|case| &case["left"]).collect();
    left.sort_by_key(|left| left.to_string());
    let one = |place: usize| json!([[format!("Softplus_b{place}"), "Softplus"]]);
    assert_eq!(left, [&one(15), &one(4), &one(9)], "{report}");
}

#[test]
fn casts_before_what_is_wrong_go() {
    let folder = Folder::new();
    type Step = (&'static str, &'static str, &'static str);
    let sketch = |inner: &[Step]| {
        let start = Sketch::new().input("x", Float, &[5]).node("Tanh", &["x"], &["a"], vec![]);
        let add = |sketch: Sketch, (op, from, to): &Step| match *op {
            "Half" => sketch.cast(from, Float16, to),
            "Float" => sketch.cast(from, Float, to),
            op => sketch.node(op, &[from], &[to], vec![]),
        };
        let all = inner.iter().fold(start, add).node("Neg", &["b"], &["y"], vec![]);
        bytes(&all.output("y", Float, &[5]).model())
    };
    let a = folder.write("a.onnx", sketch(&[("Abs", "a", "b")]));
    let inner = [("Half", "a", "c"), ("Softplus", "c", "d"), ("Float", "d", "b")];
    let b = folder.write("b.onnx", sketch(&inner));
    let report = reduced(&folder, 0, &[&a, &b, "--rtol", "1e-2"]);
    // The one that makes the value is what is blamed.
    assert_eq!(ops(&model(&folder, "model.onnx")), ["Softplus", "Cast"], "{report}");
    assert_eq!(ops(&model(&folder, "reference.onnx")), ["Abs"]);
    let case = folder.text("case");
    assert!(stdout(&onnx_cast(["test", &case])).contains("0 passed, 1 failed"));
}

#[test]
fn of_an_overflow_the_node_is_left_that_overflows() {
    let folder = Folder::new();
    let model = |half: bool| {
        let ty = if half { Float16 } else { Float };
        let to = |id| vec![int("to", id)];
        let sketch = Sketch::new()
            .input("x", Float, &[2, 8])
            .initializer(tensor("large", ty, &[300f32; 8]))
            .node("Cast", &["x"], &["c"], to(ty as i64))
            .node("Mul", &["c", "large"], &["m"], vec![])
            .node("Mul", &["m", "m"], &["s"], vec![])
            .node("Sqrt", &["s"], &["r"], vec![])
            .node("Cast", &["r"], &["y"], to(Float as i64))
            .output("y", Float, &[2, 8]);
        bytes(&sketch.model())
    };
    let (a, b) = (folder.write("a.onnx", model(false)), folder.write("b.onnx", model(true)));
    let report = reduced(&folder, 0, &[&a, &b, "--rtol", "1e-2", "--range", "x=1:3"]);
    let case = &report["cases"][0];
    assert_eq!((&case["node"], &case["kind"]), (&json!("Mul_s"), &json!("overflow")), "{report}");
    let shape = |name| {
        let file = fs::read(folder.path("case/test_data_set_0").join(name)).expect("data");
        tract_onnx::pb::TensorProto::decode(&*file).expect("a tensor").dims
    };
    assert_eq!(shape("input_0.pb"), [1, 1], "shapes are cut");
}

#[test]
fn what_agrees_is_nothing_to_show() {
    let folder = Folder::new();
    let [a, b] = ["a.onnx", "b.onnx"].map(|name| folder.write(name, chain(3, None)));
    let report = reduced(&folder, 1, &[&a, &b]);
    assert_eq!(report["cases"], json!([]));
    assert!(report["problem"].is_string() && !folder.path("case").exists());
    let report = reduced(&folder, 1, &[&a, "--check", "true {model}"]);
    assert_eq!(report["problem"], json!("the command does not fail on the whole model"));
    let call = ["reduce", &a, &b, "-o", &folder.text(".")];
    assert!(refused(&call).contains("is not empty"));
    let call = ["reduce", &a, "--check", "no-such-program", "-o", &folder.text("case")];
    assert!(refused(&call).contains("--check: no-such-program"));
    refused(&["reduce", &a, "-o", &folder.text("case")]);
    refused(&["reduce", &a, "--check", "'", "-o", &folder.text("case")]);
}

#[test]
fn without_a_tolerance_it_is_what_a_comparison_blames() {
    let folder = Folder::new();
    let a = folder.write("a.onnx", chain(40, None));
    let b = folder.write("b.onnx", chain(40, Some(17)));
    let report = reduced(&folder, 0, &[&a, &b]);
    let case = &report["cases"][0];
    assert_eq!((&case["node"], &case["kind"]), (&json!("Softplus_b17"), &json!("broken")));
    assert_eq!(case["left"], json!([["Softplus_b17", "Softplus"]]), "{report}");
    assert!(report["runs"].as_u64().is_some_and(|runs| runs <= 2 * 7 + 20), "{report}");
    let [a, b] =
        ["reference.onnx", "model.onnx"].map(|name| format!("{}/{name}", folder.text("case")));
    let compared = onnx_cast(["compare", &a, &b]);
    assert!(stdout(&compared).contains("the output of Softplus `Softplus_b17`"), "{compared:?}");
    let readme = fs::read_to_string(folder.path("case/README.md")).expect("a page");
    let (title, numbers) = readme.split_once('\n').expect("a title");
    assert!(title.ends_with("and Abs in the reference"), "{title}");
    assert!(numbers.contains("it computes") && numbers.contains("instead of 0"), "{numbers}");
    // What only rounds is nothing to show.
    let half = folder.text("half.onnx");
    done(&["convert", &folder.text("a.onnx"), "--to", "FLOAT16", "-o", &half, "--unverified"]);
    let report = reduced(&Folder::new(), 1, &[&folder.text("a.onnx"), &half]);
    assert!(report["problem"].as_str().is_some_and(|text| text.contains("rounding")), "{report}");
}

/// The sizes that a graph and those in it declare.
fn sizes(graph: &GraphProto) -> Vec<i64> {
    let graphs = onnx_cast_graph::all_graphs(graph).into_iter();
    let infos = graphs.flat_map(|graph| graph.input.iter().chain(&graph.output));
    let types = infos.filter_map(|info| onnx_cast_graph::tensor_type(info.r#type.as_ref()));
    let sizes = types.flat_map(|ty| ty.shape.iter().flat_map(|shape| &shape.dim));
    let known = |dimension: &Dimension| match dimension.value {
        Some(dimension::Value::DimValue(size)) => Some(size),
        _ => None,
    };
    sizes.filter_map(known).collect()
}

/// The value before the blamed node has the name of what the missing one made.
#[test]
fn a_node_that_is_missing_before_the_blamed_one_is_part_of_the_reference() {
    let model_of = |is_whole: bool| {
        let sketch = Sketch::new().input("x", Float, &[3, 5]).node("Tanh", &["x"], &["t"], vec![]);
        let sketch = if is_whole {
            sketch.node("Exp", &["t"], &["a"], vec![])
        } else {
            sketch.cast("t", Float16, "h").cast("h", Float, "a")
        };
        let steps =
            [("Sin", "a", "s"), ("Abs", "s", "b"), ("Softplus", "b", "c"), ("Neg", "c", "y")];
        let add = |sketch: Sketch, (op, from, to)| sketch.node(op, &[from], &[to], vec![]);
        bytes(&steps.into_iter().fold(sketch, add).output("y", Float, &[3, 5]).model())
    };
    let folder = Folder::new();
    let a = folder.write("a.onnx", model_of(true));
    let b = folder.write("b.onnx", model_of(false));
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")).last(), Some(&"Sin"), "{report}");
    assert_eq!(ops(&model(&folder, "reference.onnx")), ["Exp", "Sin"], "{report}");
}

/// An output without its last nodes has another shape, and is what is left.
#[test]
fn a_last_node_that_is_missing_leaves_its_output() {
    let before = || {
        let sketch = Sketch::new().input("x", Float, &[4, 3]).initializer(int64("rows", &[2, 0]));
        sketch.node("Exp", &["x"], &["e"], vec![])
    };
    let whole = before().node("Neg", &["e"], &["n"], vec![]);
    let whole = whole.node("Gather", &["n", "rows"], &["g"], vec![]);
    let whole = whole.node("Identity", &["g"], &["y"], vec![]).output("y", Float, &[2, 3]);
    let cut = before().node("Neg", &["e"], &["y"], vec![]).output("y", Float, &[4, 3]);
    let folder = Folder::new();
    let a = folder.write("a.onnx", bytes(&whole.model()));
    let b = folder.write("b.onnx", bytes(&cut.model()));
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["Neg"], "{report}");
    assert_eq!(ops(&model(&folder, "reference.onnx")).last(), Some(&"Identity"), "{report}");
    let of = |name| sizes(model(&folder, name).graph.as_ref().expect("a graph"));
    assert_ne!(of("model.onnx"), of("reference.onnx"), "each declares what it makes");
}

/// The models of docs/found.md, which others run or rewrite wrongly.
#[test]
fn faults_of_others_are_run_right() {
    let folder = in_repository("models/found");
    let output = onnx_cast(["test", &*folder, "--rtol", "1e-4", "--atol", "1e-6"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let names = fs::read_dir(&folder).expect("the folder").flatten().map(|entry| entry.file_name());
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    assert!(stdout(&output).contains(&format!("{} passed, 0 failed", names.len())), "{output:?}");
    let page = fs::read_to_string(in_repository("docs/found.md")).expect("the page");
    let untold = names.iter().find(|name| !page.contains(&format!("| `{name}` |")));
    assert_eq!((untold, page.matches("__").count()), (None, names.len()));
}
