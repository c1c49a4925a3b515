//! What tract's optimiser makes of graphs has the values of the graph as it stands: of expansions
//! and products, of steps, of padding, of products in a `Scan`.

use crate::common::proto::{
    Sketch, graph, graph_attribute, int, int64, ints, model, node, shaped, string, symbol,
    unshaped, value,
};
use tract_onnx::pb::{AttributeProto, NodeProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::internal::Approximation;
use tract_onnx_cast::{ElementType, onnx};

use ElementType::{Bool, Float};

/// A FLOAT constant of a shape.
fn floats(name: &str, shape: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: Float as i32,
        dims: shape.into(),
        float_data: values.into(),
        ..Default::default()
    }
}

fn bools(name: &str, shape: &[i64], value: i32) -> TensorProto {
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
    TensorProto {
        name: name.into(),
        data_type: Bool as i32,
        dims: shape.into(),
        int32_data: vec![value; count],
        ..Default::default()
    }
}

/// The results as the graph stands, and those after optimisation.
fn both(sketch: Sketch, inputs: &[Tensor]) -> [Tensor; 2] {
    let model = onnx().model_for_proto_model(&sketch.model()).unwrap();
    let as_it_stands = model.clone().into_typed().unwrap();
    let optimised = model.into_optimized().unwrap();
    [as_it_stands, optimised].map(|model| {
        let inputs = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
        let mut outputs = model.into_runnable().unwrap().run(inputs).unwrap();
        outputs.remove(0).into_tensor()
    })
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_plain_array_view::<f32>().unwrap().iter().copied().collect()
}

/// The values after optimisation, which are also those as the graph stands.
fn run(sketch: Sketch, inputs: &[Tensor]) -> Vec<f32> {
    let [as_it_stands, optimised] = both(sketch, inputs);
    assert_eq!(as_it_stands.shape(), optimised.shape());
    let (expected, got) = (values(&as_it_stands), values(&optimised));
    for (expected, got) in expected.iter().zip(&got) {
        assert!((expected - got).abs() <= 1e-5 * expected.abs(), "{got}, not {expected}");
    }
    got
}

/// Ways to make `e`, of 2 by 3, of `z`, which is 1 by 3, and `x`, which is 2 by 3.
fn expansions() -> Vec<(&'static str, Sketch)> {
    let sketch = || {
        Sketch::new()
            .input("z", Float, &[1, 3])
            .input("x", Float, &[2, 3])
            .initializer(int64("shape", &[2, 3]))
            .initializer(int64("twice", &[2, 1]))
            .initializer(bools("no", &[2, 3], 0))
            .initializer(bools("yes", &[2, 1], 1))
            .initializer(floats("zero", &[1], &[0.]))
            .initializer(floats("ones", &[2, 3], &[1.; 6]))
    };
    vec![
        ("Expand", sketch().node("Expand", &["z", "shape"], &["e"], vec![])),
        ("Tile", sketch().node("Tile", &["z", "twice"], &["e"], vec![])),
        ("Where not", sketch().node("Where", &["no", "x", "z"], &["e"], vec![])),
        ("Where", sketch().node("Where", &["yes", "z", "x"], &["e"], vec![])),
        ("Mul by ones", sketch().node("Mul", &["z", "ones"], &["e"], vec![])),
        (
            "Add of what is multiplied by zero",
            sketch().node("Mul", &["x", "zero"], &["none"], vec![]).node(
                "Add",
                &["z", "none"],
                &["e"],
                vec![],
            ),
        ),
        (
            "ConstantOfShape",
            sketch().node("ConstantOfShape", &["shape"], &["none"], vec![]).node(
                "Add",
                &["z", "none"],
                &["e"],
                vec![],
            ),
        ),
        (
            "Expand of one element",
            sketch().node("ReduceSum", &["z"], &["sum"], vec![]).node(
                "Expand",
                &["sum", "shape"],
                &["e"],
                vec![],
            ),
        ),
    ]
}

