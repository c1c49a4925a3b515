//! Models that are made to hurt: whatever is asked about them is answered, or refused in a line, in
//! little time and memory.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use tract_onnx::pb::{ModelProto, NodeProto, ValueInfoProto};
use tract_onnx_cast::ElementType;

use crate::common::cases::files;
use crate::common::hostile::{crowds, makers};
use crate::common::proto::{graph, model, node, tensor, value};
use crate::program::*;

/// Asks, with a processor for ten seconds and with 1 GiB: the exit status, and what standard error
/// says.
fn answer(name: &str, arguments: &[&str]) -> (i32, String) {
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
    let is_error = |line: &&str| !line.starts_with("note: ") && !is_progress(line);
    let errors: Vec<&str> = told.lines().filter(is_error).collect();
    match status {
        0 | 1 => assert_eq!(errors.len(), 0, "{name}: {told}"),
        2 => assert_eq!(errors.len(), 1, "{name}: {told}"),
        status => panic!("{name}: status {status}, {told}"),
    }
    (status, told)
}

/// Asks what takes neither too long nor too much.
fn ask(name: &str, arguments: &[&str]) -> i32 {
    let (status, told) = answer(name, arguments);
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
        assert!(line.contains("`made_bytes`"), "{name}: {line}");
        // Node by node nothing is folded, and memory is refused at the node that takes too much.
        let (status, told) = answer(name, &["audit", &path]);
        assert!(status == 2 && told.contains("node `"), "{name}: {told}");
    }
}

/// Running a model may take as much as it likes.
#[test]
fn files_are_no_danger() {
    for path in files() {
        let path = path.to_str().expect("UTF-8");
        ask(&format!("inspect {path}"), &["inspect", path]);
        answer(&format!("run {path}"), &["run", path, "--timeout", "5"]);
        answer(&format!("audit {path}"), &["audit", path, "--timeout", "5"]);
    }
}

#[test]
fn crowds_are_no_danger() {
    // What is about each cast, input or weight takes the longest.
    let looked_at = [
        "short chain",
        "some open inputs",
        "some conditions",
        "long names of conditions",
        "initializers",
        "half precision",
    ];
    for (name, model) in crowds() {
        let folder = Folder::new();
        let path = folder.message("m.onnx", &model);
        ask(&format!("run {name}"), &["run", &path]);
        if looked_at.contains(&name) {
            ask(&format!("inspect {name}"), &["inspect", &path]);
            ask(&format!("audit {name}"), &["audit", &path]);
            ask(&format!("compare {name}"), &["compare", &path, &path, "--search", "1"]);
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

/// So many operators in a chain, each fourth of which adds a number: at one place another than
/// everywhere else.
fn long_chain(count: usize, other: Option<usize>) -> ModelProto {
    use ElementType::{Float, Float16};
    let value = |place: usize| match place {
        0 => "x".to_owned(),
        place if place == count => "y".into(),
        place => format!("v{place}"),
    };
    let step = |place: usize| {
        let (from, to) = (value(place), value(place + 1));
        match place % 4 {
            0 => node("Neg", &[&from], &[&to], vec![]),
            1 => cast(&to, &from, &to, Float16),
            2 => cast(&to, &from, &to, Float),
            _ if other == Some(place) => node("Add", &[&from, "two"], &[&to], vec![]),
            _ => node("Add", &[&from, "one"], &[&to], vec![]),
        }
    };
    let nodes: Vec<NodeProto> = (0..count).map(step).collect();
    let mut graph = graph(&[valued("x")], &nodes, &[valued("y")]);
    graph.initializer = vec![tensor("one", Float, &[0.5]), tensor("two", Float, &[0.7])];
    model(19, graph)
}

fn valued(name: &str) -> ValueInfoProto {
    value(name, ElementType::Float, &[8])
}

/// Where outputs fail, every value of both models is looked at.
#[test]
fn a_failing_comparison_of_a_long_chain_takes_little_longer_than_its_runs() {
    const COUNT: usize = 5000;
    let (folder, fault) = (Folder::new(), COUNT / 2 / 4 * 4 + 3);
    let a = folder.message("a.onnx", &long_chain(COUNT, None));
    let b = folder.message("b.onnx", &long_chain(COUNT, Some(fault)));
    let report = folder.text("report.json");
    let json_to = format!("--json={report}");
    let arguments = ["compare", &a, &b, "--rtol", "1e-3", "--max-nodes", "100000", &json_to];
    assert_eq!(ask("chain", &arguments), 1);
    let report = json(&std::fs::read_to_string(report).expect("a report"));
    let named = &report["comparisons"][0]["first_difference"]["node"];
    assert_eq!(*named, format!("Add_v{}", fault + 1));
}
