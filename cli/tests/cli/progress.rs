//! What a terminal is told while the work goes on.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use tract_onnx_cast::ElementType::{Float, Float16};

use crate::common::hostile::crowds;
use crate::program::{Folder, cast_model, in_repository};

#[test]
fn a_terminal_is_told_which_model_is_at_what() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &cast_model(13, Float, Float16));
    let (b, c) = (folder.text("b.onnx"), folder.text("c.onnx"));
    for copy in [&b, &c] {
        std::fs::copy(&a, copy).expect("a copy");
    }
    // Enough sets to be seen at it.
    let shown = shown(&format!("compare {a} {b} {c} --sets 400"));
    for (done, model) in [("0/2", "b.onnx"), ("1/2", "c.onnx")] {
        let is_told = |line: &str| {
            line.contains(done) && line.contains("running on seed") && line.contains(model)
        };
        assert!(shown.split(['\r', '\n']).any(is_told), "{model}: {shown}");
    }
}

#[test]
fn a_terminal_is_told_that_a_model_runs() {
    let (_, model) =
        crowds().into_iter().find(|(name, _)| *name == "a loop without end").expect("a model");
    let folder = Folder::new();
    let file = folder.message("m.onnx", &model);
    for arguments in ["", " --engine nodes"] {
        let shown = shown(&format!("run {file}{arguments}"));
        assert!(shown.split(['\r', '\n']).any(|line| line.contains("running")), "{shown}");
    }
}

/// What is walked through several times says which time it is. A terminal is not shown each.
#[test]
fn a_terminal_is_told_which_walk_it_is() {
    let model = |name: &str| in_repository(&format!("models/whole/{name}/model.onnx"));
    let [a, b] = ["rms_norm_FLOAT", "rms_norm_FLOAT16"].map(model);
    let shown = shown(&format!("compare {a} {b} --sets 40"));
    let number = |told: &str| told.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let walks = shown.split("looking for where errors arise, walk ").skip(1);
    let walks: Vec<usize> = walks.filter_map(number).collect();
    assert!(walks.is_sorted() && walks.iter().all(|walk| *walk > 1), "{walks:?}: {shown}");
    assert!(walks.last().is_some_and(|last| *last > 2), "{walks:?}: {shown}");
}

/// Of many sets there are more runs than a search may take.
#[test]
fn a_terminal_is_told_how_many_runs_there_are_at_most() {
    let model = in_repository("models/whole/torch_attention_dynamo/model.onnx");
    for (sets, most) in [(3, 90), (100, 200)] {
        let shown = shown(&format!("keep {model} --to FLOAT16 --sets {sets}"));
        let told = shown.split(['\r', '\n']).filter_map(|line| {
            let (run, most) = line.split_once("run ")?.1.split_once(" of at most ")?;
            let most = most.split(|c: char| !c.is_ascii_digit()).next()?;
            Some((run.parse::<usize>().ok()?, most.parse::<usize>().ok()?))
        });
        let told: Vec<(usize, usize)> = told.collect();
        assert!(told.iter().any(|(run, _)| *run > 1) && told.is_sorted(), "{told:?}: {shown}");
        assert!(told.iter().all(|(run, of)| run <= of && *of == most), "{sets} sets: {told:?}");
    }
}

/// What a terminal shows of a call.
fn shown(arguments: &str) -> String {
    let call = format!("stty cols 120; {} {arguments}", cargo_bin!("onnx-cast").display());
    let mut script = Command::new("script");
    script.args(["-qec", &call, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm");
    let output = script.output().expect("script starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
