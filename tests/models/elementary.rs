//! Functions of one number: all 65,536 numbers of both halves and many of FLOAT, against DOUBLE
//! references, and what is there for NaN.

use crate::common::proto::{Sketch, float, int, int64, ints, model, string, tensor};
use tract_onnx::pb::AttributeProto;
use tract_onnx::prelude::tract_ndarray::Array1;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, onnx};

use ElementType::{BFloat16, Bool, Double, Float, Float16, Int8, Int32, Uint8};

/// An operator, and what it is of DOUBLE.
struct Case {
    op: &'static str,
    attributes: Vec<AttributeProto>,
    reference: fn(f64) -> f64,
}

fn sigmoid(x: f64) -> f64 {
    if x < 0. { x.exp() / (1. + x.exp()) } else { 1. / (1. + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    if x.is_nan() { x } else { x.max(0.) + (-x.abs()).exp().ln_1p() }
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x > 0. { x } else { alpha * x.exp_m1() }
}

fn clamp(x: f64, low: f64, high: f64) -> f64 {
    if x.is_nan() { x } else { x.max(low).min(high) }
}

/// A FLOAT attribute's number.
fn f(value: f32) -> f64 {
    f64::from(value)
}

fn cases() -> Vec<Case> {
    let case = |op, attributes, reference| Case { op, attributes, reference };
    vec![
        case("Sigmoid", vec![], sigmoid),
        case("Tanh", vec![], f64::tanh),
        case("Erf", vec![], libm::erf),
        case("Softplus", vec![], softplus),
        case("Gelu", vec![], |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)),
        case("Gelu", vec![string("approximate", "tanh")], |x| {
            x * sigmoid(2. * (2. / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
        }),
        case("Swish", vec![], |x| x * sigmoid(x)),
        case("Swish", vec![float("alpha", 1.5)], |x| x * sigmoid(1.5 * x)),
        case("Mish", vec![], |x| x * softplus(x).tanh()),
        case("Elu", vec![], |x| elu(x, 1.)),
        case("Elu", vec![float("alpha", 0.7)], |x| elu(x, f(0.7))),
        case("Selu", vec![], |x| {
            let (alpha, gamma) = (1.673_263_2_f32, 1.050_701_f32);
            f(gamma) * elu(x, f(alpha))
        }),
        case("Celu", vec![], |x| elu(x, 1.)),
        case("Celu", vec![float("alpha", 2.)], |x| if x > 0. { x } else { 2. * (x / 2.).exp_m1() }),
        case("HardSigmoid", vec![], |x| clamp(f(0.2) * x + 0.5, 0., 1.)),
        case("HardSwish", vec![], |x| x * clamp(x / 6. + 0.5, 0., 1.)),
        case("Asinh", vec![], f64::asinh),
        case("Acosh", vec![], |x| {
            let above = x - 1.;
            if x < 1. { f64::NAN } else { (above + (above * (above + 2.)).sqrt()).ln_1p() }
        }),
        case("Relu", vec![], |x| clamp(x, 0., f64::INFINITY)),
    ]
}

/// What the operator makes of FLOATs where they are cast to a type first, and back.
fn run(case: &Case, ty: ElementType, values: &[f32]) -> Vec<f32> {
    let len = i64::try_from(values.len()).unwrap();
    let sketch = Sketch::new()
        .input("x", Float, &[len])
        .cast("x", ty, "narrow")
        .node(case.op, &["narrow"], &["made"], case.attributes.clone())
        .cast("made", Float, "y")
        .output("y", Float, &[len]);
    let outputs = sketch.run(vec![tensor1(values)]).unwrap();
    outputs[0].to_plain_array_view::<f32>().unwrap().iter().copied().collect()
}

/// The place of a FLOAT of a type in the order of those, whatever the sign of zero.
fn place(x: f32, ty: ElementType) -> i64 {
    let bits = match ty {
        Float16 => i64::from(half::f16::from_f32(x).to_bits()) << 16,
        _ => i64::from(x.to_bits()),
    };
    let (sign, size) = (bits >> 31, bits & 0x7fff_ffff);
    let size = if ty == Float { size } else { size >> 16 };
    if sign == 1 { -size } else { size }
}

#[allow(clippy::cast_possible_truncation, reason = "it is rounded")]
fn nearest(x: f64, ty: ElementType) -> f32 {
    match ty {
        Float16 => half::f16::from_f32(x as f32).to_f32(),
        BFloat16 => half::bf16::from_f32(x as f32).to_f32(),
        _ => x as f32,
    }
}

/// How many units a result is from the nearest one at most.
fn check(case: &Case, ty: ElementType, values: &[f32]) {
    let got = run(case, ty, values);
    for (x, got) in values.iter().zip(got) {
        let expected = nearest((case.reference)(f64::from(*x)), ty);
        assert_eq!(got.is_nan(), expected.is_nan(), "{} of {ty}: {x:e}: {got:e}", case.op);
        let units = (place(got, ty) - place(expected, ty)).abs();
        let is_near = got.is_nan() || units <= 1;
        assert!(is_near, "{} of {ty}: {x:e}: {got:e}, not {expected:e}", case.op);
    }
}

#[test]
fn functions_of_every_half_are_right_to_one_unit() {
    let float16 = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32());
    let bfloat16 = (0..=u16::MAX).map(|bits| half::bf16::from_bits(bits).to_f32());
    let (float16, bfloat16): (Vec<f32>, Vec<f32>) = (float16.collect(), bfloat16.collect());
    for case in cases() {
        check(&case, Float16, &float16);
        check(&case, BFloat16, &bfloat16);
    }
}

#[test]
fn functions_of_floats_are_right_to_one_unit() {
    // Every 3,989th, which is prime, of either sign.
    let every: Vec<f32> = (0..=u32::MAX).step_by(3989).map(f32::from_bits).collect();
    let near: Vec<f32> = (i16::MIN..=i16::MAX).map(|x| f32::from(x) / 256.).collect();
    for case in cases() {
        check(&case, Float, &every);
        check(&case, Float, &near);
    }
}

#[test]
fn functions_of_doubles_are_right() {
    let values: Vec<f64> =
        (-4000..4000).map(|x| f64::from(x) / 64.).chain([1e-300, 1.002, 1e9, -1e9]).collect();
    for case in cases() {
        let sketch = Sketch::new()
            .input("x", Double, &[8004])
            .node(case.op, &["x"], &["y"], case.attributes.clone())
            .output("y", Double, &[8004]);
        // The first opset in which Celu has DOUBLE.
        let plan = onnx().model_for_proto_model(&model(28, sketch.0));
        let plan = plan.and_then(|model| model.into_optimized()?.into_runnable()).unwrap();
        let outputs = plan.run(tvec!(tensor1(&values).into_tvalue())).unwrap();
        let got = outputs[0].to_plain_array_view::<f64>().unwrap();
        for (x, got) in values.iter().zip(got) {
            let expected = (case.reference)(*x);
            let is_near = (got - expected).abs() <= 1e-13 * expected.abs()
                || got.is_nan() && expected.is_nan();
            assert!(is_near, "{} of {x:e}: {got:e}, not {expected:e}", case.op);
        }
    }
}

fn rounded(ty: ElementType) -> Sketch {
    Sketch::new().input("x", ty, &[4]).node("Round", &["x"], &["y"], vec![]).output("y", ty, &[4])
}

#[test]
fn doubles_are_rounded_to_even() {
    let outputs = rounded(Double).run(vec![tensor1(&[0.5f64, 1.5, -2.5, 1e300])]).unwrap();
    assert_eq!(outputs[0], tensor1(&[0f64, 2., -2., 1e300]));
}

/// The only output of one operator of FLOATs.
fn of(op: &str, inputs: &[&[f32]], attributes: Vec<AttributeProto>) -> Tensor {
    let names: Vec<String> = (0..inputs.len()).map(|place| format!("x{place}")).collect();
    let mut sketch = Sketch::new();
    for (name, input) in names.iter().zip(inputs) {
        sketch = sketch.input(name, Float, &[i64::try_from(input.len()).unwrap()]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sketch = sketch.node(op, &names, &["y"], attributes);
    sketch.0.output.push(crate::common::proto::untyped("y"));
    let tensors = inputs.iter().map(|input| tensor1(input)).collect();
    sketch.run(tensors).unwrap().remove(0)
}

fn assert_same(got: &Tensor, expected: &[f32]) {
    let got = got.to_plain_array_view::<f32>().unwrap();
    let got = got.iter().map(|x| if x.is_nan() { None } else { Some(*x) });
    let expected = expected.iter().map(|x| if x.is_nan() { None } else { Some(*x) });
    assert_eq!(got.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn nan_goes_through() {
    let nan = f32::NAN;
    let (a, b) = ([nan, 1., 5.], [2., nan, 3.]);
    assert_same(&of("Max", &[&a, &b], vec![]), &[nan, nan, 5.]);
    assert_same(&of("Min", &[&a, &b], vec![]), &[nan, nan, 3.]);
    assert_same(&of("Max", &[&a, &[2.]], vec![]), &[nan, 2., 5.]);
    assert_same(&of("Max", &[&a, &[nan]], vec![]), &[nan; 3]);
    assert_same(&of("ReduceMax", &[&a], vec![int("keepdims", 1)]), &[nan]);
    assert_same(&of("ReduceMin", &[&[nan, 1.]], vec![]), &[nan]);
    assert_same(&of("ReduceMax", &[&[f32::NEG_INFINITY; 2]], vec![]), &[f32::NEG_INFINITY]);
    let a = [7., nan, 9., nan];
    assert_eq!(of("ArgMax", &[&a], vec![]), tensor1(&[1i64]));
    assert_eq!(of("ArgMin", &[&a], vec![]), tensor1(&[1i64]));
    let last = vec![int("select_last_index", 1)];
    assert_eq!(of("ArgMax", &[&[3., 3., 1.]], last.clone()), tensor1(&[1i64]));
    assert_eq!(of("ArgMax", &[&[f32::NEG_INFINITY; 2]], last), tensor1(&[1i64]));
}

/// A product of NaN and what a bound makes of it, which tract computes in one.
#[test]
fn nan_goes_through_a_product_and_a_bound() {
    let initial = |name: &str, values: &[f32]| {
        let mut tensor = crate::common::proto::tensor(name, Float, values);
        tensor.dims = vec![4, i64::try_from(values.len() / 4).unwrap()];
        tensor
    };
    let rows = Array1::from_iter((0u8..32).map(f32::from)).into_shape_with_order((8, 4)).unwrap();
    let mut rows = rows.into_dyn();
    rows[[3, 1]] = f32::NAN;
    for columns in [1, 3, 16] {
        let weights: Vec<f32> = (0u8..4 * columns).map(f32::from).collect();
        let sketch = Sketch::new()
            .input("x", Float, &[8, 4])
            .initializer(initial("w", &weights))
            .node("MatMul", &["x", "w"], &["p"], vec![])
            .node("Relu", &["p"], &["y"], vec![])
            .output("y", Float, &[8, i64::from(columns)]);
        let outputs = sketch.run(vec![rows.clone().into_tensor()]).unwrap();
        let y = outputs[0].to_plain_array_view::<f32>().unwrap();
        for ((place, y), row) in
            y.indexed_iter().zip((0..8).flat_map(|row| vec![row; columns.into()]))
        {
            assert_eq!(y.is_nan(), row == 3, "{place:?} of {columns}");
        }
    }
}

#[test]
fn logarithms_of_sums_do_not_overflow() {
    let row: &[f32] = &[1000., 1000.];
    let sum = 1000. + 2f32.ln();
    assert_same(&of("ReduceLogSumExp", &[row], vec![]), &[sum]);
    assert_same(&of("ReduceLogSumExp", &[&[f32::NEG_INFINITY; 3]], vec![]), &[f32::NEG_INFINITY]);
    assert_same(&of("ReduceLogSumExp", &[&[f32::INFINITY, 1.]], vec![]), &[f32::INFINITY]);
    assert_same(
        &of("LogSoftmax", &[&[0., -200., -1000.]], vec![int("axis", 0)]),
        &[0., -200., -1000.],
    );
}

#[test]
fn shapes_that_tract_refuses_are_computed() {
    assert_same(&of("MatMul", &[&[1., 2., 3.], &[1., 10., 100.]], vec![]), &[321.]);
    let greatest = Sketch::new()
        .input("x", Float, &[1, 2, 2])
        .node("GlobalMaxPool", &["x"], &["y"], vec![])
        .output("y", Float, &[1, 2, 1]);
    let x = Tensor::from_shape(&[1, 2, 2], &[f32::NAN, 1., 2., 3.]).unwrap();
    assert_same(&greatest.run(vec![x]).unwrap()[0], &[f32::NAN, 3.]);
    let mean = Sketch::new()
        .input("a", Float, &[3])
        .input("b", Float, &[2, 3])
        .node("Mean", &["a", "b"], &["y"], vec![])
        .output("y", Float, &[2, 3]);
    let (a, b) = (tensor1(&[1f32, 2., 3.]), tensor2(&[[1f32; 3], [3.; 3]]));
    assert_same(&mean.run(vec![a, b]).unwrap()[0], &[1., 1.5, 2., 2., 2.5, 3.]);
    let pool = |p: i64| {
        let x = Tensor::from_shape(&[1, 1, 2, 2], &[1f32, -2., 2., 4.]).unwrap();
        Sketch::new()
            .input("x", Float, &[1, 1, 2, 2])
            .node("GlobalLpPool", &["x"], &["y"], vec![int("p", p)])
            .output("y", Float, &[1, 1, 1, 1])
            .run(vec![x])
            .unwrap()
            .remove(0)
    };
    assert_same(&pool(1), &[9.]);
    assert_same(&pool(2), &[5.]);
    for (op, expected) in [
        ("ReduceSum", 0.),
        ("ReduceProd", 1.),
        ("ReduceMax", f32::NEG_INFINITY),
        ("ReduceMean", f32::NAN),
        ("ReduceLogSumExp", f32::NEG_INFINITY),
    ] {
        let sketch = Sketch::new()
            .input("x", Float, &[2, 0])
            .initializer(crate::common::proto::int64("axes", &[1]))
            .node(op, &["x", "axes"], &["y"], vec![])
            .output("y", Float, &[2, 1]);
        let x = Tensor::zero::<f32>(&[2, 0]).unwrap();
        assert_same(&sketch.run(vec![x]).unwrap()[0], &[expected; 2]);
    }
}

/// What tract does not have, or has for other types or versions.
#[test]
fn types_and_attributes_that_tract_has_not_are_computed() {
    let of = |opset: i64, sketch: Sketch, input: Tensor| {
        let model = crate::common::proto::model(opset, sketch.0);
        let plan = tract_onnx_cast::onnx().model_for_proto_model(&model).unwrap();
        let plan = plan.into_optimized().unwrap().into_runnable().unwrap();
        plan.run(tvec!(input.into_tvalue())).unwrap().remove(0).into_tensor()
    };
    let shrink = Sketch::new()
        .input("x", Int8, &[5])
        .node("Shrink", &["x"], &["y"], vec![float("bias", 1.5), float("lambd", 1.5)])
        .output("y", Int8, &[5]);
    let y = of(21, shrink, tensor1(&[3i8, -3, 1, 2, -128]));
    assert_eq!(y, tensor1(&[1i8, -1, 0, 0, -126]));
    let clip = Sketch::new()
        .input("x", Float, &[3])
        .node("Clip", &["x"], &["y"], vec![float("min", -2.0)])
        .output("y", Float, &[3]);
    let y = of(6, clip, tensor1(&[f32::INFINITY, -5.0, f32::NAN]));
    assert_same(&y, &[f32::MAX, -2.0, f32::NAN]);
    let pad = Sketch::new()
        .input("x", Float, &[1, 3])
        .node("Pad", &["x"], &["y"], vec![ints("pads", &[0, -1, 0, 2]), float("value", 7.0)])
        .output("y", Float, &[1, 4]);
    let y = of(2, pad, tensor2(&[[1f32, 2., 3.]]));
    assert_same(&y, &[2., 3., 7., 7.]);
    let truths = Sketch::new()
        .input("x", Bool, &[2])
        .initializer(int64("pads", &[1, 2]))
        .initializer(tensor("value", Bool, &[1.]))
        .node("Pad", &["x", "pads", "value"], &["y"], vec![])
        .output("y", Bool, &[5]);
    let y = of(21, truths, tensor1(&[false, true]));
    assert_eq!(y, tensor1(&[true, false, true, true, true]));
}

#[test]
fn an_einsum_of_two_sizes_of_one_letter_is_refused() {
    let sketch = Sketch::new()
        .input("a", Float, &[3, 4])
        .input("b", Float, &[3, 4])
        .node("Einsum", &["a", "b"], &["y"], vec![string("equation", "ij,jk->ik")])
        .output("y", Float, &[3, 4]);
    let error = format!("{:#}", sketch.load().unwrap().into_typed().expect_err("two sizes"));
    let expected = "node `Einsum_y` (Einsum): has a letter for sizes of 4 by 3";
    assert!(error.contains(expected), "{error}");
}

/// Sums beyond 2^24, which FLOATs do not hold.
#[test]
fn products_of_constants_are_exact() {
    let codes = |name: &str, code: f32, dims: [i64; 2]| tract_onnx::pb::TensorProto {
        dims: dims.into(),
        ..tensor(name, Uint8, &[code; 1028])
    };
    let sketch = Sketch::new()
        .initializer(codes("a", 255., [1, 1028]))
        .initializer(codes("b", 255., [1028, 1]))
        .initializer(tensor("za", Uint8, &[1.]))
        .initializer(tensor("zb", Uint8, &[0.]))
        .node("MatMulInteger", &["a", "b", "za", "zb"], &["y"], vec![])
        .node("MatMulInteger", &["a", "b", "", "zb"], &["z"], vec![])
        .output("y", Int32, &[1, 1])
        .output("z", Int32, &[1, 1]);
    let made = sketch.run(vec![]).unwrap();
    assert_eq!(made, [tensor2(&[[1028 * 254 * 255]]), tensor2(&[[1028 * 255 * 255]])]);
}

/// Few weights are multiplied as FLOATs, which have no odd sum beyond 2^24.
#[test]
fn integer_products_are_exact_at_any_size() {
    for (rows, depth, columns) in [(1, 3, 5), (7, 64, 9), (16, 601, 3), (7, 601, 3), (33, 516, 17)]
    {
        let at = |index: usize, least: i64, most: i64| match index % 37 {
            0 => least,
            1 => least + (index as i64 * 37) % (most - least + 1),
            _ => most,
        };
        let a: Vec<i64> = (0..2 * rows * depth).map(|index| at(index / 7, 0, 255)).collect();
        let b: Vec<i64> = (0..depth * columns).map(|index| at(index / 11, -128, 127)).collect();
        let zeros: Vec<i64> = (0..columns).map(|column| at(column, -128, 127)).collect();
        for (zero, of_columns) in [(0, false), (3, true), (128, true)] {
            let zero_of = |column: usize| if of_columns { zeros[column] } else { 0 };
            let sum = |index: usize| -> i64 {
                let (row, column) = (index / columns, index % columns);
                let place = |k: usize| (a[row * depth + k] - zero, b[k * columns + column]);
                (0..depth).map(place).map(|(a, b)| a * (b - zero_of(column))).sum()
            };
            let expected: Vec<i64> = (0..2 * rows * columns).map(sum).collect();
            let of = |shape: &[usize], numbers: &[i64], ty: ElementType| {
                let tensor = Tensor::from_shape(shape, numbers).expect("a shape");
                let ty = if ty == Uint8 { DatumType::U8 } else { DatumType::I8 };
                tensor.cast_to_dt(ty).expect("a type").into_owned()
            };
            let constant = |name: &str, ty, tensor: &Tensor| {
                tract_onnx_cast::tensor_proto::write(name, ty, tensor).expect("a tensor")
            };
            let used = if of_columns { zeros.clone() } else { vec![0] };
            let sketch = Sketch::new()
                .input("a", Uint8, &[2, rows as i64, depth as i64])
                .initializer(constant("b", Int8, &of(&[depth, columns], &b, Int8)))
                .initializer(constant("za", Uint8, &of(&[], &[zero], Uint8)))
                .initializer(constant("zb", Int8, &of(&[used.len()], &used, Int8)))
                .node("MatMulInteger", &["a", "b", "za", "zb"], &["y"], vec![])
                .output("y", Int32, &[2, rows as i64, columns as i64]);
            let made = sketch.run(vec![of(&[2, rows, depth], &a, Uint8)]).expect("a run");
            let made = made[0].cast_to::<i64>().expect("integers");
            let expected = Tensor::from_shape(&[2, rows, columns], &expected).expect("a shape");
            assert_eq!(*made, expected, "{rows} × {depth} × {columns}, zero point {zero}");
        }
    }
}

/// Half of each code is rounded to even, and what is beyond the type saturates; of one row, and of
/// full tiles of rows.
#[test]
fn quantized_products_round_halves_to_even() {
    for rows in [1, 16, 255] {
        let codes: Vec<u8> = (0..rows * 2).map(|x| (x * 7919 / 8 % 256) as u8).collect();
        let quantized: &[&str] = &["x", "scale", "zero", "w", "scale", "none", "one", "zero"];
        let sketch = Sketch::new()
            .input("x", Uint8, &[rows as i64, 2])
            .initializer(tensor("scale", Float, &[0.5]))
            .initializer(tensor("one", Float, &[1.]))
            .initializer(tensor("zero", Uint8, &[100.]))
            .initializer(tensor("none", Int8, &[0.]))
            .initializer(tract_onnx::pb::TensorProto {
                dims: vec![2, 3],
                ..tensor("w", Int8, &[2., 1., -2., 0., 1., 4.])
            })
            .node("QLinearMatMul", quantized, &["y"], vec![])
            .output("y", Uint8, &[rows as i64, 3]);
        let x = Tensor::from_shape(&[rows, 2], &codes).expect("a shape");
        let made = sketch.run(vec![x]).expect("a run").remove(0);
        let expected: Vec<u8> = codes
            .chunks(2)
            .flat_map(|x| {
                let [a, b] = [i32::from(x[0]) - 100, i32::from(x[1]) - 100];
                [2 * a, a + b, 4 * b - 2 * a]
            })
            .map(|sum| ((f64::from(sum) / 4.).round_ties_even() + 100.) as u8)
            .collect();
        assert_eq!(
            made,
            Tensor::from_shape(&[rows, 3], &expected).expect("a shape"),
            "{rows} rows"
        );
    }
}

#[test]
fn shifts_by_all_bits_leave_none() {
    let sketch = Sketch::new()
        .input("x", Uint8, &[3])
        .initializer(tensor("bits", Uint8, &[8., 9., 7.]))
        .node("BitShift", &["x", "bits"], &["y"], vec![string("direction", "LEFT")])
        .output("y", Uint8, &[3]);
    let y = sketch.run(vec![tensor1(&[1u8, 255, 1])]).unwrap();
    assert_eq!(y[0], tensor1(&[0u8, 0, 128]));
}

#[test]
fn places_far_beyond_an_image_are_reflected_into_it() {
    for ty in [Float, Double] {
        let x = Tensor::from_shape(&[1, 1, 2, 2], &[5f32; 4]).unwrap();
        let points = Tensor::from_shape(&[1, 1, 2, 2], &[1e30f32, -1e30, -3e38, 1e9]).unwrap();
        let sketch = Sketch::new()
            .input("x", Float, &[1, 1, 2, 2])
            .input("points", Float, &[1, 1, 2, 2])
            .cast("x", ty, "data")
            .cast("points", ty, "grid")
            .node(
                "GridSample",
                &["data", "grid"],
                &["made"],
                vec![string("padding_mode", "reflection")],
            )
            .cast("made", Float, "y")
            .output("y", Float, &[1, 1, 1, 2]);
        let y = sketch.run(vec![x, points]).unwrap();
        assert_same(&y[0], &[5.; 2]);
    }
}

/// As ONNX has it, the output is as long as its strides, whatever is appended before padding is
/// taken away.
#[test]
fn a_transposed_convolution_of_the_same_size_is_as_long_as_its_strides() {
    let appended = Sketch::new()
        .input("x", Float, &[1, 1, 2])
        .initializer(tensor_proto("w", &[1, 1, 3]))
        .node(
            "ConvTranspose",
            &["x", "w"],
            &["y"],
            vec![
                string("auto_pad", "SAME_UPPER"),
                ints("strides", &[2]),
                ints("output_padding", &[1]),
            ],
        )
        .output("y", Float, &[1, 1, 4]);
    let x = Tensor::from_shape(&[1, 1, 2], &[2f32, 3.]).unwrap();
    let y = appended.run(vec![x]).unwrap().remove(0);
    assert_eq!(y.shape(), [1, 1, 4]);
    // Of 2, 2, 5, 3, 3, 0 one is cut off at either end.
    assert_same(&y, &[2., 5., 3., 3.]);
}

fn tensor_proto(name: &str, dims: &[i64]) -> tract_onnx::pb::TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let ones = tensor(name, Float, &vec![1.; count]);
    tract_onnx::pb::TensorProto { dims: dims.into(), ..ones }
}

/// The terms are added in DOUBLE: one after the other, FLOATs stop at 2^24.
#[test]
fn sums_of_many_terms_keep_their_digits() {
    let count = (1 << 24) + 3;
    for (axes, dims) in [(&[0i64][..], vec![count]), (&[0, 2], vec![1 << 12, 2, 1 << 13])] {
        let shape: Vec<i64> = dims.iter().map(|dim| *dim as i64).collect();
        let sketch = Sketch::new()
            .input("x", Float, &shape)
            .initializer(int64("axes", axes))
            .node("ReduceSum", &["x", "axes"], &["y"], vec![int("keepdims", 0)])
            .output("y", Float, &[1]);
        let terms: usize = axes.iter().map(|axis| dims[*axis as usize]).product();
        let ones = tensor0(1f32).broadcast_scalar_to_shape(&dims).unwrap();
        let y = sketch.run(vec![ones]).unwrap().remove(0);
        assert!(y.to_plain_array_view::<f32>().unwrap().iter().all(|y| *y == terms as f32));
    }
}

/// What exporters write for `Gelu` and `Swish` becomes one operator, as tract makes of its own.
#[test]
fn functions_that_are_written_out_are_one_operator() {
    let constant = |name: &str, value: f32| crate::common::proto::tensor(name, Float, &[value]);
    let gelu = Sketch::new()
        .input("x", Float, &[2, 3])
        .initializer(constant("root", 2f32.sqrt()))
        .initializer(constant("one", 1.))
        .initializer(constant("half", 0.5))
        .node("Div", &["x", "root"], &["scaled"], vec![])
        .node("Erf", &["scaled"], &["erf"], vec![])
        .node("Add", &["erf", "one"], &["sum"], vec![])
        .node("Mul", &["x", "sum"], &["product"], vec![])
        .node("Mul", &["product", "half"], &["y"], vec![])
        .output("y", Float, &[2, 3]);
    let swish = Sketch::new()
        .input("x", Float, &[2, 3])
        .node("Sigmoid", &["x"], &["s"], vec![])
        .node("Mul", &["x", "s"], &["y"], vec![])
        .output("y", Float, &[2, 3]);
    let six = Sketch::new()
        .input("x", Float, &[2, 3])
        .initializer(constant("zero", 0.))
        .initializer(constant("six", 6.))
        .node("Max", &["x", "zero"], &["above"], vec![])
        .node("Min", &["above", "six"], &["y"], vec![])
        .output("y", Float, &[2, 3]);
    for (sketch, name) in [(gelu, "Gelu"), (swish, "Swish"), (six, "Bound")] {
        let model = sketch.load().unwrap().into_optimized().unwrap();
        let names: Vec<_> = model.nodes().iter().map(|node| node.op.name().into_owned()).collect();
        assert_eq!(names, ["Source", name]);
    }
}
