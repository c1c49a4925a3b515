//! Dimensions are symbols on the way to a shape and 64-bit numbers anywhere else.

use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, onnx, tensor_proto};

use crate::common::proto::{
    Sketch, graph_attribute, int, int64, set_dim, shaped, string, symbol, tensor, unshaped,
};

use ElementType::{Bool, Float, Float16, Int32, Int64};

/// Runs a model with its first input's first dimension as declared and as a symbol, typed,
/// decluttered and optimised; each gives the same.
#[track_caller]
fn gives(sketch: Sketch, inputs: &[Tensor], expected: &[Tensor]) {
    let mut symbolic = Sketch(sketch.0.clone());
    set_dim(&mut symbolic.0.input[0], 0, symbol("N"));
    for (sketch, dims) in [(sketch, "concrete"), (symbolic, "symbolic")] {
        let model = onnx().model_for_proto_model(&sketch.model()).expect("a model");
        let typed = model.into_typed().expect(dims);
        let decluttered = typed.clone().into_decluttered().expect(dims);
        let optimized = typed.clone().into_optimized().expect(dims);
        for (form, what) in
            [(typed, "typed"), (decluttered, "decluttered"), (optimized, "optimized")]
        {
            let values = inputs.iter().map(|input| input.clone().into_tvalue()).collect();
            let plan = form.into_runnable().expect(what);
            let outputs = plan.run(values).unwrap_or_else(|e| panic!("{dims}, {what}: {e:#}"));
            let outputs: Vec<Tensor> = outputs.into_iter().map(TValue::into_tensor).collect();
            assert_eq!(outputs, expected, "{dims}, {what}");
        }
    }
}

/// A model of `x` and its shape `s`.
fn shape_of(shape: &[i64]) -> Sketch {
    Sketch::new().input("x", Float, shape).node("Shape", &["x"], &["s"], vec![])
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zero::<f32>(shape).expect("a tensor")
}

#[test]
fn casts_of_infinities_beside_dimensions_are_exact() {
    let sketch = Sketch::new()
        .input("x", Float16, &[4])
        .node("Shape", &["x"], &["s"], vec![])
        .cast("x", Int64, "i")
        .node("Add", &["i", "s"], &["y"], vec![])
        .node("Less", &["i", "s"], &["z"], vec![])
        .output("y", Int64, &[4])
        .output("z", Bool, &[4]);
    let f16 = half::f16::from_f32;
    let x = tensor1(&[f16(f32::NAN), f16(f32::INFINITY), f16(-1.0), f16(f32::NEG_INFINITY)]);
    let y = [i64::MIN + 4, i64::MIN + 4, 3, i64::MIN + 4];
    gives(sketch, &[x], &[tensor1(&y), tensor1(&[true; 4])]);
}

#[test]
fn constants_that_exceed_32_bits_after_arithmetic_are_exact() {
    let product = shape_of(&[2])
        .initializer(int64("k", &[60]))
        .initializer(int64("h", &[24]))
        .initializer(int64("us", &[1_000_000]))
        .node("Mul", &["k", "k"], &["a"], vec![])
        .node("Mul", &["a", "h"], &["d"], vec![])
        .node("Mul", &["d", "us"], &["w"], vec![])
        .node("Mul", &["s", "w"], &["y"], vec![])
        .output("y", Int64, &[1]);
    gives(product, &[zeros(&[2])], &[tensor1(&[172_800_000_000i64])]);
    let sum = shape_of(&[2])
        .initializer(int64("k", &[i64::from(i32::MAX)]))
        .node("Add", &["k", "k"], &["t"], vec![])
        .node("Less", &["s", "t"], &["y"], vec![])
        .output("y", Bool, &[1]);
    gives(sum, &[zeros(&[2])], &[tensor1(&[true])]);
}

