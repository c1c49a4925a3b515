//! What chosen inputs hold that random numbers seldom do: numbers of their own for what divides,
//! casts and counts, ties and halves, indices from the end, words, odd sizes, empty caches, and
//! tables that end at a length.

use serde_json::Value;
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::ElementType::{Float, Int32, Int64};

use crate::common::proto::{
    dim, graph, int, int64, ints, model, node, shaped, symbol, tensor, unshaped,
};
use crate::program::{Folder, cast, json, said};

/// A model of one input, whose output `y` has a type.
fn of(input: &ValueInfoProto, nodes: &[NodeProto], constants: Vec<TensorProto>) -> ModelProto {
    typed(std::slice::from_ref(input), nodes, constants, Float)
}

fn typed(
    inputs: &[ValueInfoProto],
    nodes: &[NodeProto],
    constants: Vec<TensorProto>,
    ty: ElementType,
) -> ModelProto {
    let graph = graph(inputs, nodes, &[unshaped("y", ty)]);
    model(17, GraphProto { initializer: constants, ..graph })
}

fn open(name: &str, ty: ElementType, symbols: &[&str]) -> ValueInfoProto {
    let size = |name: &&str| name.parse().map_or_else(|_| symbol(name), dim);
    shaped(name, ty, symbols.iter().map(size).collect())
}

fn whole(name: &str, value: i64) -> TensorProto {
    TensorProto { dims: vec![], ..int64(name, &[value]) }
}

/// What `run` reports.
fn told(model: &ModelProto) -> Value {
    let folder = Folder::new();
    let path = folder.message("m.onnx", model);
    json(&said(0, &["run", "--json", &path]))
}

fn taken_for(model: &ModelProto) -> String {
    let report = told(model);
    report["inputs"]["look"]["inputs"][0]["taken_for"].as_str().expect("words").to_owned()
}

/// The ruined model is told apart without a search, and the original passes against itself.
fn assert_told_apart(original: &ModelProto, ruined: &ModelProto) {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", original), folder.message("b.onnx", ruined));
    said(0, &["compare", &a, &a, "--search", "0"]);
    said(1, &["compare", &a, &b, "--search", "0"]);
}

#[test]
fn what_is_cast_to_whole_numbers_is_taken_for_what_they_are() {
    let table = TensorProto { dims: vec![5, 2], ..tensor("table", Float, &[0.5; 10]) };
    let nodes = [cast("c", "x", "i", Int64), node("Gather", &["table", "i"], &["y"], vec![])];
    assert_eq!(taken_for(&of(&open("x", Float, &["n"]), &nodes, vec![table])), "indices below 5");
    let nodes = [cast("c", "x", "s", Int64), node("Expand", &["one", "s"], &["y"], vec![])];
    let one = TensorProto { dims: vec![1], ..tensor("one", Float, &[1.0]) };
    assert_eq!(taken_for(&of(&open("x", Float, &["1"]), &nodes, vec![one])), "numbers from 1 to 1");
}

#[test]
fn what_is_divided_goes_beyond_the_divisor() {
    let nodes = |last: &str, by: &str| {
        [
            node("Div", &["seconds", "hour"], &["hours"], vec![]),
            node(last, &["hours", by], &["h"], vec![]),
            cast("c", "h", "y", Float),
        ]
    };
    let constants = || vec![whole("hour", 3600), whole("day", 24), whole("last", 23)];
    let x = open("seconds", Int64, &["n"]);
    let (hours, cut) = (nodes("Mod", "day"), nodes("Min", "last"));
    assert_told_apart(&of(&x, &hours, constants()), &of(&x, &cut, constants()));
}

#[test]
fn what_is_only_counted_with_fills_its_type() {
    let x = [open("x", Int64, &["n"])];
    let sum = [node("Add", &["x", "c"], &["y"], vec![])];
    let narrowed = [
        cast("narrow", "x", "i", Int32),
        cast("widen", "i", "j", Int64),
        node("Add", &["j", "c"], &["y"], vec![]),
    ];
    let of = |nodes: &[NodeProto]| typed(&x, nodes, vec![whole("c", 7)], Int64);
    assert_told_apart(&of(&sum), &of(&narrowed));
}

