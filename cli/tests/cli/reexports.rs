//! Models that were exported anew: `compare` pairs what is inside them without names.

use std::collections::HashMap;

use serde_json::{Value, json};
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use crate::common::proto::{Change, float, graph, model, node, value};
use crate::program::{Folder, cast, json, onnx_cast, said, stdout};
use crate::verdict::{add, held, of, one, relu_between, relu_in_codes, values, verdict};
use ElementType::{Float, Float16, Int8, Uint8};

fn matrix(seed: u32) -> Tensor {
    let numbers = (0..64u32).map(|place| (place * 29 + seed * 17) % 53);
    let numbers: Vec<f32> = numbers.map(|number| number as f32 / 26.0 - 1.0).collect();
    tensor1(&numbers).into_shape(&[8, 8]).expect("a matrix")
}

/// Two layers and a rounding to FLOAT16. The second exporter names nothing as the first does,
/// writes `Gemm` for a product and a sum, and adds a reshaping; `fault` is added to a weight of its
/// second layer.
fn exported(is_second: bool, fault: f32) -> ModelProto {
    let name = |first: &'static str, second: &'static str| if is_second { second } else { first };
    let (h, t, d, u, p) = (
        name("/l1/Add_output_0", "linear"),
        name("/act/Tanh_output_0", "tanh"),
        name("/Cast_output_0", "to_1"),
        name("/Cast_1_output_0", "to_2"),
        name("/l2/MatMul_output_0", "linear_1"),
    );
    let mut nodes = if is_second {
        vec![
            node("Reshape", &["x", "shape"], &["view"], vec![]),
            node("Gemm", &["view", "p_w1", "p_b1"], &[h], vec![]),
        ]
    } else {
        vec![
            node("MatMul", &["x", "l1.weight"], &["/l1/MatMul_output_0"], vec![]),
            node("Add", &["/l1/MatMul_output_0", "l1.bias"], &[h], vec![]),
        ]
    };
    nodes.extend([
        node("Tanh", &[h], &[t], vec![]),
        cast(name("Cast", "node_to_1"), t, d, Float16),
        cast(name("Cast_1", "node_to_2"), d, u, Float),
        node("MatMul", &[u, name("l2.weight", "p_w2")], &[p], vec![]),
        node("Sigmoid", &[p], &["y"], vec![]),
    ]);
    let mut graph = graph(&[value("x", Float, &[3, 8])], &nodes, &[value("y", Float, &[3, 8])]);
    let held = |name, tensor: Tensor| tensor_proto::write(name, Float, &tensor).expect("a tensor");
    let mut second = matrix(2);
    for number in
        second.try_as_plain_ram_mut().expect("numbers").as_slice_mut::<f32>().expect("FLOAT")
    {
        *number += fault * number.signum();
    }
    graph.initializer = vec![
        held(name("l1.weight", "p_w1"), matrix(1)),
        held(name("l1.bias", "p_b1"), tensor1(&[0.5f32, -1.0, 0.25, 0.1, 0.7, -0.3, 0.2, 0.9])),
        held(name("l2.weight", "p_w2"), second),
    ];
    if is_second {
        let shape = tensor1(&[3i64, 8]);
        graph
            .initializer
            .push(tensor_proto::write("shape", ElementType::Int64, &shape).expect("a tensor"));
    }
    model(17, graph)
}

fn compared(status: i32, arguments: &[&str]) -> Value {
    json(&said(status, &[&["compare", "--json"], arguments].concat()))["comparisons"][0].clone()
}

#[test]
fn tensors_without_a_name_in_common_are_paired() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &exported(false, 0.0));
    let b = folder.message("b.onnx", &exported(true, 0.0));
    let report = compared(0, &[&a, &b, "--atol", "1e-5", "--all-tensors"]);
    let tensors = report["tensors"].as_array().expect("tensors");
    let renamed = |name: &str| {
        let tensor = tensors.iter().find(|tensor| tensor["name"] == name).expect("a pair");
        assert!(tensor["confidence"] == "certain" || tensor["confidence"] == "likely", "{tensor}");
        tensor["converted_name"].clone()
    };
    assert_eq!(renamed("/l1/Add_output_0"), "linear");
    assert_eq!(renamed("/act/Tanh_output_0"), "tanh");
    assert_eq!(renamed("/l2/MatMul_output_0"), "linear_1");
    assert_eq!(report["casts"], json!({"added": [], "removed": [], "retargeted": []}));
    assert_eq!(report["weights"]["compared"], 3);
    // Nor where nothing inside is looked at.
    let report = compared(0, &[&a, &b, "--atol", "1e-5"]);
    assert_eq!(report["casts"], json!({"added": [], "removed": [], "retargeted": []}));
}

