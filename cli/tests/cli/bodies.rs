//! `compare` names what breaks a conversion inside the bodies of If, Scan and Loop.

use serde_json::Value;
use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{self, Bool, Float, Float16, Int64};
use tract_onnx_cast::tensor_proto;

use crate::common::proto::{
    Change, cast, float, graph, graph_attribute, int, ints, model, node, unshaped, value,
};
use crate::program::{Folder, json, said};
use crate::verdict::{broken, held, judged, of, values, verdict};

fn matrix(seed: u32) -> Tensor {
    let numbers = (0..16u32).map(|place| (place * 31 + seed * 19) % 59);
    let numbers: Vec<f32> = numbers.map(|number| number as f32 / 40.0 - 0.6).collect();
    tensor1(&numbers).into_shape(&[4, 4]).expect("a matrix")
}

fn holding(
    nodes: &[NodeProto],
    inputs: &[(&str, ElementType, &[i64])],
    shape: &[i64],
) -> ModelProto {
    let inputs: Vec<_> = inputs.iter().map(|(name, ty, shape)| value(name, *ty, shape)).collect();
    let mut graph = graph(&inputs, nodes, &[value("y", Float, shape)]);
    let held = |(seed, name): (u32, &str)| {
        tensor_proto::write(name, Float, &matrix(seed)).expect("a tensor")
    };
    graph.initializer = [(1, "w1"), (2, "w2"), (3, "w3")].map(held).into();
    model(19, graph)
}

/// A step: a product with a weight, and what keeps it small.
fn layer(from: &str, weight: &str, to: &str) -> Vec<NodeProto> {
    let product = format!("{to}_product");
    vec![
        node("MatMul", &[from, weight], &[&product], vec![]).named(&format!("{to}_mul")),
        node("Tanh", &[&product], &[to], vec![]).named(&format!("{to}_tanh")),
    ]
}

/// Has another operator compute what a node makes.
fn wrong(nodes: &mut [NodeProto], name: &str) {
    for node in nodes {
        if node.name == name {
            node.op_type = "Sin".into();
        }
        let graphs = node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut());
        graphs.for_each(|graph| wrong(&mut graph.node, name));
    }
}

/// What `compare` says of a model and of itself with a node that computes something else.
fn report(model: &ModelProto, fault: &str, arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let mut faulty = model.clone();
    wrong(&mut faulty.graph.as_mut().expect("a graph").node, fault);
    assert_ne!(*model, faulty, "{fault}");
    let a = folder.message("a.onnx", model);
    let b = folder.message("b.onnx", &faulty);
    let all = [&["compare", &a, &b, "--rtol", "1e-4", "--json"], arguments].concat();
    let text = said(1, &all);
    json(&text)["comparisons"][0].clone()
}

/// One set, of numbers about 1: at larger scales rounding alone parts sums that cancel.
const ONE: &[&str] = &["--sets", "1", "--seed", "2"];

fn assert_named(model: &ModelProto, fault: &str, arguments: &[&str]) {
    let report = report(model, fault, arguments);
    for part in ["first_difference", "largest_jump"] {
        assert_eq!(report[part]["node"], fault, "{part}: {:#}", report[part]);
    }
    let notes = report["notes"].to_string();
    assert!(!notes.contains("has a body"), "{notes}");
}

/// Branches of two steps each, behind a step and before another. What decides is an input, or
/// computed of one.
fn branching(is_computed: bool) -> ModelProto {
    let branch = |name: &str, weight: &str| {
        let nodes = [layer("h", "w2", name), layer(name, weight, &format!("{name}_end"))].concat();
        graph(&[], &nodes, &[unshaped(&format!("{name}_end"), Float)])
    };
    let decides = if is_computed { "decided" } else { "c" };
    let attributes = vec![
        graph_attribute("then_branch", branch("yes", "w3")),
        graph_attribute("else_branch", branch("no", "w1")),
    ];
    let mut nodes = layer("x", "w1", "h");
    if is_computed {
        nodes.push(node("Not", &["c"], &["d"], vec![]));
        nodes.push(node("Not", &["d"], &["decided"], vec![]));
    }
    nodes.push(node("If", &[decides], &["z"], attributes).named("branch"));
    nodes.extend(layer("z", "w2", "y"));
    holding(&nodes, &[("x", Float, &[2, 4]), ("c", Bool, &[])], &[2, 4])
}