/// What adds nodes to a model, and what it is called.
type Named = (&'static str, fn(Sketch) -> Sketch);

/// Ways from `e` to `f`, of 2 by 3.
fn ways() -> Vec<Named> {
    vec![
        ("nothing", |sketch| sketch.node("Identity", &["e"], &["f"], vec![])),
        ("Neg", |sketch| sketch.node("Neg", &["e"], &["f"], vec![])),
        ("Abs and Sub", |sketch| {
            sketch.node("Abs", &["e"], &["abs"], vec![]).node(
                "Sub",
                &["abs", "row"],
                &["f"],
                vec![],
            )
        }),
        ("Mul by an input", |sketch| sketch.node("Mul", &["e", "scale"], &["f"], vec![])),
        ("Transpose twice", |sketch| {
            sketch
                .node("Transpose", &["e"], &["t"], vec![])
                .node("Sqrt", &["t"], &["s"], vec![])
                .node("Transpose", &["s"], &["f"], vec![])
        }),
        ("Reshape", |sketch| {
            sketch
                .node("Reshape", &["e", "six"], &["flat"], vec![])
                .node("Neg", &["flat"], &["neg"], vec![])
                .node("Reshape", &["neg", "shape"], &["f"], vec![])
        }),
        ("Concat and Slice", |sketch| {
            sketch.node("Concat", &["e", "e"], &["long"], vec![int("axis", 0)]).node(
                "Slice",
                &["long", "one", "three", "at"],
                &["f"],
                vec![],
            )
        }),
        ("Gather", |sketch| sketch.node("Gather", &["e", "swapped"], &["f"], vec![int("axis", 0)])),
        ("Where", |sketch| sketch.node("Where", &["some", "e", "row"], &["f"], vec![])),
    ]
}

/// Products of `f`.
fn products() -> Vec<Named> {
    vec![
        ("over rows", |sketch| {
            sketch.node("Transpose", &["f"], &["ft"], vec![]).node(
                "MatMul",
                &["ft", "w23"],
                &["y"],
                vec![],
            )
        }),
        ("over columns", |sketch| sketch.node("MatMul", &["f", "w32"], &["y"], vec![])),
        ("from the left", |sketch| sketch.node("MatMul", &["w32", "f"], &["y"], vec![])),
        ("Gemm", |sketch| sketch.node("Gemm", &["f", "w23"], &["y"], vec![int("transA", 1)])),
        ("of itself", |sketch| sketch.node("Gemm", &["f", "f"], &["y"], vec![int("transB", 1)])),
        ("Einsum", |sketch| {
            sketch.node("Einsum", &["f", "w23"], &["y"], vec![string("equation", "ij,ij->j")])
        }),
        ("by a batch", |sketch| {
            sketch.node("Einsum", &["f", "w23"], &["y"], vec![string("equation", "ij,ik->ijk")])
        }),
        ("Conv", |sketch| {
            sketch.node("Unsqueeze", &["f", "ends"], &["image"], vec![]).node(
                "Conv",
                &["image", "kernel"],
                &["y"],
                vec![],
            )
        }),
    ]
}

#[test]
fn an_expansion_stays_where_a_product_needs_it() {
    let (z, x) = (tensor2(&[[4f32, 9., 16.]]), tensor2(&[[1f32, 2., 3.], [5., 7., 11.]]));
    let scale = tensor2(&[[2f32], [3.]]);
    for (made, _) in expansions() {
        for (moved, way) in ways() {
            for (multiplied, product) in products() {
                // Sketches are no clones.
                let (_, sketch) = expansions().into_iter().find(|(name, _)| *name == made).unwrap();
                let sketch = sketch
                    .input("scale", Float, &[2, 1])
                    .initializer(floats("row", &[1, 3], &[1., 2., 4.]))
                    .initializer(floats("w23", &[2, 3], &[1., 10., 100., 2., 20., 200.]))
                    .initializer(floats("w32", &[3, 2], &[1., 10., 100., 2., 20., 200.]))
                    .initializer(floats("kernel", &[2, 3, 1, 1], &[1., 10., 100., 2., 20., 200.]))
                    .initializer(bools("some", &[1, 3], 1))
                    .initializer(int64("six", &[6]))
                    .initializer(int64("one", &[1]))
                    .initializer(int64("three", &[3]))
                    .initializer(int64("at", &[0]))
                    .initializer(int64("swapped", &[1, 0]))
                    .initializer(int64("ends", &[2, 3]));
                let sketch = product(way(sketch)).output("y", Float, &[]);
                let sketch = undeclared(sketch);
                let [as_it_stands, optimised] =
                    both(sketch, &[z.clone(), x.clone(), scale.clone()]);
                let error = optimised.close_enough(&as_it_stands, Approximation::Close).err();
                assert!(error.is_none(), "{made}, {moved}, {multiplied}: {error:?}");
            }
        }
    }
}

/// Takes the shape of the output away.
fn undeclared(mut sketch: Sketch) -> Sketch {
    for output in &mut sketch.0.output {
        *output = unshaped(&output.name, Float);
    }
    sketch
}

#[test]
fn what_is_summed_is_multiplied_as_often_as_it_is_there() {
    let sketch = Sketch::new()
        .input("z", Float, &[1])
        .initializer(int64("shape", &[2]))
        .initializer(floats("w", &[2, 2], &[1., 10., 100., 1000.]))
        .node("Expand", &["z", "shape"], &["e"], vec![])
        .node("MatMul", &["e", "w"], &["y"], vec![])
        .output("y", Float, &[2]);
    assert_eq!(run(sketch, &[tensor1(&[5f32])]), [505., 5050.]);
}

#[test]
fn a_slice_with_steps_is_of_all_elements() {
    let along = |op: &str, attributes: Vec<_>, given: &[&str]| {
        let inputs = [&["x"], given].concat();
        Sketch::new()
            .input("x", Float, &[2, 6])
            .initializer(floats("scale", &[6], &[1.; 6]))
            .initializer(int64("start", &[1]))
            .initializer(int64("end", &[6]))
            .initializer(int64("axis", &[1]))
            .initializer(int64("step", &[2]))
            .node(op, &inputs, &["whole"], attributes)
            .node("Slice", &["whole", "start", "end", "axis", "step"], &["y"], vec![])
            .output("y", Float, &[2, 3])
    };
    let x = Tensor::from_shape(&[2, 6], &(0u8..12).map(f32::from).collect::<Vec<_>>()).unwrap();
    for sketch in [
        along("Softmax", vec![], &[]),
        along("LogSoftmax", vec![], &[]),
        along("RMSNormalization", vec![], &["scale"]),
    ] {
        run(sketch, std::slice::from_ref(&x));
    }
}

fn convolved(attributes: Vec<AttributeProto>, step: i64) -> Sketch {
    Sketch::new()
        .input("x", Float, &[1, 1, 8])
        .initializer(floats("w", &[1, 1, 3], &[1., 10., 100.]))
        .initializer(int64("start", &[1]))
        .initializer(int64("end", &[8]))
        .initializer(int64("axis", &[2]))
        .initializer(int64("step", &[step]))
        .node("Conv", &["x", "w"], &["whole"], attributes)
        .node("Slice", &["whole", "start", "end", "axis", "step"], &["y"], vec![])
        .output("y", Float, &[])
}

#[test]
fn a_convolution_is_sliced_where_the_slice_begins() {
    let x = Tensor::from_shape(&[1, 1, 8], &[1f32, 2., 3., 4., 5., 6., 7., 8.]).unwrap();
    let valid = undeclared(convolved(vec![], 2));
    assert_eq!(run(valid, std::slice::from_ref(&x)), [432., 654., 876.]);
    let same = undeclared(convolved(vec![string("auto_pad", "SAME_UPPER")], 3));
    assert_eq!(run(same, std::slice::from_ref(&x)), [321., 654., 87.]);
    let same = undeclared(convolved(vec![string("auto_pad", "SAME_LOWER")], 2));
    assert_eq!(run(same, &[x]), [321., 543., 765., 87.]);
}

#[test]
fn a_stride_does_not_change_what_comes_before() {
    for (op, attributes) in [
        ("Softmax", vec![int("axis", 2)]),
        ("RMSNormalization", vec![int("axis", 2)]),
        ("Conv", vec![string("auto_pad", "SAME_UPPER"), ints("kernel_shape", &[2])]),
    ] {
        let inputs: &[&str] = match op {
            "Conv" => &["x", "pair"],
            "RMSNormalization" => &["x", "scales"],
            _ => &["x"],
        };
        let sketch = Sketch::new()
            .input("x", Float, &[1, 1, 5])
            .initializer(floats("pair", &[1, 1, 2], &[1., 10.]))
            .initializer(floats("w", &[1, 1, 1], &[2.]))
            .initializer(floats("scales", &[5], &[1., 2., 3., 4., 5.]))
            .node(op, inputs, &["whole"], attributes)
            .node("Abs", &["whole"], &["abs"], vec![])
            .node("Conv", &["abs", "w"], &["y"], vec![ints("strides", &[2])])
            .output("y", Float, &[1, 1, 3]);
        let x = Tensor::from_shape(&[1, 1, 5], &[1f32, 2., 3., 4., 5.]).unwrap();
        run(sketch, &[x]);
    }
}

#[test]
fn a_padded_axis_of_a_small_kernel_stays() {
    let sketch = Sketch::new()
        .input("x", Float, &[1, 1, 3])
        .initializer(int64("at", &[2]))
        .initializer(floats("w", &[1, 1, 1, 1], &[2.]))
        .initializer(floats("m", &[3, 2], &[1., 10., 100., 2., 20., 200.]))
        .node("Unsqueeze", &["x", "at"], &["image"], vec![])
        .node("Conv", &["image", "w"], &["c"], vec![ints("pads", &[1, 0, 1, 0])])
        .node("MatMul", &["c", "m"], &["y"], vec![])
        .output("y", Float, &[1, 1, 3, 2]);
    let x = Tensor::from_shape(&[1, 1, 3], &[1f32, 2., 3.]).unwrap();
    assert_eq!(run(sketch, &[x]), [0., 0., 522., 1228., 0., 0.]);
}

/// A `Scan` over the rows of `x` whose body makes `b_y` of `b_x`.
fn scan(nodes: &[NodeProto]) -> Sketch {
    let body = graph(&[value("b_x", Float, &[1, 2])], nodes, &[value("b_y", Float, &[1, 2])]);
    let attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
    Sketch::new()
        .input("x", Float, &[3, 1, 2])
        .initializer(floats("w", &[2, 2], &[1., 10., 100., 1000.]))
        .node("Scan", &["x"], &["y"], attributes)
        .output("y", Float, &[3, 1, 2])
}

#[test]
fn a_scan_of_products_loads() {
    let x = Tensor::from_shape(&[3, 1, 2], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
    let expected = [201., 2010., 403., 4030., 605., 6050.];
    let product = node("MatMul", &["b_x", "w"], &["b_y"], vec![]);
    assert_eq!(run(scan(&[product]), std::slice::from_ref(&x)), expected);
    let product = node("MatMul", &["b_x", "w"], &["p"], vec![]);
    let moved = node("Abs", &["p"], &["b_y"], vec![]);
    assert_eq!(run(scan(&[product, moved]), std::slice::from_ref(&x)), expected);
    let product = node("Gemm", &["b_x", "w"], &["p"], vec![]);
    let softened = node("Softmax", &["p"], &["b_y"], vec![int("axis", 0)]);
    assert_eq!(run(scan(&[product, softened]), &[x]), [1.; 6]);
}

/// tract takes the only number for broadcast where the other operand's size is open.
#[test]
fn a_product_with_one_number_of_open_sizes_loads() {
    let sizes = ["a", "b", "c"].map(symbol).to_vec();
    for (columns, weights) in [(1, &[2f32][..]), (2, &[2., 3.])] {
        let nodes = [
            node("Concat", &["x"], &["c"], vec![int("axis", 0)]),
            node("MatMul", &["c", "w"], &["y"], vec![]),
        ];
        let mut graph =
            graph(&[shaped("x", Float, sizes.clone())], &nodes, &[unshaped("y", Float)]);
        graph.initializer = vec![floats("w", &[1, columns], weights)];
        let plan = onnx().model_for_proto_model(&model(17, graph)).unwrap();
        let plan = plan.into_optimized().unwrap().into_runnable().unwrap();
        let run = |shape: &[usize]| {
            let count = shape.iter().product::<usize>();
            let x: Vec<f32> = (0..count).map(|place| place as f32).collect();
            plan.run(tvec!(Tensor::from_shape(shape, &x).unwrap().into_tvalue()))
        };
        let made = run(&[2, 1, 1]).unwrap();
        let expected: Vec<f32> =
            [0., 1.].iter().flat_map(|x| weights.iter().map(move |w| x * w)).collect();
        assert_eq!(made[0].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap(), expected);
        let error = format!("{:#}", run(&[2, 1, 3]).unwrap_err());
        let told = "node `MatMul_y` (MatMul): its operand 0 has 3 elements along axis 2, and the other has 1";
        assert!(error.contains(told), "{error}");
    }
}

/// Factors that are extreme, and that are 0 or become it, leave the product what it is.
#[test]
fn factors_keep_what_they_are_by_themselves() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[2])
            .initializer(floats("large", &[1], &[1e30]))
            .initializer(floats("small", &[1], &[1e-30]))
            .initializer(floats("mask", &[2], &[0., 1.]))
            .initializer(int64("first", &[0]))
            .initializer(int64("second", &[1]))
            .initializer(int64("flat", &[2, 1]))
            .output("y", Float, &[])
    };
    let product = |sketch: Sketch, factor: &str, by: &str, y: &str| {
        sketch.node("Mul", &[factor, by], &[y], vec![])
    };
    let twice = |by| product(product(sketch(), "x", by, "p"), by, "p", "y");
    let moved = product(sketch(), "x", "large", "p");
    let moved = moved.node("Reshape", &["p", "flat"], &["q"], vec![]);
    let moved = product(moved, "q", "large", "y");
    let cut = product(sketch(), "x", "mask", "p");
    let cut = cut.node("Slice", &["p", "first", "second"], &["y"], vec![]);
    let empty = sketch().node("Slice", &["x", "second", "second"], &["none"], vec![]);
    let empty = empty.node("ReduceSum", &["none"], &["zero"], vec![]);
    let empty = product(empty, "x", "zero", "y");
    let before = sketch().initializer(int64("second axis", &[1]));
    let before = before.node("Reshape", &["x", "flat"], &["column"], vec![]);
    let axis = before.node("Squeeze", &["second axis"], &["axis"], vec![]);
    let before = axis.node("CumSum", &["column", "axis"], &["sum"], vec![int("exclusive", 1)]);
    let before = product(before, "column", "sum", "y");
    for (sketch, x, expected) in [
        (twice("large"), [1e-30, -0.], &[1e30, -0.][..]),
        (twice("small"), [1e38, f32::NAN], &[1e-22, f32::NAN]),
        (moved, [1e-30, 1.], &[1e30, f32::INFINITY]),
        (cut, [f32::NAN, 1.], &[f32::NAN]),
        (empty, [f32::NAN, -1.], &[f32::NAN, -0.]),
        (before, [f32::NAN, -1.], &[f32::NAN, -0.]),
    ] {
        let [as_it_stands, optimised] = both(sketch, &[tensor1(&x)]);
        for got in [values(&as_it_stands), values(&optimised)] {
            let is_near = |(got, expected): (&f32, &f32)| {
                let is_close = (got - expected).abs() <= 1e-6 * expected.abs();
                let is_same = got.is_nan() && expected.is_nan() || got == expected || is_close;
                is_same && (got.is_nan() || got.is_sign_negative() == expected.is_sign_negative())
            };
            assert!(got.iter().zip(expected).all(is_near), "{got:?}, not {expected:?}");
            assert_eq!(got.len(), expected.len());
        }
    }
}

