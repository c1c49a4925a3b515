//! `fix`.

use std::fs;

use prost::Message;
use serde_json::{Value, json};
use tract_onnx::pb::{FunctionProto, ModelProto};
use tract_onnx_cast::ElementType::{
    self, BFloat16, Bool, Double, Float, Float8E5M2, Float16, Int8, Int32, Int64, Uint8,
};

use crate::common::proto::{
    Change, Sketch, bytes, cast, external, graph, graph_attribute, imports, int, node, raw, tensor,
    unshaped, value,
};
use crate::program::*;

/// Fixes a file, which ends with this exit status; what `--json` says, and the new file.
fn fix(status: i32, file: &[u8]) -> (Value, Vec<u8>) {
    let folder = Folder::new();
    let (model, fixed) = (folder.write("m.onnx", file), folder.text("fixed.onnx"));
    let report = json(&said(status, &["fix", &model, "-o", &fixed, "--json"]));
    assert_eq!((&report["schema"], &report["model"]), (&json!("onnx-cast/fix/1"), &json!(model)));
    assert_eq!(report["output"], fixed);
    assert_eq!(fs::read(&model).expect("the model"), file);
    (report, fs::read(&fixed).expect("the new model"))
}

/// The same, of a model that can be mended altogether: the changes, each as one line, and the
/// model.
fn mended(model: &ModelProto) -> (Vec<String>, ModelProto) {
    let (report, file) = fix(0, &bytes(model));
    assert_eq!(report["left"], json!([]));
    let text = |change: &Value, key: &str| change[key].as_str().expect(key).to_owned();
    let line = |change: &Value| {
        ["kind", "place", "from", "to"].map(|key| text(change, key)).join(" ").trim_end().to_owned()
    };
    let changes: Vec<String> =
        report["changes"].as_array().expect("changes").iter().map(line).collect();
    // What was mended has nothing left to mend.
    let (again, same) = fix(0, &file);
    assert_eq!((&again["changes"], same == file), (&json!([]), true));
    (changes, ModelProto::decode(&*file).expect("a model"))
}

fn operators(model: &ModelProto) -> Vec<&str> {
    let graph = model.graph.as_ref().expect("a graph");
    graph.node.iter().map(|node| node.op_type.as_str()).collect()
}

/// A FLOAT that is cast as `to`, declared FLOAT16, and added to a FLOAT16.
fn half_sum(to: ElementType) -> Sketch {
    Sketch::new()
        .input("x", Float, &[2])
        .initializer(tensor("w", Float16, &[1.0, 2.0]))
        .cast("x", to, "h")
        .value_info("h", Float16)
        .node("Add", &["h", "w"], &["y"], vec![])
        .output("y", Float16, &[2])
}

/// Fields that no version of ONNX has, one with a length of two bytes where one would do.
const UNKNOWN: &[u8] = &[0xc2, 0x3e, 0x82, 0x00, b'a', b'b', 0xc8, 0x3e, 0x01];

#[test]
fn a_wrong_target_is_mended_and_nothing_else() {
    let file = [UNKNOWN, &bytes(&half_sum(Float).model()), UNKNOWN].concat();
    let (report, fixed) = fix(0, &file);
    assert_eq!(
        report["changes"],
        json!([{
            "kind": "to",
            "place": "Cast_h",
            "from": "FLOAT",
            "to": "FLOAT16",
            "text": "Cast `Cast_h`: `to` was FLOAT, is FLOAT16"
        }])
    );
    assert_eq!(fixed, [UNKNOWN, &bytes(&half_sum(Float16).model()), UNKNOWN].concat());
    let folder = Folder::new();
    let values = values(&["run", &folder.write("m.onnx", fixed), "--json"]);
    assert_eq!(values.as_array().map(Vec::len), Some(2));
}

