//! `compare` names what breaks a conversion, whatever the fault is and whatever the tensors are
//! called.

use serde_json::Value;
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{self, Bool, Float, Float8E4M3FN, Int8, Int32};
use tract_onnx_cast::tensor_proto;

use crate::common::proto::{Change, graph, int, model, node, value};
use crate::program::{Folder, cast, in_repository, json, onnx_cast, said, stdout};
use crate::verdict;

fn weight(seed: u32) -> Tensor {
    let numbers = (0..64u32).map(|place| (place * 31 + seed * 19) % 59);
    let numbers: Vec<f32> = numbers.map(|number| number as f32 / 30.0 - 0.9).collect();
    tensor1(&numbers).into_shape(&[8, 8]).expect("a matrix")
}

/// Two layers whose outputs are subtracted. `is_renamed` gives everything inside another name.
fn layers(is_renamed: bool, fault: impl FnOnce(&mut Vec<NodeProto>)) -> ModelProto {
    let mut nodes = vec![
        node("MatMul", &["x", "w1"], &["a"], vec![]).named("first"),
        node("Tanh", &["a"], &["b"], vec![]).named("squash"),
        node("MatMul", &["b", "w2"], &["c"], vec![]).named("second"),
        node("Sub", &["b", "c"], &["d"], vec![]).named("apart"),
        node("Sqrt", &["e"], &["f"], vec![]).named("root"),
        node("MatMul", &["f", "w3"], &["g"], vec![]).named("third"),
        node("Sigmoid", &["g"], &["y"], vec![]).named("last"),
    ];
    nodes.insert(4, node("Mul", &["d", "d"], &["e"], vec![]).named("square"));
    fault(&mut nodes);
    let renamed = |name: &str| match name {
        "x" | "y" => name.into(),
        name if is_renamed => format!("v_{name}"),
        name => name.into(),
    };
    for node in &mut nodes {
        node.input.iter_mut().chain(&mut node.output).for_each(|name| *name = renamed(name));
    }
    let mut graph = graph(&[value("x", Float, &[3, 8])], &nodes, &[value("y", Float, &[3, 8])]);
    let held = |(seed, name): (u32, &str)| {
        tensor_proto::write(&renamed(name), Float, &weight(seed)).expect("a tensor")
    };
    graph.initializer = [(1, "w1"), (2, "w2"), (3, "w3")].map(held).into();
    model(19, graph)
}

/// What is named as wrong, the first place first.
fn named(is_renamed: bool, fault: impl FnOnce(&mut Vec<NodeProto>)) -> Vec<String> {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &layers(false, |_| {}));
    let b = folder.message("b.onnx", &layers(is_renamed, fault));
    let text = said(1, &["compare", &a, &b, "--rtol", "1e-4", "--json", "--sets", "1"]);
    let jump = json(&text)["comparisons"][0]["largest_jump"].clone();
    let nodes = |key: &str| {
        let nodes = jump[key].as_array().expect("a list").iter();
        nodes.map(|node: &Value| node["node"].as_str().expect("a name").to_owned()).collect()
    };
    let culprit = jump["culprit"]["node"].as_str().map(String::from);
    let own = vec![jump["node"].as_str().expect("a name").to_owned()];
    [own, nodes("only_converted"), nodes("only_reference"), culprit.into_iter().collect()].concat()
}

fn in_place_of(nodes: &mut [NodeProto], name: &str, change: impl FnOnce(&mut NodeProto)) {
    change(nodes.iter_mut().find(|node| node.name == name).expect("a node"));
}

/// A cast down and one back that the reference does not have.
fn narrowed(nodes: &mut Vec<NodeProto>, to: ElementType) {
    in_place_of(nodes, "second", |node| node.input[0] = "b_wide".into());
    nodes.insert(2, cast("down", "b", "b_narrow", to));
    nodes.insert(3, cast("up", "b_narrow", "b_wide", Float));
}

/// A square would hide the sign.
fn signed(nodes: &mut [NodeProto]) {
    in_place_of(nodes, "square", |node| node.op_type = "Max".into());
    in_place_of(nodes, "root", |node| node.op_type = "Tanh".into());
}

#[test]
fn a_cast_between_two_nodes_is_named() {
    for is_renamed in [false, true] {
        for to in [Int32, Bool, Float8E4M3FN] {
            let named = named(is_renamed, |nodes| narrowed(nodes, to));
            assert_eq!(named[..2], ["second", "down"], "{to}");
            let truncates = to != Float8E4M3FN;
            assert_eq!(named.get(2).map(String::as_str), truncates.then_some("down"), "{to}");
        }
    }
}

#[test]
fn a_node_that_takes_its_inputs_in_the_other_order_is_named() {
    for is_renamed in [false, true] {
        let swapped = |nodes: &mut Vec<NodeProto>| {
            signed(nodes);
            in_place_of(nodes, "apart", |node| node.input.reverse());
        };
        let folder = Folder::new();
        let a = folder.message("a.onnx", &layers(false, |nodes| signed(nodes)));
        let b = folder.message("b.onnx", &layers(is_renamed, swapped));
        let text = said(1, &["compare", &a, &b, "--rtol", "1e-4", "--json", "--sets", "1"]);
        let report = &json(&text)["comparisons"][0];
        assert_eq!(report["first_difference"]["node"], "apart");
        assert_eq!(report["largest_jump"]["node"], "apart");
    }
}

