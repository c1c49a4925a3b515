//! `keep` to types of few bits, and of models that are quantised already.

use serde_json::{Value, json};
use tract_onnx::pb::TensorProto;
use tract_onnx_cast::ElementType::{self, Bool, Float, Int8, Uint8};

use crate::common::proto::{Sketch, graph, graph_attribute, int, node, raw, tensor, unshaped};
use crate::keep::{kept, of_four, report_notes};
use crate::program::*;

/// A tensor of a shape.
fn matrix(name: &str, ty: ElementType, values: &[f32], dims: &[i64]) -> TensorProto {
    TensorProto { dims: dims.into(), ..tensor(name, ty, values) }
}

/// A value of which one element is a thousand times the others', which come back as they were.
fn outlier() -> Sketch {
    Sketch::new()
        .initializer(tensor("c", Float, &[1000.0, 1.0, 1.0, 1.0]))
        .initializer(tensor("d", Float, &[0.001, 1.0, 1.0, 1.0]))
        .node("Mul", &["x", "c"], &["large"], vec![])
        .node("Mul", &["large", "d"], &["z"], vec![])
        .node("Add", &["z", "z"], &["y"], vec![])
}

#[test]
fn the_nodes_around_an_outlier_are_left_unquantised() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &of_four(outlier()));
    let x = folder.message("x.pb", &tensor("x", Float, &[0.5, -1.0, 0.25, 1.0]));
    let given = format!("x={x}");
    for (to, call) in [
        ("INT8", "quantize_static(activation_type=QuantType.QInt8, weight_type=QuantType.QInt8"),
        ("uint8", "quantize_static(activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8"),
    ] {
        let (report, names) = kept(0, &[&path, "--to", to, "-i", &given]);
        // Who takes or makes the value; what holds the outlier's factors goes with them.
        assert_eq!(names, ["Mul_large", "Mul_z"]);
        assert_eq!(report["confirmed"], true);
        let list = "nodes_to_exclude=[\"Mul_large\", \"Mul_z\"]";
        let formats = &report["formats"];
        let expected = format!("{call}, per_channel=True, {list})");
        assert_eq!(formats["onnxruntime"], expected.as_str());
        assert_eq!(formats["olive"], format!("OnnxStaticQuantization: {list}"));
        let modelopt = "--quantize_mode=int8 --nodes_to_exclude '^Mul_large$' '^Mul_z$'";
        assert_eq!(formats["modelopt"], modelopt);
        let worst = &report["quantizers"][0];
        let tensor = worst["tensor"].as_str().expect("a name");
        assert!(["c", "d", "large"].contains(&tensor), "{worst}");
        let sqnr = worst["outputs"][0]["sqnr"].as_f64().expect("a ratio");
        assert!(sqnr < 20.0, "{worst}");
    }
    let (report, names) = kept(0, &[&path, "--to", "INT8", "-i", &given, "--sqnr", "-5"]);
    assert_eq!((names.len(), &report["tolerance"]["sqnr"]), (0, &json!(-5.0)));
    assert_eq!(report["quantizers"].as_array().map(Vec::len), Some(6));
    assert!(refused(&["keep", &path, "--to", "INT4"]).contains("nothing that becomes INT4"));
}

#[test]
fn the_effect_of_a_quantiser_is_what_it_alone_does() {
    let folder = Folder::new();
    let sketch = Sketch::new().node("Relu", &["x"], &["y"], vec![]);
    let path = folder.message("m.onnx", &of_four(sketch));
    let x = folder.message("x.pb", &tensor("x", Float, &[0.0, 63.75, 31.875, 10.0]));
    let given = format!("x={x}");
    // A Relu is quantised only behind what is.
    let line = refused(&["keep", &path, "--to", "UINT8", "-i", &given]);
    assert!(line.contains("nothing that becomes UINT8"), "{line}");
    let sketch = Sketch::new().node("Sigmoid", &["x"], &["s"], vec![]).node(
        "Identity",
        &["x"],
        &["y"],
        vec![],
    );
    folder.message("m.onnx", &of_four(sketch));
    // Of x alone y is made: the quantiser of s does nothing to it.
    let (report, _) = kept(0, &[&path, "--to", "UINT8", "-i", &given, "--sqnr=-99"]);
    let by_tensor = |name: &str| {
        let rows = report["quantizers"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["tensor"] == name).expect("a row")
    };
    assert_eq!(by_tensor("s")["outputs"][0]["sqnr"], "Infinity");
    // Steps of 0.25: 31.875 is half a step off, 10 and the ends are codes.
    let signal = 63.75f64 * 63.75 + 31.875 * 31.875 + 100.0;
    let expected = 10.0 * (signal / (0.125 * 0.125)).log10();
    let sqnr = by_tensor("x")["outputs"][0]["sqnr"].as_f64().expect("a ratio");
    assert!((sqnr - expected).abs() < 1e-9, "{sqnr}, not {expected}");
}

