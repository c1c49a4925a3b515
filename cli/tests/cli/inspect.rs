//! `inspect`.

use serde_json::{Value, json};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto};
use tract_onnx_cast::ElementType;

use crate::common::proto::{Change, graph, graph_attribute, int, model, node, raw, string, value};
use crate::program::*;

#[test]
fn inspect_lists_every_cast() {
    use ElementType::*;
    let folder = Folder::new();
    let inner = [
        cast("c2", "h", "b", Bool),
        node("CastLike", &["x", "w"], &["l"], vec![]).named("c3").with(int("saturate", 0)),
    ];
    let branch = |name: &str, nodes: &[NodeProto], output: &str| {
        let graph = graph(&[], nodes, &[value(output, Bool, &[])]);
        graph_attribute(name, GraphProto { name: "branch".into(), ..graph })
    };
    let choose = node("If", &["yes"], &["y"], vec![])
        .named("if")
        .with(branch("then_branch", &inner, "b"))
        .with(branch("else_branch", &[cast("c4", "x", "e", Bool)], "e"));
    let nodes = [
        cast("c1", "x", "h", Float8E8M0)
            .with(string("round_mode", "nearest"))
            .with(int("saturate", 1)),
        cast("", "x", "same", Float),
        choose,
    ];
    let inputs = [value("x", Float, &[2]), value("yes", Bool, &[])];
    let outputs = [value("y", Bool, &[2]), value("same", Float, &[2])];
    let mut graph = graph(&inputs, &nodes, &outputs);
    graph.initializer = vec![raw("w", Float8E5M2 as i32, &[1], &[0])];
    let path = folder.message("m.onnx", &model(24, graph));
    let row = |node: &str, op: &str, to: &str, saturate: Value, round_mode: Value, fate: &str| {
        json!({"node": node, "op": op, "from": "FLOAT", "to": to, "version": 24,
               "saturate": saturate, "round_mode": round_mode, "graph": "g", "fate": fate})
    };
    let report = json(&done(&["inspect", &path, "--json"]));
    let casts = report["casts"].as_array().expect("casts");
    assert_eq!(report.as_object().map(|object| object.len()), Some(2));
    assert_eq!(report["schema"], "onnx-cast/inspect/1");
    assert_eq!(casts.len(), 5);
    let of = |name: &str| casts.iter().find(|cast| cast["node"] == name).expect(name);
    assert_eq!(
        *of("c1"),
        row("c1", "Cast", "FLOAT8E8M0", json!(1), json!("nearest"), "our kernel")
    );
    assert_eq!(*of("same"), row("same", "Cast", "FLOAT", json!(null), json!(null), "no-op"));
    assert_eq!(of("c2")["from"], "FLOAT8E8M0");
    assert_eq!((&of("c3")["op"], &of("c3")["to"]), (&json!("CastLike"), &json!("FLOAT8E5M2")));
    assert!(of("c4")["graph"].as_str().is_some_and(|graph| graph != "g"), "{report}");

    let table = done(&["inspect", &path]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 6, "{table}");
    for (column, cell) in [
        ("from", "FLOAT"),
        ("to", "FLOAT8E8M0"),
        ("round_mode", "nearest"),
        ("becomes", "our kernel"),
    ] {
        let place = lines[0].find(&format!(" {column}")).expect("the column") + 1;
        let line = lines.iter().find(|line| line.starts_with("c1 ")).expect("the row");
        assert!(line.get(place..).is_some_and(|rest| rest.starts_with(cell)), "{column}: {table}");
    }
    assert_eq!(
        done(&["inspect", &folder.message("m.onnx", &chain_model(3))]),
        "no Cast and no CastLike\n"
    );
}

/// A model that cannot be run has casts all the same.
#[test]
fn inspect_lists_the_casts_of_models_that_cannot_be_run() {
    use ElementType::*;
    let folder = Folder::new();
    let (x, y) = (value("x", Float8E5M2, &[2]), value("y", Int32, &[2]));
    let inspect = |nodes: &[NodeProto]| {
        let model = model(23, graph(std::slice::from_ref(&x), nodes, std::slice::from_ref(&y)));
        let path = folder.message("m.onnx", &model);
        let output = onnx_cast(["inspect", &path, "--json"]);
        let casts = json(&stdout(&output))["casts"].clone();
        (output.status.code(), casts, stderr(&output))
    };
    // Nothing computes with float8, and nobody makes `z`.
    let sum = node("Add", &["x", "x"], &["s"], vec![]).named("sum");
    let (status, casts, notes) = inspect(&[
        sum,
        cast("c1", "s", "h", Float16),
        cast("c2", "x", "f", Float),
        node("Frob", &["f", "z"], &["g"], vec![]).named("frob"),
        cast("c3", "g", "y", Int32),
    ]);
    let row = |node: &str, from: Value, to: &str| {
        json!({"node": node, "op": "Cast", "from": from, "to": to, "version": 23,
               "saturate": null, "round_mode": null, "graph": "g", "fate": "our kernel"})
    };
    assert_eq!(status, Some(0), "{notes}");
    assert_eq!(
        casts,
        json!([
            row("c1", json!(null), "FLOAT16"),
            row("c2", json!("FLOAT8E5M2"), "FLOAT"),
            row("c3", json!(null), "INT32"),
        ])
    );
    for words in [["`sum`", "FLOAT8E5M2"], ["`frob`", "`z`"]] {
        let is_told =
            |line: &str| line.starts_with("note: ") && words.iter().all(|w| line.contains(w));
        assert!(notes.lines().any(is_told), "{notes}");
    }
    // A cast that is wrong is told as an error, beside the others.
    let wrong = cast("c1", "x", "h", Float).with(int("frob", 1));
    let (status, casts, error) = inspect(&[wrong, cast("c2", "h", "y", Int32)]);
    assert_eq!(status, Some(2));
    assert!(error.starts_with("error: ") && error.contains("`frob`"), "{error}");
    let mut refused = row("c1", json!("FLOAT8E5M2"), "FLOAT");
    refused["fate"] = json!("refused");
    assert_eq!(casts, json!([refused, row("c2", json!(null), "INT32")]));
}

