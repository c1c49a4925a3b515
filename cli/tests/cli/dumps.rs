//! Tensors that another runtime has saved, on either side of `compare`.

use std::fs;

use serde_json::{Value, json};
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::common::proto::{Change, cast, graph, model, node, tensor, value};
use crate::program::{Folder, json, refused, said};
use ElementType::{Float, Int8, Int32, Uint8};

const X: [f32; 4] = [0.5, -1.0, 2.0, 0.25];

/// `y` is the sine of `h`, which is twice `x`.
fn doubled(folder: &Folder) -> String {
    let nodes = [node("Add", &["x", "x"], &["h"], vec![]), node("Neg", &["h"], &["y"], vec![])];
    let graph = graph(&[value("x", Float, &[4])], &nodes, &[value("y", Float, &[4])]);
    folder.message("m.onnx", &model(17, graph))
}

fn times(factor: f32) -> Vec<f32> {
    X.iter().map(|x| x * factor).collect()
}

/// A folder of a .pb for each tensor.
fn dump(folder: &Folder, name: &str, tensors: &[(&str, Tensor)]) -> String {
    fs::create_dir_all(folder.path(name)).expect("a folder");
    for (tensor, values) in tensors {
        let ty = match values.datum_type() {
            DatumType::U8 => Uint8,
            DatumType::I32 => Int32,
            _ => Float,
        };
        let proto = tract_onnx_cast::tensor_proto::write(tensor, ty, values).expect("a tensor");
        folder.message(&format!("{name}/{tensor}.pb"), &proto);
    }
    folder.text(name)
}

fn compared(status: i32, arguments: &[&str]) -> Value {
    json(&said(status, &[&["compare", "--json"], arguments].concat()))["comparisons"][0].clone()
}

#[test]
fn inner_tensors_of_a_dump_are_compared() {
    let folder = Folder::new();
    let onnx = doubled(&folder);
    let tensors =
        |h: f32| [("x", tensor1(&X)), ("h", tensor1(&times(h))), ("y", tensor1(&times(-2.0)))];
    let good = dump(&folder, "good", &tensors(2.0));
    let report = compared(0, &[&onnx, &good]);
    assert_eq!(
        (&report["tensors"][0]["name"], &report["inputs"]["origin"]),
        (&json!("h"), &json!("given"))
    );
    compared(0, &[&good, &onnx]);
    // The outputs are right, what is inside is not.
    let bad = dump(&folder, "bad", &tensors(3.0));
    for sides in [[&onnx, &bad], [&bad, &onnx]] {
        let report = compared(1, &[sides[0], sides[1]]);
        assert_eq!(report["outputs"][0]["passed"], true);
        assert_eq!(report["first_difference"]["node"], "Add_h");
        assert_eq!(report["largest_jump"]["node"], "Add_h");
        // The error along the graph, and the nodes about the place.
        let profile = &report["profile"];
        assert_eq!(profile["points"][0]["tensor"], "h");
        let around = profile["around"].as_array().expect("nodes");
        let drawn = |node: &Value| (node["node"] == "Add_h") == (node["is_centre"] == true);
        assert!(around.len() == 2 && around.iter().all(drawn), "{profile}");
    }
    assert!(
        said(1, &["compare", &onnx, &bad])
            .contains("rounding does not explain the output of Add `Add_h`")
    );
    // Where no model runs, two dumps do.
    let report = compared(1, &[&good, &bad]);
    let failed =
        report["outputs"].as_array().expect("tensors").iter().filter(|o| o["passed"] == false);
    assert_eq!(failed.map(|output| output["name"].clone()).collect::<Vec<_>>(), ["h"]);
}

/// Codes are whole numbers, and what a product makes of them is exact: a kernel that saturates is
/// off.
#[test]
fn a_product_of_codes_has_no_doubt_where_both_are_the_runtimes_own() {
    let folder = Folder::new();
    let nodes = [
        node("MatMulInteger", &["x", "codes"], &["i"], vec![]).named("product"),
        cast("i", Float, "y"),
    ];
    let mut graph = graph(&[value("x", Uint8, &[1, 32])], &nodes, &[value("y", Float, &[1, 2])]);
    graph.initializer =
        vec![TensorProto { dims: vec![32, 2], ..tensor("codes", Int8, &[5.0; 64]) }];
    let onnx = folder.message("m.onnx", &model(17, graph));
    let row = |number: f32| Tensor::from_shape(&[1, 2], &[number; 2]).expect("a row");
    let whole = |number: f32| row(number).cast_to::<i32>().expect("whole numbers").into_owned();
    let x = Tensor::from_shape(&[1, 32], &[7u8; 32]).expect("a row");
    for (made, status) in [(1120.0, 0), (1100.0, 1)] {
        let saved = [("x", x.clone()), ("i", whole(made)), ("y", row(made))];
        let saved = dump(&folder, &format!("saved {made}"), &saved);
        let report = compared(status, &[&onnx, &saved]);
        let named = if status == 0 { json!(null) } else { json!("product") };
        assert_eq!(report["culprits"][0]["node"], named, "{report}");
    }
}

