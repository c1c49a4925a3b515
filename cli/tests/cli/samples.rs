//! Samples: many sets of inputs at once, which of them are taken, and how each fares.

use serde_json::{Value, json};
use tract_onnx::pb::ModelProto;
use tract_onnx_cast::ElementType::{Float, Int8, Int64};

use crate::common::proto::{dim, graph, model, node, shaped, symbol, tensor, unshaped, value};
use crate::program::{Folder, done, json, refused, said, values};

/// `y` is `x` of `[batch, 2]` to the power of a constant.
fn power(exponent: f32) -> ModelProto {
    let nodes = [node("Pow", &["x", "e"], &["y"], vec![])];
    let x = shaped("x", Float, vec![symbol("batch"), dim(2)]);
    let mut graph = graph(&[x], &nodes, &[unshaped("y", Float)]);
    graph.initializer = vec![tensor("e", Float, &[exponent])];
    model(17, graph)
}

/// The array of a .npy file, FLOAT.
fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let padding = 64 - (11 + header.len()) % 64;
    header += &(" ".repeat(padding) + "\n");
    let length = u16::try_from(header.len()).expect("short").to_le_bytes();
    let data = values.iter().flat_map(|value| value.to_le_bytes());
    let start = b"\x93NUMPY\x01\x00".iter().copied().chain(length).chain(header.bytes());
    start.chain(data).collect()
}

/// What `compare` says of `x²` against `x^2.1` on what `-i` gives, which fails.
fn compared(folder: &Folder, arguments: &[&str]) -> Value {
    let a = folder.message("a.onnx", &power(2.0));
    let b = folder.message("b.onnx", &power(2.1));
    let always = ["compare", "--json", &a, &b, "--rtol", "0.5", "--atol", "1e-6"];
    json(&said(1, &[&always, arguments].concat()))["comparisons"][0].clone()
}

fn names(report: &Value) -> Vec<&str> {
    let samples = report["samples"].as_array().expect("a list");
    samples.iter().map(|sample| sample["sample"].as_str().expect("a name")).collect()
}

#[test]
fn rows_of_an_array_are_samples_and_the_worst_comes_first() {
    let folder = Folder::new();
    let x = folder.write("x.npy", npy("(3, 1, 2)", &[2.0, 3.0, 1.0, 1.0, 1e4, 1e5]));
    let report = compared(&folder, &["-i", &format!("x={x}")]);
    assert_eq!((&report["sets"], &report["inputs"]["origin"]), (&json!(3), &json!("given")));
    assert_eq!(names(&report), ["sample 2", "sample 0", "sample 1"]);
    let worst = &report["samples"][0];
    assert_eq!((&worst["passed"], &worst["worst"]), (&json!(false), &json!("y")));
    // 1e5^0.1 − 1, to which the smaller value adds little.
    let error = worst["error"].as_f64().expect("a number");
    assert!((error - 2.162).abs() < 0.01, "{error}");
    assert_eq!(report["samples"][2]["error"], 0.0);
    assert_eq!(report["rows"][0]["code"], "by_sample");
    let text = report["rows"][0]["sentence"].as_str().expect("a sentence");
    assert!(text.starts_with("1 of 3 fail; the worst, by relative error: sample 2"), "{text}");
}

