//! A body that runs again, node by node: what was built for one turn serves another only where it
//! would be built for that one too.

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Bool, Float, Int64};
use tract_onnx_cast::OnnxTensor;
use tract_onnx_cast::interpreter::Interpreter;

use crate::common::proto::{
    graph, graph_attribute, int, int64, model, node, unshaped, untyped, value,
};

#[test]
fn nodes_follow_the_shapes_and_the_values_of_each_turn() {
    let steps = [
        node("Reshape", &["i", "one"], &["start"], vec![]),
        node("Add", &["start", "one"], &["end"], vec![]),
        node("Slice", &["x", "start", "end"], &["part"], vec![]),
        node("Concat", &["before", "part"], &["after"], vec![int("axis", 0)]),
        node("Identity", &["on"], &["still_on"], vec![]),
    ];
    let inputs = [value("i", Int64, &[]), untyped("on"), untyped("before")];
    let outputs = [untyped("still_on"), untyped("after"), untyped("part")];
    let body = graph(&inputs, &steps, &outputs);
    let with = vec![graph_attribute("body", body)];
    let nodes = [node("Loop", &["count", "", "x"], &["y", "parts"], with)];
    let outputs = [unshaped("y", Float), unshaped("parts", Float)];
    let mut main = graph(&[value("x", Float, &[3])], &nodes, &outputs);
    main.initializer = vec![int64("count", &[3]), int64("one", &[1])];
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model(21, main), None);
    let x = OnnxTensor::new(Float, tensor1(&[5f32, 6.0, 7.0])).expect("FLOAT");
    let made = model.and_then(|model| model.run(vec![x])).expect("outputs");
    assert_eq!(made[0].tensor(), &tensor1(&[5f32, 6.0, 7.0, 5.0, 6.0, 7.0]));
    assert_eq!(made[1].tensor(), &tensor2(&[[5f32], [6.0], [7.0]]));
}

/// By its count, by its condition, or by both.
#[test]
fn a_loop_of_no_turns_leaves_what_it_carries() {
    for (count, on, turns) in [(0, true, 0), (3, false, 0), (0, false, 0), (2, true, 2)] {
        let steps = [
            node("Neg", &["before"], &["after"], vec![]),
            node("Identity", &["on"], &["still_on"], vec![]),
            node("Identity", &["after"], &["part"], vec![]),
        ];
        let inputs = [value("i", Int64, &[]), value("on", Bool, &[]), value("before", Int64, &[2])];
        let outputs = [untyped("still_on"), untyped("after"), value("part", Int64, &[2])];
        let with = vec![graph_attribute("body", graph(&inputs, &steps, &outputs))];
        let nodes = [
            node("Cast", &["on_code"], &["goes"], vec![int("to", 9)]),
            node("Loop", &["count", "goes", "x"], &["y", "parts"], with),
        ];
        let outputs = [unshaped("y", Int64), unshaped("parts", Int64)];
        let mut main = graph(&[value("x", Int64, &[2])], &nodes, &outputs);
        main.initializer = vec![int64("count", &[count]), int64("on_code", &[i64::from(on)])];
        let model = Interpreter::of_proto(tract_onnx_cast::onnx(), model(21, main), None);
        let x = OnnxTensor::new(Int64, tensor1(&[5i64, 6])).expect("INT64");
        let made = model.and_then(|model| model.run(vec![x])).expect("outputs");
        assert_eq!(made[0].tensor(), &tensor1(&[5i64, 6]), "{count} {on}");
        assert_eq!(made[1].tensor().shape(), [turns, 2], "{count} {on}");
    }
}