/// A product by two constants rounds twice, and not by what they are together.
#[test]
fn constant_factors_round_one_after_the_other() {
    let x = [1f32, 2., 3., 7., 9., 11.];
    let mul = |sketch: Sketch, by, y| {
        sketch.node("Mul", &[if y == "p" { "x" } else { "p" }, by], &[y], vec![])
    };
    let sketch = Sketch::new()
        .input("x", Float, &[6])
        .initializer(floats("tenth", &[1], &[0.1]))
        .initializer(floats("three", &[], &[3.]));
    let sketch = mul(mul(sketch, "tenth", "p"), "three", "y").output("y", Float, &[6]);
    let expected = x.map(|x| x * 0.1 * 3.);
    assert_ne!(expected, x.map(|x| x * (0.1 * 3.)));
    for got in both(sketch, &[tensor1(&x)]) {
        assert_eq!(values(&got), expected);
    }
}

/// `auto_pad` tells the padding where `pads` say another.
#[test]
fn pads_beside_auto_pad_say_nothing() {
    for (auto_pad, expected) in [("SAME_UPPER", &[3., 3.][..]), ("VALID", &[3.])] {
        let attributes = vec![
            string("auto_pad", auto_pad),
            ints("kernel_shape", &[3]),
            ints("strides", &[2]),
            ints("pads", &[3, 0]),
        ];
        let sketch = Sketch::new().input("x", Float, &[1, 1, 4]);
        let sketch = sketch.node("MaxPool", &["x"], &["y"], attributes);
        let [as_it_stands, optimised] =
            both(sketch.output("y", Float, &[]), &[tensor3(&[[[1f32, 2., 3., 0.]]])]);
        assert_eq!([values(&as_it_stands), values(&optimised)], [expected, expected]);
    }
}