/// Random inputs say nothing of a kernel that they reach; of those behind saved tensors their own
/// do.
#[test]
fn inputs_that_were_forgotten_are_asked_for() {
    let folder = Folder::new();
    let onnx = doubled(&folder);
    let twice = || ("h", tensor1(&times(2.0)));
    let inner = dump(&folder, "inner", &[twice(), ("y", tensor1(&times(-2.0)))]);
    let x = folder.message("x.pb", &tensor("x", Float, &X));
    let given = format!("x={x}");
    for sides in [[&onnx, &inner], [&inner, &onnx]] {
        let report = compared(1, &[sides[0], sides[1]]);
        assert_eq!(
            (&report["verdict"], &report["other_inputs"]),
            (&json!("imprecise"), &json!(true))
        );
        assert_eq!(report["culprits"], json!([]));
        let reason = report["verdict_reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("`h` was saved with other inputs: `x` is random here"),
            "{reason}"
        );
        let text = said(1, &["compare", sides[0], sides[1]]);
        assert!(text.contains("next  Give the inputs that the tensors were saved with"), "{text}");
        assert!(!text.contains("kernel"), "{text}");
        let report = compared(0, &[sides[0], sides[1], "-i", &given]);
        assert_eq!(report["other_inputs"], false);
    }
    // A kernel behind a tensor that was saved is off for that.
    let kernel = dump(&folder, "kernel", &[twice(), ("y", tensor1(&times(-2.5)))]);
    let report = compared(1, &[&onnx, &kernel]);
    let culprit = &report["culprits"][0];
    assert_eq!((&culprit["node"], &culprit["kind"]), (&json!("Neg_y"), &json!("kernel")));
    // Those that were saved beside are not those that are given.
    let saved = [("x", tensor1(&times(3.0))), ("h", tensor1(&times(6.0)))];
    let saved = [&saved[..], &[("y", tensor1(&times(-6.0)))]].concat();
    let other = dump(&folder, "other", &saved);
    let report = compared(1, &[&onnx, &other, "-i", &given]);
    let reason = report["verdict_reason"].as_str().expect("a reason");
    assert!(reason.contains("`x` was saved with other values"), "{reason}");
}

#[test]
fn odd_dumps_are_told() {
    let folder = Folder::new();
    let onnx = doubled(&folder);
    let (x, h, y) = (tensor1(&X), tensor1(&times(2.0)), tensor1(&times(-2.0)));
    let further = dump(&folder, "further", &[("x", x.clone()), ("y", y.clone()), ("z", h.clone())]);
    let text = said(0, &["compare", &onnx, &further]);
    assert!(text.contains("1 saved tensor not compared") && text.contains("`z`"), "{text}");
    let flat = Tensor::zero::<f32>(&[2, 2]).expect("a tensor");
    let shaped = dump(&folder, "shaped", &[("x", x.clone()), ("h", flat), ("y", y.clone())]);
    let report = compared(1, &[&onnx, &shaped]);
    assert!(report["tensors"][0]["problem"].as_str().expect("a problem").contains("shape"));
    let without = dump(&folder, "without", &[("x", x.clone()), ("h", h.clone()), ("g", h.clone())]);
    let line = refused(&["compare", &onnx, &without]);
    assert!(line.contains("`y`"), "{line}");
    // Of two dumps, one lacks a tensor.
    let whole = dump(&folder, "whole", &[("h", h.clone()), ("y", y.clone())]);
    let part = dump(&folder, "part", &[("y", y), ("g", h)]);
    let report = compared(1, &[&whole, &part]);
    assert_eq!(report["tensors"][0]["name"], "h");
    assert!(report["tensors"][0]["problem"].as_str().expect("a problem").contains("no tensor"));
    assert!(report["notes"][0].as_str().expect("a note").contains("`g`"));
}

/// A NumPy file of FLOATs in base64, as Polygraphy writes it.
fn array(numbers: &[f32]) -> String {
    let head =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", numbers.len());
    let head = format!("{head:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(head.len()).expect("short").to_le_bytes());
    bytes.extend(head.as_bytes());
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..4 {
            let shown = char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]);
            text.push(if digit <= group.len() { shown } else { '=' });
        }
    }
    text
}

