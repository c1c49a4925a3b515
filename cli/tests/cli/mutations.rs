//! Ten thousand damaged models and inputs through the real program: whatever a file holds, it ends
//! with an exit status and says what it has to in the lines it promises.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use prost::Message;
use rand::prelude::*;
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::*;

use crate::common::cases::root;

/// Small models of every kind: attributes, packed and typed initializers, strings, symbols,
/// subgraphs, functions, side files.
const MODELS: [&str; 27] = [
    "node/cast_ir2_no_opset_import_DOUBLE_to_FLOAT",
    "node/cast_opset1_FLOAT_to_FLOAT16",
    "node/cast_opset9_STRING_to_INT64",
    "node/cast_opset13_FLOAT_to_BFLOAT16",
    "node/cast_opset19_FLOAT_to_FLOAT8E5M2_saturate0",
    "node/cast_opset21_typed_odd_UINT4_to_FLOAT16",
    "node/cast_opset24_FLOAT_to_FLOAT8E8M0_round_down_saturate0",
    "node/cast_opset28_FLOAT6E3M2_to_FLOAT6E2M3",
    "node/castlike_opset25_FLOAT_to_UINT2",
    "whole/castlike_small_types",
    "whole/constant_nodes",
    "whole/constant_of_shape",
    "whole/declared_nameless_and_stale",
    "whole/functions_absent_attribute",
    "whole/functions_attributes",
    "whole/functions_in_branches",
    "whole/functions_overloads",
    "whole/gather_by_cast_indices",
    "whole/if_casts_then",
    "whole/if_float8_outer_else",
    "whole/mlp_external_data",
    "whole/mlp_weights_INT4",
    "whole/moves_FLOAT4E2M1",
    "whole/scan_bfloat16_state",
    "whole/shape_as_outputs",
    "whole/shape_half_size",
    "whole/strings_through_numbers",
];

const MUTANTS_OF_EACH: usize = 400;
const BATCH: usize = 240;

/// The files of a test case, by their names.
type Case = Vec<(String, Vec<u8>)>;

#[test]
fn damaged_models_end_in_order() {
    let originals: Vec<Case> = MODELS.iter().map(|name| read_case(name)).collect();
    let mut mutants = vec![];
    for (index, original) in originals.iter().enumerate() {
        let mut rng = StdRng::seed_from_u64(index as u64);
        mutants.extend((0..MUTANTS_OF_EACH).map(|_| mutant(original, &originals, &mut rng)));
    }
    assert!(mutants.len() >= 10_000);
    let (left, right) = mutants.split_at(mutants.len() / 2);
    let (passed, failed) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run_batches(left));
        let (passed, failed) = run_batches(right);
        let (more_passed, more_failed) = other.join().expect("the other half");
        (passed + more_passed, failed + more_failed)
    });
    println!("{passed} mutants passed, {failed} failed");
    // Damage that nothing notices, or that stops everything at the door, would test little.
    assert!(passed > 500 && failed > 5000, "{passed} passed, {failed} failed");
}

/// The counts of mutants that pass and fail.
fn run_batches(mutants: &[Case]) -> (usize, usize) {
    mutants.chunks(BATCH).map(run_batch).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn run_batch(mutants: &[Case]) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (index, mutant) in mutants.iter().enumerate() {
        let case = folder.path().join(format!("{index:03}"));
        fs::create_dir(&case).expect("a folder");
        for (name, bytes) in mutant {
            fs::write(case.join(name), bytes).expect("a file");
        }
    }
    let output = assert_cmd::Command::new(cargo_bin!("onnx-cast"))
        .args(["test", "--rtol", "1e-4", "--atol", "1e-5", "--max-memory", "1"])
        .arg(folder.path())
        .timeout(Duration::from_secs(120))
        .output()
        .expect("the program starts");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let context = || format!("{:?}\n{stderr}\n{stdout}\n{}", output.status, keep(folder.path()));

    let is_error = stderr.starts_with("error: ") && stderr.lines().count() == 1;
    match output.status.code() {
        Some(0 | 1) => assert_eq!(stderr, "", "{}", context()),
        Some(2) => assert!(is_error, "{}", context()),
        _ => panic!("{}", context()),
    }
    let lines: Vec<&str> = stdout.lines().collect();
    let (last, cases) = lines.split_last().unwrap_or_else(|| panic!("{}", context()));
    let count = |start: &str| cases.iter().filter(|line| line.starts_with(start)).count();
    let (passed, failed) = (count("ok   "), count("FAIL "));
    assert_eq!(*last, format!("{passed} passed, {failed} failed"), "{}", context());
    assert_eq!((cases.len(), passed + failed), (mutants.len(), mutants.len()), "{}", context());
    (passed, failed)
}