#[test]
fn a_quantiser_s_other_results_say_nothing_of_its_input() {
    let nodes = [
        node("DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], vec![]),
        node("DequantizeLinear", &["q", "scale", "zero"], &["y"], vec![]),
    ];
    assert_eq!(taken_for(&of(&open("x", Float, &["n"]), &nodes, vec![])), "plain numbers");
}

#[test]
fn ties_signs_and_halves_are_among_the_numbers() {
    let x = open("x", Float, &["n", "8"]);
    let one = |nodes: &[NodeProto]| of(&x, nodes, vec![tensor("half", Float, &[0.5])]);
    let round = one(&[node("Round", &["x"], &["y"], vec![])]);
    let up = [node("Add", &["x", "half"], &["t"], vec![]), node("Floor", &["t"], &["y"], vec![])];
    assert_told_apart(&round, &one(&up));
    let largest = |last: i64| {
        let attributes = vec![int("axis", 1), int("select_last_index", last)];
        let nodes = [
            node("Round", &["x"], &["r"], vec![]),
            node("ArgMax", &["r"], &["a"], attributes),
            cast("c", "a", "y", Float),
        ];
        one(&nodes)
    };
    assert_told_apart(&largest(0), &largest(1));
}

#[test]
fn indices_may_count_from_the_end() {
    let inputs = [open("x", Float, &["n", "4"]), open("indices", Int64, &["k"])];
    let direct = [node("Gather", &["x", "indices"], &["y"], vec![])];
    let clipped = [
        node("Max", &["indices", "zero"], &["i"], vec![]),
        node("Gather", &["x", "i"], &["y"], vec![]),
    ];
    let of = |nodes: &[NodeProto]| typed(&inputs, nodes, vec![whole("zero", 0)], Float);
    assert_told_apart(&of(&direct), &of(&clipped));
}

#[test]
fn the_sides_of_an_image_may_be_odd() {
    let x = open("x", Float, &["batch", "3", "height", "width"]);
    let pooled = |ceil: i64| {
        let sizes = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
        let attributes = [sizes, vec![int("ceil_mode", ceil)]].concat();
        of(&x, &[node("MaxPool", &["x"], &["y"], attributes)], vec![])
    };
    assert_told_apart(&pooled(0), &pooled(1));
}

#[test]
fn a_cache_may_be_empty() {
    let inputs = [
        open("x", Float, &["batch", "2", "seq", "4"]),
        open("past_key", Float, &["batch", "2", "past", "4"]),
    ];
    let nodes = [node("Concat", &["past_key", "x"], &["y"], vec![int("axis", 2)])];
    let look = told(&typed(&inputs, &nodes, vec![], Float))["inputs"]["look"].clone();
    assert_eq!(look["sizes"][2]["sizes"][0], 5, "{look}");
    let folder = Folder::new();
    let path = folder.message("m.onnx", &typed(&inputs, &nodes, vec![], Float));
    let report = json(&said(0, &["compare", &path, &path, "--json", "--search", "0"]));
    let sizes = &report["comparisons"][0]["inputs"]["look"]["sizes"][2]["sizes"];
    assert!(sizes.as_array().expect("a list").contains(&0.into()), "{sizes}");
}

#[test]
fn a_table_that_ends_at_512_is_used_to_its_end() {
    let ids = open("input_ids", Int64, &["batch", "seq"]);
    let embedded = |last: f32| {
        let mut rows = vec![0.5; 512];
        rows[511] = last;
        let constants = vec![
            TensorProto { dims: vec![512, 1], ..tensor("table", Float, &rows) },
            whole("zero", 0),
            whole("one", 1),
        ];
        let nodes = [
            node("Shape", &["input_ids"], &["shape"], vec![]),
            node("Gather", &["shape", "one"], &["n"], vec![]),
            node("Range", &["zero", "n", "one"], &["r"], vec![]),
            node("Gather", &["table", "r"], &["y"], vec![]),
        ];
        of(&ids, &nodes, constants)
    };
    assert_told_apart(&embedded(0.5), &embedded(0.25));
}

#[test]
fn large_numbers_are_left_out_where_they_spoil_the_outputs() {
    let x = open("x", ElementType::Float16, &["n", "4"]);
    let nodes = [node("Mul", &["x", "c"], &["h"], vec![]), cast("w", "h", "y", Float)];
    let spoilt = of(&x, &nodes, vec![tensor("c", ElementType::Float16, &[4096.0])]);
    let folder = Folder::new();
    let path = folder.message("m.onnx", &spoilt);
    let report = json(&said(0, &["compare", &path, &path, "--json", "--search", "0"]));
    let scales = &report["comparisons"][0]["inputs"]["look"]["scales"];
    assert_eq!(scales[1], 1.0, "{scales}");
}