#[test]
fn a_fault_in_a_new_export_is_located() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &exported(false, 0.0));
    let b = folder.message("b.onnx", &exported(true, 0.5));
    let report = compared(1, &[&a, &b, "--atol", "1e-5"]);
    for parting in ["largest_jump", "first_difference"] {
        let parting = &report[parting];
        assert_eq!(
            (&parting["node"], &parting["op"]),
            (&json!("MatMul_linear_1"), &json!("MatMul"))
        );
    }
    let jump = &report["largest_jump"];
    let error = |name: &str| jump[name].as_f64().expect("a number");
    assert!(error("error") > 0.05 && error("error_before") < 1e-3, "{jump}");
    assert_eq!(jump["tensor"]["paired_by"], "structure");
}

/// A drift of a few values, and then a node that breaks: the second is what matters.
#[test]
fn the_node_that_breaks_is_told_rather_than_a_drift() {
    let folder = Folder::new();
    let drifting = |is_broken: bool| {
        let (offset, factor) = if is_broken { (1e-4f32, 3f32) } else { (0.0, 1.0) };
        let nodes = [
            node("Add", &["x", "offset"], &["a"], vec![]),
            node("Tanh", &["a"], &["b"], vec![]),
            node("Mul", &["b", "factor"], &["c"], vec![]),
            node("Sigmoid", &["c"], &["y"], vec![]),
        ];
        let mut graph = graph(&[value("x", Float, &[8])], &nodes, &[value("y", Float, &[8])]);
        let held = |name, number| tensor_proto::write(name, Float, &tensor0(number));
        graph.initializer = vec![
            held("offset", offset).expect("a tensor"),
            held("factor", factor).expect("a tensor"),
        ];
        model(17, graph)
    };
    let a = folder.message("a.onnx", &drifting(false));
    let b = folder.message("b.onnx", &drifting(true));
    let report = compared(1, &[&a, &b, "--rtol", "1e-6"]);
    assert_eq!(report["first_difference"]["node"], "Add_a");
    assert_eq!(report["largest_jump"]["node"], "Mul_c");
    let text = said(1, &["compare", &a, &b, "--rtol", "1e-6"]);
    let place = |words: &str| text.find(words).expect("is told");
    assert!(place("the error grows most: `c`") < place("first mismatching tensor: `a`"), "{text}");
}

/// An exporter that reshapes once more than the other makes a tensor that none of the other's is
/// left for.
#[test]
fn what_is_reshaped_once_more_has_a_counterpart_too() {
    let folder = Folder::new();
    let reshaping = |prefix: &str, shapes: &[&[i64]]| {
        let mut nodes = vec![node("Tanh", &["x"], &[&format!("{prefix}0")], vec![])];
        let mut held = vec![];
        for (place, shape) in shapes.iter().enumerate() {
            let (from, to) = (format!("{prefix}{place}"), format!("{prefix}{}", place + 1));
            let wanted = format!("{to}_shape");
            held.push(crate::common::proto::int64(&wanted, shape));
            nodes.push(node("Reshape", &[&from, &wanted], &[&to], vec![]));
        }
        nodes.push(node("Sigmoid", &[&format!("{prefix}{}", shapes.len())], &["y"], vec![]));
        let mut graph = graph(&[value("x", Float, &[3, 8])], &nodes, &[value("y", Float, &[24])]);
        graph.initializer = held;
        model(17, graph)
    };
    let first = folder.message("a.onnx", &reshaping("one", &[&[3, 1, 8], &[24]]));
    let second = reshaping("other", &[&[1, 3, 8], &[3, 8, 1], &[24]]);
    let second = folder.message("b.onnx", &second);
    for (a, b, prefix) in [(&first, &second, "converted_name"), (&second, &first, "name")] {
        let report = compared(0, &[a, b, "--all-tensors"]);
        let tensors = report["tensors"].as_array().expect("tensors");
        for place in 0..4 {
            let name = format!("other{place}");
            assert!(tensors.iter().any(|tensor| tensor[prefix] == name), "{name}: {tensors:#?}");
        }
    }
}

