//! `keep`.

use serde_json::{Value, json};
use tract_onnx::pb::ModelProto;
use tract_onnx_cast::ElementType::Float;

use crate::common::proto::{Sketch, int, int64, model, tensor};
use crate::program::*;

const RMS_NORM: &str = "models/whole/rms_norm_FLOAT";

/// What `--json` says, given the exit status, and the nodes of the list.
pub fn kept(status: i32, arguments: &[&str]) -> (Value, Vec<String>) {
    let arguments = [&["keep"], arguments, &["--json"]].concat();
    let output = onnx_cast(&arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
    let report = json(&stdout(&output));
    assert!(report["runs"].as_u64().is_some_and(|runs| runs <= 150), "{report}");
    let nodes = report["keep"].as_array().expect("a list");
    let name = |node: &Value| node["node"].as_str().expect("a name").to_owned();
    let names = nodes.iter().map(name).collect();
    (report, names)
}

#[test]
fn the_nodes_around_an_overflow_are_kept() {
    let path = in_repository(RMS_NORM);
    let (report, names) = kept(0, &[&path, "--to", "FLOAT16"]);
    // The sum overflows; between it and its root nothing may be FLOAT16.
    assert_eq!(names, ["ReduceSum_sum", "Sqrt_norm"]);
    assert_eq!((&report["to"], &report["confirmed"]), (&json!("FLOAT16"), &json!(true)));
    assert_eq!((&report["model"], &report["problem"]), (&json!(path), &Value::Null));
    let first = &report["keep"][0];
    assert_eq!((&first["op_type"], &first["needed"]), (&json!("ReduceSum"), &json!(true)));
    let why = first["why"].as_str().expect("a reason");
    assert!(why.contains("makes `sum`, which reaches 23880"), "{why}");
    assert!(why.contains("without it output `scores`: SQNR 0 dB, at least 40 is"), "{why}");
    let list = "node_block_list=[\"ReduceSum_sum\", \"Sqrt_norm\"]";
    assert_eq!(report["formats"]["onnxconverter_common"], list);
    assert_eq!(report["formats"]["olive"], list);
    let text = done(&["keep", &path, "--to", "FLOAT16"]);
    assert!(text.lines().any(|line| line == format!("onnxconverter-common: {list}")), "{text}");
}

/// IR version 3 has every initializer among the inputs.
#[test]
fn a_weight_may_be_an_input_as_well() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .input("w", Float, &[4])
        .initializer(tensor("w", Float, &[0.5, 1.0, 2.0, 3.0]))
        .node("Mul", &["x", "w"], &["y"], vec![])
        .output("y", Float, &[4]);
    let model = folder.message("m.onnx", &sketch.model());
    for ty in ["FLOAT16", "BFLOAT16"] {
        assert_eq!(kept(0, &[&model, "--to", ty]).1, [""; 0], "{ty}");
    }
}

#[test]
fn bfloat16_needs_other_nodes() {
    let path = in_repository(RMS_NORM);
    assert_eq!(kept(0, &[&path, "--to", "BFLOAT16"]).1, [""; 0]);
    let (report, names) = kept(0, &[&path, "--to", "BFLOAT16", "--rtol", "1e-2"]);
    // Nothing overflows; the sums of products of rounded numbers drift.
    assert!(!names.is_empty() && !names.contains(&"ReduceSum_sum".into()), "{names:?}");
    assert_eq!(report["confirmed"], true);
    let autocast = report["formats"]["modelopt_autocast"].as_str().expect("options");
    assert!(autocast.starts_with("--low_precision_type bf16 --keep_io_types"), "{autocast}");
}

/// A model of `y`, of as many FLOATs as `x`.
pub fn of_four(sketch: Sketch) -> ModelProto {
    sketch.input("x", Float, &[4]).output("y", Float, &[4]).model()
}

#[test]
fn nothing_is_kept_where_nothing_breaks() {
    let folder = Folder::new();
    let sketch = Sketch::new().node("Relu", &["x"], &["y"], vec![]);
    let path = folder.message("m.onnx", &of_four(sketch));
    for ty in ["FLOAT16", "BFLOAT16"] {
        let (report, names) = kept(0, &[&path, "--to", ty]);
        assert_eq!(
            (names.len(), &report["confirmed"], &report["runs"]),
            (0, &json!(true), &json!(6))
        );
    }
    let seen = report_notes(&kept(0, &[&path, "--to", "FLOAT16"]).0);
    assert!(seen.contains("the inputs are random, of seeds 0, 1, 2"), "{seen}");
    assert!(seen.contains("a search of"), "{seen}");
    let one = kept(0, &[&path, "--to", "FLOAT16", "--sets", "1"]).0;
    assert_eq!(one["runs"], 2);
    assert!(!report_notes(&one).contains("a search of"), "{one}");
}

