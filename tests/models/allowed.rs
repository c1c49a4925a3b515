//! What ONNX allows of a node, and tract refuses or takes for something else.

use tract_onnx::prelude::*;
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{ElementType, OnnxTensor, onnx};

use crate::common::proto::{Sketch, model, tensor};

use ElementType::{Float, Int64};

/// The outputs of a model in a plan, which are those that it has node by node.
fn run(opset: i64, sketch: Sketch, inputs: &[(ElementType, Tensor)]) -> Vec<Tensor> {
    let model = model(opset, sketch.0);
    let plan = onnx().model_for_proto_model(&model).unwrap().into_optimized().unwrap();
    let given = inputs.iter().map(|(_, tensor)| tensor.clone().into_tvalue()).collect();
    let made = plan.into_runnable().unwrap().run(given).unwrap();
    let made: Vec<Tensor> = made.into_iter().map(TValue::into_tensor).collect();
    let walked = Interpreter::of_proto(onnx(), model, None).unwrap();
    let given = inputs.iter().map(|(ty, tensor)| OnnxTensor::new(*ty, tensor.clone()).unwrap());
    let walked = walked.run(given.collect()).unwrap();
    let walked: Vec<Tensor> = walked.into_iter().map(OnnxTensor::into_tensor).collect();
    assert_eq!(made, walked);
    made
}

const BOXES: [f32; 12] = [0., 0., 1., 1., 0., 0., 1., 0.9, 2., 2., 3., 3.];

const SCORES: [f32; 3] = [0.9, 0.8, 0.7];

/// The boxes that are left of three, of which two cover one another, all but some inputs being constants.
fn boxes_left(limit: Option<&[i64]>, data: &[&str]) -> Tensor {
    let mut sketch = Sketch::new();
    let mut inputs = vec![];
    let limit_of = |most: &[i64]| {
        let shape: &[usize] = if most.len() == 1 { &[] } else { &[1] };
        Tensor::from_shape(shape, &most[..1]).unwrap()
    };
    let boxes = Tensor::from_shape(&[1, 3, 4], &BOXES).unwrap();
    let scores = Tensor::from_shape(&[1, 1, 3], &SCORES).unwrap();
    let mut values = vec![("boxes", Float, boxes), ("scores", Float, scores)];
    values.extend(limit.map(|most| ("limit", Int64, limit_of(most))));
    values.push(("iou", Float, tensor1(&[0.5f32])));
    for (name, ty, value) in values {
        let dims: Vec<i64> = value.shape().iter().map(|size| *size as i64).collect();
        if data.contains(&name) {
            sketch = sketch.input(name, ty, &dims);
            inputs.push((ty, value));
        } else {
            let numbers = value.cast_to::<f32>().unwrap();
            let mut constant =
                tensor(name, ty, numbers.try_as_plain_ram().unwrap().as_slice().unwrap());
            constant.dims = dims;
            sketch = sketch.initializer(constant);
        }
    }
    let limit = if limit.is_some() { "limit" } else { "" };
    let sketch =
        sketch.node("NonMaxSuppression", &["boxes", "scores", limit, "iou"], &["y"], vec![]);
    let sketch = sketch.node("Identity", &["y"], &["z"], vec![]).output("z", Int64, &[-1, 3]);
    run(17, sketch, &inputs).remove(0)
}

#[test]
fn boxes_are_as_many_as_their_limit_whatever_is_known_of_it() {
    for data in [&["boxes", "scores", "limit"][..], &["boxes", "scores"], &["limit"], &[]] {
        let none = Tensor::zero::<i64>(&[0, 3]).unwrap();
        assert_eq!(boxes_left(None, data), none, "{data:?}");
        for shape in [&[0i64][..], &[0, 1]] {
            assert_eq!(boxes_left(Some(shape), data), none, "{data:?}");
        }
        assert_eq!(boxes_left(Some(&[1]), data), tensor2(&[[0i64, 0, 0]]), "{data:?}");
        assert_eq!(boxes_left(Some(&[3]), data), tensor2(&[[0i64, 0, 0], [0, 0, 2]]), "{data:?}");
    }
}
