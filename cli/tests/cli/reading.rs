//! What people read: names, long lists, mistyped calls, and where files go.

use std::fs;

use serde_json::json;
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{self, Double, Float, Float16, Int64};

use crate::common::proto::{graph, model, node, value};
use crate::program::*;

/// FLOAT to FLOAT16 and back, so many times; the names are long and differ in their last letters
/// only.
fn chain(folder: &Folder, name: &str, casts: usize) -> String {
    let title = |index: usize| {
        format!("/model/encoder/layers/a_very_long_name_of_a_normalisation/Cast_{index:05}")
    };
    let node = |index: usize| {
        let to = if index.is_multiple_of(2) { Float16 } else { Float };
        cast(&title(index), &format!("v{index}"), &format!("v{}", index + 1), to)
    };
    let nodes: Vec<NodeProto> = (0..casts).map(node).collect();
    let last =
        value(&format!("v{casts}"), if casts.is_multiple_of(2) { Float } else { Float16 }, &[2]);
    folder.message(name, &model(13, graph(&[value("v0", Float, &[2])], &nodes, &[last])))
}

#[test]
fn names_are_whole_in_a_pipe() {
    let folder = Folder::new();
    let onnx = chain(&folder, "m.onnx", 4);
    // By default casts that change nothing are only counted.
    for arguments in [&["audit", &onnx, "--top", "21"][..], &["inspect", &onnx]] {
        let text = done(arguments);
        for index in 0..4 {
            assert!(text.contains(&format!("a_normalisation/Cast_{index:05} ")), "{text}");
        }
    }
}

