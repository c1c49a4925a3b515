//! What a model declares of its shapes, and what its data asks for.

use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, onnx};

use crate::common::proto::{
    Sketch, dim, graph_attribute, int, int64, ints, set_dim, string, symbol, tensor, value,
};

use ElementType::{BFloat16, Bool, Float, Int8, Int32, Int64, Uint8};

#[test]
fn dimensions_beyond_tract_are_refused() {
    let sketch = Sketch::new()
        .initializer(int64("s", &[1 << 40]))
        .node("ConstantOfShape", &["s"], &["y"], vec![])
        .output("y", Float, &[1]);
    assert!(sketch.refusal().contains("a dimension beyond the 32 bits"));
}

#[test]
fn intricate_dimensions_are_left_unknown() -> TractResult<()> {
    let nested = (0..12).fold("N".to_string(), |inner, _| format!("max({inner}+1,M)"));
    let deep = format!("{}N{}", "(".repeat(1_000_000), ")".repeat(1_000_000));
    for text in [nested, deep] {
        let mut sketch = Sketch::new().input("x", Float, &[1]).cast("x", BFloat16, "y").output(
            "y",
            BFloat16,
            &[1],
        );
        for value in [&mut sketch.0.input[0], &mut sketch.0.output[0]] {
            set_dim(value, 0, symbol(&text));
        }
        sketch.load()?;
    }
    Ok(())
}

/// A model of `x`, whose batch has no name, to its shape and a cast.
fn nameless_batch() -> ModelProto {
    let mut sketch = Sketch::new()
        .input("x", Float, &[-1, 3])
        .cast("x", BFloat16, "y")
        .node("Shape", &["y"], &["s"], vec![])
        .output("y", BFloat16, &[7, 7, 7])
        .output("s", Int64, &[9]);
    sketch.0.value_info.push(value("s", Int64, &[4, 4]));
    sketch.model()
}

#[test]
fn a_nameless_dimension_is_a_symbol_until_it_is_given() -> TractResult<()> {
    let model = onnx().model_for_proto_model(&nameless_batch())?;
    let run = |model: InferenceModel, batch: usize| -> TractResult<Tensor> {
        let plan = model.into_optimized()?.into_runnable()?;
        let outputs = plan.run(tvec!(Tensor::zero::<f32>(&[batch, 3])?.into_tvalue()))?;
        Ok(outputs[1].clone().into_tensor())
    };
    assert_eq!(run(model.clone(), 2)?, tensor1(&[2i64, 3]));
    assert_eq!(run(model.clone(), 5)?, tensor1(&[5i64, 3]));
    let given = model.clone().with_input_fact(0, f32::fact([4, 3]).into())?;
    assert_eq!(run(given, 4)?, tensor1(&[4i64, 3]));
    // An analysis of its own, before the facts are given, and another one after.
    let mut analysed = model;
    analysed.analyse(false)?;
    assert_eq!(run(analysed, 3)?, tensor1(&[3i64, 3]));
    Ok(())
}

/// Two inputs that are added are of one shape, which the output's declaration tells.
#[test]
fn declared_shapes_settle_inputs_that_are_open() -> TractResult<()> {
    let mut sketch = Sketch::new()
        .input("x", Float, &[-1, 3])
        .cast("x", ElementType::Double, "d")
        .cast("d", BFloat16, "y")
        .output("y", BFloat16, &[0, 3])
        .output("d", ElementType::Double, &[8]);
    set_dim(&mut sketch.0.output[0], 0, symbol("batch"));
    let model = sketch.load()?.into_typed()?;
    assert_eq!(format!("{:?}", model.input_fact(0)?.shape), "batch,3");
    Ok(())
}

#[test]
fn an_expansion_is_what_its_data_asks_for() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[1, 3, 1])
            .input("dims", Int64, &[2])
            .output("y", Float, &[1, 3, 2])
            .node("Expand", &["x", "dims"], &["y"], vec![])
    };
    let x = Tensor::from_shape(&[1, 3, 1], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    let outputs = sketch().run(vec![x.clone(), tensor1(&[3i64, 2])]).expect("as declared");
    assert_eq!(outputs[0].shape(), [1, 3, 2]);
    let other = sketch().run(vec![x.clone(), tensor1(&[3i64, 4])]).expect_err("not as declared");
    let message = format!("{other:#}");
    let expected = "node `Expand_y` (Expand): its data asks for the shape [1, 3, 4], but the model declares [1, 3, 2]";
    assert!(message.contains(expected), "{message}");
    let negative = sketch().run(vec![x, tensor1(&[3i64, -2])]).expect_err("no shape");
    assert!(format!("{negative:#}").contains("node `Expand_y` (Expand)"), "{negative:#}");
}

