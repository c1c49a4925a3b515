use std::fs;

use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{OperatorSetIdProto, StringStringEntryProto};

use super::*;
use crate::cast::element_type::ElementType::{BFloat16, Float, Float16, Int8, Int64};
use crate::convert::{Options, WeightFormat, convert, convert_file};
use crate::passes::testing::read;

/// The file that a model becomes whose computations become FLOAT16.
fn converted(model: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let converted = convert(model, None, &Options::new(Float16)).expect("a conversion");
    converted.write(&mut out, None).expect("a file");
    out
}

#[test]
fn fields_that_tract_does_not_know_stay() {
    // `metadata_props` of a node and of a value.
    let entry = |field: u8| [&[field << 3 | 2, 6, 10, 1, b'k', 18, 1, b'v'][..]].concat();
    let graph = read("in x FLOAT\ny = Neg(x)\nout y FLOAT").graph.expect("a graph");
    let node = [graph.node[0].encode_to_vec(), entry(9)].concat();
    let input = [graph.input[0].encode_to_vec(), entry(4)].concat();
    let mut inner = vec![];
    write(1, &node, &mut inner);
    write(11, &input, &mut inner);
    write(12, &graph.output[0].encode_to_vec(), &mut inner);
    let mut whole = ModelProto { graph: None, ..read("") }.encode_to_vec();
    write(7, &inner, &mut whole);
    let out = converted(&whole);
    let has = |part: &[u8]| out.windows(part.len()).any(|window| window == part);
    assert!(has(&entry(9)) && has(&entry(4)));
}

#[test]
fn sequences_are_declared_with_what_they_have_become() {
    let text = "in x FLOAT
        a = Neg(x)
        s = SequenceConstruct(a, a)
        y = ConcatFromSequence<axis=0>(s)
        out y FLOAT";
    let graph = read(text).graph.expect("a graph");
    // A sequence of tensors of one dimension.
    let ty = |element: u8| [34, 10, 10, 8, 10, 6, 8, element, 18, 2, 10, 0];
    let mut declared = vec![];
    write(1, b"s", &mut declared);
    write(2, &ty(Float as u8), &mut declared);
    let mut inner = graph.encode_to_vec();
    write(13, &declared, &mut inner);
    let mut whole = ModelProto { graph: None, ..read("") }.encode_to_vec();
    write(7, &inner, &mut whole);
    let out = converted(&whole);
    assert!(out.windows(12).any(|window| window == ty(Float16 as u8)));
    assert_eq!(converted(&out), out);
}

#[test]
fn overloads_of_a_function_stay_apart() {
    let overload = |text: &[u8]| {
        let mut field = vec![];
        write(13, text, &mut field);
        field
    };
    let function = |op: &str, text: &[u8]| {
        let function = FunctionProto {
            name: Some("F".into()),
            domain: Some("my".into()),
            input: vec!["a".into()],
            output: vec!["b".into()],
            node: read(&format!("b = {op}(a)")).graph.expect("a graph").node,
            opset_import: read("").opset_import,
            ..FunctionProto::default()
        };
        [function.encode_to_vec(), overload(text)].concat()
    };
    let model = read("in x FLOAT\ny = my::F(x)\nz = my::F(y)\nout z FLOAT");
    let graph = model.graph.clone().expect("a graph");
    let mut inner = vec![];
    // Both nodes have one name; a node's overload is its field 8.
    for (node, text) in graph.node.into_iter().zip([b"r", b"t"]) {
        let node = NodeProto { name: "same".into(), ..node };
        let mut field = vec![];
        write(8, text, &mut field);
        write(1, &[node.encode_to_vec(), field].concat(), &mut inner);
    }
    write(11, &graph.input[0].encode_to_vec(), &mut inner);
    write(12, &graph.output[0].encode_to_vec(), &mut inner);
    let mut opsets = model.opset_import.clone();
    opsets.push(OperatorSetIdProto { domain: "my".into(), version: 1 });
    let mut whole = ModelProto { graph: None, opset_import: opsets, ..model }.encode_to_vec();
    write(7, &inner, &mut whole);
    write(25, &function("Relu", b"r"), &mut whole);
    write(25, &function("Tanh", b"t"), &mut whole);
    let out = converted(&whole);
    let count = |part: &[u8]| out.windows(part.len()).filter(|window| *window == part).count();
    assert_eq!((count(&overload(b"r")), count(&overload(b"t"))), (1, 1));
    assert_eq!((count(&[8 << 3 | 2, 1, b'r']), count(&[8 << 3 | 2, 1, b't'])), (1, 1));
    convert(&out, None, &Options::new(Float)).expect("a conversion back");
}