#[test]
fn polygraphy_s_results_are_read() {
    let folder = Folder::new();
    let onnx = doubled(&folder);
    let results = |h: f32| {
        let lazy = |numbers: &[f32]| json!({"values": {"array": array(numbers), "polygraphy_class": "ndarray"}, "polygraphy_class": "LazyArray"});
        let outputs = json!({"x": lazy(&X), "h": lazy(&times(h)), "y": lazy(&times(-2.0))});
        let iteration = json!({"outputs": outputs, "runner_name": "ort", "polygraphy_class": "IterationResult"});
        json!({"lst": [["ort", [iteration]]], "polygraphy_class": "RunResults"})
    };
    let write = |name: &str, value: &Value| folder.write(name, value.to_string());
    let good = write("good.json", &results(2.0));
    assert_eq!(compared(0, &[&onnx, &good])["tensors"][0]["name"], "h");
    let bad = write("bad.json", &results(2.5));
    assert_eq!(compared(1, &[&onnx, &bad])["largest_jump"]["node"], "Add_h");
    let mut two = results(2.0);
    let runner = two["lst"][0].clone();
    two["lst"].as_array_mut().expect("runners").push(runner);
    for (text, told) in [
        (two.to_string(), "2 runners"),
        ("[{\"x\": 1}]".into(), "`x` is no array"),
        ("{}".into(), "Polygraphy"),
        ("[".into(), "EOF"),
    ] {
        let line = refused(&["compare", &onnx, &folder.write("odd.json", text)]);
        assert!(line.contains(told), "{line}");
    }
}

#[test]
fn where_tract_cannot_run_a_model_there_is_a_way_out() {
    let folder = Folder::new();
    let nodes = [node("com.example.Nobody", &["x"], &["y"], vec![])];
    let mut proto =
        model(17, graph(&[value("x", Float, &[4])], &nodes, &[value("y", Float, &[4])]));
    let mut domain = proto.opset_import[0].clone();
    (domain.domain, domain.version) = ("com.example".into(), 1);
    proto.opset_import.push(domain);
    let onnx = folder.message("m.onnx", &proto);
    let line = refused(&["compare", &onnx, &onnx]);
    assert!(
        line.contains("tensors that another runtime has saved can be compared instead"),
        "{line}"
    );
}

#[test]
fn the_nodes_of_a_model_that_tract_cannot_run_are_named() {
    let folder = Folder::new();
    let nodes = [
        node("Add", &["x", "x"], &["h"], vec![]),
        node("Nobody", &["h"], &["k"], vec![]),
        node("Neg", &["k"], &["y"], vec![]),
    ];
    let of = |nodes: &[_]| graph(&[value("x", Float, &[4])], nodes, &[value("y", Float, &[4])]);
    let onnx = folder.message("m.onnx", &model(17, of(&nodes)));
    // Outputs come first, as ONNX Runtime has them.
    let tensors = |k: f32| {
        let by = [("y", -2.0 * k), ("x", 1.0), ("h", 2.0), ("k", 2.0 * k)];
        by.map(|(name, factor)| (name, tensor1(&times(factor))))
    };
    let good = dump(&folder, "good", &tensors(1.0));
    let bad = dump(&folder, "bad", &tensors(1.5));
    let report = compared(1, &[&good, &bad, "--graph", &onnx]);
    assert_eq!(report["first_difference"]["node"], "Nobody_k", "{report}");
    assert_eq!(report["largest_jump"]["node"], "Nobody_k");
    assert_eq!(report["profile"]["points"][0]["tensor"], "h");
    let text = said(1, &["compare", &good, &bad, "--graph", &onnx]);
    assert!(text.contains("`k`, which Nobody `Nobody_k` makes"), "{text}");
    compared(0, &[&good, &good, "--graph", &onnx]);
    // What one side lacks is a difference with a graph as without.
    let less = dump(&folder, "less", &tensors(1.0)[..3]);
    compared(1, &[&good, &less, "--graph", &onnx]);

    let other = of(&[node("Neg", &["x"], &["z"], vec![])]);
    let other = folder.message("other.onnx", &model(17, other));
    let line = refused(&["compare", &good, &bad, "--graph", &other]);
    assert!(line.contains("makes none of the saved tensors"), "{line}");
    let line = refused(&["compare", &doubled(&folder), &good, "--graph", &onnx]);
    assert!(line.contains("--graph is for tensors that were saved on both sides"), "{line}");
}
