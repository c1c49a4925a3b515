//! A `Scan` comes to an end in tract's optimiser, and makes what it makes node by node: of
//! constants and of inputs, whatever axes it goes along and whatever stands around it.

use std::fmt::{Display, Formatter};
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::spawn;
use std::time::Duration;

use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{Sketch, graph_attribute, int, int64, ints, tensor};

use ElementType::Float;

/// Longer than all models of a test take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(240);

/// Fails where this takes too long: nothing else can stop a thread.
pub fn in_time(work: impl FnOnce() + Send + 'static) {
    let (end, ended) = channel();
    let worker = spawn(move || {
        work();
        end.send(()).ok();
    });
    let is_late = ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
    assert!(!is_late, "it does not come to an end");
    if let Err(panic) = worker.join() {
        resume_unwind(panic);
    }
}

/// Small numbers from 1 on, of a shape.
pub fn count(shape: &[i64]) -> Tensor {
    let shape: Vec<usize> = shape.iter().map(|len| usize::try_from(*len).unwrap()).collect();
    let values: Vec<f32> =
        (1..=shape.iter().product()).map(|number: usize| number as f32).collect();
    Tensor::from_shape(&shape, &values).unwrap()
}

pub fn constant(name: &str, shape: &[i64]) -> TensorProto {
    let values: Vec<f32> = (1..=shape.iter().product()).map(|number: i64| number as f32).collect();
    TensorProto { dims: shape.to_vec(), ..tensor(name, Float, &values) }
}

/// Holds the optimised plan of a model against the model node by node, on its first input.
fn check(sketch: Sketch, what: &dyn Display) {
    let inputs: Vec<Tensor> = sketch.0.input.iter().map(|_| count(&[3])).collect();
    let given = inputs.iter().map(|input| OnnxTensor::new(Float, input.clone()).unwrap());
    let by_nodes = Interpreter::of_proto(onnx(), sketch.clone().model(), None).unwrap();
    let wanted = by_nodes.run(given.collect()).unwrap();
    let wanted: Vec<Tensor> = wanted.into_iter().map(OnnxTensor::into_tensor).collect();
    let made = sketch.run(inputs).unwrap_or_else(|error| panic!("{what}: {error:#}"));
    assert_eq!(made, wanted, "{what}");
}

/// A `Scan` and what stands around it.
#[derive(Debug, Clone, Copy)]
struct Case {
    turns: i64,
    is_constant: bool,
    has_state: bool,
    slice: &'static [i64],
    /// What the body adds.
    added: &'static [i64],
    /// Where the body's value is collected, and where it has one axis more before.
    axis: i64,
    unsqueezed: bool,
    behind: Behind,
}

