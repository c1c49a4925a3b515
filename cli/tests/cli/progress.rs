//! What a terminal is told while the work goes on.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use tract_onnx_cast::ElementType::{Float, Float16};

use crate::program::{Folder, cast_model};

#[test]
fn a_terminal_is_told_which_model_is_at_what() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &cast_model(13, Float, Float16));
    let (b, c) = (folder.text("b.onnx"), folder.text("c.onnx"));
    for copy in [&b, &c] {
        std::fs::copy(&a, copy).expect("a copy");
    }
    let program = cargo_bin!("onnx-cast");
    // Enough sets to be seen at it.
    let call = format!("stty cols 120; {} compare {a} {b} {c} --sets 400", program.display());
    let mut script = Command::new("script");
    script.args(["-qec", &call, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm");
    let output = script.output().expect("script starts");
    let shown = String::from_utf8_lossy(&output.stdout);
    for (done, model) in [("0/2", "b.onnx"), ("1/2", "c.onnx")] {
        let is_told = |line: &str| {
            line.contains(done) && line.contains("running on seed") && line.contains(model)
        };
        assert!(shown.split(['\r', '\n']).any(is_told), "{model}: {shown}");
    }
}