#[test]
fn dimensions_that_exceed_32_bits_after_arithmetic_are_exact() {
    let k = i64::from(i32::MAX);
    let scaled = shape_of(&[4, 3])
        .initializer(int64("k", &[k]))
        .node("Add", &["s", "k"], &["a"], vec![])
        .node("Mul", &["k", "a"], &["y"], vec![])
        .output("y", Int64, &[2]);
    gives(scaled, &[zeros(&[4, 3])], &[tensor1(&[k * (k + 4), k * (k + 3)])]);
    let reduced = shape_of(&[4])
        .initializer(int64("k", &[1_000_000_000]))
        .initializer(int64("zero", &[0]))
        .node("Mul", &["s", "k"], &["m"], vec![])
        .node("ReduceMax", &["m", "zero"], &["y"], vec![int("keepdims", 1)])
        .output("y", Int64, &[1]);
    gives(reduced, &[zeros(&[4])], &[tensor1(&[4_000_000_000i64])]);
}

/// Its values are data, whatever says how many of them are wanted.
#[test]
fn data_sized_by_dimensions_is_exact() {
    let sketch = Sketch::new()
        .input("x", Int64, &[3])
        .node("Shape", &["x"], &["s"], vec![])
        .node("TopK", &["x", "s"], &["v", "i"], vec![])
        .node("Add", &["v", "s"], &["y"], vec![])
        .output("y", Int64, &[3]);
    let x = tensor1(&[1_000_000_000_000i64, 5, -7]);
    gives(sketch, &[x], &[tensor1(&[1_000_000_000_003i64, 8, -4])]);
}

#[test]
fn remainders_have_the_sign_of_their_divisor() {
    let sketch = shape_of(&[4])
        .initializer(int64("three", &[3]))
        .initializer(int64("minus_three", &[-3]))
        .initializer(int64("five", &[5]))
        .node("Mod", &["s", "minus_three"], &["d"], vec![])
        .node("Sub", &["s", "five"], &["n"], vec![])
        .node("Mod", &["n", "three"], &["e"], vec![])
        .output("d", Int64, &[1])
        .output("e", Int64, &[1]);
    gives(sketch, &[zeros(&[4])], &[tensor1(&[-2i64]), tensor1(&[2i64])]);
}

/// What a shape is made of and data beside it: the nodes between are there twice.
#[test]
fn what_is_a_shape_and_data_is_both() -> TractResult<()> {
    let sketch = shape_of(&[2, 6])
        .initializer(int64("k", &[1_000_000_000]))
        .initializer(int64("zero", &[0]))
        .initializer(int64("minus_one", &[-1]))
        .node("Gather", &["s", "zero"], &["n"], vec![])
        .node("Add", &["n", "n"], &["twice"], vec![])
        .node("Concat", &["twice", "minus_one"], &["shape"], vec![int("axis", 0)])
        .node("Reshape", &["x", "shape"], &["r"], vec![])
        .node("Mul", &["twice", "k"], &["y"], vec![])
        .output("r", Float, &[4, 3])
        .output("y", Int64, &[1]);
    let mut symbolic = Sketch(sketch.0.clone());
    set_dim(&mut symbolic.0.input[0], 0, symbol("N"));
    symbolic.0.output[0] = unshaped("r", Float);
    let model = symbolic.load()?.into_optimized()?;
    assert_eq!(format!("{:?}", model.output_fact(0)?.shape), "2*N,3");
    gives(sketch, &[zeros(&[2, 6])], &[zeros(&[4, 3]), tensor1(&[4_000_000_000i64])]);
    Ok(())
}

#[test]
fn what_tract_computes_exactly_stays_symbolic() -> TractResult<()> {
    let mut sketch = shape_of(&[2])
        .initializer(int64("one", &[1]))
        .initializer(int64("two", &[2]))
        .initializer(int64("minus_one", &[-1]))
        .node("Add", &["s", "one"], &["next"], vec![])
        .node("Div", &["next", "two"], &["half"], vec![])
        .node("Equal", &["half", "minus_one"], &["open"], vec![])
        .node("Where", &["open", "one", "half"], &["size"], vec![])
        .node("ConstantOfShape", &["size"], &["y"], vec![]);
    set_dim(&mut sketch.0.input[0], 0, symbol("N"));
    sketch.0.output.push(unshaped("y", Float));
    let model = sketch.load()?.into_typed()?;
    assert_eq!(format!("{:?}", model.output_fact(0)?.shape), "(N+1)/2");
    Ok(())
}

