//! Operators that are here for their speed alone make what tract's make.

use crate::common::proto::{Sketch, int, string, tensor};
use tract_onnx::pb::{AttributeProto, ModelProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Float, Float16};
use tract_onnx_cast::onnx;

/// Numbers from about −1.5 to 1.5.
fn numbers(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|x| ((x * 7919) % 3001) as f32 / 1000. - 1.5).collect();
    Tensor::from_shape(shape, &values).unwrap()
}

fn sketch(op: &str, inputs: &[&[usize]], attributes: Vec<AttributeProto>) -> Sketch {
    let names: Vec<String> = (0..inputs.len()).map(|place| format!("x{place}")).collect();
    let mut sketch = Sketch::new();
    for (name, shape) in names.iter().zip(inputs) {
        let shape: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        sketch = sketch.input(name, Float, &shape);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sketch = sketch.node(op, &names, &["y"], attributes);
    sketch.0.output.push(crate::common::proto::unshaped("y", Float));
    sketch
}

fn run(model: InferenceModel, inputs: &[Tensor]) -> Tensor {
    let plan = model.into_optimized().unwrap().into_runnable().unwrap();
    let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
    plan.run(inputs).unwrap().remove(0).into_tensor()
}

/// What this crate makes of a model, and what tract alone does.
fn both(model: &ModelProto, inputs: &[Tensor]) -> (Tensor, Tensor) {
    let stock = tract_onnx::onnx().model_for_proto_model(model).unwrap();
    (run(onnx().model_for_proto_model(model).unwrap(), inputs), run(stock, inputs))
}

/// The same bits: points within the data, at its edges and beyond, of one to three axes.
#[test]
fn grids_are_sampled_as_tract_does() {
    let shapes: [(&[usize], &[usize]); 3] = [
        (&[2, 3, 7], &[2, 600, 1]),
        (&[2, 3, 5, 6], &[2, 30, 21, 2]),
        (&[1, 2, 3, 4, 5], &[1, 5, 6, 7, 3]),
    ];
    for (data, grid) in shapes {
        for mode in ["linear", "nearest"] {
            for padding in ["zeros", "border", "reflection"] {
                for align in [0, 1] {
                    let attributes = vec![
                        string("mode", mode),
                        string("padding_mode", padding),
                        int("align_corners", align),
                    ];
                    let model = sketch("GridSample", &[data, grid], attributes).model();
                    let (ours, stock) = both(&model, &[numbers(data), numbers(grid)]);
                    assert_eq!(ours, stock, "{mode} {padding} {align} of {data:?}");
                }
            }
        }
    }
}

/// The same bits, also of angles that are large, infinite or none.
#[test]
fn angles_are_those_of_tract() {
    let mut x = numbers(&[3, 1001]);
    let mut plain = x.try_as_plain_ram_mut().unwrap();
    let values = plain.as_slice_mut::<f32>().unwrap();
    for (place, value) in values.iter_mut().enumerate() {
        *value *= [1.0, 1e3, 1e10, 1e-30][place % 4];
    }
    values[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::MAX, -0.0]);
    for op in ["Cos", "Sin"] {
        let (ours, stock) = both(&sketch(op, &[&[3, 1001]], vec![]).model(), &[x.clone()]);
        let bits = |made: &Tensor| made.as_bytes().to_vec();
        assert!(bits(&ours) == bits(&stock), "{op}");
    }
}

#[test]
fn softmax_of_columns_is_that_of_rows() {
    for shape in [&[5, 70][..], &[2, 129, 3, 65], &[3, 4, 1], &[2, 0, 3]] {
        for op in ["Softmax", "LogSoftmax"] {
            let axis = shape.len() - 2;
            let model = sketch(op, &[shape], vec![int("axis", axis as i64)]).load().unwrap();
            let mut x = numbers(shape);
            if let Some(first) =
                x.try_as_plain_ram_mut().unwrap().as_slice_mut::<f32>().unwrap().first_mut()
            {
                *first = f32::NAN;
            }
            let got = run(model, std::slice::from_ref(&x));
            let columns = x.move_axis(axis, shape.len() - 1).unwrap();
            let moved: &[usize] = columns.shape();
            let model = sketch(op, &[moved], vec![]).load().unwrap();
            let expected = match moved {
                [.., 0] => columns.clone(),
                _ => run(model, std::slice::from_ref(&columns)),
            };
            let expected = expected.move_axis(shape.len() - 1, axis).unwrap();
            assert_eq!(got.shape(), expected.shape());
            let (got, expected) = (
                got.to_plain_array_view::<f32>().unwrap().to_owned(),
                expected.to_plain_array_view::<f32>().unwrap().to_owned(),
            );
            for (got, expected) in got.iter().zip(&expected) {
                let is_near = (got - expected).abs() <= 4e-7 * expected.abs().max(1e-2);
                assert!(is_near || got.is_nan() && expected.is_nan(), "{op}: {got}, {expected}");
            }
        }
    }
}