/// Saves the batch from its temporary folder, for a look at what went wrong; returns where it is.
fn keep(folder: &Path) -> String {
    let kept = std::env::temp_dir().join(format!("onnx-cast-mutants-{}", std::process::id()));
    match fs::rename(folder, &kept) {
        Ok(()) => format!("the batch is in {}", kept.display()),
        Err(error) => error.to_string(),
    }
}

fn read_case(name: &str) -> Case {
    let folder = root().join("models").join(name);
    let files = |folder: PathBuf| {
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    };
    let mut paths: Vec<_> =
        files(folder.clone()).chain(files(folder.join("test_data_set_0"))).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read(&path).expect("a file"))
    };
    paths.into_iter().map(read).collect()
}

// ---- Damage ----

fn mutant(original: &Case, all: &[Case], rng: &mut StdRng) -> Case {
    let mut case = original.clone();
    let is_model = |(name, _): &&mut (String, Vec<u8>)| name == "model.onnx";
    // One in eight has another file damaged instead of the model.
    let place = if rng.random_ratio(1, 8) {
        case.iter_mut().filter(|file| !is_model(file)).choose(rng)
    } else {
        case.iter_mut().find(is_model)
    };
    let (name, bytes) = place.expect("a file");
    if name == "model.onnx" && rng.random_ratio(2, 3) {
        let mut model = ModelProto::decode(bytes.as_slice()).expect("a model");
        for _ in 0..rng.random_range(1..=3) {
            edit_model(&mut model, rng);
        }
        *bytes = model.encode_to_vec();
    } else {
        let other = all.choose(rng).and_then(|case| case.choose(rng)).expect("another file");
        damage(bytes, &other.1, rng);
    }
    case
}

/// Changes bytes, without regard to what they mean.
fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut StdRng) {
    let piece = |bytes: &[u8], rng: &mut StdRng| {
        let start = rng.random_range(0..=bytes.len());
        start..rng.random_range(start..=bytes.len().min(start + 40))
    };
    match rng.random_range(0..6) {
        0 => bytes.truncate(rng.random_range(0..=bytes.len())),
        1 => {
            let gone = piece(bytes, rng);
            bytes.drain(gone);
        }
        2 => {
            let (replaced, from) = (piece(bytes, rng), piece(other, rng));
            bytes.splice(replaced, other[from].iter().copied());
        }
        3 => {
            let (place, from) = (rng.random_range(0..=bytes.len()), piece(bytes, rng));
            let copy = bytes[from].to_vec();
            bytes.splice(place..place, copy);
        }
        4 => {
            for place in piece(bytes, rng) {
                bytes[place] = *[0, 1, 0x7f, 0x80, 0xff].choose(rng).expect("a byte");
            }
        }
        _ => {
            for _ in 0..rng.random_range(1..=8) {
                if let Some(byte) = bytes.choose_mut(rng) {
                    *byte ^= 1 << rng.random_range(0..8);
                }
            }
        }
    }
}

/// Numbers at which something may go wrong.
fn odd_number(rng: &mut StdRng) -> i64 {
    const ODD: [i64; 18] = [
        -1,
        0,
        1,
        2,
        3,
        4,
        7,
        15,
        16,
        23,
        28,
        29,
        255,
        1 << 20,
        1 << 31,
        1 << 40,
        i64::MAX,
        i64::MIN,
    ];
    if rng.random_ratio(1, 4) {
        rng.random_range(-9..30)
    } else {
        *ODD.choose(rng).expect("a number")
    }
}

fn odd_name(rng: &mut StdRng) -> String {
    const ODD: [&str; 14] = [
        "",
        "x",
        "y",
        "N",
        "\u{1b}[2J",
        "a\nb",
        "N*M",
        "N-1",
        "N/0",
        "floor(N/2)",
        "((N))",
        "?",
        "../x",
        "🎯",
    ];
    ODD.choose(rng).expect("a name").to_string()
}