/// Pad, bitwise operators, CumSum and ArgMax take numbers only.
#[test]
fn operators_of_numbers_take_dimensions() {
    let sketch = shape_of(&[2, 3])
        .initializer(int64("one", &[1, 1]))
        .initializer(int64("first", &[0]))
        .initializer(int64("none", &[]))
        .node("Pad", &["s", "one"], &["padded"], vec![])
        .node("Sign", &["s"], &["sign"], vec![])
        .node("ArgMax", &["s"], &["argmax"], vec![int("axis", 0)])
        .node("BitwiseAnd", &["s", "one"], &["bits"], vec![])
        .node("NonZero", &["s"], &["places"], vec![])
        .output("padded", Int64, &[4])
        .output("sign", Int64, &[2])
        .output("argmax", Int64, &[1])
        .output("bits", Int64, &[2])
        .output("places", Int64, &[1, 2]);
    gives(
        sketch,
        &[zeros(&[2, 3])],
        &[
            tensor1(&[0i64, 2, 3, 0]),
            tensor1(&[1i64, 1]),
            tensor1(&[1i64]),
            tensor1(&[0i64, 1]),
            tensor2(&[[0i64, 1]]),
        ],
    );
}

/// A division is symbolic only where its dividend cannot be negative.
#[test]
fn division_rounds_towards_zero() {
    let sketch = shape_of(&[4])
        .initializer(int64("three", &[3]))
        .initializer(int64("five", &[5]))
        .node("Sub", &["s", "five"], &["n"], vec![])
        .node("Div", &["n", "three"], &["d"], vec![])
        .node("Add", &["d", "three"], &["t"], vec![])
        .node("Expand", &["one", "t"], &["y"], vec![])
        .initializer(tensor("one", Float, &[1.0]))
        .output("y", Float, &[3]);
    gives(sketch, &[zeros(&[4])], &[tensor1(&[1f32, 1.0, 1.0])]);
}

/// Dimensions that a subgraph uses as numbers, and those that it returns.
#[test]
fn dimensions_cross_the_borders_of_subgraphs() {
    let then = Sketch::new()
        .node("Mul", &["twice", "k"], &["a"], vec![])
        .node("Identity", &["s"], &["b"], vec![])
        .output("a", Int64, &[1])
        .output("b", Int64, &[1]);
    let other = Sketch::new()
        .node("Identity", &["twice"], &["a"], vec![])
        .node("Add", &["s", "s"], &["b"], vec![])
        .output("a", Int64, &[1])
        .output("b", Int64, &[1]);
    let branches =
        vec![graph_attribute("then_branch", then.0), graph_attribute("else_branch", other.0)];
    for (condition, a, b) in [(true, 4_000_000_000i64, 2usize), (false, 4, 4)] {
        let sketch = shape_of(&[2])
            .input("c", Bool, &[])
            .initializer(int64("k", &[1_000_000_000]))
            .initializer(tensor("one", Float, &[1.0]))
            .node("Add", &["s", "s"], &["twice"], vec![])
            .node("If", &["c"], &["a", "b"], branches.clone())
            .node("Expand", &["one", "b"], &["y"], vec![])
            .output("a", Int64, &[1]);
        let mut sketch = sketch;
        sketch.0.output.push(shaped("y", Float, vec![symbol("M")]));
        let inputs = [zeros(&[2]), tensor0(condition)];
        gives(sketch, &inputs, &[tensor1(&[a]), tensor1(&vec![1f32; b])]);
    }
}

/// tract takes a dimension for greater than what it is only as great as, and for unequal to a
/// number that it may be.
#[test]
fn comparisons_of_dimensions_are_decided_when_the_model_runs() {
    for size in [1usize, 2, 3] {
        let sketch = shape_of(&[size as i64])
            .initializer(int64("two", &[2]))
            .initializer(tensor("one", Float, &[1.0]))
            .node("Greater", &["s", "two"], &["g"], vec![])
            .node("Where", &["g", "s", "two"], &["greater"], vec![])
            .node("Equal", &["s", "two"], &["e"], vec![])
            .node("Add", &["s", "two"], &["more"], vec![])
            .node("Where", &["e", "more", "s"], &["equal"], vec![])
            .node("Expand", &["one", "equal"], &["y"], vec![])
            .output("greater", Int64, &[1]);
        let mut sketch = sketch;
        sketch.0.output.push(shaped("y", Float, vec![symbol("M")]));
        let equal = if size == 2 { 4 } else { size };
        let expected = [tensor1(&[size.max(2) as i64]), tensor1(&vec![1f32; equal])];
        gives(sketch, &[zeros(&[size])], &expected);
    }
}