#[test]
fn a_file_without_faults_stays_byte_for_byte() {
    let file = [UNKNOWN, &bytes(&half_sum(Float16).model()), UNKNOWN].concat();
    let (report, fixed) = fix(0, &file);
    assert_eq!((&report["changes"], fixed), (&json!([]), file));
}

#[test]
fn a_target_is_mended_by_its_users_where_nothing_is_declared() {
    let model = |to| {
        Sketch::new()
            .input("x", Float, &[2])
            .initializer(tensor("w", Float16, &[1.0, 2.0]))
            .cast("x", to, "h")
            .node("Relu", &["h"], &["r"], vec![])
            .node("Add", &["r", "w"], &["y"], vec![])
            .output("y", Float16, &[2])
            .model()
    };
    let (changes, fixed) = mended(&model(Float));
    assert_eq!(changes, ["to Cast_h FLOAT FLOAT16"]);
    assert_eq!(fixed, model(Float16));
    assert_eq!(mended(&fixed).0, [""; 0]);
}

#[test]
fn a_wrong_declaration_is_mended() {
    let model = |inner, output| {
        Sketch::new()
            .input("x", Float, &[2])
            .node("Relu", &["x"], &["r"], vec![])
            .value_info("r", inner)
            .node("Neg", &["r"], &["y"], vec![])
            .output("y", output, &[2])
            .model()
    };
    let (changes, fixed) = mended(&model(Float16, Float));
    assert_eq!(changes, ["value_info r FLOAT16 FLOAT"]);
    assert_eq!(fixed, model(Float, Float));
    let (changes, fixed) = mended(&model(Float, Float16));
    assert_eq!(changes, ["output y FLOAT16 FLOAT"]);
    assert_eq!(fixed, model(Float, Float));
    // What an output is declared stays where the cast before it can make it.
    let cast =
        |to| Sketch::new().input("x", Float, &[2]).cast("x", to, "y").output("y", Float16, &[2]);
    assert_eq!(mended(&cast(Double).model()).0, ["to Cast_y DOUBLE FLOAT16"]);
}

#[test]
fn an_input_is_taken_from_before_a_cast_that_others_need() {
    let model = Sketch::new()
        .input("x", Float16, &[2])
        .initializer(tensor("w", Float16, &[1.0, 2.0]))
        .node("Relu", &["x"], &["r"], vec![])
        .cast("r", Float, "out")
        .node("Mul", &["out", "w"], &["y"], vec![])
        .output("out", Float, &[2])
        .output("y", Float16, &[2]);
    let (changes, fixed) = mended(&model.model());
    assert_eq!(changes, ["input Mul_y out r"]);
    assert_eq!(fixed.graph.expect("a graph").node[2].input, ["r", "w"]);
}

#[test]
fn a_cast_is_added_where_operators_would_mix_types() {
    let sketch = Sketch::new()
        .input("x", Float16, &[1, 2])
        .node("DynamicQuantizeLinear", &["x"], &["q", "s", "z"], vec![])
        .value_info("s", Float16)
        .initializer(tensor("w", Float16, &[1.0, 2.0]))
        .node("Mul", &["s", "w"], &["y"], vec![])
        .output("y", Float16, &[2])
        .output("q", Uint8, &[1, 2])
        .output("z", Uint8, &[]);
    let (changes, fixed) = mended(&sketch.model());
    assert_eq!(
        changes,
        [
            "added x_as_FLOAT FLOAT16 FLOAT",
            "value_info s FLOAT16 FLOAT",
            "added s_as_FLOAT16 FLOAT FLOAT16"
        ]
    );
    assert_eq!(operators(&fixed), ["Cast", "DynamicQuantizeLinear", "Cast", "Mul"]);
}