#[test]
fn a_node_of_a_branch_is_named() {
    let folder = Folder::new();
    for (condition, fault) in [(true, "yes_tanh"), (false, "no_tanh"), (true, "yes_end_tanh")] {
        let c = format!("c={}", folder.tensor("c.pb", Bool, tensor0(condition)));
        for is_computed in [false, true] {
            assert_named(&branching(is_computed), fault, &["-i", &c]);
        }
    }
}

/// Of several sets, only a later one takes the branch with the fault.
#[test]
fn a_branch_that_only_a_later_set_takes_is_looked_into() {
    let folder = Folder::new();
    for (place, condition) in [true, true, false].into_iter().enumerate() {
        let x = matrix(7 + place as u32).slice(0, 0, 2).expect("two rows");
        folder.tensor(&format!("sets/test_data_set_{place}/input_0.pb"), Float, x);
        folder.tensor(&format!("sets/test_data_set_{place}/input_1.pb"), Bool, tensor0(condition));
    }
    assert_named(&branching(true), "no_tanh", &["-i", &folder.text("sets")]);
}

/// An If in a branch of another.
#[test]
fn a_node_two_branches_deep_is_named() {
    let folder = Folder::new();
    let c = format!("c={}", folder.tensor("c.pb", Bool, tensor0(true)));
    let inner = |name: &str| {
        let nodes = [layer("yes", "w2", name), layer(name, "w3", &format!("{name}_end"))].concat();
        graph(&[], &nodes, &[unshaped(&format!("{name}_end"), Float)])
    };
    let attributes = vec![
        graph_attribute("then_branch", inner("most")),
        graph_attribute("else_branch", inner("least")),
    ];
    let mut nodes = layer("x", "w1", "yes");
    nodes.push(node("Not", &["c"], &["d"], vec![]));
    nodes.push(node("If", &["d"], &["deep"], attributes).named("inner"));
    let then = graph(&[], &nodes, &[unshaped("deep", Float)]);
    let otherwise = graph(&[], &layer("x", "w1", "no"), &[unshaped("no", Float)]);
    let attributes =
        vec![graph_attribute("then_branch", then), graph_attribute("else_branch", otherwise)];
    let mut nodes = vec![node("If", &["c"], &["z"], attributes).named("outer")];
    nodes.extend(layer("z", "w2", "y"));
    let model = holding(&nodes, &[("x", Float, &[2, 4]), ("c", Bool, &[])], &[2, 4]);
    assert_named(&model, "least_tanh", &["-i", &c]);
    assert_named(&model, "yes_tanh", &["-i", &c]);
}

/// A recurrence over six steps: what it makes of a step and of its state is the next state.
fn scanning(body: Vec<NodeProto>) -> ModelProto {
    let row = |name: &str| value(name, Float, &[1, 4]);
    let body = graph(&[row("state"), row("step")], &body, &[row("next"), row("told")]);
    let attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
    let mut nodes = layer("x", "w1", "h");
    nodes.push(node("Scan", &["first", "h"], &["last", "z"], attributes).named("loop"));
    nodes.extend(layer("z", "w2", "y"));
    let mut model =
        holding(&nodes, &[("x", Float, &[6, 1, 4]), ("first", Float, &[1, 4])], &[6, 1, 4]);
    let graph = model.graph.as_mut().expect("a graph");
    graph.output.push(value("last", Float, &[1, 4]));
    model
}

fn recurrence() -> Vec<NodeProto> {
    [
        // What is made of the state stands first, and differs in all iterations but the first
        // whatever the fault.
        layer("state", "w3", "kept"),
        layer("step", "w2", "taken"),
        vec![node("Add", &["kept", "taken"], &["sum"], vec![]).named("sum")],
        layer("sum", "w1", "next"),
        vec![node("Neg", &["next"], &["told"], vec![]).named("told")],
    ]
    .concat()
}

