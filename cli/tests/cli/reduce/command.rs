//! Models on which a command fails.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use tract_onnx_cast::ElementType::Float;

use super::{chain, model, ops, reduced};
use crate::common::proto::{Sketch, bytes, int, int64, tensor};
use crate::program::*;

#[test]
fn a_command_fails_on_the_node_that_is_left() {
    let folder = Folder::new();
    let a = folder.write("a.onnx", chain(40, Some(23)));
    // A name of an operator stands in a file as it is.
    let check = "sh -c 'grep -q Softplus \"$0\" && ls $1/input_0.pb && echo seen >&2 && exit 5' {model} {inputs}";
    let given = [&a, "--check", check, "--status", "5", "--stderr", "seen"];
    let report = reduced(&folder, 0, &given);
    assert_eq!(report["cases"][0]["left"], json!([["Softplus_b23", "Softplus"]]), "{report}");
    assert!(report["runs"].as_u64().is_some_and(|runs| runs <= 2 * 7 + 20), "{report}");
    assert!(done(&["test", &folder.text("case")]).contains("1 passed, 0 failed"));
    let report = reduced(&Folder::new(), 1, &[&a, "--check", check, "--status", "6"]);
    assert_eq!(report["cases"], json!([]));
    let report = reduced(&Folder::new(), 1, &[&a, "--check", check, "--stderr", "other"]);
    assert_eq!(report["cases"], json!([]));
}

#[test]
fn a_shell_runs_only_what_it_is_asked_to() {
    let folder = Folder::new();
    let a = folder.write("a b.onnx", chain(2, None));
    let check = "test -f {model} && exit 4";
    let report = reduced(&folder, 0, &[&a, "--check", check, "--status", "4", "--shell"]);
    assert_eq!(report["cases"][0]["left"].as_array().map(Vec::len), Some(1), "{report}");
    let report = reduced(&Folder::new(), 1, &[&a, "--check", "echo && exit 4", "--status", "4"]);
    assert_eq!(report["cases"], json!([]));
}

#[test]
fn a_command_that_never_ends_is_ended() {
    let folder = Folder::new();
    let a = folder.write("a.onnx", chain(1, None));
    let start = Instant::now();
    let given = [&a, "--check", "sleep 100", "--check-timeout", "1", "--status", "3"];
    let report = reduced(&folder, 1, &given);
    assert_eq!(report["cases"], json!([]));
    assert!(start.elapsed() < Duration::from_secs(30));
    // Of a worker that is ended nothing is left, neither where it was to write nor elsewhere.
    let (scratch, case) = (folder.path("scratch"), folder.text("new/inner/case"));
    fs::create_dir(&scratch).expect("a folder");
    let call = ["reduce", &a, "--check", "sleep 3", "--timeout", "1", "-o", &case];
    let ended = program().args(call).env("TMPDIR", &scratch).output().expect("the program starts");
    assert!(stderr(&ended).contains("longer than the --timeout of 1 s"), "{}", stderr(&ended));
    assert!(!folder.path("new").exists());
    assert_eq!(fs::read_dir(&scratch).expect("a folder").count(), 0);
    // Nor is anybody told of files that nobody knows.
    let call = ["reduce", &a, "--check", "false", "-o", &case];
    let ended = program().args(call).env("TMPDIR", folder.path("none")).output();
    let told = stderr(&ended.expect("the program starts"));
    assert!(told.contains("none: No such file") && !told.contains(".onnx-cast"), "{told}");
}