#[test]
fn casts_that_change_nothing_are_removed() {
    let chain = |from, via, rules: &[i64]| {
        let with = rules.iter().map(|number| int("saturate", *number)).collect();
        Sketch::new()
            .input("x", from, &[2])
            .cast("x", via, "v")
            .node("Cast", &["v"], &["b"], [vec![int("to", from as i64)], with].concat())
            .value_info("v", via)
            .value_info("b", from)
            .node("Identity", &["b"], &["y"], vec![])
            .output("y", from, &[2])
            .model()
    };
    let removed = ["removed Cast_b b x", "removed Cast_v v"];
    for (from, via, rules) in [
        (Float16, Float, &[][..]),
        (BFloat16, Double, &[]),
        (Bool, Int32, &[]),
        (Int8, Float16, &[]),
        (Float8E5M2, Float, &[0]),
    ] {
        let (changes, fixed) = mended(&chain(from, via, rules));
        assert_eq!(changes, removed, "{from} {via}");
        let graph = fixed.graph.expect("a graph");
        assert_eq!((graph.node.len(), &graph.node[0].input[0][..]), (1, "x"));
        assert_eq!(graph.value_info, []);
    }
    // Rounded, saturated, cut off: these change values.
    for (from, via, rules) in [
        (Float, Float16, &[][..]),
        (Float8E5M2, Float, &[1]),
        (Int32, Float, &[]),
        (Float, Int64, &[]),
        (ElementType::String, Float, &[]),
    ] {
        assert_eq!(mended(&chain(from, via, rules)).0, [""; 0], "{from} {via}");
    }
}

#[test]
fn a_cast_in_a_long_chain_goes_as_far_back_as_it_can() {
    let sketch = Sketch::new()
        .input("x", Float16, &[2])
        .cast("x", Float, "a")
        .cast("a", Float, "b")
        .cast("b", Double, "c")
        .cast("c", Float16, "d")
        .node("Neg", &["d"], &["y"], vec![])
        .node("Neg", &["b"], &["z"], vec![])
        .output("y", Float16, &[2])
        .output("z", Float, &[2]);
    let (changes, fixed) = mended(&sketch.model());
    assert_eq!(changes, ["removed Cast_b b a", "removed Cast_d d x", "removed Cast_c c"]);
    assert_eq!(operators(&fixed), ["Cast", "Neg", "Neg"]);
}

#[test]
fn an_output_keeps_its_name() {
    let sketch = |used: &str| {
        Sketch::new()
            .input("x", Float, &[2])
            .node("Relu", &["x"], &["r"], vec![])
            .cast("r", Float, "y")
            .node("Neg", &[used], &["z"], vec![])
            .output("y", Float, &[2])
            .output("z", Float, &[2])
            .model()
    };
    let (changes, fixed) = mended(&sketch("y"));
    assert_eq!(changes, ["removed Cast_y y r"]);
    assert_eq!(fixed.graph.expect("a graph").node[0].output, ["y"]);
    // The value has another user, so the output is a second name of it.
    assert_eq!(mended(&sketch("r")).0, [""; 0]);
    // The value is made by a cast, which makes the output then.
    let casts = Sketch::new().input("x", Float, &[2]).cast("x", Float16, "h");
    let casts = casts.cast("h", Float16, "y").output("y", Float16, &[2]).model();
    let (changes, fixed) = mended(&casts);
    assert_eq!(changes, ["removed Cast_y y h"]);
    assert_eq!(operators(&fixed), ["Cast"]);
    assert_eq!(fixed.graph.expect("a graph").node[0].output, ["y"]);
}