fn edit_model(model: &mut ModelProto, rng: &mut StdRng) {
    match rng.random_range(0..20) {
        0 => model.opset_import.clear(),
        1 | 2 => {
            let version = odd_number(rng);
            model.opset_import.push(OperatorSetIdProto { domain: odd_name(rng), version });
            model.opset_import.iter_mut().for_each(|import| import.version = version);
        }
        3 => model.ir_version = odd_number(rng),
        4..=9 if !model.functions.is_empty() => {
            let others: Vec<_> = model.functions.clone();
            if let Some(function) = model.functions.choose_mut(rng) {
                edit_function(function, &others, rng);
            }
        }
        _ => {
            if let Some(graph) = &mut model.graph {
                edit_graph(graph, rng);
            }
        }
    }
}

fn edit_function(function: &mut FunctionProto, others: &[FunctionProto], rng: &mut StdRng) {
    let some = |names: &[String], rng: &mut StdRng| names.choose(rng).cloned().unwrap_or_default();
    match rng.random_range(0..12) {
        0 => function.name = Some(odd_name(rng)),
        1 => function.name = others.choose(rng).and_then(|other| other.name.clone()),
        2 => function.domain = Some(odd_name(rng)),
        3 => function.input.push(some(&function.output, rng)),
        4 => function.output.push(some(&function.input, rng)),
        5 => function.input.truncate(rng.random_range(0..=function.input.len())),
        6 => function.attribute.push(odd_name(rng)),
        7 => function.attribute.clear(),
        8 => {
            let version = odd_number(rng);
            function.opset_import.iter_mut().for_each(|import| import.version = version);
        }
        // A call of itself, or of another one.
        9 => {
            if let (Some(node), Some(other)) = (function.node.choose_mut(rng), others.choose(rng)) {
                node.op_type = other.name().into();
                node.domain = other.domain().into();
            }
        }
        _ => {
            let node = function.node.choose_mut(rng);
            node.into_iter().for_each(|node| edit_node(node, rng));
        }
    }
}

fn edit_graph(graph: &mut GraphProto, rng: &mut StdRng) {
    let nodes = graph.node.len();
    match rng.random_range(0..16) {
        0 => graph.node.shuffle(rng),
        1 if nodes > 0 => {
            graph.node.remove(rng.random_range(0..nodes));
        }
        2 => graph.node.extend(graph.node.choose(rng).cloned()),
        3 => graph.initializer.extend(graph.initializer.choose(rng).cloned()),
        4 => graph.initializer.truncate(rng.random_range(0..=graph.initializer.len())),
        5 => graph.input.extend(graph.input.choose(rng).cloned()),
        6 => graph.input.truncate(rng.random_range(0..=graph.input.len())),
        7 => graph
            .output
            .extend([&graph.output, &graph.input].choose(rng).and_then(|v| v.choose(rng)).cloned()),
        8 => {
            let GraphProto { input, output, value_info, .. } = graph;
            let lists = [input, output, value_info];
            let value = lists.into_iter().flatten().choose(rng);
            value.into_iter().for_each(|value| edit_value(value, rng));
        }
        9 | 10 => {
            let tensor = graph.initializer.choose_mut(rng);
            tensor.into_iter().for_each(|tensor| edit_tensor(tensor, rng));
        }
        _ => {
            let node = graph.node.choose_mut(rng);
            node.into_iter().for_each(|node| edit_node(node, rng));
        }
    }
}

fn edit_value(value: &mut ValueInfoProto, rng: &mut StdRng) {
    let Some(type_proto::Value::TensorType(tensor)) =
        value.r#type.as_mut().and_then(|r#type| r#type.value.as_mut())
    else {
        return;
    };
    let dims = tensor.shape.as_mut().map(|shape| &mut shape.dim);
    match (rng.random_range(0..7), dims) {
        (0, _) => value.name = odd_name(rng),
        (1, _) => value.r#type = None,
        (2, _) => tensor.elem_type = odd_number(rng) as i32,
        (3, _) => tensor.shape = None,
        (4, Some(dims)) => dims.truncate(rng.random_range(0..=dims.len())),
        (_, Some(dims)) => {
            let kind = match rng.random_range(0..3) {
                0 => None,
                1 => Some(dimension::Value::DimParam(odd_name(rng))),
                _ => Some(dimension::Value::DimValue(odd_number(rng))),
            };
            let dim = Dimension { value: kind, ..Dimension::default() };
            match dims.choose_mut(rng) {
                Some(place) => *place = dim,
                None => dims.push(dim),
            }
        }
        (_, None) => {}
    }
}

