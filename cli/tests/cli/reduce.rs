//! `reduce`.

use std::fs;
use std::time::{Duration, Instant};

use prost::Message;
use serde_json::{Value, json};
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx_cast::ElementType::{self, Bool, Float, Float16, Int8, Int64, Uint8};

use crate::common::proto::{Sketch, bytes, graph_attribute, int, int64, ints, tensor};
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

/// Weights of a product as codes of a scale of 0.1, those of some rows left out.
fn codes(without: &[usize]) -> Vec<f32> {
    let code = |(row, column): (usize, usize)| match without.contains(&row) {
        true => 0.0,
        false => ((7 * row + 5 * column) % 11) as f32 - 5.0,
    };
    (0..16).map(|place| code((place / 4, place % 4))).collect()
}

fn matrix(name: &str, ty: ElementType, values: &[f32]) -> TensorProto {
    TensorProto { dims: vec![4, 4], ..tensor(name, ty, values) }
}

fn scalar(name: &str, ty: ElementType, value: f32) -> TensorProto {
    TensorProto { dims: vec![], ..tensor(name, ty, &[value]) }
}

/// A converter quantises the input of a product before it.
#[test]
fn what_is_before_the_blamed_node_becomes_constants() {
    let weights: Vec<f32> = codes(&[]).iter().map(|code| code * 0.1).collect();
    let start = || Sketch::new().input("x", Float, &[3, 4]).node("Tanh", &["x"], &["t"], vec![]);
    let right = start().initializer(matrix("w", Float, &weights)).node(
        "MatMul",
        &["t", "w"],
        &["p"],
        vec![],
    );
    let wrong = start()
        .initializer(matrix("wq", Int8, &codes(&[1, 2])))
        .initializer(scalar("ws", Float, 0.1))
        .node("DynamicQuantizeLinear", &["t"], &["tq", "ts", "tz"], vec![])
        .node("MatMulInteger", &["tq", "wq", "tz"], &["i"], vec![])
        .cast("i", Float, "f")
        .node("Mul", &["ts", "ws"], &["s"], vec![])
        .node("Mul", &["f", "s"], &["p"], vec![]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        let whole = sketch.node("Neg", &["p"], &["y"], vec![]).output("y", Float, &[3, 4]);
        folder.write(name, bytes(&whole.model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["MatMulInteger", "Cast", "Mul"], "{report}");
    assert!(stdout(&onnx_cast(["test", &folder.text("case")])).contains("0 passed, 1 failed"));
    let readme = fs::read_to_string(folder.path("case/README.md")).expect("a page");
    assert!(readme.contains("What its nodes take of others is a constant"), "{readme}");
    let given = model(&folder, "model.onnx").graph.expect("a graph").input;
    assert_eq!(given, model(&folder, "reference.onnx").graph.expect("a graph").input);
}

/// A converter adds the bias of a product behind it, as the reference's operator does.
#[test]
fn what_both_models_add_is_left_out() {
    let codes = [5f32, -3.0, 2.0, 4.0, -1.0, 3.0, 5.0, -4.0];
    let weights = |ty, name: &str, values: &[f32]| TensorProto {
        dims: vec![2, 1, 2, 2],
        ..tensor(name, ty, values)
    };
    let bias = tensor("b", Float, &[0.3f32, -0.2]);
    let start = || {
        let sketch = Sketch::new().input("x", Float, &[1, 1, 4, 4]);
        sketch.node("Tanh", &["x"], &["t"], vec![])
    };
    let right = start()
        .initializer(weights(Float, "w", &codes.map(|code| code * 0.1)))
        .initializer(bias.clone())
        .node("Conv", &["t", "w", "b"], &["p"], vec![]);
    let wrong = start()
        .initializer(weights(Int8, "wq", &codes))
        .initializer(scalar("ws", Float, 0.13))
        .initializer(TensorProto { name: "c".into(), dims: vec![1, 2, 1, 1], ..bias })
        .node("DynamicQuantizeLinear", &["t"], &["tq", "ts", "tz"], vec![])
        .node("ConvInteger", &["tq", "wq", "tz"], &["i"], vec![])
        .cast("i", Float, "f")
        .node("Mul", &["ts", "ws"], &["s"], vec![])
        .node("Mul", &["f", "s"], &["m"], vec![])
        .node("Add", &["m", "c"], &["p"], vec![]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        let whole = sketch.node("Neg", &["p"], &["y"], vec![]).output("y", Float, &[1, 2, 3, 3]);
        folder.write(name, bytes(&whole.model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    assert_eq!(ops(&model(&folder, "model.onnx")), ["ConvInteger", "Cast", "Mul"], "{report}");
    assert!(stdout(&onnx_cast(["test", &folder.text("case")])).contains("0 passed, 1 failed"));
}

/// Of operators that hand codes to each other only the wrong one is left, between two quantisers.
#[test]
fn parts_are_cut_where_there_are_codes_alone() {
    let weights: Vec<f32> = codes(&[]).iter().map(|code| code * 0.1).collect();
    let start = || Sketch::new().input("x", Float, &[3, 4]).node("Tanh", &["x"], &["t"], vec![]);
    let mut right = start().initializer(matrix("w", Float, &weights));
    let mut wrong = start()
        .initializer(matrix("w_quantized", Int8, &codes(&[])))
        .initializer(matrix("w_other", Int8, &codes(&[1, 2])))
        .initializer(scalar("ws", Float, 0.1))
        .initializer(scalar("wz", Int8, 0.0))
        .initializer(scalar("z", Uint8, 128.0))
        .initializer(scalar("ts", Float, 0.008))
        .node("QuantizeLinear", &["t", "ts", "z"], &["t_quantized"], vec![]);
    let scales = [("p1", 0.012), ("p2", 0.016), ("p3", 0.02), ("p4", 0.024)];
    let mut last = "t";
    for (made, scale) in scales {
        right = right.node("MatMul", &[last, "w"], &[made], vec![]);
        let [taken, codes] = [last, made].map(|name| format!("{name}_quantized"));
        let [of_taken, of_made] = [last, made].map(|name| format!("{name}s"));
        let weights = if made == "p2" { "w_other" } else { "w_quantized" };
        let given = [&*taken, &of_taken, "z", weights, "ws", "wz", &of_made, "z"];
        wrong = wrong.initializer(scalar(&of_made, Float, scale));
        wrong = wrong.node("QLinearMatMul", &given, &[&codes], vec![]);
        last = made;
    }
    wrong = wrong.node("DequantizeLinear", &["p4_quantized", "p4s", "z"], &["p4"], vec![]);
    let folder = Folder::new();
    let [a, b] = [("a.onnx", right), ("b.onnx", wrong)].map(|(name, sketch)| {
        folder.write(name, bytes(&sketch.output("p4", Float, &[3, 4]).model()))
    });
    let report = reduced(&folder, 0, &[&a, &b]);
    let readme = fs::read_to_string(folder.path("case/README.md")).expect("a page");
    assert!(readme.contains("A quantiser at an end stands"), "{readme}");
    let model = model(&folder, "model.onnx");
    assert_eq!(ops(&model), ["QuantizeLinear", "QLinearMatMul", "DequantizeLinear"], "{report}");
    assert_eq!(model.graph.expect("a graph").node[1].output[0], "p2_quantized");
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
    assert!(stdout(&compared).contains("what Softplus `Softplus_b17` makes"), "{compared:?}");
    // What only rounds is nothing to show.
    let half = folder.text("half.onnx");
    done(&["convert", &folder.text("a.onnx"), "--to", "FLOAT16", "-o", &half, "--unverified"]);
    let report = reduced(&Folder::new(), 1, &[&folder.text("a.onnx"), &half]);
    assert!(report["problem"].as_str().is_some_and(|text| text.contains("rounding")), "{report}");
}

/// Of a Scan that goes the other way its body stays, and declares no size that was cut.
#[test]
fn bodies_declare_what_cut_inputs_make() {
    let scan = |backwards: i64| {
        let body = Sketch::new().node("Add", &["s", "x"], &["sum"], vec![]);
        let body = body.node("Tanh", &["sum"], &["out"], vec![]).input("s", Float, &[6]);
        let body = body.input("x", Float, &[6]).output("out", Float, &[6]).0;
        let mut attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
        attributes.push(ints("scan_input_directions", &[backwards]));
        let sketch = Sketch::new().input("x", Float, &[5, 6]).input("s", Float, &[6]);
        let sketch = sketch.node("Scan", &["s", "x"], &["y"], attributes);
        bytes(&sketch.output("y", Float, &[6]).model())
    };
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
