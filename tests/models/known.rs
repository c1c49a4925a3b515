//! What an observer knows of nodes stands for what they would make.

use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Bool, Float};
use tract_onnx_cast::interpreter::{Interpreter, NodeRun, ObservedTensor, Observer, SharedTensor};
use tract_onnx_cast::{OnnxTensor, Result};

use crate::common::proto::{Sketch, graph, graph_attribute, node, value};

/// Knows what some operators make, and notes what it was asked and shown.
struct Knows {
    operators: &'static [&'static str],
    made: f32,
    asked: Vec<String>,
    shown: Vec<String>,
}

impl Observer for Knows {
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        self.asked.push(node.op_type.into());
        let made = || (Float, tensor1(&[self.made]).into());
        let is_known = self.operators.contains(&node.op_type);
        is_known.then(|| node.output_names().map(|name| name.map(|_| made())).collect())
    }

    fn node(&mut self, node: &NodeRun, outputs: &mut [Option<ObservedTensor>]) -> Result<()> {
        let names = outputs.iter().flatten().map(|made| made.name.to_string());
        let names = names.collect::<Vec<_>>().join(" ");
        let of_node = node.output_names().flatten().collect::<Vec<_>>().join(" ");
        assert_eq!(names, of_node);
        self.shown.push(format!("{} {names}", node.op_type));
        Ok(())
    }
}

fn watched(sketch: Sketch, given: Vec<OnnxTensor>, knows: &mut Knows) -> Vec<Tensor> {
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), sketch.model(), None);
    let made = model.expect("a model").run_observed(given, knows).expect("it runs");
    made.into_iter().map(OnnxTensor::into_tensor).collect()
}

fn float(x: f32) -> OnnxTensor {
    OnnxTensor::new(Float, tensor1(&[x])).expect("its carrier")
}

#[test]
fn a_node_that_is_known_does_not_run() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[1])
            .node("Neg", &["x"], &["y"], vec![])
            .node("Dropout", &["y"], &["d", ""], vec![])
            .node("Add", &["d", "x"], &["z"], vec![])
            .output("z", Float, &[1])
    };
    for (operators, wanted) in [(&[][..], 0f32), (&["Neg"], 9.0), (&["Dropout"], 9.0)] {
        let mut knows = Knows { operators, made: 7.0, asked: vec![], shown: vec![] };
        assert_eq!(watched(sketch(), vec![float(2.0)], &mut knows), [tensor1(&[wanted])]);
        assert_eq!(knows.asked, ["Neg", "Dropout", "Add"]);
        assert_eq!(knows.shown, ["Neg y", "Dropout d", "Add z"]);
    }
}

/// Knows of one output too many.
struct KnowsMore;

impl Observer for KnowsMore {
    fn known(&mut self, node: &NodeRun) -> Option<Vec<Option<SharedTensor>>> {
        Some(vec![None; node.output_names().count() + 1])
    }

    fn node(&mut self, _: &NodeRun, _: &mut [Option<ObservedTensor>]) -> Result<()> {
        Ok(())
    }
}

#[test]
fn another_number_of_outputs_is_refused() {
    let sketch = Sketch::new().input("x", Float, &[1]).node("Neg", &["x"], &["y"], vec![]);
    let sketch = sketch.output("y", Float, &[1]);
    let model = Interpreter::of_proto(tract_onnx_cast::onnx(), sketch.model(), None);
    let ran = model.expect("a model").run_observed(vec![float(2.0)], &mut KnowsMore);
    let error = ran.expect_err("two outputs").to_string();
    assert!(error.contains("(Neg): makes 1 output, and 2 are known"), "{error}");
}

#[test]
fn a_node_with_bodies_is_not_asked_for() {
    let branch =
        |op: &str| graph(&[], &[node(op, &["x"], &["b"], vec![])], &[value("b", Float, &[1])]);
    let bodies = ["then_branch", "else_branch"].into_iter().zip(["Neg", "Abs"]);
    let bodies = bodies.map(|(name, op)| graph_attribute(name, branch(op))).collect();
    let sketch = Sketch::new()
        .input("x", Float, &[1])
        .input("c", Bool, &[])
        .node("If", &["c"], &["y"], bodies)
        .output("y", Float, &[1]);
    let mut knows = Knows { operators: &["If", "Neg"], made: 7.0, asked: vec![], shown: vec![] };
    let given = OnnxTensor::new(Bool, Tensor::from(true)).expect("its carrier");
    assert_eq!(watched(sketch, vec![float(2.0), given], &mut knows), [tensor1(&[7f32])]);
    assert_eq!(
        (knows.asked, knows.shown),
        (vec!["Neg".into()], vec!["Neg b".into(), "If y".into()])
    );
}
