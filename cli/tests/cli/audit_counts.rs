//! What an audit counts, against counts that share no code with it: those beside the models of
//! models/audit, which scripts/audit_cases.py makes with rational numbers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::cases::root;
use crate::common::proto::{Sketch, int, tensor};
use crate::program::{Folder, json, said};
use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use tract_onnx_cast::ElementType::{Float, Uint8};

fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("models/audit")).expect("models/audit");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder").path()).collect();
    folders.sort();
    folders
}

/// The JSON that the program writes for a model and the inputs beside it.
fn audited(folder: &PathBuf) -> Value {
    let mut command = Command::new(cargo_bin!("onnx-cast"));
    command.arg("audit").arg(folder).arg("--json");
    let output = command.output().expect("the program starts");
    let status = output.status.code();
    assert!(
        matches!(status, Some(0 | 1)),
        "{folder:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Whether two numbers are the same but for the rounding of a few steps.
fn is_near(got: &Value, want: &Value) -> bool {
    match (got.as_f64(), want.as_f64()) {
        (Some(got), Some(want)) => (got - want).abs() <= want.abs() * 1e-14,
        _ => got == want,
    }
}

#[test]
fn counts_are_the_independent_ones_for_every_pair_of_types() {
    let (mut pairs, mut wrong) = (0, vec![]);
    for folder in folders() {
        let text = fs::read_to_string(folder.join("counts.json")).expect("the counts");
        let wanted: Value = serde_json::from_str(&text).expect("JSON");
        let report = audited(&folder);
        let casts = report["models"][0]["casts"].as_array().expect("casts").clone();
        let wanted = wanted.as_object().expect("an object");
        assert_eq!(casts.len(), wanted.len(), "{folder:?}");
        for (node, want) in wanted {
            let got = casts.iter().find(|cast| cast["node"] == node.as_str()).expect("the node");
            pairs += 1;
            let outcomes = got["outcomes"].as_object().expect("outcomes");
            let differs = |(outcome, count): (&String, &Value)| {
                *count != want["outcomes"].get(outcome).cloned().unwrap_or(0.into())
            };
            let mut complain = |key: &str, got: &Value, want: &Value| {
                wrong.push(format!("{folder:?} {node}: {key} is {got}, not {want}"));
            };
            if outcomes.iter().any(differs) {
                complain("outcomes", &got["outcomes"], &want["outcomes"]);
            }
            let errors = ["max_abs", "max_rel", "max_ulp", "min", "max"];
            let counts = ["elements", "became_subnormal", "sign_lost"];
            let (source, wanted_source) = (&got["source"], &want["source"]);
            let of_source = ["zeros", "nans", "infinities", "log2", "min", "max"];
            let of_source = of_source.map(|key| (key, &source[key], &wanted_source[key]));
            let own = counts.into_iter().chain(["max_abs", "max_rel", "max_ulp"]);
            for (key, got, want) in own.map(|key| (key, &got[key], &want[key])).chain(of_source) {
                let same = if errors.contains(&key) { is_near(got, want) } else { got == want };
                if !same {
                    complain(key, got, want);
                }
            }
        }
    }
    assert!(pairs >= 26 * 26, "{pairs}");
    assert!(wrong.is_empty(), "{} of {pairs} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is rounded before it is quantised is no cast of the model's.
#[test]
fn a_quantiser_of_a_narrow_precision_is_one_row() {
    let folder = Folder::new();
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .initializer(tensor("s", Float, &[0.5]))
        .node("QuantizeLinear", &["x", "s"], &["y"], vec![int("precision", 16)])
        .output("y", Uint8, &[4]);
    let model = folder.message("m.onnx", &sketch.model());
    for engine in ["nodes", "plan"] {
        let report = json(&said(0, &["audit", &model, "--engine", engine, "--json"]));
        let casts = report["models"][0]["casts"].as_array().expect("rows");
        assert_eq!(casts.len(), 1, "{report}");
        assert_eq!(
            (&casts[0]["node"], &casts[0]["from"]),
            (&json!("QuantizeLinear_y"), &json!("FLOAT"))
        );
    }
}
