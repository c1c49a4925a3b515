//! Files that are made to hurt.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tract_onnx::pb::{FunctionProto, StringStringEntryProto};
use tract_onnx_cast::ElementType;

use crate::common::proto::{Change, external, graph, imports, model, node, raw, value};
use crate::program::*;

fn bytes_in(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = walk(folder);
    files.into_iter().map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect()
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = vec![];
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { files.extend(walk(&entry)) } else { files.push(entry) }
    }
    files.sort();
    files
}

/// Of several locations tract reads the first; where the others lead, somebody else may.
#[test]
fn record_copies_only_the_data_that_is_read() {
    let folder = Folder::new();
    let sound = external(raw("w", 1, &[2], &[]), "ok.bin", None);
    let mut weight = sound.clone();
    let (key, entry) = ("location".into(), "../evil.txt".into());
    weight.external_data.push(StringStringEntryProto { key, value: entry });
    let nodes = [node("Add", &["x", "w"], &["y"], vec![])];
    let float = |name: &str| value(name, ElementType::Float, &[2]);
    let mut graph = graph(&[float("x")], &nodes, &[float("y")]);
    graph.initializer = vec![weight];
    let mut model = model(21, graph);
    let path = folder.message("from/model/m.onnx", &model);
    folder.write("from/model/ok.bin", [0; 8]);
    folder.write("from/evil.txt", "theirs");
    folder.write("to/evil.txt", "mine");
    let golden = folder.text("to/golden");
    let line = refused(&["record", &path, &golden]);
    assert!(line.contains("`location` twice"), "{line}");
    assert!(!folder.path("to/golden").exists());
    assert_eq!(fs::read(folder.path("to/evil.txt")).unwrap(), b"mine");

    model.graph.as_mut().expect("a graph").initializer = vec![sound];
    folder.message("from/model/m.onnx", &model);
    done(&["record", &path, &golden]);
    assert_eq!(fs::read(folder.path("to/evil.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(folder.path("to/golden/ok.bin")).unwrap(), [0; 8]);
    done(&["test", &golden]);
}

/// A header whose brackets would take the parser minutes.
#[test]
fn headers_of_arrays_are_bounded() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &cast_model(21, ElementType::Float, ElementType::Int32));
    for dict in [
        format!("{{'descr': {}'<f4', 'shape': (1,), 'fortran_order': False}}\n", "[".repeat(40)),
        "(".repeat(60_000),
    ] {
        let length = (dict.len() as u16).to_le_bytes();
        let array = [b"\x93NUMPY\x01\x00", &length[..], dict.as_bytes(), &[0; 4]].concat();
        let start = Instant::now();
        let line = refused(&["run", &path, "-i", &format!("x={}", folder.write("x.npy", array))]);
        assert!(line.contains("header"), "{line}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
    let long = [b"\x93NUMPY\x02\x00", &u32::MAX.to_le_bytes()[..], &[b' '; 64]].concat();
    let line = refused(&["run", &path, "-i", &format!("x={}", folder.write("x.npy", long))]);
    assert!(line.contains("header"), "{line}");
}

/// Each call's parts are named after it, and many calls may have one name.
#[test]
fn many_calls_of_one_name_take_no_longer_for_each() {
    let folder = Folder::new();
    let inspect = |calls: usize| {
        let twice = FunctionProto {
            name: Some("Twice".into()),
            domain: Some("own".into()),
            input: vec!["a".into()],
            output: vec!["b".into()],
            node: vec![cast("c", "a", "b", ElementType::Float)],
            opset_import: imports(21),
            ..FunctionProto::default()
        };
        let call = |index: usize| {
            let (from, to) = (format!("v{index}"), format!("v{}", index + 1));
            let mut call = node("Twice", &[&from], &[&to], vec![]).named("same");
            call.domain = "own".into();
            call
        };
        let nodes: Vec<_> = (0..calls).map(call).collect();
        let float = |name: &str| value(name, ElementType::Float, &[1]);
        let mut model = model(21, graph(&[float("v0")], &nodes, &[float(&format!("v{calls}"))]));
        model.functions = vec![twice];
        let path = folder.message("m.onnx", &model);
        let start = Instant::now();
        let report = json(&done(&["inspect", &path, "--json"]));
        assert_eq!(report["casts"].as_array().map(Vec::len), Some(calls));
        start.elapsed()
    };
    let (few, many) = (inspect(800), inspect(8000));
    // Growth of the square would be a hundredfold; the constant part of a process is in both.
    assert!(many < 30 * few, "{few:?} and {many:?}");
}

/// What an earlier run has left is no output of this one.
#[test]
fn run_leaves_only_its_own_outputs() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &cast_model(21, ElementType::Float, ElementType::Int32));
    for (name, stays) in [("output_0.pb", true), ("output_1.pb", false), ("output_x.pb", true)] {
        folder.write(&format!("out/{name}"), "old");
        done(&["run", &path, "-o", &folder.text("out")]);
        assert_eq!(folder.path(&format!("out/{name}")).exists(), stays, "{name}");
    }
    assert!(bytes_in(&folder.path("out")).iter().all(|(path, _)| !path.contains(".onnx-cast-")));
}

/// A link at an output's place is replaced; what it leads to stays.
#[cfg(unix)]
#[test]
fn links_at_outputs_are_not_followed() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &cast_model(21, ElementType::Float, ElementType::Int32));
    folder.write("out/keep.txt", "keep");
    folder.write("precious.txt", "precious");
    std::os::unix::fs::symlink(folder.path("precious.txt"), folder.path("out/output_0.pb"))
        .unwrap();
    done(&["run", &path, "-o", &folder.text("out")]);
    assert_eq!(fs::read(folder.path("precious.txt")).unwrap(), b"precious");
    assert!(!fs::symlink_metadata(folder.path("out/output_0.pb")).unwrap().is_symlink());
}

