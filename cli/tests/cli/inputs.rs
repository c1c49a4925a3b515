//! What the reports say of the inputs: given or random, of which seeds, and whether others may do
//! harm.

use serde_json::{Value, json};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::common::proto::{graph, model, node, value};
use crate::program::{Folder, cast, in_repository, json, refused, said};

fn audited(status: i32, arguments: &[&str]) -> Value {
    json(&said(status, &[&["audit", "--json"], arguments].concat()))["models"][0].clone()
}

/// `y` is `x`, FLOAT of two elements, by way of FLOAT16.
fn half(folder: &Folder) -> String {
    use ElementType::{Float, Float16};
    let nodes = [cast("down", "x", "h", Float16), cast("up", "h", "y", Float)];
    let graph = graph(&[value("x", Float, &[2])], &nodes, &[value("y", Float, &[2])]);
    folder.message("m.onnx", &model(13, graph))
}

#[test]
fn random_inputs_are_told_with_their_seeds() {
    let folder = Folder::new();
    let onnx = half(&folder);
    let report = audited(0, &[&onnx, "--seed", "5"]);
    let plain = json!([{"name": "x", "taken_for": "plain numbers", "why": ""}]);
    let look = json!({"sizes": [], "scales": [1.0, 30.0, 0.01], "inputs": plain});
    let inputs = json!({"origin": "random", "random": ["x"], "seeds": [5, 6, 7], "look": look});
    assert_eq!((&report["inputs"], &report["sets"]), (&inputs, &json!(3)));
    assert!(report["warnings"][0].as_str().expect("a warning").contains("seeds 5 to 7"));
    assert_eq!(audited(0, &[&onnx, "--sets", "1"])["inputs"]["seeds"], json!([0]));
    let text = said(0, &["audit", &onnx]);
    assert!(text.contains("3 sets of random inputs (seeds 0 to 2)"), "{text}");
    assert!(text.contains("\nwarning: the inputs are random"), "{text}");
    for markdown in [
        said(0, &["audit", &onnx, "--markdown"]),
        said(0, &["compare", &onnx, &onnx, "--markdown"]),
    ] {
        assert!(markdown.contains("3 sets of random inputs (seeds 0 to 2)"), "{markdown}");
    }
    let compared = json(&said(0, &["compare", &onnx, &onnx, "--json"]))["comparisons"][0].clone();
    assert_eq!((&compared["sets"], &compared["inputs"]["origin"]), (&json!(3), &json!("random")));
    let run = json(&said(0, &["run", &onnx, "--seed", "9", "--json"]));
    assert_eq!(
        (&run["inputs"]["origin"], &run["inputs"]["seeds"]),
        (&json!("random"), &json!([9]))
    );
}

#[test]
fn given_inputs_are_told_as_such() {
    let folder = Folder::new();
    let onnx = half(&folder);
    let x = format!("x={}", folder.tensor("x.pb", ElementType::Float, tensor1(&[1f32, 2.0])));
    let report = audited(0, &[&onnx, "-i", &x]);
    let file = folder.text("x.pb");
    let inputs = json!({"origin": "given", "random": [], "seeds": [], "from": [file]});
    assert_eq!(report["inputs"], inputs);
    assert_eq!((&report["warnings"], &report["sets"]), (&json!([]), &json!(1)));
    assert!(
        said(0, &["audit", &onnx, "-i", &x])
            .contains(&format!("2 casts, 1 set of inputs from {file}"))
    );
    let line = refused(&["audit", &onnx, "-i", &x, "--sets", "2"]);
    assert!(line.contains("--sets is for random inputs"), "{line}");
    // The weights of this model are cast, and it has an input; but what happens to them happens on
    // any.
    let weights = in_repository("models/whole/mlp_weights_FLOAT8E4M3FN/model.onnx");
    assert_eq!(audited(0, &[&weights])["warnings"], json!([]));
}