/// The same without the names of nodes, and with others for the values inside and for the weights.
fn nameless(mut model: ModelProto) -> ModelProto {
    let graph = model.graph.as_mut().expect("a graph");
    let made = graph.node.iter().flat_map(|node| &node.output).filter(|name| *name != "y");
    let held = graph.initializer.iter().map(|weight| &weight.name);
    let others: HashMap<String, String> = made
        .chain(held)
        .enumerate()
        .map(|(place, name)| (name.clone(), format!("v{place}")))
        .collect();
    let rename = |name: &mut String| *name = others.get(name).unwrap_or(name).clone();
    graph.initializer.iter_mut().for_each(|weight| rename(&mut weight.name));
    for node in &mut graph.node {
        node.name.clear();
        node.input.iter_mut().chain(&mut node.output).for_each(rename);
    }
    model
}

#[test]
fn a_relu_may_be_left_to_codes_that_have_other_names() {
    let mut converted = relu_in_codes(["fits", "fits"], &["taken", "first"]);
    let graph = converted.graph.as_mut().expect("a graph");
    let codes: Vec<f32> = values(64, 1).iter().map(|x| (x / 0.07).round()).collect();
    graph.initializer.extend([
        held("codes", Int8, &[8, 8], &codes),
        one("coarse", Float, 0.07),
        one("origin", Int8, 0.0),
        one("scale", Float, 0.04),
        one("middle", Uint8, 128.0),
    ]);
    let before = [
        node("DequantizeLinear", &["codes", "coarse", "origin"], &["first"], vec![]),
        node("QuantizeLinear", &["x", "scale", "middle"], &["given"], vec![]),
        node("DequantizeLinear", &["given", "scale", "middle"], &["taken"], vec![]),
    ];
    graph.node.splice(0..0, before);
    let converted = nameless(converted);
    assert_ne!(verdict(&relu_between(), &converted), "broken");
    let mut bare = relu_between();
    if let Some(graph) = &mut bare.graph {
        graph.node[1] = node("Identity", &["p"], &["r"], vec![]).named("relu");
    }
    assert_eq!(verdict(&bare, &converted), "broken");
}

/// A normalisation of which little is left in the sum behind it.
fn normalised(ty: ElementType, epsilon: f32) -> ModelProto {
    let norm = node("LayerNormalization", &["p", "ones"], &["n"], vec![float("epsilon", epsilon)]);
    of(
        &[4, 8],
        vec![
            cast("to_half", "x", "x_cast", ty),
            node("MatMul", &["x_cast", "w1"], &["p"], vec![]).named("first"),
            norm.named("norm"),
            node("MatMul", &["n", "w2"], &["q"], vec![]).named("second"),
            add("raised", &["p", "large"], "l"),
            node("Add", &["l", "q"], &["s"], vec![]).named("sum"),
            cast("back", "s", "y", Float),
        ],
        &[4, 8],
        vec![
            held("w1", ty, &[8, 8], &values(64, 1)),
            held("w2", ty, &[8, 8], &values(64, 2)),
            held("ones", ty, &[8], &[1.0; 8]),
            one("large", ty, 1500.0),
        ],
    )
}

#[test]
fn one_operator_of_pairs_is_one_node_without_names() {
    let reference = normalised(Float, 1e-5);
    assert_eq!(verdict(&reference, &nameless(normalised(Float16, 1e-5))), "rounded");
    let folder = Folder::new();
    let a = folder.message("a.onnx", &reference);
    let b = folder.message("b.onnx", &nameless(normalised(Float16, 0.5)));
    let report = json(&stdout(&onnx_cast(["compare", &a, &b, "--json", "--sets", "1"])));
    let culprit = &report["comparisons"][0]["culprits"][0];
    assert_eq!((&culprit["node"], &culprit["kind"]), (&json!("v2"), &json!("epsilon")));
    // Not only by the output, in whose sum little of it is left.
    assert!(culprit["text"].as_str().is_some_and(|text| text.contains("of `v3`")), "{culprit}");
}