#[test]
fn a_node_of_a_scan_is_named() {
    for fault in ["taken_tanh", "kept_tanh", "next_tanh", "told"] {
        assert_named(&scanning(recurrence()), fault, ONE);
    }
}

/// Another exporter calls what is in a body something else.
#[test]
fn a_node_of_a_renamed_scan_is_named() {
    let model = scanning(recurrence());
    for fault in ["taken_tanh", "kept_tanh", "next_tanh"] {
        let mut renamed = model.clone();
        let graph = renamed.graph.as_mut().expect("a graph");
        let scan = graph.node.iter_mut().find(|node| node.name == "loop").expect("a Scan");
        scan.name = "other".into();
        let body = scan.attribute.iter_mut().find_map(|a| a.g.as_mut()).expect("a body");
        let is_weight = |name: &str| name.starts_with('w');
        let names =
            body.node.iter_mut().flat_map(|node| node.input.iter_mut().chain(&mut node.output));
        let ends = body.input.iter_mut().chain(&mut body.output).map(|end| &mut end.name);
        for name in names.chain(ends).filter(|name| !is_weight(name)) {
            *name = format!("v_{name}");
        }
        wrong(&mut graph.node, fault);
        let folder = Folder::new();
        let a = folder.message("a.onnx", &model);
        let b = folder.message("b.onnx", &renamed);
        let text = said(1, &["compare", &a, &b, "--rtol", "1e-4", "--json"]);
        let report = &json(&text)["comparisons"][0];
        assert_eq!(report["largest_jump"]["node"], fault, "{:#}", report["largest_jump"]);
    }
}

/// A Scan in the body of another.
#[test]
fn a_node_two_scans_deep_is_named() {
    let scalar = |name: &str| value(name, Float, &[4]);
    let nodes = [
        node("Add", &["before", "slice"], &["added"], vec![]).named("added"),
        node("Tanh", &["added"], &["after"], vec![]).named("after"),
        node("Neg", &["after"], &["each"], vec![]).named("each"),
    ];
    let inner =
        graph(&[scalar("before"), scalar("slice")], &nodes, &[scalar("after"), scalar("each")]);
    let attributes = vec![graph_attribute("body", inner), int("num_scan_inputs", 1)];
    let body = [
        layer("state", "w3", "kept"),
        vec![
            node("ReduceSum", &["kept"], &["seed"], vec![int("keepdims", 0)]).named("seed"),
            node("Expand", &["seed", "four"], &["wide"], vec![]).named("wide"),
            node("Scan", &["wide", "step"], &["end", "all"], attributes).named("inner"),
            node("Add", &["kept", "all"], &["next"], vec![]).named("next"),
            node("Neg", &["next"], &["told"], vec![]).named("told"),
        ],
    ];
    let mut model = scanning(body.concat());
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer.push(crate::common::proto::int64("four", &[4]));
    for fault in ["after", "kept_tanh"] {
        assert_named(&model, fault, ONE);
    }
}

/// A branch inside of a Scan is taken anew in each iteration.
#[test]
fn a_node_of_a_branch_in_a_scan_is_named() {
    let branch = |name: &str, weight: &str| {
        graph(&[], &layer("step", weight, name), &[unshaped(name, Float)])
    };
    let attributes = vec![
        graph_attribute("then_branch", branch("yes", "w1")),
        graph_attribute("else_branch", branch("no", "w3")),
    ];
    let body = [
        vec![
            node("ReduceSum", &["step"], &["total"], vec![int("keepdims", 0)]),
            node("Less", &["total", "zero"], &["small"], vec![]),
            node("If", &["small"], &["taken"], attributes).named("branch"),
            node("Add", &["state", "taken"], &["sum"], vec![]).named("sum"),
        ],
        layer("sum", "w1", "next"),
        vec![node("Neg", &["next"], &["told"], vec![]).named("told")],
    ];
    let mut model = scanning(body.concat());
    let graph = model.graph.as_mut().expect("a graph");
    graph.initializer.push(tensor_proto::write("zero", Float, &tensor0(0f32)).expect("a tensor"));
    assert_named(&model, "yes_tanh", &["--sets", "5"]);
}