/// Whichever branch runs, as dimensions that only then are known decide.
#[test]
fn dimensions_decide_on_branches_when_the_model_runs() {
    for size in [1usize, 2] {
        let then = Sketch::new().node("Identity", &["s"], &["a"], vec![]).output("a", Int64, &[1]);
        let other =
            Sketch::new().node("Add", &["s", "two"], &["a"], vec![]).output("a", Int64, &[1]);
        let branches =
            vec![graph_attribute("then_branch", then.0), graph_attribute("else_branch", other.0)];
        let mut sketch = shape_of(&[size as i64])
            .initializer(int64("two", &[2]))
            .initializer(int64("zero", &[0]))
            .initializer(tensor_proto::write("unit", Int64, &tensor0(1i64)).expect("a scalar"))
            .node("Squeeze", &["s", "zero"], &["n"], vec![])
            .node("Equal", &["n", "unit"], &["c"], vec![])
            .node("If", &["c"], &["chosen"], branches)
            .node("ConstantOfShape", &["chosen"], &["y"], vec![])
            .output("chosen", Int64, &[1]);
        sketch.0.output.push(shaped("y", Float, vec![symbol("M")]));
        let chosen = if size == 1 { 1 } else { size + 2 };
        gives(sketch, &[zeros(&[size])], &[tensor1(&[chosen as i64]), zeros(&[chosen])]);
    }
}

/// A name of the file that this crate would give is the file's, and what this crate makes gets
/// another.
#[test]
fn names_like_this_crates_are_names_like_others() {
    let sketch = shape_of(&[2])
        .node("Identity", &["s"], &["tract-onnx-cast:s"], vec![])
        .node("Sign", &["s"], &["y"], vec![])
        .node("Sign", &["tract-onnx-cast:s"], &["z"], vec![])
        .output("y", Int64, &[1])
        .output("z", Int64, &[1]);
    gives(sketch, &[zeros(&[2])], &[tensor1(&[1i64]), tensor1(&[1i64])]);
}

/// tract takes a slice with a step through an expansion, whose shape it leaves.
#[test]
fn a_slice_with_a_step_of_an_expansion_is_a_slice() {
    let sketch = shape_of(&[2, 2])
        .initializer(int64("sizes", &[2, 1, 1]))
        .initializer(int64("start", &[-(1 << 33)]))
        .initializer(int64("end", &[(1 << 32) + 1]))
        .initializer(int64("axis", &[1]))
        .initializer(int64("step", &[2]))
        .node("Expand", &["x", "sizes"], &["wide"], vec![])
        .node("Neg", &["wide"], &["n"], vec![])
        .node("Slice", &["n", "start", "end", "axis", "step"], &["y"], vec![])
        .output("y", Float, &[2, 1, 2]);
    let x = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).expect("a tensor");
    let y = Tensor::from_shape(&[2, 1, 2], &[-1.0f32, -2.0, -1.0, -2.0]).expect("a tensor");
    gives(sketch, &[x], &[y]);
}

/// tract takes a slice of an axis of one element for that element.
#[test]
fn a_slice_of_one_element_may_be_empty() {
    for (start, expected) in [(0, vec![true]), (-3, vec![true]), (1, vec![])] {
        let sketch = shape_of(&[3])
            .initializer(int64("one", &[1]))
            .initializer(int64("offset", &[start]))
            .initializer(int64("end", &[i64::MAX]))
            .node("Greater", &["s", "one"], &["b"], vec![])
            .node("Mul", &["s", "offset"], &["start"], vec![])
            .node("Slice", &["b", "start", "end"], &["y"], vec![])
            .output("y", Bool, &[expected.len() as i64]);
        gives(sketch, &[zeros(&[3])], &[tensor1(&expected)]);
    }
}

