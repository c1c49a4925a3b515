//! What is made of the sums of thousands of numbers that are far from 0, in a plan and node by
//! node.

use tract_onnx::pb::{AttributeProto, ModelProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::Approximation;
use tract_onnx_cast::ElementType::{self, Double, Float, Float16};
use tract_onnx_cast::interpreter::Interpreter;
use tract_onnx_cast::{OnnxTensor, onnx};

use crate::common::proto::{Sketch, float, imports, int, int64, ints, unshaped};

const COUNT: usize = 4096;
const ROWS: usize = 3;

/// How far off a result may be, of the largest: three roundings to FLOAT.
const SUM: f64 = 1.8e-7;
/// The same of what is apart from the mean: two units of FLOAT at 100.
const APART: f64 = 1.6e-5;

/// About 100, one row after the other.
fn far() -> Vec<f32> {
    let mut state = 1u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..ROWS * COUNT).map(|_| 98.0 + 4.0 * draw()).collect()
}

/// A model of `x` with an operator, of which the second and third inputs are as many ones and zeros
/// as are given.
fn model(op: &str, shape: &[usize], ones: usize, attributes: Vec<AttributeProto>) -> ModelProto {
    let dims: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
    let mut sketch = Sketch::new().input("x", Float, &dims);
    let mut inputs = vec!["x"];
    for (name, value) in [("scale", 1.0), ("bias", 0.0)].into_iter().take(ones.min(2)) {
        sketch = sketch.initializer(crate::common::proto::tensor(name, Float, &vec![value; ones]));
        inputs.push(name);
    }
    if op.starts_with("Reduce") {
        let axis = shape.iter().position(|size| *size == COUNT).expect("the long axis");
        sketch = sketch.initializer(int64("axes", &[axis as i64]));
        inputs.push("axes");
    }
    let mut sketch = sketch.node(op, &inputs, &["y"], attributes);
    sketch.0.output.push(unshaped("y", Float));
    let mut model = sketch.model();
    let mut more = imports(1);
    more[0].domain = "com.microsoft".into();
    model.opset_import.extend(more);
    model
}