/// tract does not run what makes no elements, and takes its size for what the model declares.
#[test]
fn an_expansion_to_no_elements_is_what_its_data_asks_for() {
    let mut sketch = Sketch::new()
        .input("x", Int64, &[0, 0])
        .input("dims", Int64, &[3])
        .node("Expand", &["x", "dims"], &["wide"], vec![])
        .node("Neg", &["wide"], &["y"], vec![])
        .output("y", Int64, &[2, 0, 0]);
    sketch.0.value_info.push(value("wide", Int64, &[3, 1, 1]));
    let none = Tensor::zero::<i64>(&[0, 0]).expect("a tensor");
    let outputs = sketch.run(vec![none, tensor1(&[2i64, 0, 0])]).expect("no declaration stands");
    assert_eq!(outputs[0].shape(), [2, 0, 0]);
}

/// Nothing looks at the sizes of what has no elements.
#[test]
fn a_squeeze_of_all_axes_of_nothing_is_refused_where_a_size_is_open() {
    let sketch = Sketch::new()
        .input("x", Int64, &[])
        .node("NonZero", &["x"], &["places"], vec![])
        .node("Squeeze", &["places"], &["y"], vec![])
        .output("y", Int64, &[0]);
    let refused = sketch.run(vec![tensor0(2i64)]).expect_err("an open size");
    let message = format!("{refused:#}");
    assert!(
        message.contains("node `Squeeze_y` (Squeeze): has no axes, and an input without"),
        "{message}"
    );
}

/// Sizes that an input may have are guessed where they are symbols; nobody would notice a wrong
/// guess of what is never made.
#[test]
fn the_shape_of_a_slice_that_nothing_makes_is_measured() {
    let slice = || {
        Sketch::new()
            .input("x", Float, &[3])
            .input("is", Bool, &[])
            .initializer(int64("start", &[0]))
            .initializer(int64("end", &[1]))
            .initializer(int64("k", &[7]))
            .node("Slice", &["x", "start", "end"], &["part"], vec![])
    };
    let cast_like = slice()
        .node("CastLike", &["k", "part"], &["like"], vec![])
        .node("Shape", &["part"], &["s"], vec![])
        .output("like", Float, &[1]);
    let filled = slice()
        .node("Shape", &["part"], &["sizes"], vec![])
        .node("ConstantOfShape", &["sizes"], &["zeros"], vec![])
        .node("Shape", &["zeros"], &["s"], vec![]);
    let branch = |op| {
        let body = Sketch::new().node(op, &["part"], &["made"], vec![]);
        body.output("made", Float, &[1]).0
    };
    let branches = vec![
        graph_attribute("then_branch", branch("Neg")),
        graph_attribute("else_branch", branch("Abs")),
    ];
    let chosen = slice().node("If", &["is"], &["chosen"], branches).node(
        "Shape",
        &["chosen"],
        &["s"],
        vec![],
    );
    for sketch in [cast_like, filled, chosen] {
        let mut sketch = sketch.output("s", Int64, &[1]);
        set_dim(&mut sketch.0.input[0], 0, symbol("N"));
        let plan = sketch.load().and_then(|model| model.into_optimized()?.into_runnable());
        let plan = plan.expect("a plan");
        for (size, taken) in [(3, 1i64), (0, 0)] {
            let x = Tensor::zero::<f32>(&[size]).expect("a tensor").into_tvalue();
            match plan.run(tvec!(x, tensor0(true).into_tvalue())) {
                Ok(made) => assert_eq!(**made.last().expect("a shape"), tensor1(&[taken])),
                Err(error) => assert!(taken == 0 && format!("{error:#}").contains("Slice_part")),
            }
        }
    }
}