#[test]
fn subgraphs_and_functions_are_mended_too() {
    let branch = |name: &str| {
        let nodes = [
            cast("x", Float, "t"),
            cast("x", Float, "h"),
            node("Add", &["h", "w"], &["s"], vec![]),
            node("Add", &["t", "t"], &["unused"], vec![]),
        ];
        let mut graph = graph(&[], &nodes, &[value("s", Float16, &[2])]);
        graph.value_info = vec![unshaped("h", Float16)];
        graph_attribute(name, graph)
    };
    let choose = node("If", &["yes"], &["i"], vec![])
        .named("if")
        .with(branch("then_branch"))
        .with(branch("else_branch"));
    let mut sketch = Sketch::new()
        .input("x", Float, &[2])
        .input("yes", Bool, &[])
        .initializer(tensor("w", Float16, &[1.0, 2.0]))
        .node("custom.Half", &["i"], &["y"], vec![])
        .output("y", Float16, &[2]);
    sketch.0.node.insert(0, choose);
    let mut model = sketch.model();
    model.functions = vec![FunctionProto {
        name: Some("Half".into()),
        domain: Some("custom".into()),
        input: vec!["a".into()],
        output: vec!["b".into()],
        opset_import: imports(24),
        node: vec![
            cast("a", Float, "wide"),
            cast("wide", Float16, "c"),
            node("Add", &["c", "a"], &["b"], vec![]),
        ],
        ..Default::default()
    }];
    let (changes, fixed) = mended(&model);
    let mut wanted = vec![];
    for branch in ["then_branch", "else_branch"] {
        wanted.push(format!("to if.{branch}/Cast_h FLOAT FLOAT16"));
    }
    for branch in ["then_branch", "else_branch"] {
        wanted.push(format!("removed if.{branch}/Cast_t t x"));
    }
    wanted.extend(["removed Half/Cast_c c a", "removed Half/Cast_wide wide"].map(String::from));
    assert_eq!(changes, wanted);
    assert_eq!(fixed.functions[0].node.len(), 1);
    let folder = Folder::new();
    done(&["run", &folder.message("m.onnx", &fixed), "--json"]);
}

#[test]
fn external_data_stays_external() {
    let data = bytes_of(&[1.0, 2.0]);
    let sketch = Sketch::new()
        .input("x", Float, &[2])
        .initializer(external(raw("w", Float as i32, &[2], &data), "w.bin", None))
        .cast("x", Float, "h")
        .node("Add", &["h", "w"], &["y"], vec![])
        .output("y", Float, &[2])
        .model();
    let folder = Folder::new();
    folder.write("w.bin", &data);
    let model = folder.message("m.onnx", &sketch);
    let beside = folder.text("fixed.onnx");
    done(&["fix", &model, "-o", &beside]);
    let fixed = ModelProto::decode(&*fs::read(&beside).expect("the new model")).expect("a model");
    assert_eq!(operators(&fixed), ["Add"]);
    assert_eq!(
        fixed.graph.expect("a graph").initializer,
        sketch.graph.expect("a graph").initializer
    );
    done(&["run", &beside]);
    // In another folder the data is not found, which is said.
    let other = Folder::new();
    let output = onnx_cast(["fix", &model, "-o", &other.text("fixed.onnx")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("external data stays in"), "{}", stderr(&output));
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    crate::program::bytes(values, f32::to_le_bytes)
}

#[test]
fn what_cannot_be_mended_is_left_and_named() {
    let model = Sketch::new()
        .input("a", Int32, &[2])
        .input("b", Float, &[2])
        .node("Add", &["a", "b"], &["s"], vec![])
        .node("Cast", &["s"], &["y"], vec![int("to", 1), int("saturate", 1), int("what", 1)])
        .output("y", Float, &[2])
        .model();
    let (report, fixed) = fix(1, &bytes(&model));
    let left: Vec<&str> =
        report["left"].as_array().expect("left").iter().filter_map(Value::as_str).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0], "node `Add_s` (Add): mixes INT32 and FLOAT (opset 24)");
    assert!(left[1].starts_with("node `Cast_y`: attribute `what`"), "{left:?}");
    assert_eq!(fixed, bytes(&model));
}

