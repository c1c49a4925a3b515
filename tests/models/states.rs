//! What a `Scan` leaves of its states: without a turn, without elements, of a constant.

use std::fmt::Display;

use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{Sketch, dim, graph_attribute, int, int64, shaped, symbol};
use crate::scans::{constant, count, in_time};

use ElementType::{Float, Int64};

/// Sizes of a first axis, and the lengths that it is run with.
fn rows() -> [(Dimension, &'static [i64]); 4] {
    [(dim(0), &[0]), (dim(1), &[1]), (dim(3), &[3]), (symbol("N"), &[0, 3, 1, 0])]
}

/// A `Scan` of two FLOAT states and one of INT64 over x, of as many rows as it turns.
fn of_three_states(rows: Dimension) -> Sketch {
    let body = Sketch::new()
        .input("a", Float, &[2])
        .input("n", Int64, &[])
        .input("b", Float, &[2])
        .input("e", Float, &[2])
        .initializer(TensorProto { dims: vec![], ..int64("one", &[1]) })
        .node("Add", &["a", "e"], &["c"], vec![])
        .node("Add", &["n", "one"], &["m"], vec![])
        .node("Mul", &["b", "c"], &["d"], vec![])
        .node("Neg", &["d"], &["o"], vec![])
        .output("c", Float, &[2])
        .output("m", Int64, &[])
        .output("d", Float, &[2])
        .output("o", Float, &[2]);
    let with = vec![int("num_scan_inputs", 1), graph_attribute("body", body.0)];
    let mut sketch = Sketch::new()
        .input("a0", Float, &[2])
        .initializer(TensorProto { dims: vec![], ..int64("n0", &[7]) })
        .node("Neg", &["a0"], &["b0"], vec![])
        .node("Scan", &["a0", "n0", "b0", "x"], &["c1", "m1", "d1", "o1"], with)
        .node("Add", &["d1", "a0"], &["s"], vec![])
        .output("c1", Float, &[2])
        .output("m1", Int64, &[])
        .output("s", Float, &[2]);
    sketch.0.input.push(shaped("x", Float, vec![rows.clone(), dim(2)]));
    sketch.0.output.push(shaped("o1", Float, vec![rows, dim(2)]));
    sketch
}

/// Holds a plan of a model against the model node by node, on each of these inputs.
fn check_runs(sketch: Sketch, runs: &[Vec<Tensor>], what: &dyn Display) -> Vec<Vec<Tensor>> {
    let by_nodes = Interpreter::of_proto(onnx(), sketch.clone().model(), None).unwrap();
    let plan = sketch.load().unwrap().into_optimized().unwrap().into_runnable().unwrap();
    let run = |inputs: &Vec<Tensor>| {
        let given = inputs.iter().map(|x| OnnxTensor::new(Float, x.clone()).unwrap());
        let wanted = by_nodes.run(given.collect()).unwrap();
        let wanted: Vec<Tensor> = wanted.into_iter().map(OnnxTensor::into_tensor).collect();
        let inputs = inputs.iter().cloned().map(Tensor::into_tvalue).collect();
        let made = plan.run(inputs).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        let made: Vec<Tensor> = made.into_iter().map(TValue::into_tensor).collect();
        assert_eq!(made, wanted, "{what}");
        made
    };
    runs.iter().map(run).collect()
}

/// Where no turn comes, each state is what was given, and what is collected is empty.
#[test]
fn a_scan_of_no_turns_leaves_its_states_as_they_were() {
    in_time(|| {
        for (rows, lengths) in rows() {
            let runs: Vec<Vec<Tensor>> =
                lengths.iter().map(|length| vec![count(&[2]), count(&[*length, 2])]).collect();
            let all = check_runs(of_three_states(rows), &runs, &format!("{lengths:?}"));
            for (length, made) in lengths.iter().zip(all) {
                if *length == 0 {
                    assert_eq!(made[0], count(&[2]));
                    assert_eq!(made[1], tensor0(7i64));
                    assert_eq!(made[2], tensor1(&[0f32, 0.0]));
                    assert_eq!(made[3].shape(), [0, 2]);
                }
            }
        }
    });
}

/// A layer whose time is a symbol is a `Scan` of tract's, and one of no steps leaves zeros.
#[test]
fn a_layer_of_no_steps_leaves_zeros() {
    in_time(|| {
        for (cell, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
            for given in [0, 1, 2] {
                let mut sketch = Sketch::new()
                    .initializer(constant("w", &[1, 2 * gates, 2]))
                    .initializer(constant("r", &[1, 2 * gates, 2]))
                    .initializer(constant("c0", &[1, 1, 2]))
                    .input("h0", Float, &[1, 1, 2]);
                let mut inputs = vec!["x", "w", "r"];
                let mut outputs = vec!["all", "h"];
                if given > 0 {
                    inputs.extend(["", "", "h0"]);
                }
                if cell == "LSTM" {
                    outputs.push("c");
                    sketch = sketch.output("c", Float, &[1, 1, 2]);
                    if given > 1 {
                        inputs.push("c0");
                    }
                }
                sketch = sketch.node(cell, &inputs, &outputs, vec![int("hidden_size", 2)]).output(
                    "h",
                    Float,
                    &[1, 1, 2],
                );
                sketch.0.input.insert(0, shaped("x", Float, vec![symbol("N"), dim(1), dim(2)]));
                sketch.0.output.push(shaped(
                    "all",
                    Float,
                    vec![symbol("N"), dim(1), dim(1), dim(2)],
                ));
                let inputs = vec![count(&[0, 1, 2]), count(&[1, 1, 2])];
                check_runs(sketch, &[inputs], &format!("{cell}, {given}"));
            }
        }
    });
}

/// A `Scan` over x whose state of `len` elements becomes what this operator makes of `a`, the state
/// before, or of the constant `c`.
fn of_one_state((op, of): (&str, &str), len: i64, rows: &Dimension) -> Sketch {
    let body = Sketch::new()
        .input("a", Float, &[len])
        .input("e", Float, &[])
        .initializer(constant("c", &[len]))
        .node(op, &[of], &["t"], vec![])
        .node("Concat", &["a", "a"], &["o"], vec![int("axis", 0)])
        .node("Identity", &["t"], &["p"], vec![])
        .output("t", Float, &[len])
        .output("o", Float, &[2 * len])
        .output("p", Float, &[len]);
    let with = vec![int("num_scan_inputs", 1), graph_attribute("body", body.0)];
    let mut sketch = Sketch::new()
        .input("s", Float, &[len])
        .node("Scan", &["s", "x"], &["last", "all", "states"], with)
        .output("last", Float, &[len]);
    sketch.0.input.push(shaped("x", Float, vec![rows.clone()]));
    for (output, len) in [("all", 2 * len), ("states", len)] {
        sketch.0.output.push(shaped(output, Float, vec![rows.clone(), dim(len)]));
    }
    sketch
}

#[test]
fn a_state_may_have_no_elements_or_be_a_constant() {
    in_time(|| {
        for (state, len) in [("Neg", "c"), ("Identity", "c"), ("Neg", "a"), ("Identity", "a")]
            .into_iter()
            .flat_map(|state| [0, 1].map(|len| (state, len)))
        {
            for (rows, lengths) in rows() {
                let inputs = |length: &i64| vec![count(&[len]), count(&[*length])];
                let runs: Vec<Vec<Tensor>> = lengths.iter().map(inputs).collect();
                let what = format!("{state:?} of {len}, {lengths:?}");
                check_runs(of_one_state(state, len, &rows), &runs, &what);
            }
        }
    });
}