/// No number of the sets makes the square overflow; those that the search finds do.
/// An output near zero is off by all of itself, and the outputs are of use all the same, as
/// `convert` and `compare` say.
#[test]
fn nothing_is_kept_for_a_value_near_zero() {
    let folder = Folder::new();
    let sketch = Sketch::new().initializer(tensor("c", Float, &[1.0, 0.0, 0.0, 0.0])).node(
        "Sub",
        &["x", "c"],
        &["y"],
        vec![],
    );
    let path = folder.message("m.onnx", &of_four(sketch));
    let x = tract_onnx::prelude::tensor1(&[1.0001f32, 2.0, 3.0, 4.0]);
    let input = format!("x={}", folder.tensor("x.pb", Float, x));
    let call = [&path, "--to", "FLOAT16", "-i", &input];
    assert_eq!(kept(0, &call).1, [""; 0]);
    kept(1, &[&call[..], &["--rtol", "1e-2"]].concat());
    let half = folder.text("half.onnx");
    let said = done(&["convert", &path, "--to", "FLOAT16", "-o", &half, "-i", &input]);
    assert!(said.contains("0 nodes as before"), "{said}");
    done(&["compare", &path, &half, "-i", &input]);
}

#[test]
fn a_search_finds_inputs_that_overflow() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .initializer(tensor("c", Float, &[2.2]))
        .node("Mul", &["x", "x"], &["q"], vec![])
        .node("Mul", &["q", "c"], &["p"], vec![])
        .initializer(tensor("one", Float, &[1.0]))
        .node("Add", &["p", "one"], &["s"], vec![])
        .node("Sqrt", &["s"], &["y"], vec![])
        .output("y", Float, &[4]);
    let path = folder.message("m.onnx", &sketch.model());
    let inputs = folder.path("sets").display().to_string();
    let without = kept(0, &[&path, "--to", "FLOAT16", "--search", "0"]).1;
    assert_eq!(without, [""; 0]);
    let (report, names) = kept(0, &[&path, "--to", "FLOAT16", "--keep-inputs", &inputs]);
    assert!(names.contains(&"Mul_p".to_owned()), "{report}");
    let given = kept(0, &[&path, "--to", "FLOAT16", "-i", &inputs]).1;
    assert_eq!(given, names);
}

pub fn report_notes(report: &Value) -> String {
    report["notes"].to_string()
}

/// The outputs bear the overflow here, but an audit of the conversion would not, nor another input.
#[test]
fn what_overflows_is_kept_too_unless_the_fewest_are_wanted() {
    let folder = Folder::new();
    let sketch = Sketch::new().node("Mul", &["x", "x"], &["q"], vec![]).node(
        "Sigmoid",
        &["q"],
        &["y"],
        vec![],
    );
    let path = folder.message("m.onnx", &of_four(sketch));
    let arguments = [&path, "--to", "FLOAT16", "--range", "x=300:400"];
    let (report, names) = kept(0, &arguments);
    assert_eq!(names, ["Mul_q", "Sigmoid_y"]);
    assert_eq!((&report["confirmed"], &report["keep"][0]["needed"]), (&json!(true), &json!(false)));
    assert!(!report_notes(&report).contains("values overflow"), "{report}");
    let (report, names) = kept(0, &[&arguments[..], &["--fewest"]].concat());
    assert_eq!(names, [""; 0]);
    assert!(report_notes(&report).contains("values overflow at 2 more nodes"), "{report}");
}

#[test]
fn a_model_that_is_converted_already_is_refused() {
    for name in ["rms_norm_FLOAT16", "rms_norm_FLOAT16_fixed"] {
        let line =
            refused(&["keep", &in_repository(&format!("models/whole/{name}")), "--to", "FLOAT16"]);
        assert!(line.contains("FLOAT16 already: `keep` takes the FLOAT original"), "{line}");
    }
}