#[test]
fn zeros_of_attributes_stay_given() {
    // As `value_int` is, which has to be there; `to` becomes another number.
    let zero = |name: &str| {
        let mut attribute = vec![];
        write(1, name.as_bytes(), &mut attribute);
        [&attribute[..], &[3 << 3, 0, 0xa0, 0x01, 2]].concat()
    };
    let graph = read("in x FLOAT\nk = Constant()\ny = Neg(x)\nout y FLOAT");
    let graph = graph.graph.expect("a graph");
    let (mut constant, mut inner) = (graph.node[0].encode_to_vec(), vec![]);
    write(5, &zero("value_int"), &mut constant);
    write(1, &constant, &mut inner);
    write(1, &graph.node[1].encode_to_vec(), &mut inner);
    write(11, &graph.input[0].encode_to_vec(), &mut inner);
    write(12, &graph.output[0].encode_to_vec(), &mut inner);
    let mut whole = ModelProto { graph: None, ..read("") }.encode_to_vec();
    write(7, &inner, &mut whole);
    let out = converted(&whole);
    assert!(out.windows(2).any(|window| window == [3 << 3, 0]));
}

#[test]
fn external_data_is_converted_beside_the_model() {
    let folder = std::env::temp_dir().join(format!("onnx-cast-convert-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let numbers: Vec<f32> = (0..6).map(|i| i as f32 / 3.0).collect();
    let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    fs::write(folder.join("w.bin"), [&[0; 8][..], &data].concat()).expect("a file");
    let mut model = read("in x FLOAT\nb = Mul(x, w)\nout b FLOAT");
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    model.graph.as_mut().expect("a graph").initializer.push(TensorProto {
        name: "w".into(),
        data_type: Float as i32,
        dims: vec![6],
        data_location: Some(DataLocation::External as i32),
        external_data: vec![entry("location", "w.bin"), entry("offset", "8")],
        ..TensorProto::default()
    });
    let options = Options::new(BFloat16);
    let converted = convert(&model.encode_to_vec(), Some(&folder), &options).expect("a conversion");
    assert!(converted.has_external_data());
    assert_eq!(converted.external_bytes(), 32, "the whole file");
    let (mut out, mut side) = (vec![], vec![]);
    converted.write(&mut out, Some(("o.data", &mut side))).expect("a file");
    fs::remove_dir_all(&folder).expect("no folder");
    let halves: Vec<u8> =
        numbers.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    assert_eq!(side, halves);
    let proto = ModelProto::decode(&*out).expect("a model");
    let tensor = &proto.graph.expect("a graph").initializer[0];
    assert_eq!(tensor.data_type, BFloat16 as i32);
    let entries: Vec<&str> = tensor.external_data.iter().map(|entry| &*entry.value).collect();
    assert_eq!(entries, ["o.data", "0", "12"]);
}

/// A model with weights that stay in the file while it is converted, one of them that is no number,
/// and one that becomes codes.
#[test]
fn a_file_becomes_what_its_bytes_become() {
    let folder = std::env::temp_dir().join(format!("onnx-cast-file-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut model = read("in x FLOAT\na = MatMul(x, w)\nb = Gather(a, i)\nout b FLOAT");
    model.opset_import = vec![OperatorSetIdProto { version: 21, ..Default::default() }];
    let weight = |name: &str, data_type: i32, dims: &[i64], raw_data: Vec<u8>| TensorProto {
        name: name.into(),
        data_type,
        dims: dims.to_vec(),
        raw_data,
        ..TensorProto::default()
    };
    let numbers = (0..4096).flat_map(|i| ((i * 37 % 101) as f32 / 64.0).to_le_bytes()).collect();
    let places = (0..1024).flat_map(|i| (i64::from(i) % 64).to_le_bytes()).collect();
    model.graph.as_mut().expect("a graph").initializer.extend([
        weight("w", Float as i32, &[64, 64], numbers),
        weight("i", Int64 as i32, &[1024], places),
    ]);
    let (bytes, path) = (model.encode_to_vec(), folder.join("model.onnx"));
    fs::write(&path, &bytes).expect("a file");
    let mut options = [Options::new(Float16), Options::new(BFloat16)];
    options[1].weights = Some(WeightFormat::new(Int8, Some(16)));
    for options in options {
        let [mut of_bytes, mut of_file] = [vec![], vec![]];
        let whole = convert(&bytes, None, &options).expect("a conversion");
        whole.write(&mut of_bytes, None).expect("a file");
        let light = convert_file(&path, &options).expect("a conversion");
        let held = &light.file.model.graph.as_ref().expect("a graph").initializer;
        assert!(held.iter().all(|held| held.raw_data.len() < 4096), "weights stay in the file");
        assert!(!light.has_external_data());
        light.write(&mut of_file, None).expect("a file");
        assert!(of_bytes == of_file);
    }
    let missing = convert_file(&folder.join("none.onnx"), &Options::new(Float16));
    assert!(missing.unwrap_err().to_string().contains("none.onnx"));
    fs::remove_dir_all(&folder).expect("no folder");
}
