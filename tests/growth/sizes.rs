//! Sizes that are expressions of symbols: loading a model takes no longer for each operator that
//! they go through, and what is loaded computes the same as with numbers in their place.

use std::io::Cursor;

use tract_onnx::pb::{ModelProto, NodeProto, TensorProto, ValueInfoProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Float, Int64};
use tract_onnx_cast::onnx;

use crate::common::proto::{
    bytes, cast, dim, graph, int, int64, ints, model, node, raw, shaped, symbol, untyped,
};
use crate::grows;

/// What a chain does to a value, by the number of the link: the nodes, and how the value is called
/// then.
type Link = fn(usize, &str) -> (Vec<NodeProto>, String);

fn halved(from: &str, to: &str) -> NodeProto {
    node("Slice", &[from, "first", "end", "axis", "two"], &[to], vec![])
}

fn joined(index: usize, value: &str) -> (Vec<NodeProto>, String) {
    let (half, to) = (format!("h{index}"), format!("v{index}"));
    let join = node("Concat", &[value, &half], &[&to], vec![int("axis", 0)]);
    (vec![halved(value, &half), join], to)
}

/// So that a value does not grow when it is joined with its half.
fn strided(index: usize, value: &str) -> (Vec<NodeProto>, String) {
    let (half, both, to) = (format!("h{index}"), format!("b{index}"), format!("v{index}"));
    let join = node("Concat", &[value, &half], &[&both], vec![int("axis", 0)]);
    (vec![halved(value, &half), join, halved(&both, &to)], to)
}

fn halves(index: usize, value: &str) -> (Vec<NodeProto>, String) {
    let to = format!("v{index}");
    (vec![halved(value, &to)], to)
}

fn compared(index: usize, value: &str) -> (Vec<NodeProto>, String) {
    let name = |letter: &str| format!("{letter}{index}");
    let (shape, least, most, more, to) = (name("s"), name("l"), name("m"), name("p"), name("v"));
    let nodes = vec![
        node("Shape", &[value], &[&shape], vec![]),
        node("Min", &[&shape, "seven"], &[&least], vec![]),
        node("Max", &[&least, &shape], &[&most], vec![]),
        node("Sub", &[&most, "one"], &[&more], vec![]),
        node("Expand", &["unit", &more], &[&to], vec![]),
    ];
    (nodes, to)
}

fn pooled(index: usize, value: &str) -> (Vec<NodeProto>, String) {
    let name = |letter: &str| format!("{letter}{index}");
    let (flat, pool, vector, to) = (name("f"), name("p"), name("q"), name("v"));
    let attributes = vec![ints("kernel_shape", &[2]), ints("strides", &[2])];
    let nodes = vec![
        node("Reshape", &[value, "image"], &[&flat], vec![]),
        node("MaxPool", &[&flat], &[&pool], attributes),
        node("Reshape", &[&pool, "vector"], &[&vector], vec![]),
        node("Concat", &["unit", &vector, &vector], &[&to], vec![int("axis", 0)]),
    ];
    (nodes, to)
}

const LINKS: [(&str, Link); 5] = [
    ("joined", joined),
    ("strided", strided),
    ("halves", halves),
    ("compared", compared),
    ("pooled", pooled),
];

fn constants() -> Vec<TensorProto> {
    vec![
        int64("zero", &[0]),
        int64("first", &[1]),
        int64("one", &[1]),
        int64("two", &[2]),
        int64("seven", &[7]),
        int64("axis", &[0]),
        int64("end", &[i64::MAX]),
        int64("image", &[1, 1, -1]),
        int64("vector", &[-1]),
        raw("unit", Float as i32, &[1], &1f32.to_le_bytes()),
    ]
}

