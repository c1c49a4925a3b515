//! Scores that are transformed, and what operators that run node by node refuse.

use tract_onnx::pb::{AttributeProto, ModelProto, OperatorSetIdProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, Result, onnx};

use crate::common::proto::{Sketch, int, ints, model, node, raw, string, tensor, tensor_attribute};

use ElementType::Float;

const SOFTMAX_ZERO: [f32; 6] = [0.3100255, 0.6899744, 0.0, 0.26030254, 0.35137168, 0.38832578];

const PROBIT: [f32; 6] = [-1.2817129, 1.2817129, f32::NEG_INFINITY, -0.8417561, 0.0, 0.2533535];

fn run(model: ModelProto, shapes: &[&[usize]]) -> Result<Vec<OnnxTensor>> {
    let numbers = |shape: &&[usize]| {
        let count = shape.iter().product::<usize>();
        let numbers: Vec<f32> = (0..count).map(|place| place as f32).collect();
        OnnxTensor::new(Float, Tensor::from_shape(shape, &numbers).unwrap()).unwrap()
    };
    Interpreter::of_proto(onnx(), model, None)?.run(shapes.iter().map(numbers).collect())
}

/// Three trees, of a question and a target each, on the rows 0 and 1.
fn trees(transform: i64) -> ModelProto {
    let floats = |name, values: &[f32]| tensor_attribute(name, tensor("", Float, values));
    let mut trees = node(
        "TreeEnsemble",
        &["x"],
        &["y"],
        vec![
            int("n_targets", 3),
            int("post_transform", transform),
            ints("leaf_targetids", &[0, 0, 1, 1, 2, 2]),
            ints("nodes_featureids", &[0, 0, 0]),
            ints("nodes_truenodeids", &[0, 2, 4]),
            ints("nodes_falsenodeids", &[1, 3, 5]),
            ints("nodes_trueleafs", &[1, 1, 1]),
            ints("nodes_falseleafs", &[1, 1, 1]),
            ints("tree_roots", &[0, 1, 2]),
            tensor_attribute("nodes_modes", raw("", ElementType::Uint8 as i32, &[3], &[0, 0, 0])),
            floats("nodes_splits", &[0.5, 0.5, 0.5]),
            floats("leaf_weights", &[0.1, 0.2, 0.9, 0.5, 0.0, 0.6]),
        ],
    );
    trees.domain = "ai.onnx.ml".into();
    let mut sketch = Sketch::new().input("x", Float, &[2, 1]).output("y", Float, &[2, 3]);
    sketch.0.node.push(trees);
    let mut whole = model(21, sketch.0);
    whole.opset_import.push(OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 5 });
    whole
}

/// The numbers are those of ONNX Runtime, which takes SOFTMAX and LOGISTIC for each other.
#[test]
fn scores_of_trees_are_transformed() {
    for (transform, expected) in [(3, SOFTMAX_ZERO), (4, PROBIT)] {
        let made = run(trees(transform), &[&[2, 1]]).unwrap().remove(0).into_tensor();
        let made = made.to_plain_array_view::<f32>().unwrap();
        for (made, expected) in made.iter().zip(expected) {
            assert!(*made == expected || (made - expected).abs() < 1e-5, "{made}, not {expected}");
        }
    }
    for transform in [1, 2, 5] {
        let error = run(trees(transform), &[&[2, 1]]).unwrap_err().to_string();
        let problem = format!("has a `post_transform` {transform} of 3 targets");
        assert!(error.contains(&problem), "{error}");
    }
}

fn alone(op: &str, domain: &str, attributes: Vec<AttributeProto>, inputs: &[&[i64]]) -> ModelProto {
    let names = ["a", "b", "c"];
    let mut sketch = Sketch::new().output("y", Float, &[]);
    for (name, shape) in names.iter().zip(inputs) {
        sketch = sketch.input(name, Float, shape);
    }
    let mut single = node(op, &names[..inputs.len()], &["y"], attributes);
    single.domain = domain.into();
    sketch.0.node.push(single);
    let mut whole = model(21, sketch.0);
    whole.opset_import.push(OperatorSetIdProto { domain: domain.into(), version: 1 });
    whole
}

#[test]
fn what_is_not_computed_node_by_node_is_named() {
    let heads = vec![
        int("q_num_heads", 1),
        int("kv_num_heads", 1),
        int("state_window", 2),
        string("update_rule", "linear"),
    ];
    let states = alone("LinearAttention", "com.microsoft", heads, &[&[1, 1, 1][..]; 3]);
    let error = run(states, &[&[1, 1, 1][..]; 3]).unwrap_err().to_string();
    assert!(error.contains("has attribute `state_window`, and computed is only 0"), "{error}");
    let sizes = vec![ints("inputdimensions", &[2, 3])];
    let beside = alone("FeatureVectorizer", "ai.onnx.ml", sizes, &[&[2, 2], &[2, 1]]);
    let error = run(beside, &[&[2, 2], &[2, 1]]).unwrap_err().to_string();
    assert!(error.contains("has input 1 of shape [2, 1] and dimension 3"), "{error}");
}