/// Short rows are computed beside one another, and what is left of longer ones by itself.
#[test]
fn softmax_of_rows_is_that_of_real_numbers() {
    for len in [1, 2, 6, 15, 16, 17, 31, 32, 33, 47, 100, 255] {
        for rows in [1, 15, 16, 17, 35] {
            let x = numbers(&[rows, len]);
            let plain = x.try_as_plain_ram().unwrap();
            let mut values: Vec<f32> = plain.as_slice::<f32>().unwrap().to_vec();
            for (row, values) in values.chunks_mut(len).enumerate() {
                let last = values.last_mut().unwrap();
                match row % 8 {
                    1 => *last = f32::NAN,
                    2 => *last = 1000.0,
                    3 => *last = -1000.0,
                    4 => *last = f32::NEG_INFINITY,
                    5 => *last = f32::INFINITY,
                    6 => values.fill(f32::NEG_INFINITY),
                    _ => {}
                }
            }
            let x = Tensor::from_shape(&[rows, len], &values).unwrap();
            let model = sketch("Softmax", &[&[rows, len]], vec![]).load().unwrap();
            let made = run(model, &[x]);
            let made = made.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec();
            for (made, x) in made.chunks(len).zip(values.chunks(len)) {
                let most = x.iter().copied().map(f64::from).fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = x.iter().map(|x| (f64::from(*x) - most).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for (made, power) in made.iter().zip(powers) {
                    let exact = power / sum;
                    let made = f64::from(*made);
                    let is_near = (made - exact).abs() <= 2.4e-7 * exact + 1e-45;
                    assert!(is_near || made.is_nan() && exact.is_nan(), "{len}: {made}, {exact}");
                }
            }
        }
    }
}

/// 1,000 numbers far apart, of which most have no exponential in FLOAT, and infinities.
#[test]
fn softmax_of_columns_does_not_overflow() {
    let infinity = f32::INFINITY;
    let x = tensor2(&[[1000., -1000., -infinity, 88.], [0., -1001., 3., 88.]]);
    let got = run(sketch("Softmax", &[&[2, 4]], vec![int("axis", 0)]).load().unwrap(), &[x]);
    let e = (-1f32).exp();
    let expected = tensor2(&[[1., 1. / (1. + e), 0., 0.5], [0., e / (1. + e), 1., 0.5]]);
    let got = got.to_plain_array_view::<f32>().unwrap().to_owned();
    for (got, expected) in got.iter().zip(&expected.to_plain_array_view::<f32>().unwrap()) {
        assert!((got - expected).abs() <= 1e-7, "{got}, {expected}");
    }
}

/// The kernels would ask for the same weights again and again.
#[test]
fn halves_are_widened_once_for_a_product() {
    let values = numbers(&[512 * 256]);
    let values = values.try_as_plain_ram().unwrap().as_slice::<f32>().unwrap();
    let weights = TensorProto { dims: vec![512, 256], ..tensor("w", Float16, values) };
    let sketch = Sketch::new().input("x", Float, &[60, 512]).initializer(weights);
    let sketch = sketch.cast("w", Float, "f").node("MatMul", &["x", "f"], &["y"], vec![]);
    let model = sketch.output("y", Float, &[60, 256]).model();
    let plan = onnx().model_for_proto_model(&model).unwrap().into_optimized().unwrap();
    assert!(plan.nodes().iter().any(|node| node.op.name() == "WidenWeights"));
    let (found, expected) = both(&model, &[numbers(&[60, 512])]);
    assert_eq!(found, expected);
}
