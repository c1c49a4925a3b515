//! Models that ask for more than there is.

use test_tools::tempfile;
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::untrusted::without_panic;
use tract_onnx_cast::{ElementType, Error, Limits, model_proto, onnx};

use crate::common::proto::{
    bytes, cast, external, graph, graph_attribute, int, int64, ints, model, node, raw, unshaped,
    value,
};

use ElementType::{Float, Float8E4M3FN, Int64};

fn of(nodes: &[NodeProto], constants: Vec<TensorProto>) -> ModelProto {
    let mut graph = graph(&[value("x", Float, &[1])], nodes, &[unshaped("y", Float8E4M3FN)]);
    graph.initializer = constants;
    model(21, graph)
}

fn limit_of(error: &TractError) -> Option<&'static str> {
    error.downcast_ref().and_then(Error::limit)
}

/// Which limit a model is refused by, at which place.
#[track_caller]
fn refused_by(model: &ModelProto) -> (&'static str, String) {
    let load = || onnx().model_for_proto_model(model)?.into_typed();
    let error = without_panic(load).expect_err("a limit");
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    let what = limit_of(&error).expect("a limit");
    let (place, numbers) = message.rsplit_once(&format!(": `{what}` is ")).expect("the limit");
    let (found, limit) = numbers.split_once(", and the limit is ").expect("two numbers");
    let number = |digits: &str| digits.parse::<u64>().expect("a number");
    assert!(number(found) > number(limit), "{message}");
    (what, place.into())
}

/// tract would ask for the memory while it loads the model.
#[test]
fn constants_are_not_made_without_measure() {
    let scalar = |name: &str, number: i64| TensorProto { dims: vec![], ..int64(name, &[number]) };
    let y = cast("c", Float8E4M3FN, "y");
    let one = |op: &str, inputs: &[&str], constants: Vec<TensorProto>| {
        of(&[node(op, inputs, &["c"], vec![]), y.clone()], constants)
    };
    let pads = [0, 1 << 30];
    let range = vec![scalar("a", 0), scalar("b", 1 << 30), scalar("d", 1)];
    for model in [
        one("ConstantOfShape", &["s"], vec![int64("s", &[1 << 15, 1 << 15])]),
        one("ConstantOfShape", &["s"], vec![int64("s", &[(1 << 31) - 1, (1 << 31) - 1])]),
        one("Expand", &["x", "s"], vec![int64("s", &[1 << 16, 1 << 16])]),
        one("Tile", &["x", "s"], vec![int64("s", &[1 << 30])]),
        one("Range", &["a", "b", "d"], range),
        one("Pad", &["x", "s"], vec![int64("s", &pads)]),
    ] {
        let op = model.graph.as_ref().expect("a graph").node[0].op_type.clone();
        let (what, place) = refused_by(&model);
        assert_eq!((what, place), ("made_bytes", format!("node `{op}_c` ({op})")));
    }
    // A constant that a node holds, in a branch.
    let shape = node("Constant", &[], &["s"], vec![ints("value_ints", &[1 << 20, 1 << 20])]);
    let made = node("ConstantOfShape", &["s"], &["m"], vec![]);
    let branch = |name: &str| {
        graph_attribute(name, graph(&[], std::slice::from_ref(&made), &[unshaped("m", Float)]))
    };
    let branches = vec![branch("then_branch"), branch("else_branch")];
    let condition = raw("b", ElementType::Bool as i32, &[], &[1]);
    let model = of(&[shape, node("If", &["b"], &["c"], branches), y], vec![condition]);
    assert_eq!(refused_by(&model).0, "made_bytes");
}

#[test]
fn shapes_within_measure_are_made() -> TractResult<()> {
    let nodes = [node("ConstantOfShape", &["s"], &["c"], vec![]), cast("c", Float8E4M3FN, "y")];
    let model = of(&nodes, vec![int64("s", &[512, 512])]);
    onnx().model_for_proto_model(&model)?.into_optimized()?;
    Ok(())
}

#[test]
fn tensors_have_no_more_elements_than_allowed() {
    let model = of(&[cast("w", Float8E4M3FN, "y")], vec![raw("w", Float as i32, &[1 << 41], &[])]);
    assert_eq!(refused_by(&model), ("tensor_elements", "tensor `w`".into()));
}

#[test]
fn each_limit_can_be_set() -> TractResult<()> {
    let model =
        of(&[cast("x", Float, "z"), cast("z", Float8E4M3FN, "y")], vec![int64("w", &[1; 9])]);
    onnx().with_limits(Limits::none()).model_for_proto_model(&model)?;
    type Set = fn(&mut Limits);
    let sets: [(&str, Set); 7] = [
        ("nodes", |limits| limits.nodes = 1),
        ("nesting", |limits| limits.nesting = 0),
        ("tensor_elements", |limits| limits.tensor_elements = 8),
        ("data_bytes", |limits| limits.data_bytes = 64),
        ("bytes", |limits| limits.bytes = 100),
        ("loaded_nodes", |limits| limits.loaded_nodes = 2),
        ("rank", |limits| limits.rank = 0),
    ];
    for (name, set) in sets {
        let mut limits = Limits::default();
        set(&mut limits);
        let onnx = onnx().with_limits(limits);
        let file = bytes(&model);
        let load = onnx.proto_model_for_read(&mut &*file);
        let error = load.and_then(|proto| onnx.model_for_proto_model(&proto)).expect_err(name);
        assert_eq!(limit_of(&error), Some(name), "{error:#}");
    }
    Ok(())
}