/// tract takes a slice of a sum for the sum of slices, also of what has one element for all.
#[test]
fn a_slice_of_what_is_broadcast_is_a_slice() {
    let sketch = Sketch::new()
        .input("x", Float, &[1])
        .input("four", Float, &[4])
        .initializer(int64("start", &[1]))
        .initializer(int64("end", &[i64::MAX]))
        .node("Add", &["four", "x"], &["sum"], vec![])
        .node("Slice", &["sum", "start", "end"], &["y"], vec![])
        .output("y", Float, &[3]);
    let inputs = [tensor1(&[0.5f32]), tensor1(&[1.0f32, 2.0, 3.0, 4.0])];
    gives(sketch, &inputs, &[tensor1(&[2.5f32, 3.5, 4.5])]);
}

/// tract makes one slice of two, which takes what the first has left out.
#[test]
fn a_slice_of_a_slice_takes_no_more_than_there_is() {
    let sketch = || {
        Sketch::new()
            .initializer(int64("one", &[1]))
            .initializer(int64("minus_one", &[-1]))
            .initializer(int64("end", &[i64::MAX]))
            .node("Slice", &["x", "one", "end"], &["rest"], vec![])
            .node("Neg", &["rest"], &["n"], vec![])
            .node("Slice", &["n", "minus_one", "end"], &["y"], vec![])
    };
    let two = sketch().input("x", Float, &[2]).output("y", Float, &[1]);
    gives(two, &[tensor1(&[1.0f32, 2.0])], &[tensor1(&[-2.0f32])]);
    let one = || sketch().input("x", Float, &[1]).output("y", Float, &[0]);
    let made = one().run(vec![tensor1(&[1.0f32])]).expect("a run");
    assert_eq!(made, [tensor1::<f32>(&[])]);
    // What is made of it may have been made for one element, which is all that a plan for any size
    // can tell.
    let mut open = one();
    set_dim(&mut open.0.input[0], 0, symbol("N"));
    let model = onnx().model_for_proto_model(&open.model()).expect("a model");
    let plan = model.into_optimized().expect("a plan").into_runnable().expect("a plan");
    let error = plan.run(tvec!(tensor1(&[1.0f32]).into_tvalue())).expect_err("one too few");
    let words = "node `Slice_y` (Slice): takes 0 of axis 0 of size 0";
    assert!(format!("{error:#}").contains(words), "{error:#}");
}

fn scalar(name: &str, value: i64) -> TensorProto {
    tensor_proto::write(name, Int64, &tensor0(value)).expect("a tensor")
}

#[test]
fn a_range_to_before_its_start_has_no_elements() {
    let sketch = shape_of(&[2])
        .initializer(int64("three", &[3]))
        .initializer(scalar("zero", 0))
        .initializer(scalar("one", 1))
        .node("Sub", &["s", "three"], &["d"], vec![])
        .node("Squeeze", &["d"], &["n"], vec![])
        .node("Range", &["zero", "n", "one"], &["up"], vec![])
        .node("Neg", &["one"], &["back"], vec![])
        .node("Range", &["n", "zero", "back"], &["down"], vec![])
        .node("Neg", &["up"], &["y"], vec![])
        .cast("zero", Float, "from")
        .cast("n", Float, "to")
        .cast("one", Float, "by")
        .node("Range", &["from", "to", "by"], &["numbers"], vec![])
        .output("up", Int64, &[0])
        .output("y", Int64, &[0])
        .output("down", Int64, &[0])
        .output("numbers", Float, &[0]);
    let none = tensor1::<i64>(&[]);
    let expected = [none.clone(), none.clone(), none, tensor1::<f32>(&[])];
    gives(sketch, &[zeros(&[2])], &expected);
}

#[test]
fn a_sum_of_those_before_takes_its_axis_as_a_list_of_one() {
    let sketch = Sketch::new()
        .input("x", Float, &[2, 2])
        .initializer(int64("axis", &[1]))
        .node("CumSum", &["x", "axis"], &["y"], vec![])
        .output("y", Float, &[2, 2]);
    let x = tensor2(&[[1f32, 2.0], [3.0, 4.0]]);
    gives(sketch, &[x], &[tensor2(&[[1f32, 3.0], [3.0, 7.0]])]);
}