/// The results of both engines.
fn results(model: &ModelProto, x: &Tensor) -> [(&'static str, Tensor); 2] {
    let plan = onnx().model_for_proto_model(model).and_then(|model| model.into_optimized());
    let plan = plan.and_then(|model| model.into_runnable()).expect("a plan");
    let planned = plan.run(tvec!(x.clone().into_tvalue())).expect("a result").remove(0);
    let nodes = Interpreter::of_proto(onnx(), model.clone(), None).expect("a model");
    let given = OnnxTensor::new(Float, x.clone()).expect("a tensor");
    let walked = nodes.run(vec![given]).expect("a result").remove(0).into_tensor();
    [("plan", planned.into_tensor()), ("nodes", walked)]
}

fn check(op: &str, model: &ModelProto, x: &Tensor, expected: &[f64], off: f64) {
    let largest = expected.iter().fold(0.0, |so_far: f64, x| so_far.max(x.abs()));
    for (engine, y) in results(model, x) {
        let y = y.cast_to::<f64>().expect("numbers");
        let y: Vec<f64> = y.to_plain_array_view().expect("numbers").iter().copied().collect();
        assert_eq!(y.len(), expected.len(), "{op}");
        let differences = y.iter().zip(expected).map(|(y, expected)| (y - expected).abs());
        let worst = differences.fold(0.0, f64::max) / largest;
        assert!(worst <= off, "{op} is {worst:e} off, {engine}");
    }
}

type Statistic<'a> = &'a dyn Fn(&[f64]) -> f64;

/// A row's statistics in DOUBLE.
fn of_rows(x: &[f32], of: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let row = |row: &[f32]| of(&row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
    x.chunks(COUNT).flat_map(row).collect()
}

#[test]
fn sums_of_thousands_are_as_exact_as_their_type() {
    let x = far();
    let rows = Tensor::from_shape(&[ROWS, COUNT], &x).unwrap();
    let columns = rows.clone().permute_axes(&[1, 0]).unwrap();
    let sum = |row: &[f64]| row.iter().sum::<f64>();
    let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
    let all: [(&str, Statistic); 6] = [
        ("ReduceSum", &sum),
        ("ReduceL1", &sum),
        ("ReduceMean", &|row| sum(row) / COUNT as f64),
        ("ReduceSumSquare", &squares),
        ("ReduceL2", &|row| squares(row).sqrt()),
        ("ReduceLogSum", &|row| sum(row).ln()),
    ];
    for (op, of) in all {
        let expected = of_rows(&x, |row| vec![of(row)]);
        check(op, &model(op, &[ROWS, COUNT], 0, vec![]), &rows, &expected, SUM);
        check(op, &model(op, &[COUNT, ROWS], 0, vec![]), &columns, &expected, SUM);
    }
    let images = Tensor::from_shape(&[1, ROWS, COUNT], &x).unwrap();
    let expected = of_rows(&x, |row| vec![sum(row) / COUNT as f64]);
    check(
        "GlobalAveragePool",
        &model("GlobalAveragePool", &[1, ROWS, COUNT], 0, vec![]),
        &images,
        &expected,
        SUM,
    );
}

#[test]
fn norms_of_thousands_far_from_zero_are_as_exact_as_their_mean() {
    let x = far();
    let apart = |epsilon: f64| {
        of_rows(&x, |row| {
            let mean = row.iter().sum::<f64>() / COUNT as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / COUNT as f64;
            row.iter().map(|x| (x - mean) / (variance + epsilon).sqrt()).collect()
        })
    };
    let by_root = of_rows(&x, |row| {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / COUNT as f64;
        row.iter().map(|x| x / mean.sqrt()).collect()
    });
    let (rows, images) = (&[ROWS, COUNT][..], &[1, ROWS, COUNT][..]);
    let groups = vec![int("num_groups", ROWS as i64)];
    for (op, shape, ones, attributes, off) in [
        ("LayerNormalization", rows, COUNT, vec![float("epsilon", 1e-5)], APART),
        ("InstanceNormalization", images, ROWS, vec![float("epsilon", 1e-5)], APART),
        ("GroupNormalization", images, ROWS, groups, APART),
        ("MeanVarianceNormalization", images, 0, vec![ints("axes", &[2])], SUM),
    ] {
        let epsilon = if op == "MeanVarianceNormalization" { 0.0 } else { 1e-5 };
        let x = Tensor::from_shape(shape, &x).unwrap();
        check(op, &model(op, shape, ones, attributes), &x, &apart(epsilon), off);
    }
    let op = "RMSNormalization";
    let given = Tensor::from_shape(rows, &x).unwrap();
    let mut plain = model(op, rows, COUNT, vec![float("epsilon", 0.0)]);
    plain.graph.as_mut().unwrap().node[0].input.truncate(2);
    check(op, &plain, &given, &by_root, SUM);
}

/// What is left of equal numbers is 0, however many they are.
#[test]
fn equal_numbers_are_not_apart_from_their_mean() {
    let x = Tensor::from_shape(&[1, ROWS, COUNT], &vec![0.1f32; ROWS * COUNT]).unwrap();
    let op = "MeanVarianceNormalization";
    let model = model(op, &[1, ROWS, COUNT], 0, vec![ints("axes", &[2])]);
    for (engine, y) in results(&model, &x) {
        let y = y.to_plain_array_view::<f32>().unwrap().to_owned();
        assert!(y.iter().all(|y| *y == 0.0), "{engine}");
    }
}

/// A norm by its steps, with the outputs that are named.
fn steps(size: usize, outputs: &[&str]) -> ModelProto {
    let factor = crate::common::proto::tensor("factor", Float, &[1. / size as f32]);
    let mut sketch = Sketch::new()
        .input("x", Float, &[ROWS as i64, size as i64])
        .initializer(int64("axes", &[1]))
        .initializer(factor)
        .initializer(crate::common::proto::tensor("epsilon", Float, &[1e-5]))
        .node("ReduceSum", &["x", "axes"], &["sum"], vec![])
        .node("Mul", &["sum", "factor"], &["mean"], vec![])
        .node("Sub", &["x", "mean"], &["less"], vec![])
        .node("Mul", &["less", "less"], &["squares"], vec![])
        .node("ReduceSum", &["squares", "axes"], &["total"], vec![])
        .node("Mul", &["total", "factor"], &["variance"], vec![])
        .node("Add", &["variance", "epsilon"], &["shifted"], vec![])
        .node("Sqrt", &["shifted"], &["root"], vec![])
        .node("Reciprocal", &["root"], &["scale"], vec![])
        .node("Mul", &["less", "scale"], &["y"], vec![]);
    sketch.0.output.extend(outputs.iter().map(|name| unshaped(name, Float)));
    sketch.model()
}

/// How many nodes of a plan have the name of an operator.
fn count(model: &ModelProto, operator: &str) -> usize {
    let plan = onnx().model_for_proto_model(model).and_then(|model| model.into_optimized());
    plan.expect("a plan").nodes().iter().filter(|node| node.op.name() == operator).count()
}

#[test]
fn a_norm_is_one_operator_and_the_same_to_the_bit() {
    let x = far();
    for size in [16, 127, 128, 1000] {
        let part = Tensor::from_shape(&[ROWS, size], &x[..ROWS * size]).unwrap();
        let whole = steps(size, &["y"]);
        let results = results(&whole, &part);
        assert_eq!(results[0].1, results[1].1, "{size} elements");
        assert_eq!((count(&whole, "Norm"), count(&whole, "Rsqrt")), (1, 0), "{size} elements");
        assert_eq!(count(&whole, "Reduce<Sum>"), 0, "{size} elements");
        // What somebody else wants stays.
        for (inner, norms) in [("less", 1), ("mean", 1), ("variance", 0), ("scale", 0)] {
            let kept = steps(size, &["y", inner]);
            let [plan, nodes] = self::results(&kept, &part);
            assert_eq!(plan.1, nodes.1, "{inner}, {size} elements");
            assert_eq!(plan.1, results[0].1, "{inner}, {size} elements");
            assert_eq!(count(&kept, "Norm"), norms, "{inner}, {size} elements");
        }
    }
}

/// Axes that the optimiser moves are still those of the norm, which then adds column by column, or
/// gathers its rows.
#[test]
fn a_norm_between_transposes_is_of_its_own_axes() {
    let x = far();
    for (op, shape, perm, turned) in [
        ("LayerNormalization", &[2, 32, 5][..], &[0, 2, 1][..], 32),
        ("InstanceNormalization", &[2, 4, 3, 8], &[0, 2, 1, 3], 3),
    ] {
        let part = Tensor::from_shape(shape, &x[..shape.iter().product()]).unwrap();
        let dims: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        let turn = || vec![ints("perm", perm)];
        let of = |name, value| crate::common::proto::tensor(name, Float, &vec![value; turned]);
        let mut sketch = Sketch::new()
            .input("x", Float, &dims)
            .initializer(of("scale", 1.))
            .initializer(of("bias", 0.))
            .node("Transpose", &["x"], &["t"], turn())
            .node(op, &["t", "scale", "bias"], &["n"], vec![])
            .node("Transpose", &["n"], &["y"], turn());
        sketch.0.output.push(unshaped("y", Float));
        let model = sketch.model();
        let [plan, nodes] = results(&model, &part);
        nodes.1.close_enough(&plan.1, Approximation::Close).unwrap();
        assert_eq!((count(&model, "Norm"), count(&model, "MoveAxis")), (1, 0), "{op}");
    }
}

/// The type of the result is that of the scale.
#[test]
fn a_norm_by_the_root_of_squares_takes_a_scale_of_another_type() {
    let (x, scale) = ([3f64, -1.5, 0.25, 2.0], [1f64, -0.5, 2.0, 0.75]);
    let root = (x.iter().map(|x| x * x).sum::<f64>() / 4.0 + 1e-5).sqrt();
    let types = [Float, Double, Float16];
    let op = "RMSNormalization";
    for (of_x, of_scale) in types.iter().flat_map(|x| types.map(|scale| (*x, scale))) {
        let mut sketch = Sketch::new()
            .input("x", of_x, &[1, 4])
            .input("scale", of_scale, &[4])
            .node(op, &["x", "scale"], &["y"], vec![float("epsilon", 1e-5)]);
        sketch.0.output.push(unshaped("y", of_scale));
        let model = sketch.model();
        let held = |ty: ElementType, shape: &[usize], numbers: &[f64]| {
            let held = Tensor::from_shape(shape, numbers).expect("numbers");
            held.cast_to_dt(ty.datum_type()).expect("numbers").into_owned()
        };
        let given = [held(of_x, &[1, 4], &x), held(of_scale, &[4], &scale)];
        let plan = onnx().model_for_proto_model(&model).and_then(|held| held.into_optimized());
        let plan = plan.and_then(|held| held.into_runnable());
        let plan = plan.unwrap_or_else(|error| panic!("{op} {of_x} {of_scale}: {error:#}"));
        let values = given.iter().cloned().map(Tensor::into_tvalue).collect();
        let planned = plan.run(values).expect("a result").remove(0).into_tensor();
        let nodes = Interpreter::of_proto(onnx(), model, None).expect("a model");
        let [x_given, scale_given] = given;
        let given = [(of_x, x_given), (of_scale, scale_given)]
            .map(|(ty, held)| OnnxTensor::new(ty, held).expect("a tensor"));
        let walked = nodes.run(given.into()).expect("a result").remove(0);
        assert_eq!(walked.element_type(), of_scale, "{op} {of_x}");
        let off = if [of_x, of_scale].contains(&Float16) { 2e-3 } else { 2e-7 };
        for made in [planned, walked.into_tensor()] {
            assert_eq!(made.datum_type(), of_scale.datum_type(), "{op} {of_x}");
            let made = made.cast_to::<f64>().expect("numbers");
            let made = made.to_plain_array_view::<f64>().expect("numbers");
            for ((y, x), scale) in made.iter().zip(x).zip(scale) {
                let wanted = x / root * scale;
                assert!((y - wanted).abs() <= off, "{op} {of_x} {of_scale}: {y}, {wanted}");
            }
        }
    }
}