/// Two slices become one, which would begin where the first one ends.
#[test]
fn a_slice_of_a_slice_that_takes_nothing_takes_nothing() {
    let mut sketch = Sketch::new()
        .input("x", Float, &[2])
        .initializer(int64("pads", &[2, 0]))
        .initializer(int64("zero", &[0]))
        .initializer(int64("one", &[1]))
        .initializer(int64("two", &[2]))
        .node("Pad", &["x", "pads"], &["padded"], vec![])
        .node("Shape", &["x"], &["size"], vec![])
        .node("Slice", &["padded", "size", "one", "zero"], &["part"], vec![])
        .node("Slice", &["part", "one", "two", "zero", "one"], &["y"], vec![])
        .output("y", Float, &[0]);
    set_dim(&mut sketch.0.input[0], 0, symbol("N"));
    let x = Tensor::zero::<f32>(&[2]).expect("a tensor");
    let error = sketch.run(vec![x]).expect_err("a slice that ends before its start");
    assert!(format!("{error:#}").contains("Slice"), "{error:#}");
}

/// Adds a node that makes `y` of `x` and constants.
type Product = fn(Sketch) -> Sketch;

/// The products of each of two matrices of constants by a batch, by each operator that has batches.
fn products_by_two(ty: ElementType, product: Product) -> Sketch {
    let numbers: Vec<f32> = (0..24).map(|place| (place % 7) as f32).collect();
    let constants = |name: &str, of, dims: [i64; 3]| tract_onnx::pb::TensorProto {
        dims: dims.into(),
        ..tensor(name, of, &numbers)
    };
    let sketch = Sketch::new()
        .input("x", ty, &[1, 5, 3])
        .initializer(constants("w", if ty == Uint8 { Int8 } else { ty }, [2, 3, 4]))
        .initializer(constants("left", ty, [2, 4, 3]))
        .initializer(tensor("scale", Float, &[0.5]))
        .initializer(tensor("zero", Uint8, &[3.]))
        .initializer(tensor("none", Int8, &[0.]));
    product(sketch)
}

/// tract makes as many products as the open batch has, and drops the others.
#[test]
fn an_open_batch_of_one_is_multiplied_by_each_of_the_other() {
    let products: [(ElementType, ElementType, Product); 6] = [
        (Float, Float, |sketch| sketch.node("MatMul", &["x", "w"], &["y"], vec![])),
        (Float, Float, |sketch| {
            let sketch = sketch.node("Transpose", &["x"], &["t"], vec![ints("perm", &[0, 2, 1])]);
            sketch.node("MatMul", &["left", "t"], &["y"], vec![])
        }),
        (Float, Float, |sketch| {
            sketch.node("Einsum", &["x", "w"], &["y"], vec![string("equation", "bij,bjk->kbi")])
        }),
        (Int64, Int64, |sketch| sketch.node("MatMul", &["x", "w"], &["y"], vec![])),
        (Uint8, Int32, |sketch| {
            sketch.node("MatMulInteger", &["x", "w", "zero", "none"], &["y"], vec![])
        }),
        (Uint8, Uint8, |sketch| {
            let inputs = ["x", "scale", "zero", "w", "scale", "none", "scale", "zero"];
            sketch.node("QLinearMatMul", &inputs, &["y"], vec![])
        }),
    ];
    for (ty, made, product) in products {
        let run = |is_open: bool, batch: usize| {
            let mut sketch = products_by_two(ty, product)
                .node("Unsqueeze", &["y", "axis"], &["wide"], vec![])
                .initializer(int64("axis", &[1]))
                .output("wide", made, &[2, 1, 5, 4])
                .output("y", made, &[2, 5, 4]);
            let size = if is_open { symbol("B") } else { dim(batch as i64) };
            set_dim(&mut sketch.0.input[0], 0, size);
            let model = sketch.load()?;
            let typed = model.into_typed()?;
            let x: Vec<i64> = (0..batch * 15).map(|place| place as i64 % 11).collect();
            let x = Tensor::from_shape(&[batch, 5, 3], &x)?;
            let x = x.cast_to_dt(typed.input_fact(0)?.datum_type)?.into_owned();
            let forms = [typed.clone(), typed.clone().into_decluttered()?, typed.into_optimized()?];
            let made = forms.map(|form| form.into_runnable()?.run(tvec!(x.clone().into_tvalue())));
            made.into_iter().collect::<TractResult<Vec<_>>>()
        };
        for batch in [1, 2] {
            assert_eq!(run(true, batch).expect("open"), run(false, batch).expect("known"));
        }
        run(true, 3).expect_err("a batch of 3 by one of 2");
    }
}