/// What is only measured is not computed, so nobody looks at what its shape was guessed to be.
#[test]
fn a_slice_of_no_elements_along_another_axis_is_as_long_as_it_is() {
    let sketch = Sketch::new()
        .input("x", Float, &[1, 2])
        .initializer(int64("starts", &[3, 1]))
        .initializer(int64("ends", &[1, 1]))
        .initializer(int64("axes", &[0, 1]))
        .initializer(int64("steps", &[-2, 1]))
        .node("Slice", &["x", "starts", "ends", "axes", "steps"], &["y"], vec![])
        .output("y", Float, &[0, 0]);
    gives(sketch, &[zeros(&[1, 2])], &[zeros(&[0, 0])]);
}

#[test]
fn an_einsum_of_no_elements_has_the_sizes_of_its_letters() {
    for (equation, expected) in [("ijk,j->ki", zeros(&[0, 2])), ("ijk,j->i", zeros(&[2]))] {
        let mut sketch = Sketch::new()
            .input("x", Float, &[2, 3, 0])
            .input("v", Float, &[3])
            .node("Einsum", &["x", "v"], &["y"], vec![string("equation", equation)])
            .output("y", Float, &[]);
        sketch.0.output[0] = unshaped("y", Float);
        set_dim(&mut sketch.0.input[0], 0, symbol("N"));
        let plan = sketch.load().and_then(|model| model.into_optimized()?.into_runnable());
        let given = tvec!(zeros(&[2, 3, 0]).into_tvalue(), zeros(&[3]).into_tvalue());
        let made = plan.expect("a plan").run(given).expect("a result");
        assert_eq!(*made[0], expected, "{equation}");
    }
}

#[test]
fn the_shape_of_a_squeeze_without_axes_is_refused_where_a_size_turns_out_to_be_one() {
    let nodes = |sketch: Sketch| {
        sketch.node("Squeeze", &["x"], &["y"], vec![]).node("Shape", &["y"], &["s"], vec![]).output(
            "s",
            Int64,
            &[2],
        )
    };
    let mut sketch = nodes(Sketch::new().input("x", Float, &[1, 3]));
    set_dim(&mut sketch.0.input[0], 0, symbol("N"));
    let plan = sketch.load().and_then(|model| model.into_optimized()?.into_runnable());
    let plan = plan.expect("a plan");
    let shape = plan.run(tvec!(zeros(&[2, 3]).into_tvalue())).expect("no axis to take away");
    assert_eq!(*shape[0], tensor1(&[2i64, 3]));
    let refused = plan.run(tvec!(zeros(&[1, 3]).into_tvalue())).expect_err("an axis of size 1");
    assert!(
        format!("{refused:#}").contains("node `Squeeze_y` (Squeeze): has no axes and the size 1")
    );
    let nonzero = Sketch::new().input("v", Float, &[4]).node("NonZero", &["v"], &["x"], vec![]);
    let v = tensor1(&[0f32, 0.0, 5.0, 0.0]);
    let refused = nodes(nonzero).run(vec![v]).expect_err("one place that is not 0");
    assert!(
        format!("{refused:#}").contains("node `Squeeze_y` (Squeeze): has no axes and the size 1")
    );
}

#[test]
fn a_part_of_nothing_keeps_the_sizes_of_what_is_joined() {
    let sketch = || {
        Sketch::new()
            .input("x", Float, &[2, 2])
            .initializer(TensorProto { dims: vec![2, 1], ..tensor("w", Float, &[1.0, 2.0]) })
            .initializer(int64("nothing", &[0]))
            .initializer(int64("parts", &[2, 0]))
            .node("Concat", &["x", "w"], &["c"], vec![int("axis", 1)])
            .output("y", Float, &[0, 3])
    };
    let slice = sketch().node("Slice", &["c", "nothing", "nothing"], &["y"], vec![]);
    let split = sketch().node("Split", &["c", "parts"], &["all", "y"], vec![int("axis", -2)]);
    let split_unevenly = sketch().node("Identity", &["c"], &["d"], vec![]).node(
        "Split",
        &["d"],
        &["one", "two", "y"],
        vec![int("num_outputs", 3)],
    );
    let empty = Tensor::zero::<f32>(&[0, 3]).expect("a tensor");
    for sketch in [slice, split, split_unevenly] {
        let mut symbolic = Sketch(sketch.0.clone());
        set_dim(&mut symbolic.0.input[0], 1, symbol("M"));
        for sketch in [sketch, symbolic] {
            let outputs = sketch.run(vec![Tensor::zero::<f32>(&[2, 2]).expect("a tensor")]);
            assert_eq!(outputs.expect("a run"), std::slice::from_ref(&empty));
        }
    }
}

