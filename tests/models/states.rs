//! What a `Scan` leaves of its states: without a turn, without elements, of a constant.

use std::fmt::Display;

use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_shape_proto::Dimension;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::matmul::optimized::OptMatMul;
use tract_onnx::tract_core::ops::scan::OptScan;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{
    Sketch, dim, graph_attribute, int, int64, ints, shaped, symbol, tensor,
};
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

/// Numbers of all signs whose sums depend on the order, of a shape.
fn waves(shape: &[i64]) -> Tensor {
    let shape: Vec<usize> = shape.iter().map(|len| usize::try_from(*len).unwrap()).collect();
    let values: Vec<f32> = (1..=shape.iter().product()).map(|n: usize| (n as f32).sin()).collect();
    Tensor::from_shape(&shape, &values).unwrap()
}

fn weight(name: &str, shape: &[i64]) -> TensorProto {
    let values = waves(shape);
    let values = values.try_as_plain_ram().unwrap();
    TensorProto { dims: shape.to_vec(), ..tensor(name, Float, values.as_slice().unwrap()) }
}

/// h = tanh(x · w + h · r), of any size, by a weight of the body or of what is around it.
fn recurrent(batch: &[i64], sizes: [i64; 2], is_inner: bool, direction: i64) -> Sketch {
    let [given, hidden] = sizes;
    let of_given = [batch, &[given]].concat();
    let of_hidden = [batch, &[hidden]].concat();
    let weights = [weight("w", &[given, hidden]), weight("r", &[hidden, hidden])];
    let mut body = Sketch::new().input("h", Float, &of_hidden).input("e", Float, &of_given);
    let mut sketch = Sketch::new().input("h0", Float, &of_hidden);
    for weight in weights {
        if is_inner {
            body = body.initializer(weight);
        } else {
            sketch = sketch.initializer(weight);
        }
    }
    let body = body
        .node("MatMul", &["e", "w"], &["ew"], vec![])
        .node("MatMul", &["h", "r"], &["hr"], vec![])
        .node("Add", &["ew", "hr"], &["sum"], vec![])
        .node("Tanh", &["sum"], &["t"], vec![])
        .node("Neg", &["ew"], &["o"], vec![])
        .output("t", Float, &of_hidden)
        .output("o", Float, &of_hidden);
    let with = vec![
        int("num_scan_inputs", 1),
        ints("scan_input_directions", &[direction]),
        graph_attribute("body", body.0),
    ];
    sketch =
        sketch.node("Scan", &["h0", "x"], &["last", "all"], with).output("last", Float, &of_hidden);
    let dims =
        |sizes: &[i64]| [symbol("N")].into_iter().chain(sizes.iter().map(|s| dim(*s))).collect();
    sketch.0.input.push(shaped("x", Float, dims(&of_given)));
    sketch.0.output.push(shaped("all", Float, dims(&of_hidden)));
    sketch
}

/// A product of what is scanned runs once, before the turns, to the same bits, where it is wide
/// enough.
#[test]
fn products_of_what_is_scanned_are_taken_out() {
    in_time(|| {
        for (batch, hidden) in [&[][..], &[1], &[2], &[2, 1]]
            .into_iter()
            .flat_map(|batch| [24, 127, 128, 131, 160].map(|hidden| (batch, hidden)))
        {
            for (is_inner, direction) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                let sketch = recurrent(batch, [37, hidden], is_inner, direction);
                let what = format!("{batch:?} {hidden} {is_inner} {direction}");
                let model = sketch.clone().load().unwrap().into_optimized().unwrap();
                let scan = model.nodes.iter().find_map(|node| node.op_as::<OptScan>()).unwrap();
                let inner = scan.plan.model().nodes.iter();
                let products = inner.filter(|node| node.op_is::<OptMatMul>()).count();
                assert_eq!(products, if hidden < 128 { 2 } else { 1 }, "{what}");
                let inputs = |length: &i64| {
                    let given = [&[*length], batch, &[37]].concat();
                    vec![waves(&[batch, &[hidden]].concat()), waves(&given)]
                };
                let runs: Vec<Vec<Tensor>> = [0, 3, 1].iter().map(inputs).collect();
                check_runs(sketch, &runs, &what);
            }
        }
    });
}

/// A product by a scalar is none, also where as many scalars are a row.
#[test]
fn a_product_by_a_scalar_is_refused() {
    let body = Sketch::new()
        .input("e", Float, &[])
        .initializer(weight("w", &[128, 128]))
        .node("MatMul", &["e", "w"], &["y"], vec![])
        .node("Neg", &["y"], &["z"], vec![])
        .output("z", Float, &[]);
    let with = vec![int("num_scan_inputs", 1), graph_attribute("body", body.0)];
    let sketch = Sketch::new()
        .input("x", Float, &[128])
        .node("Scan", &["x"], &["all"], with)
        .output("all", Float, &[128]);
    let by_nodes = Interpreter::of_proto(onnx(), sketch.clone().model(), None).unwrap();
    assert!(by_nodes.run(vec![OnnxTensor::new(Float, waves(&[128])).unwrap()]).is_err());
    assert!(!sketch.load().is_ok_and(|model| model.into_optimized().is_ok()));
}