#[test]
fn a_multiple_of_the_declared_size_is_samples_too() {
    let folder = Folder::new();
    let nodes = [node("Neg", &["x"], &["y"], vec![])];
    let graph = graph(&[value("x", Float, &[1, 2])], &nodes, &[unshaped("y", Float)]);
    let onnx = folder.message("m.onnx", &model(17, graph));
    let x = format!("x={}", folder.write("x.npy", npy("(3, 2)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])));
    let line = refused(&["run", &onnx, "-i", &x]);
    assert!(line.contains("gives 3 sets of inputs, a run takes one: --limit 1"), "{line}");
    assert_eq!(values(&["run", &onnx, "-i", &x, "--limit", "1", "--json"]), json!([-1.0, -2.0]));
    done(&["record", &onnx, &folder.text("goldens"), "-i", &x, "--limit", "2"]);
    let tested = done(&["test", &folder.text("goldens")]);
    assert!(tested.contains("2 passed"), "{tested}");
}

#[test]
fn folders_of_any_layout_hold_samples_in_their_natural_order() {
    let folder = Folder::new();
    for (name, value) in [("s10", 7.0), ("s2", 8.0), ("s1", 9.0)] {
        let array = npy("(2,)", &[value * 1e3, 1.0]);
        folder.write(&format!("flat/{name}.npy"), &array);
        folder.write(&format!("nested/{name}/x.npy"), &array);
    }
    for (argument, suffix) in [
        (folder.text("flat"), ".npy"),
        (format!("x={}", folder.text("flat")), ".npy"),
        (folder.text("nested"), ""),
    ] {
        let path = argument.strip_prefix("x=").unwrap_or(&argument);
        let report = compared(&folder, &["-i", &argument, "--limit", "2"]);
        let expected = ["s1", "s2"].map(|name| format!("{path}/{name}{suffix}"));
        assert_eq!(names(&report), expected);
    }
    folder.write("flat/notes.txt", "of no use");
    let line = refused(&["audit", &folder.text("a.onnx"), "-i", &folder.text("flat")]);
    assert!(line.contains("`notes.txt` is no sample of the model's inputs"), "{line}");
}

#[test]
fn samples_are_shuffled_by_a_seed_before_the_first_are_taken() {
    let folder = Folder::new();
    let lines: String = (1..=20).map(|n| format!("{{\"x\": [{n}e3, 1]}}\n")).collect();
    let x = folder.write("x.jsonl", lines);
    let taken = |seed: &str| {
        let report = compared(&folder, &["-i", &x, "--limit", "5", "--shuffle", seed]);
        let mut names: Vec<String> = names(&report).iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(taken("1"), taken("1"));
    assert_ne!(taken("1"), taken("2"));
    assert_eq!(taken("1").len(), 5);
}

#[test]
fn lines_of_json_hold_values_of_every_kind() {
    let folder = Folder::new();
    let inputs = [
        shaped("ids", Int64, vec![symbol("batch"), symbol("seq")]),
        value("small", Int8, &[2]),
        value("x", Float, &[3]),
    ];
    let outputs = ["ids_out", "small_out", "x_out"].map(|name| unshaped(name, Float));
    let nodes: Vec<_> = [("ids", "ids_out"), ("small", "small_out"), ("x", "x_out")]
        .map(|(from, to)| crate::program::cast(to, from, to, Float))
        .into();
    let onnx = folder.message("m.onnx", &model(17, graph(&inputs, &nodes, &outputs)));
    let run = |line: &str| {
        let x = folder.write("x.jsonl", line);
        json(&done(&["run", &onnx, "-i", &x, "--json"]))["outputs"].clone()
    };
    let flat = r#"{"shape": [3], "data": ["NaN", "-Infinity", 0.5]}"#;
    let outputs = run(&format!(r#"{{"ids": [5, 6.0], "small": [-128, 127], "x": {flat}}}"#));
    assert_eq!((&outputs[0]["shape"], &outputs[0]["values"]), (&json!([1, 2]), &json!([5.0, 6.0])));
    assert_eq!(outputs[1]["values"], json!([-128.0, 127.0]));
    assert_eq!(outputs[2]["values"], json!(["NaN", "-Infinity", 0.5]));
    for (line, problem) in [
        (r#"{"ids": [[1]], "small": [1, 128], "x": [0, 0, 0]}"#, "input `small`: 128 is no INT8"),
        (r#"{"ids": [1.5], "small": [1, 2], "x": [0, 0, 0]}"#, "input `ids`: 1.5 is no INT64"),
        (r#"{"ids": [[1, 2], [3]], "small": [1, 2], "x": [0, 0, 0]}"#, "lists of 2 and of 1 stand"),
        (r#"{"ids": [1], "small": [1, 2]}"#, "there is no `x`"),
        (r#"{"ids": [1], "small": [1, 2], "x": [NaN]}"#, "\"NaN\" and \"Infinity\" as strings"),
        (
            r#"{"ids": [1], "small": [1, 2], "x": {"shape": [4], "data": [1]}}"#,
            "1 value for a shape of",
        ),
    ] {
        let x = folder.write("x.jsonl", line);
        let said = refused(&["run", &onnx, "-i", &x]);
        assert!(said.contains("x.jsonl line 1: ") && said.contains(problem), "{said}");
    }
}

#[test]
fn samples_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let inputs = ["x", "z"].map(|name| value(name, Float, &[2]));
    let nodes = [node("Add", &["x", "z"], &["y"], vec![])];
    let onnx =
        folder.message("m.onnx", &model(17, graph(&inputs, &nodes, &[unshaped("y", Float)])));
    let x = format!("x={}", folder.write("x.npy", npy("(3, 2)", &[0.0; 6])));
    let z = format!("z={}", folder.write("z.npy", npy("(2, 2)", &[0.0; 4])));
    let line = refused(&["audit", &onnx, "-i", &x, "-i", &z]);
    assert!(line.contains("-i gives 3 samples of `x`, and 2 of `z`"), "{line}");
    let line = refused(&["audit", &onnx, "-i", &x]);
    assert!(line.contains("-i gives 3 samples of `x`, and none of `z`"), "{line}");
    // What is the same for every sample is given once.
    let z = format!("z={}", folder.write("z.npy", npy("(2,)", &[1.0, 2.0])));
    done(&["compare", &onnx, &onnx, "-i", &x, "-i", &z]);
    let line = refused(&["audit", &onnx, "--limit", "3"]);
    assert!(line.contains("--limit and --shuffle are for the samples of -i"), "{line}");
}
