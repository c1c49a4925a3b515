//! What is wrong with a call is told before a model is loaded and run.

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::tensor1;
use tract_onnx_cast::ElementType::Float;

use crate::common::proto::{graph, model, node, unshaped, untyped};
use crate::program::{Folder, cast_model, large_result, onnx_cast, refused, stderr, stdout};

/// A model that no run of comes to an end; of two outputs.
fn too_large() -> ModelProto {
    let mut model = large_result();
    model.graph.as_mut().expect("a graph").output.push(untyped("t"));
    model
}

#[test]
fn where_nothing_can_be_written_is_told_first() {
    let folder = Folder::new();
    let file = folder.message("m.onnx", &too_large());
    let (none, taken) = (folder.text("none/x.npz"), folder.write("taken", ""));
    let (inside, below) = (format!("{taken}/x.npz"), format!("{taken}/below/case"));
    std::fs::create_dir(folder.path("folder.html")).expect("a folder");
    let page = folder.text("folder.html");
    let json = format!("--json={page}");
    let (single, around) = (folder.text("x.npy"), folder.text(""));
    let no_folder = "there is no folder";
    for (call, told) in [
        (vec!["run", &file, "-o", &none], no_folder),
        (vec!["run", &file, "-o", &inside], "Not a directory"),
        (vec!["run", &file, "-o", &below], "Not a directory"),
        (vec!["run", &file, "-o", &taken], "taken: is no folder"),
        (vec!["run", &file, "-o", &single], "a .npy holds one output, the model has 2"),
        (vec!["audit", &file, "--report", &page], "is a folder"),
        (vec!["compare", &file, &file, "--report", &page], "is a folder"),
        (vec!["compare", &file, &file, "--report", &inside], "Not a directory"),
        (vec!["record", &file, &below], "Not a directory"),
        (vec!["reduce", &file, &file, "-o", &below], "Not a directory"),
        (vec!["keep", &file, "--to", "FLOAT16", &json], "is a folder"),
        (vec!["keep", &file, "--to", "FLOAT16", "--keep-inputs", &below], "Not a directory"),
        (vec!["keep", &file, "--to", "FLOAT16", "--keep-inputs", &around], "is not empty"),
        (vec!["compare", &file, &file, "--keep-inputs", &below], "Not a directory"),
        (vec!["compare", &file, &file, "--keep-inputs", &around], "is not empty"),
    ] {
        let line = refused(&call);
        assert!(line.contains(told), "{call:?}: {line}");
    }
    // Nothing was run.
    let none = folder.text("none/x.xml");
    let tested = onnx_cast(["test", &folder.text(""), "--junit", &none]);
    assert!(stdout(&tested).is_empty() && stderr(&tested).contains(no_folder), "{tested:?}");
    let left = std::fs::read_dir(folder.path("")).expect("a folder").count();
    assert_eq!(left, 3, "nothing is left behind");
}

/// Not to somebody who may write anywhere, as in many containers.
#[test]
fn where_no_tolerance_can_be_written_is_told_first() {
    let folder = Folder::new();
    let file = folder.message("closed/m.onnx", &too_large());
    let closed = folder.path("closed");
    let permissions = std::fs::metadata(&closed).expect("a folder").permissions();
    let mut readonly = permissions.clone();
    readonly.set_readonly(true);
    std::fs::set_permissions(&closed, readonly).expect("a folder of ours");
    if std::fs::write(closed.join("x"), "").is_err() {
        let line = refused(&["compare", &file, &file, "--suggest-tolerance"]);
        assert!(line.contains("--suggest-tolerance") && line.contains("Permission"), "{line}");
    }
    std::fs::set_permissions(&closed, permissions).expect("a folder of ours");
}

/// That an option can be written is tried without a trace, and what is there stays until then.
#[test]
fn what_is_there_stays_until_there_is_something_else() {
    let folder = Folder::new();
    let file = folder.message("m.onnx", &too_large());
    let there = folder.write("there.npz", "as it was");
    refused(&["run", &file, "-o", &there]);
    assert_eq!(std::fs::read(&there).expect("a file"), b"as it was");
    assert_eq!(std::fs::read_dir(folder.path("")).expect("a folder").count(), 2);
}

#[test]
fn an_input_that_is_none_is_told_before_a_plan_is_made() {
    let folder = Folder::new();
    let x = folder.tensor("x.pb", Float, tensor1(&[1f32, 2.0]));
    // A plan does not load it.
    let determinant = node("Det", &["x"], &["y"], vec![]);
    let main = graph(&[unshaped("x", Float)], &[determinant], &[unshaped("y", Float)]);
    let file = folder.message("m.onnx", &model(17, main));
    let run =
        |name: &str| refused(&["run", &file, "--engine", "plan", "-i", &format!("{name}={x}")]);
    assert!(run("z").contains("the model has no input `z`; its inputs: `x`"), "{}", run("z"));
    assert!(run("x").contains("in no plan"), "{}", run("x"));
    // What was read early is what runs.
    let cast = folder.message("cast.onnx", &cast_model(13, Float, Float));
    let run = onnx_cast(["run", &cast, "-i", &format!("x={x}")]);
    assert!(run.status.success() && stdout(&run).ends_with("[2]  1.0 2.0\n"), "{}", stdout(&run));
}