/// An attribute of two bytes takes more than a kilobyte when it is decoded; that is known before.
#[test]
fn a_file_is_measured_before_it_is_decoded() {
    let attributes = [0x2a, 0].repeat(4 << 20);
    let field = |number: u8, content: &[u8]| {
        let mut length = content.len();
        let mut bytes = vec![number << 3 | 2];
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        [&bytes, content].concat()
    };
    let file = field(7, &field(1, &attributes));
    let error = onnx().proto_model_for_read(&mut &*file).expect_err("a limit");
    assert_eq!(limit_of(&error), Some("bytes"), "{error:#}");
    let many = field(7, &field(1, &[]).repeat(1 << 20));
    let error = onnx().proto_model_for_read(&mut &*many).expect_err("a limit");
    assert_eq!(limit_of(&error), Some("nodes"), "{error:#}");
}

/// A file of holes is as long as one likes, and can be read as often.
#[test]
fn holes_are_no_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("sparse")).expect("a file");
    file.set_len(1 << 34).expect("a length");
    let weight = |name: &str| {
        external(raw(name, ElementType::BFloat16 as i32, &[1 << 29], &[]), "sparse", None)
    };
    let names = ["a", "b", "c", "d"];
    let model = of(&[cast("a", Float8E4M3FN, "y")], names.map(weight).to_vec());
    let error = model_proto::survey(&onnx(), model, Some(folder.path())).expect_err("a limit");
    assert_eq!(error.limit(), Some("data_bytes"), "{error:#}");
}

#[test]
fn panics_are_errors() {
    let error = without_panic(|| -> TractResult<()> { panic!("a\nb") }).expect_err("a panic");
    assert_eq!(error.to_string(), "tract cannot handle this model (a b)");
    assert_eq!(without_panic(|| Ok(Int64)).expect("no panic"), Int64);
}

/// However long a name is, what is said of it is a line that can be read.
#[test]
fn messages_have_an_end() {
    let name = "N".repeat(1 << 20);
    let nodes = [cast(&name, Float8E4M3FN, "y")];
    let error = onnx().model_for_proto_model(&of(&nodes, vec![])).expect_err("no such value");
    assert!(format!("{error:#}").len() < 5000);
}

/// tract would count from less than nothing, and never come back.
#[test]
fn a_scan_without_its_inputs_is_refused() {
    let scan = |scanned: i64, inputs: &[&str], outputs: &[&str]| {
        let identity = node("Identity", &[inputs.first().unwrap_or(&"x")], &["o"], vec![]);
        let inputs: Vec<_> = inputs.iter().map(|name| value(name, Float, &[])).collect();
        let outputs: Vec<_> = outputs.iter().map(|name| value(name, Float, &[])).collect();
        let body = graph(&inputs, &[identity], &outputs);
        let attributes = vec![graph_attribute("body", body), int("num_scan_inputs", scanned)];
        let scan = node("Scan", &["x"], &["c"], attributes);
        of(&[scan, cast("c", Float8E4M3FN, "y")], vec![])
    };
    onnx().model_for_proto_model(&scan(1, &["i"], &["o"])).expect("a sound model");
    for (scanned, inputs, outputs, numbers) in [
        (1, &[][..], &["o"][..], "1 scan input, of a body with 0 inputs and 1 output"),
        (0, &["i"], &["o"], "0 scan inputs, of a body with 1 input and 1 output"),
        (-1, &["i"], &["o"], "-1 scan inputs, of a body with 1 input and 1 output"),
        (1 << 40, &["i"], &["o"], "1099511627776 scan inputs, of a body with 1 input and 1 output"),
        (1, &["i", "j", "k"], &["o"], "1 scan input, of a body with 3 inputs and 1 output"),
    ] {
        let error =
            onnx().model_for_proto_model(&scan(scanned, inputs, outputs)).expect_err(numbers);
        let error = format!("{error:#}");
        assert!(error.contains(numbers) && error.contains("node `Scan_c` (Scan)"), "{error}");
    }
}

/// To open a pipe would wait for who writes it, and a device has no end.
#[cfg(unix)]
#[test]
fn a_model_is_read_of_a_regular_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe.onnx");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    for path in [&*pipe, "/dev/zero".as_ref(), folder.path()] {
        let expected = format!("{}: is no file", path.display());
        for error in [
            onnx().model_for_path(path).err(),
            onnx().proto_model_for_path(path).err(),
            onnx().survey(path).err().map(TractError::from),
            onnx().load(path).err().map(TractError::from),
        ] {
            let error = format!("{:#}", error.expect("a refusal"));
            assert!(error.contains(&expected), "{error}");
        }
    }
}
