//! The command line, through the real program: what scripts rely on, and what it makes of files
//! that are not sound.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;
use tract_onnx::pb::attribute_proto::AttributeType;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::type_proto;
use tract_onnx::pb::*;
use tract_onnx::prelude::*;
use tract_onnx_cast::format::Specials;
use tract_onnx_cast::{ElementType, Family, tensor_proto};

// ---- The program ----

fn onnx_cast<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(cargo_bin!("onnx-cast"));
    command.args(arguments).env_remove("NO_COLOR").stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Its standard output, given that it did what it was asked.
fn done(arguments: &[&str]) -> String {
    let output = onnx_cast(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{arguments:?}");
    stdout(&output)
}

/// Its one line on standard error, given that it could not do what it was asked.
fn refused(arguments: &[&str]) -> String {
    let output = onnx_cast(arguments);
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(line.starts_with("error: ") && line.ends_with('\n'), "{arguments:?}: {line:?}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line:?}");
    line.trim_end().into()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The values of the first output, as `run --json` shows them.
fn values(arguments: &[&str]) -> Value {
    json(&done(arguments))["outputs"][0]["values"].clone()
}

fn in_repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).to_str().expect("UTF-8").into()
}

// ---- Models ----

fn dim(size: i64) -> Dimension {
    Dimension { value: Some(dimension::Value::DimValue(size)), ..Dimension::default() }
}

fn symbol(name: &str) -> Dimension {
    Dimension { value: Some(dimension::Value::DimParam(name.into())), ..Dimension::default() }
}

fn value(name: &str, ty: i32, dims: Vec<Dimension>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim: dims });
    let tensor = type_proto::Tensor { elem_type: ty, shape };
    let r#type =
        TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: name.into(), r#type: Some(r#type), ..ValueInfoProto::default() }
}

fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        name: name.into(),
        op_type: op.into(),
        input: inputs.iter().map(|name| name.to_string()).collect(),
        output: outputs.iter().map(|name| name.to_string()).collect(),
        ..NodeProto::default()
    }
}

fn int(name: &str, value: i64) -> AttributeProto {
    let r#type = AttributeType::Int as i32;
    AttributeProto { name: name.into(), i: value, r#type, ..AttributeProto::default() }
}

fn text(name: &str, value: &str) -> AttributeProto {
    let r#type = AttributeType::String as i32;
    AttributeProto { name: name.into(), s: value.into(), r#type, ..AttributeProto::default() }
}

trait With {
    fn with(self, attribute: AttributeProto) -> Self;
}

impl With for NodeProto {
    fn with(mut self, attribute: AttributeProto) -> NodeProto {
        self.attribute.push(attribute);
        self
    }
}

fn cast(name: &str, from: &str, to: &str, ty: ElementType) -> NodeProto {
    node(name, "Cast", &[from], &[to]).with(int("to", ty as i64))
}

fn graph(inputs: &[ValueInfoProto], nodes: &[NodeProto], outputs: &[ValueInfoProto]) -> GraphProto {
    GraphProto {
        name: "g".into(),
        input: inputs.to_vec(),
        node: nodes.to_vec(),
        output: outputs.to_vec(),
        ..GraphProto::default()
    }
}

fn model(opset: i64, graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: 10,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: opset }],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// `y` is `x` cast; both have the shape `[N]`.
fn cast_model(opset: i64, from: ElementType, to: ElementType) -> ModelProto {
    let (x, y) =
        (value("x", from as i32, vec![symbol("N")]), value("y", to as i32, vec![symbol("N")]));
    model(opset, graph(&[x], &[cast("c1", "x", "y", to)], &[y]))
}

// ---- Files ----

/// A folder of files that goes away with the test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").into()
    }

    /// Writes a file, and the folders it is in; returns its path.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        self.text(name)
    }

    fn message(&self, name: &str, message: &impl Message) -> String {
        self.write(name, message.encode_to_vec())
    }

    fn tensor(&self, name: &str, ty: ElementType, tensor: impl Into<Tensor>) -> String {
        self.message(name, &tensor_proto::write("t", ty, &tensor.into()).expect("a carrier"))
    }
}

/// A .npy file of one dimension or, `shape` given, of several.
fn npy(descriptor: &str, is_fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if is_fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descriptor}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), data].concat()
}

/// A .npz file of these members.
fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    use std::io::Write;
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(vec![]));
    for (index, (name, bytes)) in members.iter().enumerate() {
        let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][index % 2];
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).expect("a member");
        archive.write_all(bytes).expect("its bytes");
    }
    archive.finish().expect("an archive").into_inner()
}

fn bytes<const N: usize, T: Copy>(values: &[T], to_bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to_bytes(*value)).collect()
}

// ---- Help and usage ----