/// The nodes of a body of a Loop that goes round six times, of a state and a step of `h`.
fn looping(body: Vec<NodeProto>) -> ModelProto {
    let step = vec![node("Gather", &["h", "i"], &["step"], vec![])];
    let inputs = [value("i", Int64, &[]), value("on", Bool, &[]), unshaped("state", Float)];
    let ends = [value("always", Bool, &[]), unshaped("next", Float)];
    let mut body = graph(&inputs, &[step, body].concat(), &ends);
    body.initializer.push(tensor_proto::write("always", Bool, &tensor0(true)).expect("a tensor"));
    let mut nodes = layer("x", "w1", "h");
    let attributes = vec![graph_attribute("body", body)];
    nodes.push(node("Loop", &["count", "", "first"], &["z"], attributes).named("loop"));
    nodes.extend(layer("z", "w2", "y"));
    let mut model =
        holding(&nodes, &[("x", Float, &[6, 1, 4]), ("first", Float, &[1, 4])], &[1, 4]);
    let graph = model.graph.as_mut().expect("a graph");
    graph.output = vec![unshaped("y", Float)];
    graph.initializer.push(crate::common::proto::int64("count", &[6]));
    model
}

#[test]
fn a_node_of_a_loop_is_named() {
    let model = looping(recurrence());
    for fault in ["taken_tanh", "kept_tanh", "next_tanh"] {
        assert_named(&model, fault, ONE);
    }
}