#[test]
fn weights_are_clipped_as_the_converter_clips_them() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .initializer(tensor("w", Float, &[20_000.0]))
        .initializer(tensor("v", Float, &[4.0]))
        .node("Mul", &["x", "v"], &["a"], vec![])
        .node("Div", &["a", "w"], &["b"], vec![])
        .node("Relu", &["b"], &["y"], vec![]);
    let path = folder.message("m.onnx", &of_four(sketch));
    let (report, names) = kept(0, &[&path, "--to", "FLOAT16", "--rtol", "1e-2", "--atol", "1e-6"]);
    assert_eq!(names, ["Div_b"]);
    let why = report["keep"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("holds `w`, whose 20000 becomes 10000"), "{why}");
    assert_eq!(kept(0, &[&path, "--to", "BFLOAT16"]).1, [""; 0]);
}

/// Then it casts them before a node that is kept, and converts them.
#[test]
fn weights_whose_types_are_declared_are_converted_whatever_is_kept() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .initializer(tensor("w", Float, &[20_000.0]))
        .value_info("w", Float)
        .node("Div", &["x", "w"], &["b"], vec![])
        .node("Relu", &["b"], &["y"], vec![]);
    let path = folder.message("m.onnx", &of_four(sketch));
    let arguments = [&path, "--to", "FLOAT16", "--rtol", "1e-2", "--atol", "1e-6"];
    let (report, names) = kept(1, &arguments);
    let problem = report["problem"].as_str().expect("a problem");
    assert!(problem.contains("no list makes a FLOAT16 conversion pass"), "{problem} {names:?}");
    let notes = report_notes(&report);
    assert!(notes.contains("declares the types of 1 weight ("), "{notes}");
    assert_eq!(kept(0, &[&path, "--to", "BFLOAT16"]).1, [""; 0]);
}

#[test]
fn a_list_that_cannot_be_is_not_made_up() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .node("Neg", &["x"], &["n"], vec![])
        .node("Abs", &["x"], &["p"], vec![])
        .node("Sub", &["n", "p"], &["m"], vec![])
        .node("Sqrt", &["m"], &["y"], vec![]);
    let path = folder.message("nan.onnx", &of_four(sketch));
    let (report, names) = kept(1, &[&path, "--to", "FLOAT16", "--range", "x=1:2"]);
    assert_eq!((names.len(), &report["runs"]), (0, &json!(3)));
    let problem = report["problem"].as_str().expect("a problem");
    assert!(problem.contains("output `y` has 4 NaN in FLOAT too"), "{problem}");
    // Two nodes use the square, so the converter has it in FLOAT16 whatever is kept.
    let sketch = Sketch::new()
        .initializer(tensor("c", Float, &[1000.0]))
        .initializer(int64("axes", &[0]))
        .node("Mul", &["x", "c"], &["a"], vec![])
        .node("Mul", &["a", "a"], &["q"], vec![])
        .node("ReduceSum", &["q", "axes"], &["s"], vec![int("keepdims", 1)])
        .node("Div", &["q", "s"], &["y"], vec![]);
    let path = folder.message("two.onnx", &of_four(sketch));
    let (report, _) = kept(1, &[&path, "--to", "FLOAT16", "--range", "x=1:2"]);
    let problem = report["problem"].as_str().expect("a problem");
    assert!(problem.contains("no list makes a FLOAT16 conversion pass"), "{problem}");
    assert_eq!(report["confirmed"], false);
}

#[test]
fn a_model_older_than_bfloat16_is_simulated_too() {
    let folder = Folder::new();
    let sketch = Sketch::new().node("Relu", &["x"], &["y"], vec![]);
    let graph = of_four(sketch).graph.expect("a graph");
    let path = folder.message("m.onnx", &model(11, graph));
    assert_eq!(kept(0, &[&path, "--to", "BFLOAT16"]).1, [""; 0]);
}

#[test]
fn wrong_calls_are_refused() {
    let folder = Folder::new();
    let path = in_repository(RMS_NORM);
    assert!(refused(&["keep", &path, "--to", "INT3"]).contains("INT4"));
    refused(&["keep", &path]);
    refused(&["keep", &folder.text("none.onnx"), "--to", "FLOAT16"]);
    let integers = Sketch::new()
        .input("x", tract_onnx_cast::ElementType::Int32, &[2])
        .node("Neg", &["x"], &["y"], vec![])
        .output("y", tract_onnx_cast::ElementType::Int32, &[2])
        .model();
    let integers = folder.message("integers.onnx", &integers);
    assert!(refused(&["keep", &integers, "--to", "FLOAT16"]).contains("has no FLOAT"));
}