#[test]
fn long_lists_fold() {
    let folder = Folder::new();
    let (long, bare) = (chain(&folder, "long.onnx", 500), chain(&folder, "bare.onnx", 0));
    let text = done(&["audit", &long]);
    assert!(text.contains("… and 499 more, none of which spoiled a value"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
    assert!(done(&["audit", &long, "--top", "600"]).lines().count() > 500);
    let quiet = done(&["audit", &long, "--quiet"]);
    assert!(
        quiet.starts_with("PASS  ") && quiet.contains("every cast is within its limits\n"),
        "{quiet}"
    );
    // No output is shared by name, and the shapes are the same.
    let text = said(1, &["compare", &bare, &long]);
    assert!(text.contains("\n… and 480 more (--top N shows more, --json all)"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
}

#[test]
fn casts_that_change_nothing_share_a_line() {
    let folder = Folder::new();
    let idle = |name: &str, count: usize| {
        let casts = (0..count)
            .map(|i| cast(&format!("idle{i}"), &format!("v{i}"), &format!("v{}", i + 1), Float));
        let nodes: Vec<NodeProto> =
            casts.chain([cast("c", &format!("v{count}"), "y", Float16)]).collect();
        folder.message(
            name,
            &model(13, graph(&[value("v0", Float, &[2])], &nodes, &[value("y", Float16, &[2])])),
        )
    };
    let (some, none) = (idle("some.onnx", 26), idle("none.onnx", 0));
    let text = done(&["compare", &some, &none]);
    assert!(
        text.contains(
            "26 casts of a type to itself removed: `idle0`, `idle1`, `idle2` and 23 more"
        ),
        "{text}"
    );
    assert_eq!(text.matches("removed").count(), 1, "{text}");
    let text = done(&["audit", &some]);
    assert!(text.contains("note: 26 casts cast a type to itself: `idle0`"), "{text}");
}

#[test]
fn a_failure_shows_the_tolerance_and_the_damage_before_the_drift() {
    let [original, broken] = ["rms_norm_FLOAT", "rms_norm_FLOAT16"]
        .map(|name| in_repository(&format!("models/whole/{name}")));
    let text = said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--atol", "1e-2"]);
    assert!(
        text.lines().next().is_some_and(|line| {
            line.starts_with("FAIL  ")
                && line.ends_with(
                    "1 of 1 output beyond the tolerance: rtol 0.01, atol 0.01; by its arithmetic imprecise",
                )
        }),
        "{text}"
    );
    let place = |words: &str| text.find(words).expect(words);
    assert!(
        place("that the reference does not have: `norm`")
            < place("first mismatching tensor: `squares`"),
        "{text}"
    );
    let text = said(1, &["compare", &original, &broken]);
    assert!(
        text.contains(": imprecise: its types explain the error, but output `scores`"),
        "{text}"
    );
}

#[test]
fn mistyped_calls_are_told_what_there_is() {
    for (arguments, words) in [
        (&["inspekt"][..], "'inspect'"),
        (&["audit", "m.onnx", "--alow", "wrapped"], "'--allow'"),
        (&["audit", "m.onnx", "--allow", "overflow"], "overflowed"),
        (&["run", "-"], "standard"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(words) || words == "standard", "{line}");
    }
}

#[test]
fn a_report_of_any_name_may_follow_after_a_space() {
    let folder = Folder::new();
    let (onnx, out) = (chain(&folder, "m.onnx", 2), folder.text("out.dat"));
    for _ in 0..2 {
        let text = done(&["audit", &onnx, "--json", &out]);
        assert!(text.contains("within its limits"), "{text}");
        json(&fs::read_to_string(&out).expect("JSON"));
    }
    // What is read is never taken for what is written.
    let other = folder.text("other.bin");
    fs::copy(&onnx, &other).expect("copied");
    assert_eq!(json(&done(&["audit", "--json", &other]))["models"][0]["model"], json!(other));
    assert!(
        refused(&["audit", &onnx, "--json", &folder.text("missing.onnx")]).contains("missing.onnx")
    );
    assert!(refused(&["audit", &onnx, "--json", &folder.text("missing")]).contains("missing"));
}

#[test]
fn folders_stand_for_their_models() {
    let folder = in_repository("models/whole/rms_norm_FLOAT16_fixed");
    assert_eq!(done(&["inspect", &folder]), done(&["inspect", &format!("{folder}/model.onnx")]));
    let run = json(&done(&["run", &folder, "--json"]));
    assert_eq!(
        (&run["inputs"]["origin"], &run["outputs"][0]["shape"]),
        (&json!("given"), &json!([2, 4]))
    );
    let onnx = format!("{folder}/model.onnx");
    assert_eq!(json(&done(&["run", &onnx, "-i", &folder, "--json"])), run);
    assert!(refused(&["run", &folder, "--seed", "3"]).contains("--seed"));
    let models = in_repository("models");
    assert!(refused(&["run", &models]).contains("neither a file nor a folder with a model.onnx"));
    let goldens = Folder::new();
    done(&["record", &folder, &goldens.text("g"), "--sets", "2"]);
    assert!(refused(&["run", &folder, "-i", &goldens.text("g")]).contains("2 sets"));
}

#[test]
fn outputs_go_to_numpy_files_and_come_back() {
    for ty in [
        Float,
        Double,
        Float16,
        Int64,
        ElementType::Bool,
        ElementType::BFloat16,
        ElementType::Float8E4M3FN,
        ElementType::Int4,
    ] {
        let folder = Folder::new();
        let onnx = folder.message("m.onnx", &cast_model(28, ty, ty));
        let run = |arguments: &[&str]| {
            let mut words = vec!["run", &onnx, "--json"];
            words.extend(arguments);
            json(&done(&words))["outputs"][0].clone()
        };
        let (array, archive) = (folder.text("y.npy"), folder.text("y.npz"));
        let written = run(&["--set", "N=5", "-o", &array]);
        run(&["--set", "N=5", "-o", &archive]);
        assert_eq!(run(&["-i", &format!("x={array}")]), written, "{ty}");
        assert!(!done(&["compare", &archive, &archive]).is_empty());
        assert!(folder.path("y.npz").is_file());
    }
    let folder = Folder::new();
    let nodes = [cast("a", "x", "y", Float16), cast("b", "x", "z", Float16)];
    let outputs = [value("y", Float16, &[2]), value("z", Float16, &[2])];
    let two =
        folder.message("m.onnx", &model(13, graph(&[value("x", Float, &[2])], &nodes, &outputs)));
    assert!(
        refused(&["run", &two, "-o", &folder.text("y.npy")])
            .contains("holds one output, the model has 2")
    );
}

#[test]
fn floats_of_another_type_are_cast_and_that_is_said() {
    let folder = Folder::new();
    folder.message(
        "case/model.onnx",
        &model(
            13,
            graph(
                &[value("x", Float16, &[2])],
                &[node("Neg", &["x"], &["y"], vec![])],
                &[value("y", Float16, &[2])],
            ),
        ),
    );
    folder.tensor("case/input_0.pb", Float, tensor1(&[1f32, 2.5]));
    let expected = tract_onnx_cast::from_f32(&tensor1(&[-1f32, -2.5]), Float16, Default::default())
        .expect("numbers");
    folder.tensor("case/output_0.pb", Float16, expected);
    let output = onnx_cast(["test", &folder.text("case")]);
    assert_eq!(
        (output.status.code(), stdout(&output).lines().last()),
        (Some(0), Some("1 passed, 0 failed"))
    );
    assert!(
        stderr(&output)
            .contains("input `x` is given as FLOAT, the model takes FLOAT16: its values are cast")
    );
    let double = folder.message("d.onnx", &cast_model(13, Double, Float));
    let x = format!("x={}", folder.tensor("x.pb", Float, tensor1(&[1f32])));
    let report = json(&done(&["audit", &double, "-i", &x, "--json"]));
    assert_eq!(
        report["models"][0]["notes"],
        json!(["input `x` is given as FLOAT, the model takes DOUBLE: its values are cast"])
    );
}
