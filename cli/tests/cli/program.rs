//! The program as a process, files to give it, and models.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use crate::common::cases::root;
use crate::common::proto::{self, Change, graph, model, raw, shaped, symbol, untyped};

pub fn program() -> Command {
    let mut command = Command::new(cargo_bin!("onnx-cast"));
    command.env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

pub fn onnx_cast<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    program().args(arguments).output().expect("the program starts")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Whether a line tells what is worked on, every ten seconds.
pub fn is_progress(line: &str) -> bool {
    line.starts_with("progress: ")
}

/// Its standard output, given its exit status.
pub fn said(status: i32, arguments: &[&str]) -> String {
    let output = onnx_cast(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
    // What was chosen of inputs that are not given is told, and no concern of most tests.
    let told = stderr(&output);
    let is_told = |line: &&str| !line.contains(": chosen inputs: ") && !is_progress(line);
    let told: Vec<&str> = told.lines().filter(is_told).collect();
    assert!(told.is_empty(), "{arguments:?}: {told:?}");
    stdout(&output)
}

/// Its standard output, given that it did what it was asked.
pub fn done(arguments: &[&str]) -> String {
    said(0, arguments)
}

/// Its one line on standard error, given that it could not do what it was asked.
pub fn refused(arguments: &[&str]) -> String {
    let output = onnx_cast(arguments);
    let line: String = stderr(&output).split_inclusive('\n').filter(|l| !is_progress(l)).collect();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(line.starts_with("error: ") && line.ends_with('\n'), "{arguments:?}: {line:?}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line:?}");
    line.trim_end().into()
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The values of the first output, as `run --json` shows them.
pub fn values(arguments: &[&str]) -> Value {
    json(&done(arguments))["outputs"][0]["values"].clone()
}

pub fn in_repository(path: &str) -> String {
    root().join(path).to_str().expect("UTF-8").into()
}

/// A folder of files that goes away with the test.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").into()
    }

    /// Writes a file, and the folders it is in; returns its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        self.text(name)
    }

    pub fn message(&self, name: &str, message: &impl Message) -> String {
        self.write(name, message.encode_to_vec())
    }

    pub fn tensor(&self, name: &str, ty: ElementType, tensor: impl Into<Tensor>) -> String {
        self.message(name, &tensor_proto::write("t", ty, &tensor.into()).expect("a carrier"))
    }
}

pub fn bytes<const N: usize, T: Copy>(values: &[T], to_bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to_bytes(*value)).collect()
}

/// `y` is `x` cast; both have the shape `[N]`.
pub fn cast_model(opset: i64, from: ElementType, to: ElementType) -> ModelProto {
    let value = |name, ty| shaped(name, ty, vec![symbol("N")]);
    let (x, y) = (value("x", from), value("y", to));
    model(opset, graph(&[x], &[cast("c1", "x", "y", to)], &[y]))
}

pub fn cast(name: &str, from: &str, to: &str, ty: ElementType) -> NodeProto {
    proto::cast(from, ty, to).named(name)
}

/// A model whose node takes the INT64 constant `s` and makes `y`, cast from FLOAT.
pub fn shape_model(op: NodeProto, shape: &[i64]) -> ModelProto {
    let bytes = bytes(shape, i64::to_le_bytes);
    let mut graph = graph(&[], &[op, cast("c1", "t", "y", ElementType::Int32)], &[untyped("y")]);
    graph.initializer =
        vec![raw("s", 7, &[shape.len() as i64], &bytes), raw("f", 1, &[1], &1f32.to_le_bytes())];
    model(13, graph)
}

/// A model whose result, the outer product of an input and a constant, is 64 GiB long.
pub fn large_result() -> ModelProto {
    let side = 1usize << 17;
    let long = side as i64;
    let a = proto::value("a", ElementType::Float, &[long, 1]);
    let product = proto::node("MatMul", &["a", "b"], &["t"], vec![]).named("k");
    let mut graph =
        graph(&[a], &[product, cast("c1", "t", "y", ElementType::Int32)], &[untyped("y")]);
    graph.initializer = vec![raw("b", 1, &[1, long], &vec![0; 4 * side])];
    model(13, graph)
}
