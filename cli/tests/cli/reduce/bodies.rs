//! What is wrong in a body, or is a node with bodies.

use std::fs;

use tract_onnx_cast::ElementType::{Bool, Float, Int64};

use super::{model, ops, reduced, sizes};
use crate::common::proto::{Sketch, bytes, graph_attribute, int, int64, ints, tensor};
use crate::program::*;

/// `y = Tanh(BODIES(Exp(x)))` of a node with bodies, in which one node is `op`.
fn with_bodies(kind: &str, op: &str) -> Vec<u8> {
    let shape: &[i64] = if kind == "Scan" { &[] } else { &[3] };
    let body = |from: &str| {
        Sketch::new()
            .node("Neg", &[from], &["neg"], vec![])
            .node("Add", &["neg", "half"], &["sum"], vec![])
            .node(op, &["sum"], &["odd"], vec![])
            .node("Sub", &["odd", "half"], &["out"], vec![])
    };
    let mut half = tensor("half", Float, &[0.5f32]);
    half.dims.clear();
    let sketch = Sketch::new()
        .input("x", Float, &[3])
        .initializer(half)
        .initializer(int64("count", &[4]))
        .initializer(tensor("yes", Bool, &[1f32]))
        .node("Exp", &["x"], &["s0"], vec![]);
    let sketch = match kind {
        "If" => {
            let then = body("s0").output("out", Float, shape).0;
            let other = Sketch::new().node("Identity", &["s0"], &["other"], vec![]);
            let other = other.output("other", Float, shape).0;
            let branches =
                vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)];
            sketch.node("If", &["yes"], &["s1"], branches)
        }
        "Loop" => {
            let inner = body("s").input("n", Int64, &[]).input("go", Bool, &[]);
            let inner = inner.input("s", Float, shape).output("go", Bool, &[]);
            let inner = graph_attribute("body", inner.output("out", Float, shape).0);
            sketch.node("Loop", &["count", "", "s0"], &["s1"], vec![inner])
        }
        _ => {
            let inner = body("s").input("s", Float, shape).output("out", Float, shape).0;
            let with = vec![graph_attribute("body", inner), int("num_scan_inputs", 1)];
            sketch.node("Scan", &["s0"], &["s1"], with)
        }
    };
    bytes(&sketch.node("Tanh", &["s1"], &["y"], vec![]).output("y", Float, &[3]).model())
}

#[test]
fn the_part_is_taken_out_of_bodies() {
    for kind in ["If", "Loop", "Scan"] {
        let folder = Folder::new();
        let a = folder.write("a.onnx", with_bodies(kind, "Abs"));
        let b = folder.write("b.onnx", with_bodies(kind, "Softplus"));
        let check = "sh -c 'grep -q Softplus $0 && exit 7' {model}";
        let report = reduced(&folder, 0, &[&b, "--check", check, "--status", "7"]);
        assert_eq!(ops(&model(&folder, "model.onnx")), ["Softplus"], "{kind}: {report}");
        assert!(report["runs"].as_u64().is_some_and(|runs| runs <= 2 * 3 + 20), "{report}");
        for judge in [&["--rtol", "1e-3"][..], &[]] {
            fs::remove_dir_all(folder.path("case")).expect("a folder");
            let report = reduced(&folder, 0, &[&[&*a, &b][..], judge].concat());
            assert_eq!(ops(&model(&folder, "model.onnx")), ["Softplus"], "{kind}: {report}");
            assert_eq!(ops(&model(&folder, "reference.onnx")), ["Abs"], "{kind}: {report}");
        }
    }
}

/// A Scan over the rows of x, one way or the other, whose body adds s and makes these steps of the
/// sum.
fn scan(backwards: i64, steps: &[(&str, &str, &str)]) -> Vec<u8> {
    let body = Sketch::new().node("Add", &["s", "x"], &["sum"], vec![]);
    let add =
        |body: Sketch, (op, from, to): &(&str, &str, &str)| body.node(op, &[from], &[to], vec![]);
    let body = steps.iter().fold(body, add).input("s", Float, &[6]);
    let body = body.input("x", Float, &[6]).output("out", Float, &[6]).0;
    let mut attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
    attributes.push(ints("scan_input_directions", &[backwards]));
    let sketch = Sketch::new().input("x", Float, &[5, 6]).input("s", Float, &[6]);
    let sketch = sketch.node("Scan", &["s", "x"], &["y"], attributes);
    bytes(&sketch.output("y", Float, &[6]).model())
}

/// What does not matter to a Scan that goes the other way, or to a command that looks for one, is
/// not left in its body.
#[test]
fn bodies_of_what_is_wrong_have_few_nodes() {
    let steps = [("Tanh", "sum", "t"), ("Neg", "t", "n"), ("Neg", "n", "m"), ("Abs", "m", "out")];
    let scan = |backwards| scan(backwards, &steps);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", 0), ("b.onnx", 1)].map(|(name, way)| folder.write(name, scan(way)));
    let report = reduced(&folder, 0, &[&a, &b]);
    for name in ["model.onnx", "reference.onnx"] {
        let model = model(&folder, name);
        let graphs = onnx_cast_graph::all_graphs(model.graph.as_ref().expect("a graph"));
        let left: Vec<usize> = graphs.iter().map(|graph| graph.node.len()).collect();
        assert_eq!(left, [1, 2], "{name}: {report}");
    }
    let folder = Folder::new();
    let check = "sh -c 'grep -q Scan $0 && exit 7' {model}";
    let report = reduced(&folder, 0, &[&b, "--check", check, "--status", "7"]);
    let model = model(&folder, "model.onnx");
    let graphs = onnx_cast_graph::all_graphs(model.graph.as_ref().expect("a graph"));
    assert_eq!(graphs.iter().map(|graph| graph.node.len()).collect::<Vec<_>>(), [1, 1], "{report}");
}

/// Of a Scan that goes the other way its body stays, and declares no size that was cut.
#[test]
fn bodies_declare_what_cut_inputs_make() {
    let scan = |backwards| scan(backwards, &[("Tanh", "sum", "out")]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", 0), ("b.onnx", 1)].map(|(name, way)| folder.write(name, scan(way)));
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(report["cases"][0]["left"][0][1], "Scan", "{report}");
    for name in ["model.onnx", "reference.onnx"] {
        let model = model(&folder, name);
        let sizes: Vec<i64> = sizes(model.graph.as_ref().expect("a graph"));
        assert!(!sizes.is_empty() && !sizes.contains(&6), "{name}: {sizes:?}");
    }
}
