//! `run`, and how the program is called.

use std::fs;
use std::path::Path;

use prost::Message;
use serde_json::json;
use tract_onnx::pb::*;
use tract_onnx::prelude::*;
use tract_onnx_cast::format::Specials;
use tract_onnx_cast::{ElementType, Family, tensor_proto};

use crate::common::proto::{dim, graph, model, shaped, symbol, value};
use crate::program::*;

#[test]
fn help_has_examples() {
    let whole = done(&["--help"]);
    let listed = whole.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let all: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(all.contains(&"compare") && all.contains(&"rerecord"), "{all:?}");
    // Shells and manuals are made once.
    let is_shown = |verb: &&str| !["completions", "man", "help"].contains(verb);
    for subcommand in all.into_iter().filter(is_shown) {
        let help = done(&[subcommand, "--help"]);
        assert!(help.contains(&format!("\n  onnx-cast {subcommand} ")), "{help}");
        assert!(whole.contains(&format!("\n  onnx-cast {subcommand} ")), "{whole}");
    }
    // Alone it says the same.
    assert_eq!(done(&[]), whole);
    assert_eq!(done(&["--version"]), concat!("onnx-cast ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_calls_take_one_line() {
    for arguments in [
        &["fly"][..],
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

/// A .npy file of one dimension or, `shape` given, of several.
pub fn npy(descriptor: &str, is_fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
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
pub fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
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
    let shape = [2, 3];
    let (x, y) = (value("x", ElementType::Int64, &shape), value("y", ElementType::Float, &shape));
    let nodes = [cast("c1", "x", "y", ElementType::Float)];
    let model = folder.message("m.onnx", &model(13, graph(&[x], &nodes, &[y])));
    let data = bytes(&[1, 4, 2, 5, 3, 6], i64::to_le_bytes);
    let file = format!("x={}", folder.write("x.npy", npy("<i8", true, "(2, 3)", &data)));
    let report = json(&done(&["run", &model, "-i", &file, "--json"]));
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let expected = json!({"name": "y", "type": "FLOAT", "shape": [2, 3], "values": values});
    let inputs = json!({"origin": "given", "random": [], "seeds": []});
    let whole = json!({"schema": "onnx-cast/run/1", "inputs": inputs, "outputs": [expected]});
    assert_eq!(report, whole);
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
        (Float, "x.npz", npz(&[("z", array("<f4", 8)), ("x", vec![])]), &["x.npz", "`x`"]),
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
    let x = shaped("x", ElementType::Float, vec![symbol("N"), dim(3)]);
    let z = shaped("z", ElementType::Float, vec![symbol("2*N")]);
    let nodes =
        [cast("c1", "x", "y", ElementType::Int32), cast("c2", "z", "w", ElementType::Int32)];
    let outputs = [value("y", ElementType::Int32, &[]), value("w", ElementType::Int32, &[])]
        .map(|output| ValueInfoProto { r#type: None, ..output });
    let model = folder.message("m.onnx", &model(13, graph(&[x, z], &nodes, &outputs)));
    let tensor = |name: &str, shape: &[usize]| {
        let tensor = Tensor::zero::<f32>(shape).unwrap();
        folder.tensor(name, ElementType::Float, tensor)
    };
    let (row, good, long) = (tensor("r.pb", &[3]), tensor("g.pb", &[2, 3]), tensor("l.pb", &[7]));
    let six = tensor("s.pb", &[6]);
    let cases: &[(&[&str], &[&str])] = &[
        (&["-i", &format!("q={good}")], &["`q`", "`x`, `z`"]),
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
        (&["-o", "/none/of/these/y.npz"], &["y.npz: there is no folder /none/of/these"]),
        (&["-o", "out.txt"], &["out.txt", ".npz or .npy", "folder"]),
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
    assert_eq!(shapes(&[]), json!([[7, 3], [14]]));
    assert_eq!(shapes(&["--set", "N=4"]), json!([[4, 3], [8]]));
    assert_eq!(shapes(&["--set", "N=0"]), json!([[0, 3], [0]]));
    assert_eq!(shapes(&["-i", &format!("x={good}")]), json!([[2, 3], [4]]));
    assert_eq!(shapes(&["-i", &format!("z={six}")]), json!([[3, 3], [6]]));
}

#[test]
fn run_says_what_it_made_up_and_what_it_wrote() {
    let folder = Folder::new();
    let model = folder.message("m.onnx", &cast_model(13, ElementType::Float, ElementType::Int32));
    let given = folder.tensor("x.pb", ElementType::Float, tensor1(&[1f32, 2.0]));
    let out = folder.text("out.v1/");
    let ran = onnx_cast(["run", &model, "--set", "N=2", "--seed", "7", "-o", &out]);
    assert!(stdout(&ran).ends_with(&format!("\nwrote {out}output_0.pb\n")), "{}", stdout(&ran));
    assert_eq!(stderr(&ran), format!("note: {model}: chosen inputs: `x` (random, seed 7)\n"));
    assert!(folder.path("out.v1/output_0.pb").exists());
    let ran = onnx_cast(["run", &model, "-i", &format!("x={given}")]);
    assert_eq!((stderr(&ran).as_str(), stdout(&ran).as_str()), ("", "y  INT32  [2]  1 2\n"));
    assert!(!Path::new("out.txt").exists());
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
            // Types of 8 bits are used up, for they mostly hold images and quantised values. So are
            // wider integers that are only cast, for counters run over: of those there is no bound
            // to be held.
            let is_counter =
                matches!(ty.family(), Family::Signed | Family::Unsigned) && ty.bits() > 8;
            assert!(is_counter || number.abs() < 256.0, "{ty}: {number}");
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