/// Behind a node with a body a quantiser takes a run of the whole model, with the same effect.
#[test]
fn effects_go_through_bodies() {
    let folder = Folder::new();
    let x = folder.message("x.pb", &tensor("x", Float, &[0.5, -1.0, 0.3, 0.9]));
    let given = format!("x={x}");
    let branch = |op: &str, from: &str, name: &str| {
        let node = node(op, &[from], &[name], vec![]);
        graph_attribute(
            if op == "Neg" { "else_branch" } else { "then_branch" },
            graph(&[], &[node], &[unshaped(name, Float)]),
        )
    };
    let body = vec![branch("Identity", "s", "a"), branch("Neg", "s", "b")];
    let before = || Sketch::new().node("Sigmoid", &["x"], &["s"], vec![]);
    let with =
        before().initializer(raw("yes", Bool as i32, &[], &[1])).node("If", &["yes"], &["y"], body);
    let without = before().node("Identity", &["s"], &["y"], vec![]);
    let effects = |sketch: Sketch| -> Vec<(Value, Value)> {
        let path = folder.message("m.onnx", &of_four(sketch));
        let report = kept(0, &[&path, "--to", "INT8", "-i", &given, "--sqnr=-99"]).0;
        let rows = report["quantizers"].as_array().expect("rows").clone();
        rows.into_iter().map(|row| (row["tensor"].clone(), row["outputs"].clone())).collect()
    };
    let (with, without) = (effects(with), effects(without));
    let of = |rows: &[(Value, Value)], name: &str| {
        rows.iter().find(|(tensor, _)| tensor == name).expect("a row").1.clone()
    };
    assert_eq!(of(&with, "x"), of(&without, "x"));
    assert!(of(&with, "x")[0]["sqnr"].as_f64().is_some_and(|sqnr| sqnr > 30.0), "{with:?}");
    // ONNX Runtime leaves what bodies take of their surroundings as it is.
    assert_eq!(of(&with, "s")[0]["sqnr"], "Infinity");
    assert!(of(&without, "s")[0]["sqnr"].as_f64().is_some(), "{without:?}");
}

#[test]
fn a_model_that_is_quantised_has_its_quantisers_ranked() {
    let (report, names) = kept(0, &[&in_repository("models/whole/qdq_softmax"), "--to", "INT8"]);
    assert_eq!((names.len(), &report["quantized"]), (0, &json!(true)));
    let rows = report["quantizers"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[0]["tensor"]), (1, &json!("x")));
    let notes = report_notes(&report);
    assert!(notes.contains("give its FLOAT original") && notes.contains("`QuantizeLinear_y`"));
}

/// The same numbers by `QuantizeLinear`, and by `DynamicQuantizeLinear` into products of integers.
#[test]
fn quantisers_of_products_of_integers_are_ranked_too() {
    let folder = Folder::new();
    let values = [0.0, 63.75, 31.875, 10.0];
    let x = folder.message("x.pb", &matrix("x", Float, &values, &[1, 4]));
    let codes = matrix("w", Int8, &[1.0, 2.0, -3.0, 4.0], &[4, 1]);
    let base = || Sketch::new().input("x", Float, &[1, 4]).output("y", Float, &[1, 1]);
    let dynamic = base()
        .initializer(codes.clone())
        .node("DynamicQuantizeLinear", &["x"], &["q", "s", "z"], vec![])
        .node("MatMulInteger", &["q", "w", "z"], &["i"], vec![])
        .node("Cast", &["i"], &["f"], vec![int("to", Float as i64)])
        .node("Mul", &["f", "s"], &["y"], vec![]);
    let scalar = |name: &str, ty, x: f32| matrix(name, ty, &[x], &[]);
    let fixed = base()
        .initializer(codes)
        .initializer(scalar("one", Float, 1.0))
        .initializer(scalar("s", Float, 0.25))
        .initializer(scalar("z", Uint8, 0.0))
        .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
        .node("DequantizeLinear", &["q", "s", "z"], &["d"], vec![])
        .node("DequantizeLinear", &["w", "one"], &["v"], vec![])
        .node("MatMul", &["d", "v"], &["y"], vec![]);
    let given = format!("x={x}");
    // 31.875 becomes 32.
    let exact = 2.0 * 63.75 - 3.0 * 31.875 + 4.0 * 10.0;
    let expected = 20.0 * (exact / (3.0 * 0.125f64)).log10();
    for sketch in [dynamic, fixed] {
        let path = folder.message("m.onnx", &sketch.model());
        let (report, _) = kept(0, &[&path, "--to", "UINT8", "-i", &given]);
        let row = &report["quantizers"][0];
        let sqnr = row["outputs"][0]["sqnr"].as_f64().expect("a ratio");
        assert!((sqnr - expected).abs() < 1e-6, "{sqnr}, not {expected}: {report}");
        assert_eq!((&row["tensor"], &row["type"]), (&json!("x"), &json!("UINT8")));
    }
}
