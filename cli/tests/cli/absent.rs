//! Data beside a model that is not there, or not all of it: every command says which, at once.

use tract_onnx::pb::{ModelProto, StringStringEntryProto, TensorProto};
use tract_onnx_cast::ElementType::Float;

use crate::common::proto::{graph, model, node, tensor, value};
use crate::program::{Folder, onnx_cast, refused, stderr, stdout};

/// So many products by weights of some rows and 64 columns each, of which all are in one file.
fn products(count: usize, rows: i64) -> ModelProto {
    let value_at = |place: usize| format!("v{place}");
    let weight = |place: usize| {
        let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
        let bytes = rows as usize * 64 * 4;
        TensorProto {
            dims: vec![rows, 64],
            data_location: Some(1),
            external_data: vec![
                entry("location", "model.data".into()),
                entry("offset", (place * bytes).to_string()),
                entry("length", bytes.to_string()),
            ],
            ..tensor(&format!("w{place}"), Float, &[])
        }
    };
    let product = |place: usize| {
        let (from, to, by) = (value_at(place), value_at(place + 1), format!("w{place}"));
        node("Gemm", &[&from, &by], &[&to], vec![])
    };
    let nodes: Vec<_> = (0..count).map(product).collect();
    let (x, y) = (value("v0", Float, &[1, rows]), value(&value_at(count), Float, &[1, 64]));
    let mut main = graph(&[x], &nodes, &[y]);
    main.initializer = (0..count).map(weight).collect();
    model(17, main)
}

/// The calls that read a model's weights, and what makes of them what it writes.
fn calls<'a>(file: &'a str, whole: &'a str, made: &'a str) -> [Vec<&'a str>; 11] {
    [
        vec!["run", file],
        vec!["run", file, "--engine", "plan"],
        vec!["run", file, "--engine", "nodes"],
        vec!["audit", file],
        vec!["compare", file, whole],
        vec!["compare", whole, file],
        vec!["compare", whole, file, "--weights-only"],
        vec!["keep", file, "--to", "FLOAT16"],
        vec!["convert", file, "--to", "FLOAT16", "-o", made],
        vec!["convert", file, "--to", "FLOAT16", "-o", made, "--unverified"],
        vec!["convert", file, "--weights", "INT8", "-o", made],
    ]
}

fn check(folder: &Folder, name: &str, told: &str) {
    let (file, whole) = (folder.text(name), folder.text("whole/model.onnx"));
    let made = folder.text("made.onnx");
    for call in calls(&file, &whole, &made) {
        let line = refused(&call);
        assert!(line.contains(told) && line.contains(&format!("{file}: ")), "{call:?}: {line}");
        assert_eq!(line.matches("tensor `").count(), 1, "{call:?}: {line}");
        assert!(!line.contains("--unverified") && !line.contains("weight `"), "{call:?}: {line}");
    }
}

/// What is missing is told also where it would be more than a model may have.
#[test]
fn a_file_that_is_missing_or_empty_is_named() {
    let folder = Folder::new();
    folder.message("whole/model.onnx", &products(4, 64));
    folder.write("whole/model.data", vec![0; 4 * 64 * 64 * 4]);
    for (name, rows) in [("few", 64), ("many", 2 << 20)] {
        let file = format!("{name}/model.onnx");
        folder.message(&file, &products(1, rows));
        let missing = "tensor `w0`: FLOAT external data \"model.data\": No such file";
        check(&folder, &file, missing);
        let inspected = onnx_cast(["inspect", &folder.text(&file)]);
        assert!(inspected.status.success() && stderr(&inspected).contains(missing));
        folder.write(&format!("{name}/model.data"), "");
        check(&folder, &file, "tensor `w0`: FLOAT external data holds 0 bytes from offset 0");
    }
}

#[test]
fn a_file_that_is_cut_off_is_told_once() {
    let folder = Folder::new();
    folder.message("whole/model.onnx", &products(4, 64));
    folder.write("whole/model.data", vec![0; 4 * 64 * 64 * 4]);
    folder.message("cut/model.onnx", &products(4, 64));
    folder.write("cut/model.data", vec![0; 20_000]);
    let told = "tensor `w1`: FLOAT external data holds 3616 bytes from offset 16384, \
                the dimensions ask for 16384";
    check(&folder, "cut/model.onnx", told);
    let inspected = onnx_cast(["inspect", &folder.text("cut/model.onnx")]);
    let notes = stderr(&inspected);
    assert!(inspected.status.success() && stdout(&inspected).contains("no Cast"), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert!(notes.contains(told) && notes.ends_with("; the same of 2 other tensors\n"), "{notes}");
}