/// Nothing in the model says that these are vectors, and zero points are computed.
#[test]
fn a_product_of_a_vector_of_codes_has_one_axis_less() {
    let products: [(ElementType, Product); 2] = [
        (Int32, |sketch| sketch.node("MatMulInteger", &["x", "w", "zero", "none"], &["y"], vec![])),
        (Uint8, |sketch| {
            let inputs = ["x", "scale", "zero", "w", "scale", "none", "scale", "zero"];
            sketch.node("QLinearMatMul", &inputs, &["y"], vec![])
        }),
    ];
    let reshaped = |sketch: Sketch, name: &str, dims: &[i64]| {
        let (from, shape) = (format!("{name}-held"), format!("{name}-shape"));
        let size = dims.iter().product();
        sketch.input(&from, Uint8, &[size]).initializer(int64(&shape, dims)).node(
            "Reshape",
            &[&from, &shape],
            &[name],
            vec![],
        )
    };
    for (ty, product) in products {
        for (x, w, y) in [
            (&[3][..], &[3, 2][..], &[2][..]),
            (&[3], &[2, 3, 2], &[2, 2]),
            (&[2, 3], &[3], &[2]),
            (&[2, 2, 3], &[3], &[2, 2]),
            (&[3], &[3], &[]),
        ] {
            let sketch = reshaped(reshaped(Sketch::new(), "x", x), "w", w)
                .input("number", Int32, &[])
                .cast("number", Uint8, "zero")
                .initializer(tensor("scale", Float, &[0.5]))
                .initializer(tensor("none", Uint8, &[1.]));
            let sketch = product(sketch).output("y", ty, y);
            let codes = |dims: &[i64]| -> Tensor {
                let codes = (0..dims.iter().product::<i64>()).map(|x| x as u8 * 3);
                tensor1(&codes.collect::<Vec<u8>>())
            };
            let inputs = vec![codes(x), codes(w), tensor0(4i32)];
            let made = sketch.run(inputs).expect("a product of a vector");
            let sum = |row: i64, matrix: i64, column: i64, columns: i64| -> i64 {
                let of =
                    |k: i64| (3 * (row * 3 + k) - 4, 3 * ((matrix * 3 + k) * columns + column) - 1);
                (0..3).map(of).map(|(x, w)| x * w).sum()
            };
            let columns = if w.len() > 1 { 2 } else { 1 };
            let rows = x.iter().product::<i64>() / 3;
            let matrices = w.iter().product::<i64>() / 3 / columns;
            let each = (0..matrices).flat_map(|matrix| {
                (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, matrix, column)))
            });
            let wanted = each.map(|(row, matrix, column)| sum(row, matrix, column, columns));
            let wanted: Vec<i64> = if ty == Int32 {
                wanted.collect()
            } else {
                let code = |sum: i64| (sum as f64 * 0.25 / 0.5).round_ties_even() as i64 + 4;
                wanted.map(|sum| code(sum).clamp(0, 255)).collect()
            };
            let shape: Vec<usize> = y.iter().map(|size| *size as usize).collect();
            let wanted = Tensor::from_shape(&shape, &wanted).expect("as many");
            let wanted = wanted.cast_to_dt(ty.datum_type()).expect("numbers").into_owned();
            assert_eq!(made, [wanted], "{x:?} by {w:?}");
        }
    }
}

