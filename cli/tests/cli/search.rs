//! The search for inputs that show more than those that were chosen.

use serde_json::{Value, json};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType::{Float, Int64};

use crate::common::proto::{graph, int64, model, node, shaped, symbol, unshaped};
use crate::program::{Folder, cast, json, refused, said};

fn of(nodes: &[NodeProto], constants: Vec<TensorProto>) -> ModelProto {
    let x = shaped("x", Float, vec![symbol("batch"), symbol("seq")]);
    let graph = graph(&[x], nodes, &[unshaped("y", Float)]);
    model(17, GraphProto { initializer: constants, ..graph })
}

/// The largest of so many along the sequence.
fn largest(of_first: i64) -> ModelProto {
    let nodes = [
        node("Slice", &["x", "start", "end", "axis"], &["part"], vec![]),
        node("ReduceMean", &["part"], &["y"], vec![]),
    ];
    of(&nodes, vec![int64("start", &[0]), int64("end", &[of_first]), int64("axis", &[1])])
}

/// Whole numbers up to a most, which is larger than all that are made up, or one less.
fn whole(most: i64) -> ModelProto {
    let x = shaped("x", Int64, vec![symbol("batch"), symbol("seq")]);
    let nodes = [
        node("Min", &["x", "most"], &["held"], vec![]),
        cast("widen", "held", "f", Float),
        node("Abs", &["f"], &["y"], vec![]),
    ];
    let graph = graph(&[x], &nodes, &[unshaped("y", Float)]);
    model(17, GraphProto { initializer: vec![int64("most", &[most])], ..graph })
}

fn compared(status: i32, models: [&ModelProto; 2], arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", models[0]), folder.message("b.onnx", models[1]));
    // As long as it takes: the runs are counted.
    let always = ["compare", "--json", &a, &b, "--search", "300"];
    json(&said(status, &[&always, arguments].concat()))["comparisons"][0].clone()
}

#[test]
fn a_fault_beyond_the_lengths_of_the_sets_is_found() {
    for limit in [1000, 2000] {
        let models = [&largest(1 << 40), &largest(limit)];
        let report = compared(1, models, &[]);
        let found = &report["inputs"]["look"]["search"]["found"][0];
        let found = found.as_str().expect("a sentence");
        assert!(found.contains("seq 1025") || found.contains("seq 2049"), "{found}");
        assert_eq!(report["sets"], 6);
        let words = report["rows"][0]["sentence"].as_str().expect("what was looked at");
        assert!(
            words.contains("; a search of ") && words.contains("a relative error of"),
            "{words}"
        );
    }
}

#[test]
fn a_fault_at_a_single_value_is_found_and_its_inputs_are_kept() {
    let folder = Folder::new();
    let (whole, other) = (whole(1000), whole(299));
    let kept = folder.text("kept");
    compared(1, [&whole, &other], &["--keep-inputs", &kept]);
    let (a, b) = (folder.message("a.onnx", &whole), folder.message("b.onnx", &other));
    // What was found shows the same without a search.
    let again = said(1, &["compare", "--json", &a, &b, "-i", &kept]);
    let samples = json(&again)["comparisons"][0]["samples"].clone();
    assert!(
        samples[0]["sample"].as_str().expect("a name").ends_with("test_data_set_5"),
        "{samples}"
    );
    let line = refused(&["compare", &a, &b, "--search", "0", "--keep-inputs", &kept]);
    assert!(line.contains("is not empty"), "{line}");
}

#[test]
fn a_search_is_the_same_for_a_seed_and_may_be_left_out() {
    let models = [&largest(1 << 40), &largest(2000)];
    let look = |arguments: &[&str]| compared(1, models, arguments)["inputs"]["look"].clone();
    assert_eq!(look(&["--seed", "3"]), look(&["--seed", "3"]));
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", models[0]), folder.message("b.onnx", models[1]));
    for arguments in [&["--search", "0"][..], &["--sets", "2"]] {
        let text = said(0, &[&["compare", "--json", &a, &b], arguments].concat());
        assert_eq!(json(&text)["comparisons"][0]["inputs"]["look"]["search"], json!(null));
    }
    let short = json(&said(0, &["compare", "--json", &a, &b, "--search-steps", "6"]));
    let search = &short["comparisons"][0]["inputs"]["look"]["search"];
    assert_eq!((&search["steps"], &search["found"]), (&json!(6), &json!([])));
}

/// Rounding alone is no find: a conversion that is sound stays so.
#[test]
fn what_is_only_rounded_passes() {
    let wide = of(&[node("Softmax", &["x"], &["y"], vec![])], vec![]);
    let nodes = [
        cast("down", "x", "h", tract_onnx_cast::ElementType::Float16),
        node("Softmax", &["h"], &["s"], vec![]),
        cast("up", "s", "y", Float),
    ];
    let report = compared(0, [&wide, &of(&nodes, vec![])], &["--rtol", "5e-2", "--atol", "2e-2"]);
    assert!(report["inputs"]["look"]["search"]["steps"].as_u64() > Some(50), "{report}");
}
