//! What an error is about, for programs: `--json` tells a wrong call from an invalid model.

use serde_json::{Value, json};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Float, Float16};

use crate::program::{Folder, cast_model, in_repository, json, onnx_cast, stderr, stdout};

/// The error of a call that cannot be done, and its line on standard error.
fn error(arguments: &[&str]) -> Value {
    let output = onnx_cast(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let answer = json(&stdout(&output));
    let line = stderr(&output);
    assert_eq!(answer["schema"], "onnx-cast/error/1", "{arguments:?}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert_eq!(line.trim_end(), format!("error: {message}"), "{arguments:?}");
    answer["error"].clone()
}

#[test]
fn json_says_what_an_error_is_about() {
    let folder = Folder::new();
    let model = &folder.message("m.onnx", &cast_model(13, Float, Float16));
    let broken = &folder.write("broken.onnx", "no model");
    let wrong = &folder.tensor("x.pb", Float, tensor1(&[1f32]).into_shape(&[1, 1]).expect("two"));
    let limits = &folder.write("limits.toml", "[audit]\nmisspelt = 3\n");
    let input = &format!("x={wrong}");
    let nowhere = &folder.text("none/of/these");
    let kind = |arguments: &[&str]| error(arguments)["kind"].clone();
    for command in ["run", "inspect", "audit", "keep --to FLOAT16"] {
        let words: Vec<&str> = command.split(' ').collect();
        let of = |rest: &[&str]| kind(&[&words, rest, &["--json"][..]].concat());
        assert_eq!(of(&[broken]), "model", "{command}");
        assert_eq!(of(&[nowhere]), "model", "{command}");
        assert_eq!(of(&[model, "--wrong"]), "call", "{command}");
        if command != "inspect" {
            assert_eq!(of(&[model, "-i", input]), "input", "{command}");
            assert_eq!(of(&[model, "-i", "z=none.npy"]), "input", "{command}");
        }
    }
    assert_eq!(kind(&["compare", model, broken, "--json"]), "model");
    assert_eq!(kind(&["compare", model, model, "-i", input, "--json"]), "input");
    assert_eq!(kind(&["audit", model, "--tolerance", limits, "--json"]), "call");
    assert_eq!(kind(&["audit", model, "--allow", "overflow", "--json"]), "call");
    assert_eq!(kind(&["run", model, "--json", "-o", &format!("{nowhere}/y.npy")]), "call");
    let large = &folder.message("large.onnx", &crate::program::large_result());
    assert_eq!(kind(&["run", large, "--max-memory", "1", "--json"]), "limit");
}

/// Of several models one may be unusable: the answer is about all of them.
#[test]
fn each_model_has_its_own_error() {
    let folder = Folder::new();
    let broken = folder.write("broken.onnx", "no model");
    let sound = in_repository("models/whole/rms_norm_FLOAT16_fixed/model.onnx");
    let output = onnx_cast(["audit", &sound, &broken, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let answer = json(&stdout(&output));
    assert_eq!(answer["schema"], "onnx-cast/audit/1");
    assert_eq!(answer["models"][0]["error"], Value::Null);
    assert_eq!(answer["models"][1]["error"]["kind"], json!("model"));
    assert_eq!(answer["models"][1]["error"]["message"], answer["models"][1]["problem"]);
}