/// Two at once make two whole sets.
#[test]
fn recordings_at_once_are_whole() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &cast_model(21, ElementType::Float, ElementType::Int32));
    let golden = folder.text("golden");
    done(&["record", &path, &golden]);
    std::thread::scope(|scope| {
        for seed in ["5", "6", "7"] {
            let (path, golden) = (&path, &golden);
            scope.spawn(move || {
                let output = onnx_cast(["record", path, golden, "--seed", seed]);
                assert!(output.status.success(), "{}", stderr(&output));
            });
        }
    });
    let files: Vec<String> = bytes_in(&folder.path("golden")).into_iter().map(|(p, _)| p).collect();
    // The model, and a pair for each set.
    assert_eq!(files.len(), 1 + 2 * 4, "{files:?}");
    assert!(done(&["test", &golden]).ends_with("4 passed, 0 failed\n"));
}

/// A file of holes is no reason to allow more memory.
#[cfg(unix)]
#[test]
fn holes_lift_no_limit() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &large_result());
    let sparse = fs::File::create(folder.path("sparse")).expect("a file");
    sparse.set_len(1 << 40).expect("a length");
    for name in ["again", "oncemore"] {
        std::os::unix::fs::symlink(folder.path("sparse"), folder.path(name)).expect("a link");
    }
    let line = refused(&["run", &path]);
    assert!(line.contains("limit of 4.0 GiB"), "{line}");
}

#[test]
fn what_takes_too_long_is_ended() {
    let folder = Folder::new();
    // More than a teraflop.
    let square = |name: &str| value(name, ElementType::Float, &[4096, 4096]);
    let names: Vec<String> = (0..9).map(|index| format!("v{index}")).collect();
    let product = |pair: &[String]| node("MatMul", &[&pair[0], &pair[0]], &[&pair[1]], vec![]);
    let nodes: Vec<_> = names.windows(2).map(product).collect();
    let graph = graph(&[square("v0")], &nodes, &[square("v8")]);
    let path = folder.message("m.onnx", &model(21, graph));
    let start = Instant::now();
    let line = refused(&["run", &path, "--timeout", "1"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!(line.contains("--timeout of 1 s"), "{line}");
}

/// What is written beside a model goes into the folder of the goldens, not where a link in it
/// leads.
#[cfg(unix)]
#[test]
fn record_follows_no_link_out_of_its_folder() {
    let folder = Folder::new();
    let weight = external(raw("w", 1, &[2], &[]), "sub/w.bin", None);
    let nodes = [node("Add", &["x", "w"], &["y"], vec![])];
    let float = |name: &str| value(name, ElementType::Float, &[2]);
    let mut graph = graph(&[float("x")], &nodes, &[float("y")]);
    graph.initializer = vec![weight];
    let path = folder.message("from/m.onnx", &model(21, graph));
    folder.write("from/sub/w.bin", [0; 8]);
    folder.write("elsewhere/w.bin", "mine");
    folder.write("golden/keep.txt", "keep");
    std::os::unix::fs::symlink(folder.path("elsewhere"), folder.path("golden/sub"))
        .expect("a link");
    let line = refused(&["record", &path, &folder.text("golden")]);
    assert!(line.contains("is a link"), "{line}");
    assert_eq!(fs::read(folder.path("elsewhere/w.bin")).expect("a file"), b"mine");
    assert!(!folder.path("golden/model.onnx").exists());
}

/// Rust's formatting panics at widths beyond 16 bits.
#[test]
fn names_may_be_longer_than_any_column() {
    let folder = Folder::new();
    let name = "Y".repeat(100_000);
    let nodes = [crate::common::proto::cast("x", ElementType::Int32, &name)];
    let graph = graph(
        &[value("x", ElementType::Float, &[1])],
        &nodes,
        &[value(&name, ElementType::Int32, &[1])],
    );
    let path = folder.message("m.onnx", &model(21, graph));
    done(&["inspect", &path]);
    done(&["run", &path]);
}