/// Of what has no elements tract makes a constant, and what comes before is not run. It is what
/// finds out that there is no last row.
#[test]
fn a_slice_of_nothing_keeps_the_sizes_of_what_it_is_of() {
    let mut sketch = Sketch::new()
        .input("x", Float, &[0, 3])
        .initializer(int64("last", &[-1]))
        .initializer(int64("end", &[i64::MAX]))
        .initializer(int64("columns", &[1]))
        .node("Slice", &["x", "last", "end"], &["row"], vec![])
        .node("Slice", &["row", "end", "end", "columns"], &["y"], vec![])
        .output("y", Float, &[0, 0]);
    let made = Sketch(sketch.0.clone()).run(vec![Tensor::zero::<f32>(&[0, 3]).expect("a tensor")]);
    assert_eq!(made.expect("a run"), [Tensor::zero::<f32>(&[0, 0]).expect("a tensor")]);
    set_dim(&mut sketch.0.input[0], 0, symbol("N"));
    let model = onnx().model_for_proto_model(&sketch.model()).expect("a model");
    let error = model.into_typed().expect_err("a guess that nothing checks");
    let words = "node `Slice_y` (Slice): takes no elements of a slice of an axis whose size only a run tells";
    assert!(format!("{error:#}").contains(words), "{error:#}");
}

/// What 0 is multiplied by runs all the same: it finds out that there is no last row.
#[test]
fn a_product_with_zero_keeps_the_sizes_of_its_factor() {
    let mut sketch = Sketch::new()
        .input("x", Int32, &[0, 2])
        .initializer(int64("last", &[-1]))
        .initializer(int64("end", &[i64::MAX]))
        .initializer(int64("rows", &[0]))
        .initializer(int64("step", &[2]))
        .initializer(tensor_proto::write("zero", Int32, &tensor0(0i32)).expect("a tensor"))
        .node("Slice", &["x", "last", "end", "rows", "step"], &["row"], vec![])
        .node("Mul", &["row", "zero"], &["y"], vec![])
        .output("y", Int32, &[0, 2]);
    set_dim(&mut sketch.0.input[0], 0, symbol("N"));
    let model = onnx().model_for_proto_model(&sketch.model()).expect("a model");
    let plan = model.into_optimized().expect("a plan").into_runnable().expect("a plan");
    let run =
        |rows| plan.run(tvec!(Tensor::zero::<i32>(&[rows, 2]).expect("a tensor").into_tvalue()));
    assert_eq!(run(3).expect("a run")[0].shape(), [1, 2]);
    let error = run(0).expect_err("a row that is not there");
    assert!(format!("{error:#}").contains("takes 0 of axis 0 of size 0"), "{error:#}");
}

/// tract divides what is declared of the result by the number of times, while it infers the size
/// that is repeated.
#[test]
fn what_is_repeated_0_times_may_have_any_size() {
    let mut sketch = Sketch::new()
        .input("x", Float, &[1])
        .input("shape", Int64, &[1])
        .initializer(int64("times", &[0]))
        .node("Expand", &["x", "shape"], &["e"], vec![])
        .node("Tile", &["e", "times"], &["y"], vec![])
        .output("y", Float, &[0]);
    set_dim(&mut sketch.0.output[0], 0, symbol("M"));
    let made = sketch.run(vec![tensor1(&[1f32]), tensor1(&[3i64])]).expect("a run");
    assert_eq!(made, [tensor1::<f32>(&[])]);
}