#[test]
fn another_operator_is_named() {
    for is_renamed in [false, true] {
        let fault = |nodes: &mut Vec<NodeProto>| {
            in_place_of(nodes, "squash", |node| node.op_type = "Sigmoid".into());
        };
        assert_eq!(named(is_renamed, fault)[0], "squash");
    }
}

#[test]
fn a_node_that_takes_another_tensor_is_named() {
    for is_renamed in [false, true] {
        let fault = |nodes: &mut Vec<NodeProto>| {
            in_place_of(nodes, "second", |node| node.input[0] = "a".into());
        };
        assert_eq!(named(is_renamed, fault)[0], "second");
    }
}

#[test]
fn a_node_that_was_left_out_is_named() {
    for is_renamed in [false, true] {
        let fault = |nodes: &mut Vec<NodeProto>| {
            nodes.retain(|node| node.name != "root");
            in_place_of(nodes, "third", |node| node.input[0] = "e".into());
        };
        assert_eq!(named(is_renamed, fault)[..2], ["third", "root"]);
    }
}

/// The verdict on a fault that no tolerance judges, with the first culprit's node and kind.
fn judged(
    base: &dyn Fn(&mut Vec<NodeProto>),
    fault: impl FnOnce(&mut Vec<NodeProto>),
) -> (String, String, String) {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &layers(false, base));
    let faulty = |nodes: &mut Vec<NodeProto>| {
        base(nodes);
        fault(nodes);
    };
    let b = folder.message("b.onnx", &layers(false, faulty));
    let report = json(&said(1, &["compare", &a, &b, "--json", "--sets", "1"]));
    let pair = &report["comparisons"][0];
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let first = &pair["culprits"][0];
    (word(&pair["verdict"]), word(&first["node"]), word(&first["kind"]))
}

#[test]
fn without_a_tolerance_a_fault_is_broken_and_its_node_is_named() {
    let broken = |node: &str, kind: &str| ("broken".into(), node.into(), kind.into());
    let turned = judged(&|nodes| signed(nodes), |nodes| nodes[3].input.swap(0, 1));
    assert_eq!(turned, broken("apart", "input_order"));
    let as_is = |_: &mut Vec<NodeProto>| {};
    let other = judged(&as_is, |nodes| nodes[1].op_type = "Sigmoid".into());
    assert_eq!(other, broken("squash", "operator"));
    let taken = judged(&as_is, |nodes| nodes[6].input[1] = "w1".into());
    assert_eq!((taken.0, taken.1), ("broken".into(), "third".into()));
    let left_out = judged(&as_is, |nodes| nodes[5].input[0] = "d".into());
    assert_eq!((left_out.0, left_out.1), ("broken".into(), "root".into()));
}

/// A value that has become infinite is not off by the errors of its other elements alone.
#[test]
fn infinities_are_infinitely_far_off() {
    let [a, b] = ["rms_norm_FLOAT", "rms_norm_FLOAT16"]
        .map(|name| in_repository(&format!("models/whole/{name}")));
    let output = onnx_cast(["compare", &a, &b, "--json"]);
    let pair = json(&stdout(&output))["comparisons"][0].clone();
    let rows = pair["errors_inside"].as_array().expect("errors");
    let row = rows.iter().find(|row| row["tensor"] == "norm").expect("the root");
    assert_eq!(row["accumulated"], "Infinity", "{row}");
}

/// Each operand has a quantiser of its own, which takes what it is to, at the other's place.
#[test]
fn operands_that_are_swapped_are_told_of_the_node_that_takes_them() {
    let joined = |is_coded: bool, places: [usize; 2]| {
        let mut nodes = vec![node("Tanh", &["x"], &["t"], vec![]).named("squash")];
        let mut operands = ["x".to_owned(), "t".to_owned()];
        let mut constants = vec![];
        if is_coded {
            for operand in &mut operands {
                let pair = verdict::coded(operand, ["step", "step"]);
                *operand = pair[1].output[0].clone();
                nodes.extend(pair);
            }
            constants.push(verdict::one("step", Float, 1.0 / 64.0));
            constants.push(verdict::one("zero", Int8, 0.0));
        }
        let operands = places.map(|place| operands[place].as_str());
        nodes.push(node("Concat", &operands, &["c"], vec![int("axis", 1)]).named("join"));
        nodes.push(node("Softplus", &["c"], &["y"], vec![]).named("last"));
        verdict::of(&[4, 8], nodes, &[4, 16], constants)
    };
    let reference = joined(false, [0, 1]);
    assert_ne!(verdict::verdict(&reference, &joined(true, [0, 1])), "broken");
    let swapped = verdict::judged(&reference, &joined(true, [1, 0]));
    assert_eq!(swapped, verdict::broken("join", "input_order"));
}