#[test]
fn nothing_is_written_over_the_model_or_made_of_what_is_none() {
    let folder = Folder::new();
    let file = bytes(&half_sum(Float).model());
    let model = folder.write("m.onnx", &file);
    let line = refused(&["fix", &model, "-o", &model]);
    assert!(line.contains("-o: ") && line.contains("already read or written"), "{line}");
    assert_eq!(fs::read(&model).expect("the model"), file);
    let cut = folder.write("cut.onnx", &file[..file.len() - 3]);
    let fixed = folder.text("fixed.onnx");
    refused(&["fix", &cut, "-o", &fixed]);
    refused(&["fix", &folder.text("none.onnx"), "-o", &fixed]);
    let empty = folder.write("empty.onnx", []);
    assert!(refused(&["fix", &empty, "-o", &fixed]).contains("holds no graph"));
    assert!(!folder.path("fixed.onnx").exists());
}

#[test]
fn the_changes_are_told_in_a_line_each() {
    let folder = Folder::new();
    let (model, fixed) =
        (folder.message("m.onnx", &half_sum(Float).model()), folder.text("fixed.onnx"));
    assert_eq!(
        done(&["fix", &model, "-o", &fixed]),
        format!("Cast `Cast_h`: `to` was FLOAT, is FLOAT16\n{fixed}: 1 fixed\n")
    );
    assert_eq!(
        done(&["fix", &fixed, "-o", &folder.text("again.onnx")]),
        format!("{}: nothing to fix, the same bytes\n", folder.text("again.onnx"))
    );
}

#[test]
fn ten_thousand_casts_take_no_longer_than_they_should() {
    let mut sketch =
        Sketch::new().input("x", Float16, &[2]).initializer(tensor("w", Float16, &[1.0]));
    let mut last = "x".to_owned();
    for index in 0..5000 {
        let [wide, back] = ["wide", "back"].map(|name| format!("{name}{index}"));
        sketch = sketch.cast(&last, Float, &wide).cast(&wide, Float, &back);
        sketch = sketch.value_info(&back, Float16);
        let sum = format!("sum{index}");
        sketch = sketch.node("Add", &[&back, "w"], &[&sum], vec![]);
        last = sum;
    }
    let sketch = sketch.node("Identity", &[&last], &["y"], vec![]).output("y", Float16, &[2]);
    let (changes, fixed) = mended(&sketch.model());
    // The targets, then both casts of each pair.
    assert_eq!(changes.len(), 15_000);
    assert_eq!(operators(&fixed).len(), 5001);
}

/// What `fix` leaves of a model that it cannot mend altogether.
fn left(sketch: Sketch) -> Vec<String> {
    let (report, _) = fix(1, &bytes(&sketch.model()));
    let left = report["left"].as_array().expect("what is left");
    left.iter().map(|line| line.as_str().expect("a line").to_owned()).collect()
}

#[test]
fn bodies_that_disagree_and_types_that_a_version_lacks_are_told() {
    let branch = |ty, made: &str| {
        let made_here = cast("x", ty, made);
        graph_attribute("", graph(&[], &[made_here], &[value(made, ty, &[4])]))
    };
    let named = |name: &str, ty, made: &str| {
        let mut branch = branch(ty, made);
        branch.name = name.into();
        branch
    };
    let branches =
        |other| vec![named("then_branch", Float16, "t"), named("else_branch", other, "e")];
    let either = |other| {
        Sketch::new()
            .input("x", Float, &[4])
            .input("c", Bool, &[])
            .node("If", &["c"], &["y"], branches(other))
            .output("y", Float16, &[4])
    };
    mended(&either(Float16).model());
    let problem = "node `If_y` (If): its branches make `y` FLOAT16 and FLOAT (opset 24)";
    assert_eq!(left(either(Float)), [problem]);
    let body = graph(
        &[value("i", Int64, &[]), value("go", Bool, &[]), value("state", Float, &[4])],
        &[node("Identity", &["go"], &["on"], vec![]), cast("state", Float16, "next")],
        &[value("on", Bool, &[]), value("next", Float16, &[4])],
    );
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .input("n", Int64, &[])
        .node("Loop", &["n", "", "x"], &["y"], vec![graph_attribute("body", body)])
        .output("y", Float16, &[4]);
    let problem =
        "node `Loop_y` (Loop): its body is given `y` as FLOAT and makes it FLOAT16 (opset 24)";
    assert_eq!(left(sketch), [problem]);
    let celu = Sketch::new().input("x", Float16, &[4]).node("Celu", &["x"], &["y"], vec![]).output(
        "y",
        Float16,
        &[4],
    );
    let mut model = celu.model();
    model.opset_import[0].version = 13;
    let (report, _) = fix(1, &bytes(&model));
    assert!(
        report["left"][0].as_str().expect("a line").contains("(Celu): takes FLOAT16"),
        "{report}"
    );
}