#[derive(Debug, Clone, Copy)]
enum Behind {
    Nothing,
    Squeeze,
    Transpose,
    MatMul,
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Case {
    /// `None` where the axis is none of what is collected.
    fn sketch(&self) -> Option<Sketch> {
        let mut body = Sketch::new().initializer(constant("c", self.added));
        if self.has_state {
            body = body.input("s", Float, self.slice);
        }
        body = body.input("e", Float, self.slice).initializer(int64("first", &[0]));
        body = if self.has_state {
            body.node("Sub", &["s", "e"], &["d"], vec![]).output("d", Float, self.slice)
        } else {
            body.node("Neg", &["e"], &["d"], vec![])
        };
        let rank = self.slice.len().max(self.added.len());
        let sizes = self.slice.iter().chain(self.added).copied();
        let size = sizes.max().unwrap_or(1);
        let mut shape = vec![size; rank];
        body = body.node("Add", &["d", "c"], &["a"], vec![]);
        let made = if self.unsqueezed {
            shape.insert(0, 1);
            body.node("Unsqueeze", &["a", "first"], &["o"], vec![])
        } else {
            body.node("Identity", &["a"], &["o"], vec![])
        };
        let body = made.output("o", Float, &shape);
        let axis = usize::try_from(self.axis).ok().filter(|axis| *axis <= shape.len())?;
        shape.insert(axis, self.turns);
        let with = vec![
            int("num_scan_inputs", 1),
            ints("scan_output_axes", &[self.axis]),
            graph_attribute("body", body.0),
        ];
        let whole = [&[self.turns][..], self.slice].concat();
        let sketch = Sketch::new().input("z", Float, &[3]);
        let sketch = if self.is_constant {
            sketch.initializer(constant("x", &whole))
        } else {
            let sketch = sketch.initializer(int64("sizes", &whole));
            let sketch = sketch.node("ReduceSum", &["z"], &["sum"], vec![int("keepdims", 0)]);
            sketch.node("Expand", &["sum", "sizes"], &["x"], vec![])
        };
        let sketch = if self.has_state {
            let sketch = sketch.initializer(constant("start", self.slice));
            sketch.node("Scan", &["start", "x"], &["last", "all"], with)
        } else {
            sketch.node("Scan", &["x"], &["all"], with)
        };
        let last = shape.last().copied()?;
        Some(match self.behind {
            Behind::Nothing => sketch.output("all", Float, &shape),
            Behind::Squeeze => {
                shape.retain(|len| *len != 1);
                sketch.node("Squeeze", &["all"], &["y"], vec![]).output("y", Float, &shape)
            }
            Behind::Transpose => {
                shape.reverse();
                sketch.node("Transpose", &["all"], &["y"], vec![]).output("y", Float, &shape)
            }
            Behind::MatMul => {
                shape.pop();
                let sketch = sketch.initializer(constant("w", &[last]));
                sketch.node("MatMul", &["all", "w"], &["y"], vec![]).output("y", Float, &shape)
            }
        })
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![Case {
        turns: 0,
        is_constant: true,
        has_state: false,
        slice: &[],
        added: &[],
        axis: 0,
        unsqueezed: false,
        behind: Behind::Nothing,
    }];
    fn vary<T: Copy>(cases: Vec<Case>, values: &[T], set: fn(&mut Case, T)) -> Vec<Case> {
        let of_one = |case: Case| {
            values.iter().map(move |value| {
                let mut case = case;
                set(&mut case, *value);
                case
            })
        };
        cases.into_iter().flat_map(of_one).collect()
    }
    let behind = [Behind::Nothing, Behind::Squeeze, Behind::Transpose, Behind::MatMul];
    let shapes: [&[i64]; 3] = [&[], &[1], &[2]];
    cases = vary(cases, &[0, 1, 3], |case, turns| case.turns = turns);
    cases = vary(cases, &[true, false], |case, is| case.is_constant = is);
    cases = vary(cases, &[true, false], |case, has| case.has_state = has);
    cases = vary(cases, &shapes, |case, slice| case.slice = slice);
    cases = vary(cases, &shapes, |case, added| case.added = added);
    cases = vary(cases, &[0, 1, 2], |case, axis| case.axis = axis);
    cases = vary(cases, &[true, false], |case, is| case.unsqueezed = is);
    vary(cases, &behind, |case, behind| case.behind = behind)
}

#[test]
fn a_scan_comes_to_an_end_and_makes_what_it_makes_node_by_node() {
    in_time(|| {
        let mut checked = 0;
        for case in cases() {
            if let Some(sketch) = case.sketch() {
                check(sketch, &case);
                checked += 1;
            }
        }
        assert_eq!(checked, 2064);
    });
}

/// Of an input alone, with a product behind it, and beside a constant that is collected.
#[test]
fn a_scan_of_an_input_comes_to_an_end() {
    in_time(|| {
        for collects_constant in [false, true] {
            let mut body = Sketch::new()
                .input("e", Float, &[])
                .initializer(int64("first", &[0]))
                .initializer(constant("c", &[]))
                .node("Neg", &["e"], &["d"], vec![])
                .node("Unsqueeze", &["d", "first"], &["o"], vec![]);
            if collects_constant {
                body = body.node("Neg", &["c"], &["k"], vec![]).output("k", Float, &[]);
            }
            let (axes, outputs): (&[i64], &[&str]) =
                if collects_constant { (&[0, 1], &["constants", "all"]) } else { (&[1], &["all"]) };
            let with = vec![
                int("num_scan_inputs", 1),
                ints("scan_output_axes", axes),
                graph_attribute("body", body.output("o", Float, &[1]).0),
            ];
            let sketch = Sketch::new()
                .input("x", Float, &[3])
                .initializer(constant("w", &[3, 1]))
                .node("Scan", &["x"], outputs, with)
                .node("MatMul", &["all", "w"], &["y"], vec![])
                .output("y", Float, &[1, 1]);
            let made =
                if collects_constant { sketch.output("constants", Float, &[3]) } else { sketch };
            check(made, &format!("a constant: {collects_constant}"));
        }
    });
}

/// A body that makes nothing of its state, or nothing of what is scanned.
#[test]
fn what_a_body_has_no_use_for_is_given_all_the_same() {
    in_time(|| {
        let uses = [("s", "s"), ("s", "c"), ("e", "e"), ("e", "c")];
        for ((state, collected), turns) in
            uses.into_iter().flat_map(|used| [1, 3].map(|turns| (used, turns)))
        {
            let body = Sketch::new()
                .input("s", Float, &[])
                .input("e", Float, &[])
                .initializer(constant("c", &[]))
                .node("Neg", &[state], &["t"], vec![])
                .node("Neg", &[collected], &["o"], vec![])
                .output("t", Float, &[])
                .output("o", Float, &[]);
            let with = vec![int("num_scan_inputs", 1), graph_attribute("body", body.0)];
            let sketch = Sketch::new()
                .input("z", Float, &[3])
                .initializer(int64("none", &[0]))
                .initializer(int64("turns", &[turns]))
                .initializer(constant("start", &[]))
                .node("Slice", &["z", "none", "turns"], &["x"], vec![])
                .node("Scan", &["start", "x"], &["last", "all"], with)
                .output("last", Float, &[])
                .output("all", Float, &[turns]);
            check(sketch, &format!("{state} and {collected}, {turns} turns"));
        }
    });
}

/// tract puts a body of one turn into the model around it, where the state is known to be 0.
#[test]
fn products_by_a_state_of_zero_keep_nan_and_signs() {
    let one_turn = |inner: bool| {
        let step = Sketch::new()
            .input("state", Float, &[])
            .input("element", Float, &[])
            .node("Mul", &["state", "element"], &["next"], vec![])
            .output("next", Float, &[]);
        let mut body = step.0;
        if inner {
            let scan = vec![int("num_scan_inputs", 1), graph_attribute("body", body)];
            body = Sketch::new()
                .input("first", Float, &[])
                .input("row", Float, &[1])
                .node("Scan", &["first", "row"], &["last"], scan)
                .output("last", Float, &[])
                .0;
        }
        let shape: &[i64] = if inner { &[1, 1] } else { &[1] };
        let zero = TensorProto { dims: vec![], ..tensor("zero", Float, &[0.0]) };
        let scan = vec![int("num_scan_inputs", 1), graph_attribute("body", body)];
        let sketch = Sketch::new().input("x", Float, shape).initializer(zero);
        (sketch.node("Scan", &["zero", "x"], &["y"], scan).output("y", Float, &[]), shape)
    };
    for inner in [false, true] {
        for (x, y) in [(-8f32, -0f32), (8.0, 0.0), (f32::NAN, f32::NAN)] {
            let (sketch, shape) = one_turn(inner);
            let x = Tensor::from_shape(&vec![1; shape.len()], &[x]).unwrap();
            let made = sketch.run(vec![x]).unwrap().remove(0);
            let made = made.cast_to_scalar::<f32>().unwrap();
            let is_same = made.is_nan() && y.is_nan() || made.to_bits() == y.to_bits();
            assert!(is_same, "{made} is not {y}, inside of another: {inner}");
        }
    }
}