#[test]
fn sizes_that_a_model_computes_are_constants_of_the_part() {
    let folder = Folder::new();
    let model = |op: &str| {
        let sketch = Sketch::new()
            .input("x", Float, &[2, 6])
            .initializer(int64("minus", &[-1]))
            .node("Shape", &["x"], &["shape"], vec![])
            .node("Relu", &["x"], &["r"], vec![])
            .node("Concat", &["shape", "minus"], &["sizes"], vec![int("axis", 0)])
            .node("Reshape", &["r", "sizes"], &["cube"], vec![])
            .node(op, &["cube"], &["y"], vec![])
            .output("y", Float, &[2, 6, 1]);
        bytes(&sketch.model())
    };
    let (a, b) = (folder.write("a.onnx", model("Exp")), folder.write("b.onnx", model("Abs")));
    let check = "sh -c 'grep -q Reshape $0 && grep -q Abs $0 && exit 7' {model}";
    let report = reduced(&folder, 0, &[&b, "--check", check, "--status", "7"]);
    let left = &report["cases"][0]["left"];
    assert_eq!(left, &json!([["Reshape_cube", "Reshape"], ["Abs_y", "Abs"]]), "{report}");
    fs::remove_dir_all(folder.path("case")).expect("a folder");
    let report = reduced(&folder, 0, &[&a, &b, "--rtol", "1e-3"]);
    assert_eq!(report["cases"][0]["left"], json!([["Abs_y", "Abs"]]), "{report}");
}

#[test]
fn a_model_that_cannot_be_run_here_is_cut_as_far_as_it_can() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .input("x", Float, &[2, 6])
        .node("Relu", &["x"], &["r"], vec![])
        .node("Exp", &["r"], &["e"], vec![])
        .node("NobodyHasThis", &["e"], &["n"], vec![])
        .node("Abs", &["n"], &["y"], vec![])
        .output("y", Float, &[2, 6]);
    let a = folder.write("a.onnx", bytes(&sketch.model()));
    let case = folder.text("case");
    let check = "sh -c 'grep -q NobodyHasThis $0 && exit 7' {model}";
    let output = onnx_cast(["reduce", &a, "--check", check, "--status", "7", "-o", &case]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot be run to its end"), "{}", stderr(&output));
    assert_eq!(ops(&model(&folder, "model.onnx")), ["NobodyHasThis"]);
    // What is left beside it runs, and is cut at its beginning too.
    fs::remove_dir_all(&case).expect("a folder");
    let sketch = Sketch::new()
        .input("x", Float, &[2, 6])
        .node("NobodyHasThis", &["x"], &["n"], vec![])
        .node("Relu", &["x"], &["r"], vec![])
        .node("Exp", &["r"], &["e"], vec![])
        .node("Abs", &["e"], &["y"], vec![])
        .output("n", Float, &[2, 6])
        .output("y", Float, &[2, 6]);
    let a = folder.write("a.onnx", bytes(&sketch.model()));
    let check = "sh -c 'grep -q Abs $0 && exit 7' {model}";
    let output = onnx_cast(["reduce", &a, "--check", check, "--status", "7", "-o", &case]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(ops(&model(&folder, "model.onnx")), ["Abs"]);
}

#[test]
fn what_is_left_has_simple_values_and_no_inputs_that_it_does_not_need() {
    let folder = Folder::new();
    let weights: Vec<f32> = (0..12).map(|place| 0.31 * place as f32).collect();
    let mut held = tensor("w", Float, &weights);
    held.dims = vec![3, 4];
    let sketch = Sketch::new()
        .input("x", Float, &[2, 3])
        .initializer(held)
        .initializer(tensor("b", Float, &[0.1f32, 0.2, 0.3, 0.4]))
        .node("Relu", &["x"], &["r"], vec![])
        .node("Gemm", &["r", "w", "b"], &["y"], vec![])
        .output("y", Float, &[2, 4]);
    let a = folder.write("a.onnx", bytes(&sketch.model()));
    let check = "sh -c 'grep -q Gemm $0 && exit 7' {model}";
    let report = reduced(&folder, 0, &[&a, "--check", check, "--status", "7"]);
    let model = model(&folder, "model.onnx");
    let graph = model.graph.expect("a graph");
    assert_eq!(graph.node[0].input, ["r", "w"], "{report}");
    assert_eq!(graph.initializer.len(), 1);
    let held = &graph.initializer[0];
    let (first, _) = held.raw_data.split_first_chunk().expect("a number");
    assert_eq!(f32::from_le_bytes(*first).fract(), 0.0, "{held:?}");
}