/// A chain of so many links, and what is done with its end.
fn chain(input: ValueInfoProto, count: usize, link: Link, tail: &[NodeProto]) -> ModelProto {
    let (mut nodes, mut value) = (vec![], "x".to_owned());
    for index in 0..count {
        let (more, to) = link(index, &value);
        nodes.extend(more);
        value = to;
    }
    nodes.push(node("Identity", &[&value], &["last"], vec![]));
    nodes.extend_from_slice(tail);
    let mut graph = graph(&[input], &nodes, &[untyped("y"), untyped("last")]);
    graph.initializer = constants();
    model(21, graph)
}

fn with(size: Option<i64>, count: usize, link: Link, tail: &[NodeProto]) -> ModelProto {
    let size = size.map_or_else(|| symbol("N"), dim);
    chain(shaped("x", Float, vec![size]), count, link, tail)
}

fn doubled() -> Vec<NodeProto> {
    vec![node("Add", &["last", "last"], &["y"], vec![])]
}

fn loaded(model: &ModelProto) -> TractResult<TypedModel> {
    onnx().model_for_read(&mut Cursor::new(bytes(model)))?.into_optimized()
}

fn run(model: &ModelProto, size: i64) -> TractResult<TVec<TValue>> {
    let x: Vec<f32> = (0..size).map(|place| place as f32).collect();
    loaded(model)?.into_runnable()?.run(tvec!(tensor1(&x).into_tvalue()))
}

#[test]
fn loading_takes_no_longer_for_each_operator() {
    for (name, link) in LINKS {
        let of_length = |count| with(None, count, link, &doubled());
        grows(name, &[20, 200], of_length, |model| drop(loaded(model).expect(name)));
    }
}

#[test]
fn what_is_loaded_computes_the_same_as_with_numbers() -> TractResult<()> {
    for (name, link) in LINKS {
        for count in [1, 3, 5, 6, 7, 9] {
            let model = with(None, count, link, &doubled());
            for size in [600, 601, 1023] {
                let numbers = with(Some(size), count, link, &doubled());
                assert_eq!(run(&model, size)?, run(&numbers, size)?, "{name} {count} of {size}");
            }
        }
    }
    Ok(())
}

/// Whatever takes such a size as a value has it in time.
#[test]
fn sizes_are_values() -> TractResult<()> {
    let shape = || node("Shape", &["last"], &["s"], vec![]);
    let tails: Vec<(&str, Vec<NodeProto>)> = vec![
        ("Expand", vec![node("Expand", &["unit", "s"], &["y"], vec![])]),
        ("Slice", vec![node("Slice", &["x", "zero", "s", "zero"], &["y"], vec![])]),
        ("Tile", vec![node("Tile", &["unit", "s"], &["y"], vec![])]),
        ("Cast", vec![cast("s", Float, "f"), node("Mul", &["x", "f"], &["y"], vec![])]),
        ("output", vec![cast("s", Float, "y")]),
        ("Range", {
            let scalar = |from: &str, to: &str| node("Squeeze", &[from], &[to], vec![]);
            vec![
                scalar("s", "to"),
                scalar("zero", "from"),
                scalar("one", "by"),
                node("Range", &["from", "to", "by"], &["r"], vec![]),
                cast("r", Float, "y"),
            ]
        }),
        ("Reshape", {
            let join = node("Concat", &["s", "one"], &["t"], vec![int("axis", 0)]);
            vec![join, node("Reshape", &["last", "t"], &["y"], vec![])]
        }),
        ("Gather", {
            let last = node("Sub", &["s", "one"], &["l"], vec![]);
            let gather = node("Gather", &["last", "l"], &["y"], vec![]);
            vec![last, cast("l", Int64, "unused"), gather]
        }),
    ];
    for (name, tail) in tails {
        let tail = [vec![shape()], tail].concat();
        let (symbols, size) = (with(None, 8, strided, &tail), 601);
        let numbers = with(Some(size), 8, strided, &tail);
        let found = run(&symbols, size).map_err(|error| error.context(name))?;
        assert_eq!(found, run(&numbers, size)?, "{name}");
    }
    Ok(())
}