fn edit_tensor(tensor: &mut TensorProto, rng: &mut StdRng) {
    match rng.random_range(0..9) {
        0 => tensor.name = odd_name(rng),
        1 => tensor.data_type = odd_number(rng) as i32,
        2 => tensor.dims.push(odd_number(rng)),
        3 | 4 => {
            let dim = odd_number(rng);
            if let Some(place) = tensor.dims.choose_mut(rng) {
                *place = dim;
            }
        }
        5 => {
            let length = rng.random_range(0..=tensor.raw_data.len() + 2);
            tensor.raw_data.resize(length, 0x55);
        }
        6 => tensor.int32_data.push(odd_number(rng) as i32),
        7 => tensor.string_data.push(odd_name(rng).into_bytes()),
        _ => {
            tensor.data_location = Some(DataLocation::External as i32);
            let entry = |key: &str, value| StringStringEntryProto { key: key.into(), value };
            let number = odd_number(rng).to_string();
            tensor.external_data = vec![entry("location", odd_name(rng)), entry("offset", number)];
        }
    }
}

fn edit_node(node: &mut NodeProto, rng: &mut StdRng) {
    const OPERATORS: [&str; 24] = [
        "Cast",
        "CastLike",
        "Identity",
        "Shape",
        "Reshape",
        "Slice",
        "Gather",
        "Concat",
        "Expand",
        "Tile",
        "Pad",
        "Transpose",
        "Squeeze",
        "Unsqueeze",
        "ConstantOfShape",
        "Range",
        "If",
        "Scan",
        "Loop",
        "Add",
        "MatMul",
        "Where",
        "Constant",
        "Frob",
    ];
    match rng.random_range(0..9) {
        0 => node.op_type = OPERATORS.choose(rng).expect("an operator").to_string(),
        1 => node.name = odd_name(rng),
        2 => node.domain = odd_name(rng),
        3 => {
            let names = [&node.input, &node.output].into_iter().flatten().cloned();
            let name = names.chain([odd_name(rng)]).choose(rng).unwrap_or_default();
            if let Some(place) = node.input.choose_mut(rng) {
                *place = name;
            }
        }
        4 => node.input.truncate(rng.random_range(0..=node.input.len())),
        5 => node.input.push(node.output.first().cloned().unwrap_or_default()),
        6 => {
            let name = odd_name(rng);
            if let Some(place) = node.output.choose_mut(rng) {
                *place = name;
            }
        }
        _ => match node.attribute.choose_mut(rng) {
            Some(attribute) => edit_attribute(attribute, rng),
            None => {
                let name = ["to", "saturate", "round_mode", "axis"].choose(rng).expect("a name");
                let mut attribute =
                    AttributeProto { name: name.to_string(), ..AttributeProto::default() };
                edit_attribute(&mut attribute, rng);
                node.attribute.push(attribute);
            }
        },
    }
}

fn edit_attribute(attribute: &mut AttributeProto, rng: &mut StdRng) {
    match (rng.random_range(0..7), &mut attribute.g, &mut attribute.t) {
        (_, Some(graph), _) if rng.random_ratio(3, 4) => edit_graph(graph, rng),
        (_, _, Some(tensor)) if rng.random_ratio(3, 4) => edit_tensor(tensor, rng),
        (0, ..) => attribute.name = odd_name(rng),
        (1, ..) => attribute.r#type = rng.random_range(-1..15),
        (2, ..) => attribute.s = odd_name(rng).into_bytes(),
        (3, ..) => attribute.ints.push(odd_number(rng)),
        (4, ..) => attribute.ref_attr_name = odd_name(rng),
        _ => attribute.i = odd_number(rng),
    }
}