/// A model without a Cast: so many times Relu.
fn chain_model(length: usize) -> ModelProto {
    let relu = |i: usize| {
        node("Relu", &[&format!("v{i}")], &[&format!("v{}", i + 1)], vec![]).named(&format!("n{i}"))
    };
    let nodes: Vec<_> = (0..length).map(relu).collect();
    let (first, last) = (
        value("v0", ElementType::Float, &[1]),
        value(&format!("v{length}"), ElementType::Float, &[1]),
    );
    model(13, graph(&[first], &nodes, &[last]))
}

#[test]
fn inspect_lists_quantisers_beside_casts() {
    use ElementType::{Float, Int4, Uint8};
    let folder = Folder::new();
    let nodes = [
        node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![]).named("q1"),
        node("DequantizeLinear", &["w", "t"], &["d"], vec![])
            .named("d1")
            .with(int("axis", 0))
            .with(int("block_size", 2)),
        cast("c1", "q", "f", Float),
    ];
    let outputs = [value("f", Float, &[2]), value("d", Float, &[4])];
    let mut graph = graph(&[value("x", Float, &[2])], &nodes, &outputs);
    graph.initializer = vec![
        raw("s", Float as i32, &[], &1f32.to_le_bytes()),
        raw("z", Uint8 as i32, &[], &[0]),
        raw("w", Int4 as i32, &[4], &[0x21, 0x43]),
        raw("t", Float as i32, &[2], &[0; 8]),
    ];
    let path = folder.message("m.onnx", &model(21, graph));
    let report = json(&done(&["inspect", &path, "--json"]));
    assert_eq!(report["casts"].as_array().map(Vec::len), Some(1));
    let quantizers = json!([
        {"node": "q1", "op": "QuantizeLinear", "x": "FLOAT", "scale": "FLOAT", "y": "UINT8", "zero_point": true,
         "version": 21, "axis": 1, "block_size": 0, "saturate": true, "precision": null, "graph": "g", "fate": "our kernel"},
        {"node": "d1", "op": "DequantizeLinear", "x": "INT4", "scale": "FLOAT", "y": "FLOAT", "zero_point": false,
         "version": 21, "axis": 0, "block_size": 2, "saturate": true, "precision": null, "graph": "g", "fate": "folded"},
    ]);
    assert_eq!(report["quantizers"], quantizers);
    let text = done(&["inspect", &path]);
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).expect(name);
    assert!(line("q1 ").contains("our kernel") && line("d1 ").contains("folded"), "{text}");
}

/// Of a quantiser all is told that the library knows: what is added to it is to be listed as well.
#[test]
fn inspect_tells_all_of_a_quantizer() {
    let folder = Folder::new();
    let nodes = [node("QuantizeLinear", &["x", "s"], &["y"], vec![]).named("q")];
    let inputs = [value("x", ElementType::Float, &[2]), value("s", ElementType::Float, &[])];
    let graph = graph(&inputs, &nodes, &[value("y", ElementType::Uint8, &[2])]);
    let path = folder.message("m.onnx", &model(24, graph));
    let report = json(&done(&["inspect", &path, "--json"]));
    let told = report["quantizers"][0].as_object().expect("a quantiser");
    let loaded = tract_onnx_cast::onnx().load(&path).expect("a model");
    let known = format!("{:#?}", loaded.survey().quantizers().first().expect("a quantiser"));
    let fields =
        known.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    let fields: Vec<&str> =
        fields.filter_map(|line| line.trim().split_once(": ")).map(|it| it.0).collect();
    assert!(fields.len() > 10, "{known}");
    for field in fields {
        let name = match field {
            "operator" => "op",
            "has_zero_point" => "zero_point",
            "is_constant" => "fate",
            name => name,
        };
        assert!(told.contains_key(name), "{name}: {report}");
    }
}
