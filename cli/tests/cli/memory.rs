//! Memory: that of one set of inputs, however many there are.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use tract_onnx::pb::{StringStringEntryProto, TensorProto};
use tract_onnx_cast::ElementType;

use crate::common::proto::{
    self, Change as _, graph, graph_attribute, int, ints, model, node, value,
};
use crate::program::*;
use crate::run::npy;
use crate::verdict::{self, held, values};

/// More than the program takes for three sets, and less than it would for all of them at once, of
/// 16 MiB each.
const LIMIT_KIB: usize = 640_000;
const SETS: &str = "20";

/// Asks with so little address space, of which threads reserve some.
fn ask_within(kib: usize, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")])
        .arg(cargo_bin!("onnx-cast"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .output()
        .expect("a shell")
}

fn done_with_little(arguments: &[&str]) -> String {
    done_within(LIMIT_KIB, arguments)
}

fn done_within(kib: usize, arguments: &[&str]) -> String {
    let output = ask_within(kib, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

#[test]
fn many_sets_take_no_more_memory_than_one() {
    use ElementType::{Float, Float16};
    let folder = Folder::new();
    let nodes = [
        cast("down", "x", "h", Float16),
        cast("up", "h", "f", Float),
        node("ReduceMax", &["f"], &["y"], vec![int("keepdims", 0)]),
    ];
    let graph = graph(&[value("x", Float, &[4 << 20])], &nodes, &[value("y", Float, &[])]);
    let onnx = folder.message("m.onnx", &model(13, graph));
    let random = ["--sets", SETS, "--range", "x=0:1"];
    let told = done_with_little(&[&["audit", &onnx], &random[..]].concat());
    assert!(told.contains("20 sets"), "{told}");
    let told = done_with_little(&[&["compare", &onnx, &onnx], &random[..]].concat());
    assert!(told.contains("exactly equal"), "{told}");

    let recorded = folder.text("recorded");
    let record = [&["record", &onnx, &recorded], &random[..]].concat();
    assert_eq!(done_with_little(&record).lines().count(), 20);
    // Once more, they are there.
    assert!(!done_with_little(&record).contains("added"));
    done_with_little(&["rerecord", &recorded]);
    let told = done_with_little(&["audit", &onnx, "-i", &recorded, "--baseline", &onnx]);
    assert!(told.contains("20 sets"), "{told}");
    // One side is a model, the other what it was recorded to make of as many sets.
    std::fs::remove_file(folder.path("recorded/model.onnx")).expect("a file");
    let told = done_with_little(&["compare", &onnx, &recorded]);
    assert!(told.contains("exactly equal"), "{told}");
}

/// What is known with less memory than a check takes depends on how little it is: nothing is said
/// of the conversion then.
#[test]
fn a_verdict_is_the_same_with_less_memory_or_there_is_none() {
    use ElementType::Float;
    let (folder, side) = (Folder::new(), 2048);
    let file = |name: &str, bounded_by: &str| {
        let nodes = [
            node("MatMul", &["x", "w"], &["p"], vec![]).named("product"),
            node(bounded_by, &["p"], &["t"], vec![]).named("bounded"),
            node("ReduceMax", &["t"], &["y"], vec![ints("axes", &[1])]).named("most"),
        ];
        let inputs = [value("x", Float, &[side, 1])];
        let mut main = graph(&inputs, &nodes, &[value("y", Float, &[side, 1])]);
        main.initializer = vec![held("w", Float, &[1, side], &values(side as usize, 1))];
        folder.message(name, &model(13, main))
    };
    let a = file("a.onnx", "Tanh");
    let compared = |converted: &str, memory: &str| {
        let search = ["--search", "0", "--max-memory", memory];
        onnx_cast([&["compare", &a, converted][..], &search].concat())
    };
    for (converted, right) in [
        (file("same.onnx", "Tanh"), "the output is exactly equal"),
        (file("other.onnx", "Sigmoid"), "broken"),
    ] {
        let all = stdout(&compared(&converted, "4GiB"));
        assert!(all.contains(&format!("{a}: {right}")), "{all}");
        for mebibytes in (400..720).step_by(20) {
            let less = compared(&converted, &format!("{mebibytes}MiB"));
            let (all, why) = (stdout(&less), stderr(&less));
            if less.status.code() == Some(2) {
                let why: Vec<&str> = why.lines().filter(|line| !is_progress(line)).collect();
                let [why] = why[..] else { panic!("{mebibytes}: {why:?}") };
                let limit = format!(
                    "tract ran out of memory; --max-memory raises the limit of {mebibytes}.0 MiB"
                );
                assert!(why.contains(".onnx: ") && why.ends_with(&limit), "{why}");
            } else {
                let is_right = all.contains(&format!("{a}: {right}")) && !all.contains("refuses");
                assert!(is_right, "{mebibytes}: {all}");
            }
        }
    }
}

/// A weight in a file, which takes no room on the disk.
fn hole(folder: &Folder, dims: &[i64]) -> TensorProto {
    let file = std::fs::File::create(folder.path("w.data")).expect("a file");
    file.set_len(4 * dims.iter().product::<i64>() as u64).expect("a long file");
    TensorProto {
        name: "w".into(),
        data_type: ElementType::Float as i32,
        dims: dims.to_vec(),
        data_location: Some(1),
        external_data: vec![StringStringEntryProto {
            key: "location".into(),
            value: "w.data".into(),
        }],
        ..TensorProto::default()
    }
}

/// Of a matrix in a file parts are read, and what is said to be needed is the sum of what is named.
#[test]
fn what_parts_of_a_matrix_need_is_told() {
    use ElementType::Float;
    let folder = Folder::new();
    let product = node("MatMul", &["x", "w"], &["y"], vec![]);
    let inputs = [value("x", Float, &[1, 1 << 14])];
    let mut large = graph(&inputs, &[product], &[value("y", Float, &[1, 1 << 14])]);
    large.initializer = vec![hole(&folder, &[1 << 14, 1 << 14])];
    let onnx = folder.message("m.onnx", &model(13, large));
    let why = refused(&["run", &onnx, "--engine", "nodes", "--max-memory", "256MiB"]);
    let told = "m.onnx: parts of its weight `w`, which has 1.0 GiB, take 64.0 MiB, and the program \
                320.0 MiB: 384.0 MiB at least, which is more than the 256.0 MiB of --max-memory";
    assert!(why.ends_with(told), "{why}");
}

/// A weight is wrong before a large product: that its factors were moved into that is not asked of
/// a matrix that the conversion has as it is.
#[test]
fn what_is_wrong_before_a_large_product_is_found_in_little_memory() {
    use ElementType::Float;
    let (folder, inside, outputs) = (Folder::new(), 256, 1 << 16);
    let matrix = hole(&folder, &[inside, outputs]);
    let first: Vec<u8> = values(1024, 1).iter().flat_map(|x| x.to_le_bytes()).collect();
    let file = std::fs::File::options().write(true).open(folder.path("w.data"));
    file.and_then(|mut file| file.write_all(&first)).expect("a file");
    let side = |name: &str, by: f32| {
        let nodes = [
            node("Mul", &["x", "n"], &["h"], vec![]).named("scaled"),
            node("MatMul", &["h", "w"], &["y"], vec![]).named("product"),
        ];
        let outputs = [value("y", Float, &[1, outputs])];
        let mut main = graph(&[value("x", Float, &[1, inside])], &nodes, &outputs);
        let scale: Vec<f32> = values(inside as usize, 2).iter().map(|x| by * (x + 2.0)).collect();
        main.initializer = vec![held("n", Float, &[inside], &scale), matrix.clone()];
        folder.message(name, &model(13, main))
    };
    let (a, b) = (side("a.onnx", 1.0), side("b.onnx", 1.5));
    let told = said(1, &["compare", &a, &b, "--search", "0", "--max-memory", "640MiB"]);
    assert!(told.contains("Mul `scaled`: its weight `n` is a different one"), "{told}");
}

/// A limit may be more than the machine has.
#[test]
fn memory_is_told_in_any_unit() {
    use ElementType::Float;
    let folder = Folder::new();
    let negate = node("Neg", &["x"], &["y"], vec![]);
    let small = graph(&[value("x", Float, &[1])], &[negate], &[value("y", Float, &[1])]);
    let small = folder.message("small.onnx", &model(13, small));
    for most in ["1TiB", "1TB", "2GB", "2000MB"] {
        said(0, &["run", &small, "--max-memory", most]);
    }
}

#[test]
fn a_model_that_there_is_no_room_for_is_refused_before_anything_runs() {
    use ElementType::Float;
    let folder = Folder::new();
    let inputs = [value("x", Float, &[1])];
    let add = node("Add", &["x", "w"], &["y"], vec![]);
    let mut large = graph(&inputs, &[add], &[value("y", Float, &[1 << 28])]);
    large.initializer = vec![hole(&folder, &[1 << 28])];
    let onnx = folder.message("m.onnx", &model(13, large));
    let negate = node("Neg", &["x"], &["y"], vec![]);
    let small = model(13, graph(&inputs, &[negate], &[value("y", Float, &[1])]));
    let small = folder.message("small.onnx", &small);
    let recorded = folder.text("recorded");
    let engines = [
        (&["--engine", "nodes"][..], "weight `w` takes 1.0 GiB"),
        (&["--engine", "plan"], "weights take 1.0 GiB"),
        // Neither has room.
        (&[], "weight"),
    ];
    for (engine, told) in engines {
        for words in [
            &["run", &onnx][..],
            &["audit", &onnx],
            &["audit", &small, "--baseline", &onnx],
            &["compare", &onnx, &small],
            &["compare", &small, &onnx],
            &["record", &onnx, &recorded],
            &["keep", &onnx, "--to", "FLOAT16"],
            &["convert", &onnx, "--to", "FLOAT16", "-o", &recorded],
        ] {
            let why = refused(&[words, engine, &["--max-memory", "1.25"]].concat());
            let is_told = why.contains(told) && why.contains("the 1.2 GiB of --max-memory");
            assert!(is_told && why.contains("m.onnx: its "), "{words:?}: {why}");
        }
    }
    assert!(!folder.path("recorded").exists());
    let case = ["model.onnx", "input_0.pb", "output_0.pb"].map(|name| format!("case/{name}"));
    std::fs::create_dir(folder.path("case")).expect("a folder");
    std::fs::rename(&onnx, folder.path(&case[0])).expect("a model");
    std::fs::rename(folder.path("w.data"), folder.path("case/w.data")).expect("a weight");
    case[1..].iter().for_each(|name| drop(folder.write(name, "")));
    let output = onnx_cast(["test", &folder.text("case"), "--max-memory", "1280MiB"]);
    let told = stdout(&output);
    assert!(told.contains("the 1.2 GiB of --max-memory") && told.contains("1 failed"), "{told}");
}

#[test]
fn a_model_that_there_is_no_room_for_as_a_plan_runs_node_by_node() {
    use ElementType::{Float, Int64};
    let folder = Folder::new();
    let rows = node("Gather", &["w", "x"], &["y"], vec![]);
    let mut large = graph(&[value("x", Int64, &[1])], &[rows], &[value("y", Float, &[1, 1 << 10])]);
    large.initializer = vec![hole(&folder, &[1 << 15, 1 << 10])];
    let onnx = folder.message("m.onnx", &model(13, large));
    let run = ["run", &onnx, "--range", "x=0:9", "--max-memory", "420MiB"];
    let told = stderr(&onnx_cast(run));
    let why = "run node by node: its weights take 128.0 MiB, and the program 320.0 MiB: 448.0 MiB";
    assert!(told.contains(why), "{told}");
    let why = refused(&[&run[..], &["--engine", "plan"]].concat());
    assert!(why.contains("more than the 420.0 MiB of --max-memory"), "{why}");
}

/// With 1 GiB there is room for one run at a time.
#[test]
fn samples_are_the_same_on_any_number_of_threads() {
    let folder = Folder::new();
    let of = |ty| {
        let weight = held("w", ty, &[8, 8], &values(64, 1));
        let nodes = [
            proto::cast("x", ty, "h"),
            node("MatMul", &["h", "w"], &["m"], vec![]),
            node("Tanh", &["m"], &["t"], vec![]),
            proto::cast("t", ElementType::Float, "y"),
        ];
        verdict::of(&[4, 8], nodes.to_vec(), &[4, 8], vec![weight])
    };
    let a = folder.message("a.onnx", &of(ElementType::Float));
    let b = folder.message("b.onnx", &of(ElementType::Float16));
    let compared = |more: &[&str]| {
        let words = [&["compare", &a, &b, "--json", "--samples", "7"], more].concat();
        json(&stdout(&onnx_cast(words)))["comparisons"][0].clone()
    };
    let (one, many) = (compared(&["--max-memory", "1"]), compared(&["--max-memory", "64"]));
    let has_band = |inside: &Value| inside["band"].as_f64().is_some_and(|band| band > 0.0);
    let inside = one["errors_inside"].as_array().expect("errors");
    assert!(inside.iter().any(has_band), "{one}");
    assert_eq!(one, many);
}

/// A branch of fifteen weights of 16 MiB, its own or from around it, of which each is taken once.
#[test]
fn a_branch_holds_no_weight_that_it_has_taken() {
    use ElementType::{Bool, Float};
    const COUNT: usize = 15;
    // A run that holds all of them takes more than 550,000, one that drops them 400,000.
    const LITTLE_KIB: usize = 500_000;
    const ELEMENTS: usize = 4 << 20;
    let folder = Folder::new();
    let file = std::fs::File::create(folder.path("w.data")).expect("a file");
    // A hole takes no room on the disk.
    file.set_len((4 * COUNT * ELEMENTS) as u64).expect("a long file");
    let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
    let weight = |at: usize| TensorProto {
        name: format!("w{at}"),
        data_type: Float as i32,
        dims: vec![ELEMENTS as i64],
        data_location: Some(1),
        external_data: vec![
            entry("location", "w.data".into()),
            entry("offset", (4 * at * ELEMENTS).to_string()),
            entry("length", (4 * ELEMENTS).to_string()),
        ],
        ..TensorProto::default()
    };
    folder.write("c.npy", npy("|b1", false, "()", &[1]));
    let weights: Vec<TensorProto> = (0..COUNT).map(weight).collect();
    let steps = |at: usize| {
        let [taken, made, weight] = ["v", "m", "w"].map(|name| format!("{name}{at}"));
        let taken = if at == 0 { "x".into() } else { taken };
        let behind = if at + 1 == COUNT { "b".into() } else { format!("v{}", at + 1) };
        [
            node("Add", &[&taken, &weight], &[&made], vec![]),
            node("ReduceMean", &[&made], &[&behind], vec![int("keepdims", 1)]),
        ]
    };
    let nodes: Vec<_> = (0..COUNT).flat_map(steps).collect();
    let branch = graph(&[], &nodes, &[value("b", Float, &[1])]);
    for is_own in [true, false] {
        let mut branch = branch.clone();
        if is_own {
            branch.initializer = weights.clone();
        }
        let negated = node("Neg", &["x"], &["b"], vec![]);
        let other = graph(&[], &[negated], &[value("b", Float, &[1])]);
        let other = if is_own { other } else { branch.clone() };
        let branches =
            [graph_attribute("then_branch", branch), graph_attribute("else_branch", other)];
        let choice = node("If", &["c"], &["y"], branches.into());
        let inputs = [value("x", Float, &[1]), value("c", Bool, &[])];
        let mut graph = graph(&inputs, &[choice], &[value("y", Float, &[1])]);
        if !is_own {
            graph.initializer = weights.clone();
        }
        let onnx = folder.message("m.onnx", &model(17, graph));
        let is_true = format!("c={}", folder.text("c.npy"));
        done_within(LITTLE_KIB, &["run", &onnx, "--engine", "nodes", "-i", &is_true]);
    }
}