#[test]
fn help_has_examples() {
    for subcommand in ["run", "test", "inspect"] {
        let help = done(&[subcommand, "--help"]);
        assert!(help.contains(&format!("\n  onnx-cast {subcommand} ")), "{help}");
        assert!(done(&["--help"]).contains(&format!("\n  onnx-cast {subcommand} ")));
    }
    assert_eq!(done(&["--version"]), concat!("onnx-cast ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_calls_take_one_line() {
    for arguments in [
        &[][..],
        &["fly"],
        &["run"],
        &["run", "a.onnx", "b.onnx"],
        &["run", "a.onnx", "--seed", "-1"],
        &["run", "a.onnx", "--set", "N"],
        &["run", "a.onnx", "--set", "N=x"],
        &["run", "a.onnx", "--max-memory", "0"],
        &["test"],
        &["test", ".", "--rtol", "NaN"],
        &["test", ".", "--atol", "-1"],
        &["inspect", "--json"],
        &["inspect", "a\nb.onnx"],
        &["run", "a.onnx", "--no\nsuch"],
    ] {
        refused(arguments);
    }
}

// ---- Running ----

#[test]
fn run_reads_every_kind_of_file() {
    use ElementType::*;
    let folder = Folder::new();
    let f32s = |values: &[f32]| bytes(values, f32::to_le_bytes);
    let f64s = |values: &[f64]| bytes(values, f64::to_le_bytes);
    let u16s = |values: &[u16]| bytes(values, u16::to_le_bytes);
    let array = |descriptor: &str, data: &[u8]| npy(descriptor, false, "(2,)", data);
    // The input's type, a .npy file with two of its elements, and what they are as FLOAT.
    let arrays = [
        (Float, array("<f4", &f32s(&[1.5, -2.0])), json!([1.5, -2.0])),
        (Float, array(">f4", &bytes(&[1.5, -2.0], f32::to_be_bytes)), json!([1.5, -2.0])),
        (Double, array("<f8", &f64s(&[1.5, -2.0])), json!([1.5, -2.0])),
        (Float16, array("<f2", &u16s(&[0x3e00, 0xc000])), json!([1.5, -2.0])),
        (Int8, array("|i1", &[1, 0x80]), json!([1.0, -128.0])),
        (Int16, array("<i2", &u16s(&[1, 0x8000])), json!([1.0, -32768.0])),
        (Int32, array("<i4", &bytes(&[1, -2], i32::to_le_bytes)), json!([1.0, -2.0])),
        (Int64, array(">i8", &bytes(&[1, -2], i64::to_be_bytes)), json!([1.0, -2.0])),
        (Uint8, array("|u1", &[1, 0x80]), json!([1.0, 128.0])),
        (Uint16, array("<u2", &u16s(&[1, 0x8000])), json!([1.0, 32768.0])),
        (Uint32, array("<u4", &bytes(&[1, 1 << 31], u32::to_le_bytes)), json!([1.0, 2147483600.0])),
        (Uint64, array("<u8", &bytes(&[1, 2], u64::to_le_bytes)), json!([1.0, 2.0])),
        (Bool, array("|b1", &[1, 0]), json!([1.0, 0.0])),
        (String, array("|S3", b"1.5-2\0"), json!([1.5, -2.0])),
        (String, array("<U2", b"7\0\0\0\0\0\0\0-\0\0\x002\0\0\0"), json!([7.0, -2.0])),
        (String, array(">U2", b"\0\0\x007\0\0\0\0\0\0\0-\0\0\x002"), json!([7.0, -2.0])),
        // By bit pattern, …
        (BFloat16, array("<u2", &u16s(&[0x3fc0, 0xc000])), json!([1.5, -2.0])),
        (BFloat16, array("<V2", &u16s(&[0x3fc0, 0xc000])), json!([1.5, -2.0])),
        (Float8E4M3FN, array("|u1", &[0x3c, 0xc0]), json!([1.5, -2.0])),
        (Float8E4M3FN, array("|V1", &[0x3c, 0xc0]), json!([1.5, -2.0])),
        (Float8E5M2, array("<f1", &[0x3e, 0xc0]), json!([1.5, -2.0])),
        (Float8E8M0, array("|u1", &[127, 128]), json!([1.0, 2.0])),
        (Float6E2M3, array("|u1", &[0x0c, 0x30]), json!([1.5, -2.0])),
        (Float4E2M1, array("|u1", &[3, 0xc]), json!([1.5, -2.0])),
        (Uint4, array("|u1", &[1, 15]), json!([1.0, 15.0])),
        (Uint2, array("|V1", &[1, 3]), json!([1.0, 3.0])),
        (Int4, array("|i1", &[1, 0xf8]), json!([1.0, -8.0])),
        (Int4, array("|V1", &[1, 0xf8]), json!([1.0, -8.0])),
        (Int2, array("|i1", &[1, 0xfe]), json!([1.0, -2.0])),
        // … or by value.
        (BFloat16, array("<f4", &f32s(&[1.5, f32::NAN])), json!([1.5, "NaN"])),
        (BFloat16, array("<f8", &f64s(&[1.5, f64::NEG_INFINITY])), json!([1.5, "-Infinity"])),
        (Float8E4M3FN, array("<f4", &f32s(&[1.5, -1000.0])), json!([1.5, -448.0])),
        (Float4E2M1, array("<f8", &f64s(&[1.5, -2.0])), json!([1.5, -2.0])),
        (Int4, array("<f4", &f32s(&[1.9, -8.0])), json!([1.0, -8.0])),
    ];
    for (index, (ty, array, expected)) in arrays.into_iter().enumerate() {
        let model = folder.message("m.onnx", &cast_model(28, ty, Float));
        let file = folder.write("x.npy", &array);
        let archive = folder.write("x.npz", npz(&[("x", array)]));
        let case = format!("array {index} for {ty}");
        assert_eq!(
            values(&["run", &model, "-i", &format!("x={file}"), "--json"]),
            expected,
            "{case}"
        );
        assert_eq!(values(&["run", &model, "-i", &archive, "--json"]), expected, "{case}");
        let named = format!("x={archive}");
        assert_eq!(values(&["run", &model, "--json", "-i", &named]), expected, "{case}");
    }

    // A TensorProto has the input's type, or for floats the unsigned integer of the same width.
    let protos: [(_, _, Tensor, _); 6] = [
        (Float, Float, tensor1(&[1.5f32, -2.0]), json!([1.5, -2.0])),
        (Int4, Int4, tensor1(&[1i8, -8]), json!([1.0, -8.0])),
        (BFloat16, BFloat16, tensor1(&[0x3fc0u16, 0xc000]), json!([1.5, -2.0])),
        (BFloat16, Uint16, tensor1(&[0x3fc0u16, 0xc000]), json!([1.5, -2.0])),
        (Float8E5M2, Uint8, tensor1(&[0x3eu8, 0xc0]), json!([1.5, -2.0])),
        (Float4E2M1, Uint4, tensor1(&[3u8, 0xc]), json!([1.5, -2.0])),
    ];
    for (ty, stored, tensor, expected) in protos {
        let model = folder.message("m.onnx", &cast_model(28, ty, Float));
        let file = format!("x={}", folder.tensor("x.pb", stored, tensor));
        assert_eq!(values(&["run", &model, "-i", &file, "--json"]), expected, "{stored} for {ty}");
    }
}

#[test]
fn run_reads_columns_first_arrays() {
    let folder = Folder::new();
    let (x, y) = (value("x", 7, vec![dim(2), dim(3)]), value("y", 1, vec![]));
    let y = ValueInfoProto { r#type: value("y", 1, vec![dim(2), dim(3)]).r#type, ..y };
    let nodes = [cast("c1", "x", "y", ElementType::Float)];
    let model = folder.message("m.onnx", &model(13, graph(&[x], &nodes, &[y])));
    let data = bytes(&[1, 4, 2, 5, 3, 6], i64::to_le_bytes);
    let file = format!("x={}", folder.write("x.npy", npy("<i8", true, "(2, 3)", &data)));
    let report = json(&done(&["run", &model, "-i", &file, "--json"]));
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let expected = json!({"name": "y", "type": "FLOAT", "shape": [2, 3], "values": values});
    assert_eq!(report, json!({"outputs": [expected]}));
}

#[test]
fn run_refuses_arrays_of_another_type() {
    use ElementType::*;
    let folder = Folder::new();
    let array = |descriptor: &str, bytes: usize| npy(descriptor, false, "(2,)", &vec![9; bytes]);
    let int64 = tensor_proto::write("x", Int64, &tensor1(&[1i64])).unwrap().encode_to_vec();
    let uint8 = tensor_proto::write("x", Uint8, &tensor1(&[1u8])).unwrap().encode_to_vec();
    // The input's type, a file that does not hold it, and what the line must say.
    let cases: &[(_, &str, Vec<u8>, &[&str])] = &[
        (Double, "x.npy", array("<f4", 8), &["`x`", "FLOAT", "DOUBLE"]),
        (Float, "x.npy", array("<f8", 16), &["`x`", "DOUBLE", "FLOAT"]),
        (Int32, "x.npy", array("<i8", 16), &["`x`", "INT64", "INT32"]),
        (Uint8, "x.npy", array("|V1", 2), &["`x`", "UINT8"]),
        (BFloat16, "x.npy", array("<i2", 4), &["`x`", "INT16", "BFLOAT16"]),
        (BFloat16, "x.npy", array("<f2", 4), &["`x`", "FLOAT16", "BFLOAT16"]),
        (Int4, "x.npy", array("|u1", 2), &["`x`", "UINT8", "INT4"]),
        (Int4, "x.npy", array("|i1", 2), &["`x`", "0x09", "INT4"]),
        (Float4E2M1, "x.npy", npy("|u1", false, "(1,)", &[16]), &["`x`", "0x10", "FLOAT4E2M1"]),
        (Float, "x.npy", array("<c8", 16), &["<c8"]),
        (Float, "x.npy", array("|O", 16), &["|O"]),
        (Float, "x.npy", array("<f4", 7), &["7 bytes", "8"]),
        (Float, "x.npy", array("<f4", 9), &["8 bytes"]),
        (Float, "x.npy", npy("<f4", false, "(1 << 60, 99)", &[]), &["x.npy"]),
        (Float, "x.npy", npy("<f4", false, "(4611686018427387904, 4)", &[]), &["overflows"]),
        (Float, "x.npy", npy("<f4", false, "(0, 4611686018427387904, 4)", &[]), &["overflow"]),
        (String, "x.npy", npy("<U1", false, "(1,)", &[0, 0xd8, 0, 0]), &["Unicode"]),
        (Float, "x.npy", b"\x93NUMPY\x01\x00\xff\xff".to_vec(), &["x.npy"]),
        (Float, "x.npy", vec![], &["x.npy"]),
        (Float, "x.npz", array("<f4", 8), &["x.npz"]),
        (Float, "x.npz", npz(&[("x", array("<f4", 8)), ("z", vec![])]), &["x.npz", "`z`"]),
        (Float, "x.npz", npz(&[("z", array("<f4", 8))]), &["no array `x`"]),
        (Float, "x.pb", int64.clone(), &["`x`", "INT64", "FLOAT"]),
        (BFloat16, "x.pb", int64.clone(), &["`x`", "INT64", "BFLOAT16"]),
        (Int4, "x.pb", uint8.clone(), &["`x`", "UINT8", "INT4"]),
        (Float8E4M3FN, "x.pb", int64[..int64.len() - 1].to_vec(), &["x.pb"]),
        (Float, "x.pb", vec![], &["x.pb", "UNDEFINED"]),
        (Float, "x.txt", vec![], &[".pb, .npy or .npz"]),
    ];
    for (ty, name, content, words) in cases {
        let model = folder.message("m.onnx", &cast_model(28, *ty, Float));
        let file = format!("x={}", folder.write(name, content));
        let line = refused(&["run", &model, "-i", &file]);
        for word in *words {
            assert!(line.contains(word), "{ty} from {name}: {word:?} in {line}");
        }
    }
}

#[test]
fn run_refuses_inputs_that_do_not_fit() {
    let folder = Folder::new();
    let x = value("x", 1, vec![symbol("N"), dim(3)]);
    let z = value("z", 1, vec![symbol("2*N")]);
    let nodes =
        [cast("c1", "x", "y", ElementType::Int32), cast("c2", "z", "w", ElementType::Int32)];
    let outputs = [value("y", 6, vec![]), value("w", 6, vec![])]
        .map(|output| ValueInfoProto { r#type: None, ..output });
    let model = folder.message("m.onnx", &model(13, graph(&[x, z], &nodes, &outputs)));
    let tensor = |name: &str, shape: &[usize]| {
        let tensor = Tensor::zero::<f32>(shape).unwrap();
        folder.tensor(name, ElementType::Float, tensor)
    };
    let (row, good, long) = (tensor("r.pb", &[3]), tensor("g.pb", &[2, 3]), tensor("l.pb", &[7]));
    let six = tensor("s.pb", &[6]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["-i", &format!("q={good}")], &["`q`", "\"x\", \"z\""]),
        (&["-i", &format!("x={good}"), "-i", &format!("x={good}")], &["`x`", "twice"]),
        (&["-i", &format!("x={row}")], &["`x`", "[3]", "[N,3]"]),
        (&["-i", &format!("x={good}"), "--set", "N=3"], &["`x`", "[2, 3]", "N = 3"]),
        (&["-i", &format!("x={good}"), "-i", &format!("z={six}")], &["`z`", "[6]", "N = 2"]),
        (&["-i", &format!("z={long}"), "--set", "N=3"], &["`z`", "[7]", "2*N", "N = 3"]),
        (&["-i", &format!("x=a={good}")], &["="]),
        (&["-i", &good], &["NAME="]),
        (&["-i", "x="], &[".pb, .npy or .npz"]),
        (&["-i", "x=none.pb"], &["none.pb", "No such file"]),
        (&["--set", "M=3"], &["--set M=3", "N"]),
        (&["--set", "N=3", "--set", "N=3"], &["--set N", "twice"]),
        (&["--set", "N=1000000000000"], &["`x`", "[1000000000000, 3]", "too large"]),
        (&["--set", "N=9000000000000000000"], &["`x`", "too large"]),
        (&["-o", &format!("{good}/o")], &["g.pb"]),
    ];
    for (arguments, words) in cases {
        let line = refused(&[&["run", &model], *arguments].concat());
        for word in *words {
            assert!(line.contains(word), "{arguments:?}: {word:?} in {line}");
        }
    }

    let shapes = |arguments: &[&str]| {
        let report = json(&done(&[&["run", &model, "--json"], arguments].concat()));
        let shape = |index: usize| report["outputs"][index]["shape"].clone();
        json!([shape(0), shape(1)])
    };
    assert_eq!(shapes(&[]), json!([[1, 3], [2]]));
    assert_eq!(shapes(&["--set", "N=4"]), json!([[4, 3], [8]]));
    assert_eq!(shapes(&["--set", "N=0"]), json!([[0, 3], [0]]));
    assert_eq!(shapes(&["-i", &format!("x={good}")]), json!([[2, 3], [4]]));
    assert_eq!(shapes(&["-i", &format!("z={six}")]), json!([[3, 3], [6]]));
}

#[test]
fn run_makes_up_inputs_of_every_type() {
    let folder = Folder::new();
    for ty in ElementType::ALL {
        let to = if *ty == ElementType::String { *ty } else { ElementType::Double };
        let model = folder.message("m.onnx", &cast_model(28, *ty, to));
        let seeded =
            |seed: &str| values(&["run", &model, "--set", "N=9", "--json", "--seed", seed]);
        let numbers = seeded("5");
        assert_eq!(numbers, seeded("5"), "{ty}");
        assert_ne!(numbers, seeded("6"), "{ty}");
        for number in numbers.as_array().expect("values") {
            let number =
                number.as_f64().or_else(|| number.as_str()?.parse().ok()).expect("a number");
            assert!(number.abs() < 100.0, "{ty}: {number}");
        }
    }
}

#[test]
fn run_shows_names_types_shapes_and_values() {
    let folder = Folder::new();
    let run = |ty, to, file: &str, content: Vec<u8>| {
        let model = folder.message("m.onnx", &cast_model(28, ty, to));
        done(&["run", &model, "-i", &format!("x={}", folder.write(file, content))])
    };
    use ElementType::*;
    let floats = [0.1, -0.0, 1e20, f32::NAN, f32::NEG_INFINITY, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
    let floats = npy("<f4", false, "(11,)", &bytes(&floats, f32::to_le_bytes));
    assert_eq!(
        run(Float, Float, "x.npy", floats.clone()),
        "y  FLOAT  [11]  0.1 -0.0 1e20 NaN -inf 7.0 8.0 9.0 10.0 11.0 …\n"
    );
    assert_eq!(
        run(Float, Float8E4M3FN, "x.npy", floats.clone()),
        "y  FLOAT8E4M3FN  [11]  0.1015625 -0.0 448.0 NaN -448.0 7.0 8.0 9.0 10.0 11.0 …\n"
    );
    assert_eq!(
        run(Int8, Int4, "x.npy", npy("|i1", false, "(2,)", &[7, 0xff])),
        "y  INT4  [2]  7 -1\n"
    );
    assert_eq!(run(Float, Bool, "x.npy", npy("<f4", false, "(0,)", &[])), "y  BOOL  [0]\n");
    assert_eq!(
        run(String, String, "x.npy", npy("|S4", false, "(2,)", b"a\x1b[m12\0\0")),
        "y  STRING  [2]  \"a\u{fffd}[m\" \"12\"\n"
    );
}

/// What `-o` writes passes as the expected output of a test case, and is packed as ONNX's own tools
/// pack it: to the byte where the type has no NaN, whose bits may differ.
#[test]
fn run_writes_outputs_that_read_back() {
    let mut compared = 0;
    for entry in fs::read_dir(in_repository("models/node")).expect("models") {
        let source = entry.expect("an entry").path();
        let folder = Folder::new();
        for file in ["model.onnx", "input_0.pb", "input_1.pb"] {
            let file_in =
                |name: &str| [source.join("test_data_set_0").join(name), source.join(name)];
            let Some(from) = file_in(file).into_iter().find(|path| path.exists()) else { continue };
            fs::copy(from, folder.path(file)).expect("a copy");
        }
        let model = folder.text("model.onnx");
        let proto = ModelProto::decode(&*fs::read(&model).unwrap()).unwrap();
        let names = proto.graph.unwrap().input.into_iter().map(|input| input.name);
        let files = ["input_0.pb", "input_1.pb"].map(|file| folder.text(file));
        let files = names.zip(files).map(|(name, file)| format!("-i{name}={file}"));
        let arguments = ["run".into(), model, "-o".into(), folder.text("")];
        let arguments: Vec<String> = arguments.into_iter().chain(files).collect();
        done(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let verdict = done(&["test", &folder.text("")]);
        assert!(verdict.ends_with("1 passed, 0 failed\n"), "{verdict}");

        let read = |path: &Path| TensorProto::decode(&*fs::read(path).unwrap()).unwrap();
        let official = [source.join("test_data_set_0/output_0.pb"), source.join("output_0.pb")];
        let official = read(official.iter().find(|path| path.exists()).expect("an output"));
        let written = read(&folder.path("output_0.pb"));
        assert_eq!(written.name, official.name, "{source:?}");
        assert_eq!(written.data_type, official.data_type, "{source:?}");
        assert_eq!(written.dims, official.dims, "{source:?}");
        let ty = ElementType::from_id(written.data_type).expect("an element type");
        let has_nan =
            matches!(ty.family(), Family::Float(format) if format.specials != Specials::None);
        if !official.raw_data.is_empty() {
            assert_eq!(written.raw_data.len(), official.raw_data.len(), "{source:?}");
            assert!(has_nan || written.raw_data == official.raw_data, "{source:?}");
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

// ---- Testing ----

/// A case folder of a cast from FLOAT, with these inputs and expected outputs.
fn write_case(folder: &Folder, name: &str, model: &ModelProto, input: Tensor, output: TensorProto) {
    folder.message(&format!("{name}/model.onnx"), model);
    folder.tensor(&format!("{name}/input_0.pb"), ElementType::Float, input);
    folder.message(&format!("{name}/output_0.pb"), &output);
}

#[test]
fn the_models_of_this_repository_pass() {
    let manifest = fs::read(in_repository("models/MANIFEST.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let cases = manifest["cases"].as_array().expect("cases");
    let mut groups = std::collections::BTreeMap::<String, Vec<String>>::new();
    for case in cases {
        let path = in_repository(&format!("models/{}", case["name"].as_str().expect("a name")));
        groups.entry(case["tolerance"].to_string()).or_default().push(path);
    }
    assert!(groups.len() > 1);
    for (tolerance, paths) in groups {
        let tolerance = json(&tolerance);
        let number = |name: &str| tolerance[name].as_f64().map(|x| format!("--{name}={x}"));
        let options = ["rtol", "atol"].into_iter().filter_map(number);
        let arguments = ["test".to_string()].into_iter().chain(options).chain(paths.clone());
        let output = onnx_cast(arguments);
        let text = stdout(&output);
        let last = format!("{} passed, 0 failed", paths.len());
        assert_eq!(text.lines().last(), Some(last.as_str()), "{text}");
        assert_eq!(output.status.code(), Some(0));
    }
    let official = done(&["test", &in_repository("tests/data/node_tests")]);
    assert!(official.ends_with("\n172 passed, 0 failed\n"), "{official}");
}

fn float_case(folder: &Folder, name: &str, input: &[f32], expected: &[f32]) {
    let model = cast_model(13, ElementType::Float, ElementType::Float);
    let expected = tensor_proto::write("y", ElementType::Float, &tensor1(expected)).unwrap();
    write_case(folder, name, &model, tensor1(input), expected);
}

#[test]
fn test_compares_bits_or_within_a_tolerance() {
    let folder = Folder::new();
    let nan = f32::from_bits(0xffc0_1234);
    let (infinity, tiny) = (f32::INFINITY, f32::EPSILON);
    // What the model makes, what is expected, and whether that passes bit for bit, with rtol 1e-6,
    // with atol 1e-6.
    let cases: &[(&[f32], &[f32], [bool; 3])] = &[
        (&[1.0, -2.0], &[1.0, -2.0], [true; 3]),
        (&[f32::NAN], &[nan], [true; 3]),
        (&[0.0], &[-0.0], [false, true, true]),
        (&[1.0], &[1.0 + tiny], [false, true, true]),
        (&[100.0], &[100.00001], [false, true, false]),
        (&[1e-7], &[0.0], [false, false, true]),
        (&[1.0], &[f32::NAN], [false; 3]),
        (&[infinity], &[infinity], [true; 3]),
        (&[infinity], &[-infinity], [false; 3]),
        (&[f32::MAX], &[infinity], [false; 3]),
        (&[infinity], &[f32::MAX], [false; 3]),
        (&[1.0], &[1.0, 1.0], [false; 3]),
        (&[], &[], [true; 3]),
    ];
    for (input, expected, passes) in cases {
        float_case(&folder, "case", input, expected);
        for (options, passes) in
            [&[][..], &["--rtol", "1e-6"], &["--atol", "1e-6"]].iter().zip(passes)
        {
            let output = onnx_cast([&["test", &folder.text("case")], *options].concat());
            let last = if *passes { "1 passed, 0 failed" } else { "0 passed, 1 failed" };
            assert_eq!(
                stdout(&output).lines().last(),
                Some(last),
                "{input:?} {expected:?} {options:?}"
            );
            assert_eq!(output.status.code(), Some(i32::from(!passes)));
            assert_eq!(stderr(&output), "");
        }
    }
}

#[test]
fn test_says_how_outputs_differ() {
    use ElementType::*;
    let folder = Folder::new();
    let line = |to: ElementType, input: &[f32], expected: TensorProto| {
        write_case(&folder, "case", &cast_model(28, Float, to), tensor1(input), expected);
        let text = stdout(&onnx_cast(["test", &folder.text("case")]));
        let lines: Vec<&str> = text.lines().collect();
        let [line, "0 passed, 1 failed"] = *lines else { panic!("{text}") };
        let start = format!("FAIL {}: output `y`: ", folder.text("case"));
        line.strip_prefix(&start).unwrap_or_else(|| panic!("{line}")).replace(&folder.text(""), "")
    };
    let write = |ty, tensor: Tensor| tensor_proto::write("other", ty, &tensor).unwrap();
    assert_eq!(
        line(Float, &[1.0, 2.0, 3.0], write(Float, tensor1(&[1.0f32, 2.5, 2.0]))),
        "2 of 3 values differ, the first at [1]: got 2.0, expected 2.5; \
         largest error 1.000e0, relative 5.000e-1"
    );
    assert_eq!(
        line(Float8E4M3FN, &[1.0, 2.0], write(Float8E4M3FN, tensor1(&[0x38u8, 0x7f]))),
        "1 of 2 values differ, the first at [1]: got 2.0, expected NaN; \
         largest error 0.000e0, relative 0.000e0"
    );
    assert_eq!(
        line(Int4, &[1.0, 7.0], write(Int4, tensor1(&[1i8, -8]))),
        "1 of 2 values differ, the first at [1]: got 7, expected -8"
    );
    assert_eq!(
        line(String, &[0.5], write(String, tensor1(&["1".to_string()]))),
        "1 of 1 values differ, the first at [0]: got \"0.5\", expected \"1\""
    );
    assert_eq!(line(Bool, &[1.0], write(Bool, tensor0(true))), "shape [1], expected []");
    assert_eq!(
        line(Int8, &[1.0], write(Uint8, tensor1(&[1u8]))),
        "case/output_0.pb holds UINT8, not INT8"
    );
    // An integer of the same width stands for the bit pattern of a float, and of nothing else.
    write_case(
        &folder,
        "case",
        &cast_model(13, Float, BFloat16),
        tensor1(&[1.0f32]),
        write(Uint16, tensor1(&[0x3f80u16])),
    );
    assert!(done(&["test", &folder.text("case")]).ends_with("1 passed, 0 failed\n"));
}

#[test]
fn test_finds_the_cases_in_a_tree() {
    let folder = Folder::new();
    float_case(&folder, "t/b", &[1.0], &[1.0]);
    float_case(&folder, "t/a/deeper", &[1.0], &[2.0]);
    float_case(&folder, "t/c", &[1.0], &[1.0]);
    for (set, expected) in [("test_data_set_2", 1.0f32), ("test_data_set_10", 3.0)] {
        let proto = tensor_proto::write("y", ElementType::Float, &tensor1(&[expected])).unwrap();
        folder.tensor(&format!("t/c/{set}/input_0.pb"), ElementType::Float, tensor1(&[1f32]));
        folder.message(&format!("t/c/{set}/output_0.pb"), &proto);
    }
    let tree = folder.text("t");
    let output = onnx_cast(["test", &tree]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), String::new()));
    let difference = "output `y`: 1 of 1 values differ, the first at [0]: got 1.0, expected";
    let expected = [
        &format!(
            "FAIL {tree}/a/deeper: {difference} 2.0; largest error 1.000e0, relative 5.000e-1"
        ),
        &format!("ok   {tree}/b"),
        &format!("ok   {tree}/c"),
        &format!("ok   {tree}/c/test_data_set_2"),
        &format!(
            "FAIL {tree}/c/test_data_set_10: {difference} 3.0; \
             largest error 2.000e0, relative 6.667e-1"
        ),
        "3 passed, 2 failed",
    ];
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), expected);

    let output = onnx_cast(["test", "--json", &folder.text("t/b"), &folder.text("t/a")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), String::new()));
    let report = json(&stdout(&output));
    assert_eq!((&report["passed"], &report["failed"]), (&json!(1), &json!(1)));
    let cases = report["cases"].as_array().expect("cases");
    let passing = json!({"path": folder.text("t/b"), "passed": true, "reason": null});
    assert_eq!(cases[0], passing);
    assert!(cases[1]["reason"].as_str().is_some_and(|reason| reason.starts_with(difference)));
}

/// Inputs and outputs count by position, the tenth after the ninth, whatever their names are.
#[test]
fn test_matches_files_by_position() {
    let folder = Folder::new();
    let names: Vec<String> = (0..12).map(|index| format!("x{}", 11 - index)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let inputs: Vec<_> = names.iter().map(|name| value(name, 1, vec![dim(1)])).collect();
    let concat = node("c", "Concat", &names, &["y"]).with(int("axis", 0));
    let outputs = [value("y", 1, vec![dim(12)])];
    folder.message("case/model.onnx", &model(13, graph(&inputs, &[concat], &outputs)));
    let numbers: Vec<f32> = (0..12).map(|index| index as f32).collect();
    for (index, number) in numbers.iter().enumerate() {
        let tensor = tensor1(&[*number]);
        folder.tensor(&format!("case/input_{index}.pb"), ElementType::Float, tensor);
    }
    folder.tensor("case/output_0.pb", ElementType::Float, tensor1(&numbers));
    assert!(done(&["test", &folder.text("case")]).ends_with("1 passed, 0 failed\n"));

    fs::remove_file(folder.path("case/input_3.pb")).expect("it was there");
    let line = refused(&["test", &folder.text("case")]);
    assert!(line.ends_with("case: input_3.pb is missing"), "{line}");
}

#[test]
fn test_without_a_usable_case_is_an_error() {
    let folder = Folder::new();
    let good = cast_model(13, ElementType::Float, ElementType::Float);
    folder.message("nothing/to/compare/model.onnx", &good);
    folder.tensor("nothing/to/compare/input_0.pb", ElementType::Float, tensor1(&[1f32]));
    folder.message("no/data/model.onnx", &good);
    folder.write("broken/model.onnx", b"\xff");
    folder.write("empty/readme.txt", b"");
    let cases: &[(&[&str], &[&str])] = &[
        (&["nothing"], &["nothing/to/compare: there is no output_*.pb"]),
        (&["no"], &["no/data: the case has 0 input(s), the model takes 1"]),
        (&["broken"], &["broken: failed to decode"]),
        (&["broken", "no"], &["broken: failed to decode"]),
        (&["empty"], &["empty: no folder with a model.onnx"]),
        (&["absent"], &["absent: No such file"]),
        (&["broken/model.onnx"], &["model.onnx: is no folder"]),
    ];
    for (paths, words) in cases {
        let paths: Vec<String> = paths.iter().map(|path| folder.text(path)).collect();
        let arguments: Vec<&str> =
            ["test"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let line = refused(&arguments);
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    // One usable case, and it is a matter of passing or not.
    float_case(&folder, "good", &[1.0], &[1.0]);
    let output = onnx_cast(["test", &folder.text("")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), String::new()));
    assert!(stdout(&output).ends_with("1 passed, 3 failed\n"), "{}", stdout(&output));
}

/// A model that kills the process that runs it takes no other case with it.
#[test]
fn test_survives_its_cases() {
    let folder = Folder::new();
    for name in ["t/a", "t/c", "t/e"] {
        float_case(&folder, name, &[1.0], &[1.0]);
    }
    let huge = shape_model(node("k", "ConstantOfShape", &["s"], &["t"]), &[1 << 20, 1 << 20]);
    folder.message("t/b/model.onnx", &huge);
    folder.tensor("t/b/output_0.pb", ElementType::Int32, tensor1(&[1i32]));
    let panicking = shape_model(node("k", "ConstantOfShape", &["s"], &["t"]), &[-1]);
    folder.message("t/d/model.onnx", &panicking);
    folder.tensor("t/d/output_0.pb", ElementType::Int32, tensor1(&[1i32]));
    let output = onnx_cast(["test", &folder.text("t")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), String::new()));
    let text = stdout(&output);
    assert!(text.contains("b: tract ran out of memory"), "{text}");
    assert!(text.contains("d: tract cannot handle this model ("), "{text}");
    assert!(text.ends_with("3 passed, 2 failed\n"), "{text}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let path = in_repository("tests/data/node_tests");
    for arguments in [&["test", &path][..], &["--help"]] {
        let mut command = Command::new(cargo_bin!("onnx-cast"));
        let piped = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    }
}

// ---- Inspecting ----

#[test]
fn inspect_lists_every_cast() {
    use ElementType::*;
    let folder = Folder::new();
    let inner = [
        cast("c2", "h", "b", Bool),
        node("c3", "CastLike", &["x", "w"], &["l"]).with(int("saturate", 0)),
    ];
    let branch = |nodes: &[NodeProto], output: &str| AttributeProto {
        name: std::string::String::new(),
        g: Some(GraphProto {
            name: "branch".into(),
            ..graph(&[], nodes, &[value(output, 9, vec![])])
        }),
        r#type: AttributeType::Graph as i32,
        ..AttributeProto::default()
    };
    let named = |name: &str, attribute| AttributeProto { name: name.into(), ..attribute };
    let choose = node("if", "If", &["yes"], &["y"])
        .with(named("then_branch", branch(&inner, "b")))
        .with(named("else_branch", branch(&[cast("c4", "x", "e", Bool)], "e")));
    let nodes = [
        cast("c1", "x", "h", Float8E8M0)
            .with(text("round_mode", "nearest"))
            .with(int("saturate", 1)),
        cast("", "x", "same", Float),
        choose,
    ];
    let inputs = [value("x", 1, vec![dim(2)]), value("yes", 9, vec![])];
    let mut graph =
        graph(&inputs, &nodes, &[value("y", 9, vec![dim(2)]), value("same", 1, vec![dim(2)])]);
    graph.initializer = vec![initializer("w", Float8E5M2 as i32, &[1], &[0])];
    let path = folder.message("m.onnx", &model(24, graph));
    let row = |node: &str, op: &str, to: &str, saturate: Value, round_mode: Value| {
        json!({"node": node, "op": op, "from": "FLOAT", "to": to, "version": 24,
               "saturate": saturate, "round_mode": round_mode, "graph": "g"})
    };
    let report = json(&done(&["inspect", &path, "--json"]));
    let casts = report["casts"].as_array().expect("casts");
    assert_eq!(report.as_object().map(|object| object.len()), Some(1));
    assert_eq!(casts.len(), 5);
    let of = |name: &str| casts.iter().find(|cast| cast["node"] == name).expect(name);
    assert_eq!(*of("c1"), row("c1", "Cast", "FLOAT8E8M0", json!(1), json!("nearest")));
    assert_eq!(*of("same"), row("same", "Cast", "FLOAT", json!(null), json!(null)));
    assert_eq!(of("c2")["from"], "FLOAT8E8M0");
    assert_eq!((&of("c3")["op"], &of("c3")["to"]), (&json!("CastLike"), &json!("FLOAT8E5M2")));
    assert!(of("c4")["graph"].as_str().is_some_and(|graph| graph != "g"), "{report}");

    let table = done(&["inspect", &path]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 6, "{table}");
    for (column, cell) in
        [("from", "FLOAT"), ("to", "FLOAT8E8M0"), ("round_mode", "nearest"), ("fate", "our kernel")]
    {
        let place = lines[0].find(&format!(" {column}")).expect("the column") + 1;
        let line = lines.iter().find(|line| line.starts_with("c1 ")).expect("the row");
        assert!(line.get(place..).is_some_and(|rest| rest.starts_with(cell)), "{column}: {table}");
    }
    assert_eq!(
        done(&["inspect", &folder.message("m.onnx", &chain_model(3))]),
        "no Cast and no CastLike\n"
    );
}

/// A model without a Cast: so many times Relu.
fn chain_model(length: usize) -> ModelProto {
    let relu =
        |i: usize| node(&format!("n{i}"), "Relu", &[&format!("v{i}")], &[&format!("v{}", i + 1)]);
    let nodes: Vec<_> = (0..length).map(relu).collect();
    let (first, last) =
        (value("v0", 1, vec![dim(1)]), value(&format!("v{length}"), 1, vec![dim(1)]));
    model(13, graph(&[first], &nodes, &[last]))
}

// ---- Models that cannot be used ----

/// An initializer of the type with these bytes.
fn initializer(name: &str, ty: i32, dims: &[i64], raw_data: &[u8]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: ty,
        dims: dims.to_vec(),
        raw_data: raw_data.to_vec(),
        ..TensorProto::default()
    }
}

/// An initializer whose bytes are in a file.
fn external(name: &str, dims: &[i64], location: &str) -> TensorProto {
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    TensorProto {
        external_data: vec![entry("location", location)],
        data_location: Some(DataLocation::External as i32),
        ..initializer(name, 1, dims, &[])
    }
}

/// `y` is the initializer `w` cast to INT32.
fn weight_model(weight: TensorProto) -> ModelProto {
    let nodes = [cast("c1", "w", "y", ElementType::Int32)];
    let mut graph = graph(&[], &nodes, &[value("y", 6, vec![])]);
    graph.output[0].r#type = None;
    graph.initializer = vec![weight];
    model(21, graph)
}

/// A model whose only input, cast to INT32, has this symbolic dimension.
fn dim_model(dim: &str) -> ModelProto {
    let x = value("x", 1, vec![symbol(dim)]);
    let y = ValueInfoProto { r#type: None, ..value("y", 6, vec![]) };
    model(13, graph(&[x], &[cast("c1", "x", "y", ElementType::Int32)], &[y]))
}

/// A model whose node takes the INT64 constant `s` and makes `y`, cast from FLOAT.
fn shape_model(op: NodeProto, shape: &[i64]) -> ModelProto {
    let bytes = bytes(shape, i64::to_le_bytes);
    let mut graph = graph(&[], &[op, cast("c1", "t", "y", ElementType::Int32)], &[]);
    graph.initializer = vec![
        initializer("s", 7, &[shape.len() as i64], &bytes),
        initializer("f", 1, &[1], &1f32.to_le_bytes()),
    ];
    graph.output = vec![ValueInfoProto { name: "y".into(), ..ValueInfoProto::default() }];
    model(13, graph)
}

#[test]
fn models_that_cannot_be_used_take_one_line() {
    use ElementType::*;
    let folder = Folder::new();
    folder.write("secret.bin", [0; 8]);
    folder.write("models/short.bin", [0; 7]);
    let with = |opset: i64, attributes: Vec<AttributeProto>| {
        let mut model = cast_model(opset, Float, Int32);
        let node = &mut model.graph.as_mut().expect("a graph").node[0];
        node.attribute.extend(attributes);
        model
    };
    let to = |opset: i64, attribute: Vec<AttributeProto>| {
        let mut model = with(opset, vec![]);
        model.graph.as_mut().expect("a graph").node[0].attribute = attribute;
        model
    };
    let edited = |edit: fn(&mut GraphProto)| {
        let mut model = with(13, vec![]);
        edit(model.graph.as_mut().expect("a graph"));
        model
    };
    let weight =
        |dims: &[i64], bytes: usize| weight_model(initializer("w", 1, dims, &vec![0; bytes]));
    let two_fields = TensorProto { float_data: vec![0.0], ..initializer("w", 1, &[1], &[0; 4]) };
    let secret = folder.text("secret.bin");
    let k = |op: &str, inputs: &[&str]| node("k", op, inputs, &["t"]);
    let cases: Vec<(ModelProto, &[&str])> = vec![
        (
            with(13, vec![int("saturate", 1)]),
            &["node `c1`", "attribute `saturate`", "opset 19", "imports 13"],
        ),
        (
            with(21, vec![text("round_mode", "up")]),
            &["node `c1`", "attribute `round_mode`", "24", "21"],
        ),
        (with(24, vec![text("round_mode", "Up")]), &["node `c1`", "`round_mode`", "Up"]),
        (with(13, vec![int("frob", 1)]), &["node `c1`", "`frob`"]),
        (to(13, vec![]), &["node `c1`", "`to`", "13"]),
        (to(13, vec![int("to", 99)]), &["node `c1`", "`to`", "99"]),
        (to(13, vec![int("to", 14)]), &["node `c1`", "`to`", "COMPLEX64"]),
        (to(12, vec![int("to", 16)]), &["node `c1`", "`to`", "BFLOAT16", "13", "12"]),
        (to(6, vec![text("to", "FLOAT")]), &["node `c1`", "`to`", "6"]),
        (to(5, vec![text("to", "float32")]), &["node `c1`", "`to`", "float32"]),
        (cast_model(12, BFloat16, Float), &["BFLOAT16", "13", "12"]),
        (weight(&[3], 11), &["tensor `w`", "FLOAT", "11", "12"]),
        (weight(&[-3], 12), &["tensor `w`", "-3"]),
        (weight(&[1 << 40, 1 << 40], 12), &["tensor `w`", "overflow"]),
        (weight(&[1 << 50], 12), &["tensor `w`", "12"]),
        (weight_model(initializer("w", 77, &[1], &[0])), &["tensor `w`", "77"]),
        (weight_model(initializer("w", 14, &[1], &[0; 8])), &["tensor `w`", "COMPLEX64"]),
        (weight_model(two_fields), &["tensor `w`", "raw_data", "float_data"]),
        (weight_model(external("w", &[2], "../secret.bin")), &["tensor `w`", "../secret.bin"]),
        (weight_model(external("w", &[2], &secret)), &["tensor `w`", "secret.bin"]),
        (weight_model(external("w", &[2], "none.bin")), &["tensor `w`", "none.bin"]),
        (weight_model(external("w", &[2], "short.bin")), &["tensor `w`", "7"]),
        (weight_model(external("w", &[2], "")), &["tensor `w`"]),
        (ModelProto { graph: None, ..with(13, vec![]) }, &["no graph"]),
        (edited(|graph| graph.output[0].name = "z".into()), &["nothing makes", "`z`"]),
        (edited(|graph| graph.node[0].input[0] = "z".into()), &["`c1`", "nothing makes", "`z`"]),
        (edited(|graph| graph.node[0].input[0] = "y".into()), &["`c1`", "own output"]),
        (edited(|graph| graph.node.push(graph.node[0].clone())), &["`y`", "twice"]),
        (edited(|graph| graph.node[0].input.clear()), &["`c1`", "input"]),
        (edited(|graph| graph.node[0].op_type = "Frob".into()), &["c1", "Frob"]),
        (edited(|graph| graph.input[0].r#type = None), &["`x`"]),
        (edited(|graph| graph.input[0] = value("x", 99, vec![])), &["99"]),
        (edited(|graph| graph.output[0] = value("y", 1, vec![])), &["`c1`", "INT32", "FLOAT"]),
        (dim_model("N-5"), &["`x`", "-4"]),
        (shape_model(k("ConstantOfShape", &["s"]), &[-1]), &["cannot handle"]),
        (shape_model(k("Reshape", &["f", "s"]), &[7]), &["\"k\"", "7"]),
        (shape_model(k("Loop", &["f", "s"]), &[7]), &["\"k\"", "Loop"]),
    ];
    for (model, words) in cases {
        let path = folder.message("models/m.onnx", &model);
        let line = refused(&["run", &path]);
        let start = format!("error: {path}: ");
        assert!(line.starts_with(&start) && line.chars().count() < start.len() + 1001, "{line}");
        for word in words {
            assert!(line.contains(word), "{word:?} in {line}");
        }
    }
}

#[test]
fn memory_is_limited() {
    let folder = Folder::new();
    let expand = node("k", "Expand", &["f", "s"], &["t"]);
    let path = folder.message("m.onnx", &shape_model(expand, &[1 << 28, 3]));
    let line = refused(&["run", &path, "--max-memory", "1"]);
    assert!(line.contains("out of memory") && line.contains("limit of 1.0 GiB"), "{line}");
}

#[test]
fn damaged_files_take_one_line() {
    let folder = Folder::new();
    let whole = cast_model(21, ElementType::BFloat16, ElementType::Float).encode_to_vec();
    for command in ["run", "inspect"] {
        refused(&[command, &folder.text("absent.onnx")]);
        refused(&[command, &folder.text("")]);
        refused(&[command, &folder.write("m.onnx", [0xff; 100])]);
        let line = refused(&[command, &folder.write("m.onnx", [])]);
        assert!(line.ends_with("no graph"), "{line}");
        for length in (1..whole.len()).step_by(7) {
            let path = folder.write("m.onnx", &whole[..length]);
            let output = onnx_cast([command, &path]);
            assert!(output.status.code().is_some_and(|code| code == 0 || code == 2), "{length}");
        }
    }
}

/// Not even through a link does external data come from outside the model's folder.
#[cfg(unix)]
#[test]
fn links_do_not_lead_outside() {
    let folder = Folder::new();
    folder.write("secret.bin", [0; 8]);
    let path = folder.message("models/m.onnx", &weight_model(external("w", &[2], "link.bin")));
    std::os::unix::fs::symlink(folder.path("secret.bin"), folder.path("models/link.bin")).unwrap();
    let line = refused(&["run", &path]);
    assert!(["tensor `w`", "link.bin", "outside"].iter().all(|word| line.contains(word)), "{line}");
}