#[test]
fn one_input_may_be_given_and_another_random() {
    use ElementType::Float;
    let folder = Folder::new();
    let nodes =
        [node("Add", &["a", "b"], &["s"], vec![]), cast("c", "s", "y", ElementType::Float16)];
    let inputs = [value("a", Float, &[2]), value("b", Float, &[2])];
    let graph = graph(&inputs, &nodes, &[value("y", ElementType::Float16, &[2])]);
    let onnx = folder.message("m.onnx", &model(13, graph));
    let a = format!("a={}", folder.tensor("a.pb", Float, tensor1(&[1f32, 2.0])));
    let report = audited(0, &[&onnx, "-i", &a]);
    assert_eq!(report["inputs"]["origin"], "partly_random");
    assert!(
        report["warnings"][0].as_str().expect("a warning").starts_with("the input `b` is random")
    );
}

#[test]
fn random_values_lie_where_they_are_wanted() {
    use ElementType::*;
    let folder = Folder::new();
    let source = |ty: ElementType, ends: &str| {
        let graph = graph(
            &[value("x", ty, &[1000])],
            &[cast("c", "x", "y", Double)],
            &[value("y", Double, &[1000])],
        );
        let onnx = folder.message("m.onnx", &model(21, graph));
        let report = audited(0, &[&onnx, "--range", &format!("x={ends}")]);
        let source = &report["casts"][0]["source"];
        (source["min"].as_f64().expect("a number"), source["max"].as_f64().expect("a number"))
    };
    assert_eq!(source(Uint8, "0:255"), (0.0, 255.0));
    assert_eq!(source(Int64, "-3:2"), (-3.0, 2.0));
    assert_eq!(source(Int32, "7:7"), (7.0, 7.0));
    let (low, high) = source(Float, "-1e3:255");
    assert!((-1000.0..-950.0).contains(&low) && (200.0..=255.0).contains(&high), "{low} {high}");
    let onnx = half(&folder);
    let x = format!("x={}", folder.tensor("x.pb", Float, tensor1(&[1f32, 2.0])));
    for (arguments, word) in [
        (&["--range", "z=0:1"][..], "no such input"),
        (&["--range", "x=0:1", "--range", "x=0:2"], "twice"),
        (&["--range", "x=0:1", "-i", &x], "-i gives"),
        (&["--range", "x=2:1"], "more than"),
        (&["--range", "x=0"], "NAME=LOW:HIGH"),
        (&["--range", "x=0:inf"], "no end"),
        (&["--range", "x=0:1e300"], "does not hold"),
    ] {
        let line = refused(&[&["audit", &onnx], arguments].concat());
        assert!(line.contains(word), "{line}");
    }
}

#[test]
fn little_headroom_is_a_warning() {
    let folder = Folder::new();
    let onnx = half(&folder);
    let with = |x: [f32; 2]| {
        let x = format!("x={}", folder.tensor("x.pb", ElementType::Float, tensor1(&x)));
        audited(0, &[&onnx, "-i", &x])
    };
    let close = with([57873.0, 1.0]);
    let words = "little headroom, other inputs may overflow: `down` sees 57873, FLOAT16 ends at 65504, 1.13 times that";
    assert_eq!(close["warnings"], json!([words]));
    assert_eq!(close["casts"][0]["headroom"].as_f64().map(|x| (x * 100.0) as i64), Some(113));
    for x in [[30000.0, 1.0], [65504.0, -65504.0], [0.0, 0.0]] {
        assert_eq!(with(x)["warnings"], json!([]), "{x:?}");
    }
    // The walk-through's model, on the inputs that do not show what is wrong with it.
    let broken = in_repository("models/whole/rms_norm_FLOAT16/model.onnx");
    let warnings =
        audited(0, &[&broken, "--sets", "1", "--set", "batch=1"])["warnings"].to_string();
    assert!(warnings.contains("`Cast_sum_half` sees 57381"), "{warnings}");
}