/// Of `Einsum` one term is multiplied by all of the others.
#[test]
fn an_open_number_of_terms_is_that_of_the_other_operand() {
    let run = |operator: &str, inputs: &[&str], attribute: &str, terms: usize| {
        let attributes =
            if attribute.is_empty() { vec![] } else { vec![string("equation", attribute)] };
        let mut sketch = Sketch::new()
            .input("x", Float, &[5, 3])
            .input("z", Float, &[3, 2])
            .initializer(tract_onnx::pb::TensorProto {
                dims: vec![3, 2],
                ..tensor("w", Float, &[1., 2., 3., 4., 5., 6.])
            })
            // What weights say of an input is known before it is run.
            .node("Concat", &["x"], &["c"], vec![int("axis", 0)])
            .node(operator, inputs, &["y"], attributes)
            .output("y", Float, &[5, 2]);
        set_dim(&mut sketch.0.input[0], 1, symbol("K"));
        set_dim(&mut sketch.0.input[1], 0, symbol("M"));
        let x = Tensor::from_shape(&[5, terms], &vec![1f32; 5 * terms])?;
        let z = Tensor::from_shape(&[3, 2], &[1f32, 2., 3., 4., 5., 6.])?;
        sketch.run(vec![x, z]).map(|mut made| made.remove(0))
    };
    let sums = Tensor::from_shape(&[5, 2], &[9f32, 12.].repeat(5)).expect("a shape");
    for (operator, equation) in [("MatMul", ""), ("Einsum", "ij,jk->ik")] {
        for other in ["w", "z"] {
            let run = |terms| run(operator, &["c", other], equation, terms);
            assert_eq!(run(3).expect("as many"), sums, "{operator} by {other}");
            for terms in [1, 2, 4, 50] {
                if terms == 1 && operator == "Einsum" {
                    assert_eq!(run(1).expect("one term"), sums, "{operator} by {other}");
                    continue;
                }
                let error = format!("{:#}", run(terms).expect_err("other terms"));
                assert!(error.contains(&format!("node `{operator}_y` ({operator})")), "{error}");
            }
        }
    }
}

/// The product of elements, and sums of it.
#[test]
fn an_einsum_stretches_open_axes() {
    let numbers = |count: usize| {
        let numbers: Vec<f32> = (0..count * 15).map(|x| x as f32).collect();
        Tensor::from_shape(&[count, 5, 3], &numbers).expect("a shape")
    };
    for equation in ["bij,bij->bij", "bij,bij->bi", "bij,bij->b", "bij,bij->ij", "bij,bkj->bik"] {
        for (b, n) in [(1, 2), (2, 1), (2, 2), (1, 1)] {
            let run = |sizes: [tract_onnx::pb::tensor_shape_proto::Dimension; 2]| {
                let mut sketch = Sketch::new()
                    .input("x", Float, &[1, 5, 3])
                    .input("z", Float, &[1, 5, 3])
                    .node("Einsum", &["x", "z"], &["p"], vec![string("equation", equation)])
                    .node("Abs", &["p"], &["y"], vec![])
                    .output("y", Float, &[9]);
                for (input, size) in sketch.0.input.iter_mut().zip(sizes) {
                    set_dim(input, 0, size);
                }
                sketch.run(vec![numbers(b), numbers(n)]).expect("a run")
            };
            let known = [dim(b as i64), dim(n as i64)];
            let expected = run(known.clone());
            let [of_x, of_z] = known;
            for sizes in [[symbol("B"), symbol("N")], [symbol("B"), of_z], [of_x, symbol("N")]] {
                assert_eq!(run(sizes), expected, "{equation} {b} {n}");
            }
        }
    }
}

/// A window in the padding alone has nothing that is greater than anything.
#[test]
fn a_pool_of_no_elements_is_as_large_as_its_padding_makes_it() {
    for order in [0, 1] {
        let attributes = vec![
            ints("kernel_shape", &[2, 1]),
            ints("pads", &[1, 0, 1, 0]),
            int("storage_order", order),
        ];
        let sketch = Sketch::new()
            .input("x", Float, &[1, 1, 0, 3])
            .node("MaxPool", &["x"], &["y", "places"], attributes)
            .output("y", Float, &[1, 1, 1, 3])
            .output("places", Int64, &[1, 1, 1, 3]);
        let made = sketch
            .run(vec![Tensor::zero::<f32>(&[1, 1, 0, 3]).expect("a tensor")])
            .expect("a pool");
        let nothing = Tensor::from_shape(&[1, 1, 1, 3], &[f32::NEG_INFINITY; 3]).expect("a shape");
        assert_eq!(made.first(), Some(&nothing), "storage order {order}");
    }
}