/// A state that grows has another shape in each iteration, so that there is no tensor of all of
/// them; that is said.
#[test]
fn a_body_that_cannot_be_looked_into_is_told() {
    let body = vec![
        node("Concat", &["state", "step"], &["longer"], vec![int("axis", 0)]).named("longer"),
        node("Tanh", &["longer"], &["next"], vec![]).named("next_tanh"),
    ];
    let mut model = looping(body);
    let graph = model.graph.as_mut().expect("a graph");
    let body = graph.node.iter_mut().find(|node| node.name == "loop").expect("a Loop");
    let body = body.attribute.iter_mut().find_map(|a| a.g.as_mut()).expect("a body");
    // What is gathered has one shape, and is made outside.
    body.node.remove(0);
    body.node[0].input[1] = "row".into();
    graph.node.insert(0, node("Identity", &["first"], &["row"], vec![]));
    let report = report(&model, "next_tanh", ONE);
    assert_eq!(report["first_difference"]["node"], "loop", "{:#}", report["first_difference"]);
    let told = "`loop` (Loop) has a body, and what is inside could not be compared";
    let notes = report["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note == told), "{notes:?}");
}

/// A weight that all models here share.
fn shared_weight(ty: ElementType) -> TensorProto {
    held("w", ty, &[4, 4], &values(16, 1))
}

/// A model of `x` that computes in a type, between casts where that is not FLOAT.
fn typed(ty: ElementType, nodes: Vec<NodeProto>, held: Vec<TensorProto>) -> ModelProto {
    let first = match ty {
        Float => node("Identity", &["x"], &["given"], vec![]),
        _ => cast("x", ty, "given"),
    };
    let last = match ty {
        Float => node("Identity", &["z"], &["y"], vec![]),
        _ => cast("z", Float, "y"),
    };
    of(&[4, 4], [vec![first], nodes, vec![last]].concat(), &[4, 4], held)
}

/// A leaky branch in a branch. Values of bodies have names of their own in each type.
fn branch_in_branch(ty: ElementType, alpha: f32) -> ModelProto {
    let name = |name: &str| format!("{name}_{ty:?}");
    let branch = |name: &str, nodes: &[NodeProto]| graph(&[], nodes, &[unshaped(name, ty)]);
    let both =
        |yes, no| vec![graph_attribute("then_branch", yes), graph_attribute("else_branch", no)];
    let leaky = [
        node("MatMul", &["given", "w"], &[&name("p")], vec![]),
        node("LeakyRelu", &[&name("p")], &[&name("r")], vec![float("alpha", alpha)]).named("leaky"),
    ];
    let negative = |to: &str| [node("Neg", &["given"], &[to], vec![])];
    let inner = both(branch(&name("r"), &leaky), branch(&name("n"), &negative(&name("n"))));
    let inner = node("If", &["yes"], &[&name("i")], inner).named("inner");
    let outer = both(branch(&name("i"), &[inner]), branch(&name("m"), &negative(&name("m"))));
    let outer = node("If", &["yes"], &["z"], outer).named("outer");
    let yes = tensor_proto::write("yes", Bool, &tensor0(true)).expect("a tensor");
    typed(ty, vec![outer], vec![shared_weight(ty), yes])
}

#[test]
fn a_small_fault_in_a_branch_in_a_branch_is_no_rounding() {
    let reference = branch_in_branch(Float, 0.1);
    assert_eq!(verdict(&reference, &branch_in_branch(Float16, 0.1)), "rounded");
    let faulty = branch_in_branch(Float16, 0.104);
    assert_eq!(judged(&reference, &faulty), broken("leaky", "attribute"));
}

/// A Scan over rows, in a direction.
fn scanning_rows(ty: ElementType, direction: i64) -> ModelProto {
    let name = |name: &str| format!("{name}_{ty:?}");
    let nodes = [
        node("MatMul", &["s", "w"], &[&name("p")], vec![]),
        node("Add", &[&name("p"), "part"], &[&name("a")], vec![]),
        node("Tanh", &[&name("a")], &["next"], vec![]),
        node("Identity", &["next"], &["out"], vec![]),
    ];
    let row = |name: &str| value(name, ty, &[4]);
    let body = graph(&[row("s"), row("part")], &nodes, &[row("next"), row("out")]);
    let attributes = vec![
        graph_attribute("body", body),
        int("num_scan_inputs", 1),
        ints("scan_input_directions", &[direction]),
    ];
    let scan = node("Scan", &["start", "given"], &["end", "z"], attributes).named("scan");
    typed(ty, vec![scan], vec![shared_weight(ty), held("start", ty, &[4], &[0.0; 4])])
}

#[test]
fn a_scan_that_runs_the_other_way_is_named() {
    let reference = scanning_rows(Float, 0);
    assert_eq!(verdict(&reference, &scanning_rows(Float16, 0)), "rounded");
    assert_eq!(judged(&reference, &scanning_rows(Float16, 1)), broken("scan", "attribute"));
}

/// A Loop that carries two values, of which its body makes these.
fn carrying(ty: ElementType, made: [&str; 2]) -> ModelProto {
    let nodes = [
        node("MatMul", &["a", "w"], &["p"], vec![]),
        node("Tanh", &["p"], &["a_next"], vec![]),
        node("Sigmoid", &["b"], &["b_next"], vec![]),
        node("Identity", &["on"], &["goes_on"], vec![]),
    ];
    let inputs = [value("i", Int64, &[]), value("on", Bool, &[])];
    let inputs = [&inputs[..], &["a", "b"].map(|name| value(name, ty, &[4, 4]))].concat();
    let outputs = made.map(|name| value(name, ty, &[4, 4]));
    let body = graph(&inputs, &nodes, &[&[value("goes_on", Bool, &[])], &outputs[..]].concat());
    let attributes = vec![graph_attribute("body", body)];
    let repeat = node("Loop", &["n", "", "given", "given"], &["a_end", "b_end"], attributes);
    let sum = node("Sub", &["a_end", "b_end"], &["z"], vec![]);
    let n = tensor_proto::write("n", Int64, &tensor0(5i64)).expect("a tensor");
    typed(ty, vec![repeat.named("loop"), sum], vec![shared_weight(ty), n])
}

#[test]
fn carried_values_that_change_places_are_named_at_their_loop() {
    let reference = carrying(Float, ["a_next", "b_next"]);
    assert_eq!(verdict(&reference, &carrying(Float16, ["a_next", "b_next"])), "rounded");
    let turned = carrying(Float16, ["b_next", "a_next"]);
    assert_eq!(judged(&reference, &turned), broken("loop", "input_order"));
}