/// What is known of a sequence is the type of its elements, which is not its own.
#[test]
fn a_sequence_has_no_type_of_tensors() {
    let body = graph(
        &[unshaped("e", Float)],
        &[node("Exp", &["e"], &["f"], vec![])],
        &[unshaped("f", Float)],
    );
    let model = Sketch::new()
        .input("x", Float, &[4])
        .node("SplitToSequence", &["x"], &["s"], vec![])
        .node("SequenceMap", &["s"], &["m"], vec![graph_attribute("body", body)])
        .node("ConcatFromSequence", &["m"], &["y"], vec![int("axis", 0)])
        .output("y", Float, &[4])
        .model();
    assert_eq!(mended(&model).0, [""; 0]);
}

#[test]
fn what_comes_out_of_sequences_and_optionals_has_the_type_that_went_in() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[2])
            .initializer(tensor("w", Float, &[1.0, 2.0]))
            .initializer(raw("i", Int64 as i32, &[], &[0; 8]))
            .cast("x", Float16, "h")
            .output("y", Float, &[2])
    };
    let sum = |sketch: Sketch| sketch.node("Add", &["e", "w"], &["y"], vec![]).model();
    let of_sequence = sketch().node("SequenceConstruct", &["h"], &["s"], vec![]);
    let of_sequence = of_sequence.node("SequenceAt", &["s", "i"], &["e"], vec![]);
    let of_optional = sketch().node("Optional", &["h"], &["o"], vec![]);
    let of_optional = of_optional.node("OptionalGetElement", &["o"], &["e"], vec![]);
    for model in [of_sequence, of_optional] {
        assert_eq!(mended(&sum(model)).0, ["added e_as_FLOAT FLOAT16 FLOAT"]);
    }
    let inserted = sketch()
        .node("SequenceConstruct", &["x"], &["s"], vec![])
        .node("SequenceInsert", &["s", "h"], &["t"], vec![])
        .node("SequenceAt", &["t", "i"], &["y"], vec![]);
    assert_eq!(mended(&inserted.model()).0, ["added h_as_FLOAT FLOAT16 FLOAT"]);
}

#[test]
fn a_function_that_is_sound_with_some_types_alone_is_told() {
    let of_two = |taken: &str| {
        let mut model = Sketch::new()
            .input("x", Float, &[2])
            .cast("x", Float16, "h")
            .node("custom.Sum", &["x"], &["y"], vec![])
            .node("custom.Sum", &["h"], &["z"], vec![])
            .output("y", Float, &[2])
            .output("z", Float16, &[2])
            .model();
        model.functions = vec![FunctionProto {
            name: Some("Sum".into()),
            domain: Some("custom".into()),
            input: vec!["a".into()],
            output: vec!["b".into()],
            opset_import: imports(24),
            node: vec![cast("a", Float, "wide"), node("Add", &[taken, "a"], &["b"], vec![])],
            ..Default::default()
        }];
        model
    };
    mended(&of_two("a"));
    let (report, _) = fix(1, &bytes(&of_two("wide")));
    let problem =
        "node `Sum/Add_b` (Add): mixes FLOAT and FLOAT16 in a call of its function (opset 24)";
    assert_eq!(report["left"], json!([problem]));
}
