//! `test`: which cases there are, and whether they pass.

use std::fs;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use prost::Message;
use serde_json::{Value, json};
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use crate::common::proto::{Change, graph, int, model, node, value};
use crate::program::*;

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
        "1 of 1 value differ, the first at [0]: got \"0.5\", expected \"1\""
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
    let difference = "output `y`: 1 of 1 value differ, the first at [0]: got 1.0, expected";
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
    let inputs: Vec<_> = names.iter().map(|name| value(name, ElementType::Float, &[1])).collect();
    let concat = node("Concat", &names, &["y"], vec![]).named("c").with(int("axis", 0));
    let outputs = [value("y", ElementType::Float, &[12])];
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
        (&["no"], &["no/data: the case has 0 inputs, the model takes 1"]),
        (&["broken"], &["broken: is not an ONNX"]),
        (&["broken", "no"], &["broken: is not an ONNX"]),
        (&["empty"], &["empty: no folder with a model.onnx"]),
        (&["absent"], &["absent: No such file"]),
        (&["broken/model.onnx"], &["model.onnx: is a file: name the folder"]),
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
    let of_shape = || node("ConstantOfShape", &["s"], &["t"], vec![]).named("k");
    folder.message("t/b/model.onnx", &large_result());
    let input = Tensor::zero::<f32>(&[1 << 17, 1]).expect("a tensor");
    folder.tensor("t/b/input_0.pb", ElementType::Float, input);
    folder.tensor("t/b/output_0.pb", ElementType::Int32, tensor1(&[1i32]));
    let panicking = shape_model(of_shape(), &[-1]);
    folder.message("t/d/model.onnx", &panicking);
    folder.tensor("t/d/output_0.pb", ElementType::Int32, tensor1(&[1i32]));
    let output = onnx_cast(["test", &folder.text("t")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), String::new()));
    let text = stdout(&output);
    assert!(text.contains("b: node `k` (MatMul): tract ran out of memory"), "{text}");
    assert!(text.contains("d: node `k` (ConstantOfShape): has input input -1"), "{text}");
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

/// A field of a message, whose number is below 16: its length and its bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short one");
    [&[number << 3 | 2, length], bytes].concat()
}

#[test]
fn sequences_are_read_and_compared_by_their_tensors() {
    let folder = Folder::new();
    let sequence = |name: &str| {
        let float = field(1, &[1 << 3, ElementType::Float as u8]);
        let ty = field(4, &field(1, &float));
        [field(1, name.as_bytes()), field(2, &ty)].concat()
    };
    let ends = [field(11, &sequence("x")), field(12, &sequence("y"))].concat();
    let nodes = [node("Identity", &["x"], &["y"], vec![])];
    let mut made = model(17, graph(&[], &nodes, &[])).encode_to_vec();
    made.extend(field(7, &ends));
    let values = |values: &[f32]| {
        let tensor = |x: &f32| tensor_proto::write("", ElementType::Float, &tensor1(&[*x]));
        let tensors = values.iter().map(|x| field(3, &tensor(x).expect("FLOAT").encode_to_vec()));
        [vec![2 << 3, 1], tensors.collect::<Vec<_>>().concat()].concat()
    };
    for (case, expected) in [("same", &[1.0, 2.0][..]), ("other", &[1.0, 3.0]), ("few", &[1.0])] {
        folder.write(&format!("{case}/model.onnx"), &made);
        folder.write(&format!("{case}/input_0.pb"), values(&[1.0, 2.0]));
        folder.write(&format!("{case}/output_0.pb"), values(expected));
    }
    let path = |case: &str| folder.path(case).display().to_string();
    let ran = |case: &str| stdout(&onnx_cast(["test", &path(case)]));
    assert!(ran("same").ends_with("1 passed, 0 failed\n"), "{}", ran("same"));
    let other = ran("other");
    assert!(other.contains("output `y`: tensor 1: 1 of 1 value differ"), "{other}");
    assert!(ran("few").contains("output `y`: 2 tensors, expected 1"), "{}", ran("few"));
    let by_nodes = onnx_cast(["test", "--engine", "nodes", &path("same")]);
    assert_eq!(by_nodes.status.code(), Some(0), "{}", stdout(&by_nodes));
}
