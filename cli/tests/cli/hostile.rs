//! Models that are made to hurt: whatever is asked about them is answered, or refused in a line, in little time and memory.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::common::hostile::{crowds, makers};
use crate::program::*;

/// Asks, with a processor for ten seconds and with 1 GiB.
fn ask(name: &str, arguments: &[&str]) -> i32 {
    let output = Command::new("sh")
        .args(["-c", "ulimit -t 10; exec \"$0\" \"$@\""])
        .arg(cargo_bin!("onnx-cast"))
        .args(arguments)
        .args(["--max-memory", "1"])
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let told = stderr(&output);
    let status = output.status.code().unwrap_or_else(|| panic!("{name}: {}", output.status));
    let errors: Vec<&str> = told.lines().filter(|line| !line.starts_with("note: ")).collect();
    match status {
        0 | 1 => assert_eq!(errors.len(), 0, "{name}: {told}"),
        2 => assert_eq!(errors.len(), 1, "{name}: {told}"),
        status => panic!("{name}: status {status}, {told}"),
    }
    // That is how a worker ends that has taken too long, or too much.
    assert!(!told.contains("signal"), "{name}: {told}");
    assert!(!told.contains("ran out of"), "{name}: {told}");
    status
}

#[test]
fn next_to_nothing_does_not_become_enormous() {
    let folder = Folder::new();
    for (name, model) in makers() {
        let path = folder.message("m.onnx", &model);
        let line = refused(&["run", &path, "--max-memory", "1"]);
        assert!(line.contains("`made_elements`"), "{name}: {line}");
        assert_eq!(ask(name, &["audit", &path]), 2, "{name}");
    }
}

#[test]
fn crowds_are_no_danger() {
    // What is about each cast, input or weight takes the longest.
    let looked_at =
        ["short chain", "some open inputs", "some conditions", "initializers", "half precision"];
    for (name, model) in crowds() {
        let folder = Folder::new();
        let path = folder.message("m.onnx", &model);
        ask(&format!("run {name}"), &["run", &path]);
        if looked_at.contains(&name) {
            ask(&format!("inspect {name}"), &["inspect", &path]);
            ask(&format!("audit {name}"), &["audit", &path]);
            ask(&format!("compare {name}"), &["compare", &path, &path]);
        }
    }
}

/// A limit that stands in the way of a sound model can be raised.
#[test]
fn the_limit_of_nodes_can_be_raised() {
    let (_, model) =
        crowds().into_iter().find(|(name, _)| *name == "short chain").expect("a model");
    let folder = Folder::new();
    let path = folder.message("m.onnx", &model);
    done(&["run", &path]);
    let line = refused(&["run", &path, "--max-nodes", "100"]);
    assert!(line.ends_with("; --max-nodes raises it"), "{line}");
    assert!(line.contains("`loaded_nodes`"), "{line}");
}
