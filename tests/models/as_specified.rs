//! What a model says is what comes out: the types of its outputs, and nodes that tract takes
//! otherwise.

use test_tools::tempfile;
use tract_onnx::pb::{GraphProto, TensorProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, Rules, from_f32, onnx, output_element_types};

use crate::common::proto::{
    Sketch, bytes, external, graph_attribute, int, int64, ints, model, node, raw, set_dim, shaped,
    string, symbol, tensor, tensor_attribute, unshaped,
};

use ElementType::{
    BFloat16, Bool, Double, Float, Float8E4M3FN, Float8E5M2, Float16, Int64, Uint8, Uint32, Uint64,
};

/// The types of a model's outputs, in every form.
fn types(sketch: Sketch) -> Vec<Vec<ElementType>> {
    let inference = sketch.load().expect("a model");
    let typed = inference.clone().into_typed().expect("a typed model");
    let decluttered = typed.clone().into_decluttered().expect("a decluttered model");
    let optimized = typed.clone().into_optimized().expect("an optimised model");
    let loaded = output_element_types(&inference);
    let forms = [typed, decluttered, optimized];
    loaded.into_iter().chain(forms.iter().map(|form| output_element_types(form).unwrap())).collect()
}

#[track_caller]
fn has_types(sketch: Sketch, expected: &[ElementType]) {
    for types in types(sketch) {
        assert_eq!(types, expected);
    }
}

#[test]
fn an_output_keeps_its_type_where_equal_nodes_are_merged() {
    let sketch = Sketch::new()
        .input("k", BFloat16, &[2])
        .initializer(int64("s", &[2]))
        .initializer(int64("z", &[0]))
        .node("Tile", &["k", "s"], &["a"], vec![])
        .node("Tile", &["k", "s"], &["a2"], vec![])
        .node("Gather", &["a2", "z"], &["b"], vec![])
        .output("a", BFloat16, &[4])
        .output("b", BFloat16, &[1]);
    has_types(sketch, &[BFloat16, BFloat16]);
}

#[test]
fn an_input_that_is_an_output_keeps_its_type() {
    let sketch = Sketch::new()
        .input("x", BFloat16, &[2, 1])
        .initializer(int64("a", &[0]))
        .initializer(int64("b", &[2]))
        .node("Slice", &["x", "a", "b"], &["s"], vec![])
        .cast("s", Float, "y")
        .output("y", Float, &[2, 1])
        .output("x", BFloat16, &[2, 1]);
    has_types(sketch, &[Float, BFloat16]);
}

#[test]
fn equal_carriers_of_different_types_keep_their_types() {
    let casts = Sketch::new()
        .initializer(tensor("k", Float, &[1.0]))
        .initializer(tensor("h", Float, &[0.5]))
        .cast("k", Float8E4M3FN, "a")
        .cast("h", Float8E5M2, "b")
        .output("a", Float8E4M3FN, &[1])
        .output("b", Float8E5M2, &[1]);
    has_types(casts, &[Float8E4M3FN, Float8E5M2]);
    let native = Sketch::new()
        .initializer(raw("b0", Uint8 as i32, &[1], &[56]))
        .initializer(tensor("k", Float, &[1.0]))
        .node("Identity", &["b0"], &["b"], vec![])
        .cast("k", Float8E4M3FN, "a")
        .output("b", Uint8, &[1])
        .output("a", Float8E4M3FN, &[1]);
    has_types(native, &[Uint8, Float8E4M3FN]);
    let value = |ty: ElementType| vec![tensor_attribute("value", raw("v", ty as i32, &[1], &[56]))];
    let mut symbolic = Sketch::new()
        .input("x", Float, &[2])
        .node("Shape", &["x"], &["s"], vec![])
        .node("ConstantOfShape", &["s"], &["a"], value(Float8E4M3FN))
        .node("ConstantOfShape", &["s"], &["b"], value(Float8E5M2));
    set_dim(&mut symbolic.0.input[0], 0, symbol("N"));
    symbolic.0.output = vec![unshaped("a", Float8E4M3FN), unshaped("b", Float8E5M2)];
    has_types(symbolic, &[Float8E4M3FN, Float8E5M2]);
}

#[test]
fn outputs_that_are_selected_anew_have_their_types() -> TractResult<()> {
    let mut typed = Sketch::new()
        .input("x", Float, &[2])
        .cast("x", BFloat16, "a")
        .cast("x", Float8E5M2, "b")
        .output("a", BFloat16, &[2])
        .output("b", Float8E5M2, &[2])
        .load()?
        .into_typed()?;
    let outputs = typed.outputs.clone();
    typed.select_output_outlets(&[outputs[1], outputs[0]])?;
    assert_eq!(output_element_types(&typed)?, [Float8E5M2, BFloat16]);
    typed.select_output_outlets(&[outputs[1]])?;
    assert_eq!(output_element_types(&typed)?, [Float8E5M2]);
    Ok(())
}

/// The declared shape is stale, and nothing but the shape is used.
#[test]
fn the_shape_of_an_expansion_is_what_its_data_asks_for() -> TractResult<()> {
    let sketch = |measure: &str| {
        let mut sketch = Sketch::new()
            .input("x", Float, &[3])
            .input("s", Int64, &[2])
            .node("Expand", &["x", "s"], &["e"], vec![])
            .node("Neg", &["e"], &["n"], vec![])
            .node(measure, &["n"], &["y"], vec![]);
        sketch.0.value_info.push(crate::common::proto::value("e", Float, &[6, 8]));
        sketch.0.output.push(unshaped("y", Int64));
        sketch
    };
    let inputs = || vec![tensor1(&[1f32, 2.0, 3.0]), tensor1(&[4i64, 3])];
    assert_eq!(sketch("Shape").run(inputs())?, [tensor1(&[4i64, 3])]);
    assert_eq!(sketch("Size").run(inputs())?, [tensor0(12i64)]);
    Ok(())
}

#[test]
fn an_expansion_beyond_32_bits_is_refused() {
    let mut sketch = Sketch::new().input("x", Float, &[2]).input("s", Int64, &[2]).node(
        "Expand",
        &["x", "s"],
        &["y"],
        vec![],
    );
    sketch.0.output.push(unshaped("y", Float));
    let inputs = vec![tensor1(&[1f32, 2.0]), tensor1(&[(1i64 << 32) + 2, 2])];
    let message = format!("{:#}", sketch.run(inputs).expect_err("too much"));
    assert!(
        message.contains("node `Expand_y` (Expand): 4294967298 is no dimension of 32 bits"),
        "{message}"
    );
}

#[test]
fn a_constant_of_shape_is_float_by_default() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[2])
        .node("Shape", &["x"], &["s"], vec![])
        .node("ConstantOfShape", &["s"], &["z"], vec![])
        .node("Add", &["x", "z"], &["y"], vec![])
        .output("y", Float, &[2]);
    assert_eq!(sketch.run(vec![tensor1(&[1f32, 2.0])])?, [tensor1(&[1f32, 2.0])]);
    Ok(())
}

#[test]
fn empty_unsigned_tensors_keep_their_types() -> TractResult<()> {
    for ty in [Uint32, Uint64] {
        let empty = || raw("c", ty as i32, &[0, 2], &[]);
        let initializer = Sketch::new()
            .initializer(empty())
            .node("Identity", &["c"], &["y"], vec![])
            .output("y", ty, &[0, 2]);
        let constant = Sketch::new()
            .node("Constant", &[], &["k"], vec![tensor_attribute("value", empty())])
            .node("Identity", &["k"], &["y"], vec![])
            .output("y", ty, &[0, 2]);
        for sketch in [initializer, constant] {
            assert_eq!(sketch.run(vec![])?, [Tensor::zero_dt(ty.datum_type(), &[0, 2])?]);
        }
    }
    Ok(())
}

#[test]
fn a_shape_in_external_data_is_read() -> TractResult<()> {
    let folder = tempfile::tempdir()?;
    let dims = [3i64, 2].map(i64::to_le_bytes).concat();
    std::fs::write(folder.path().join("w.bin"), &dims)?;
    let sketch = Sketch::new()
        .input("x", Float, &[2, 3])
        .initializer(external(raw("s", Int64 as i32, &[2], &dims), "w.bin", Some(0)))
        .node("Reshape", &["x", "s"], &["y"], vec![])
        .output("y", Float, &[3, 2]);
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes(&sketch.model()))?;
    let plan = onnx().model_for_path(&path)?.into_optimized()?.into_runnable()?;
    let outputs = plan.run(tvec!(Tensor::zero::<f32>(&[2, 3])?.into_tvalue()))?;
    assert_eq!(outputs[0].shape(), [3, 2]);
    Ok(())
}

/// An `If` of two branches that each return one value.
fn branches(then: GraphProto, other: GraphProto) -> Sketch {
    let branches =
        vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)];
    Sketch::new().input("x", Float, &[2]).input("c", Bool, &[]).node("If", &["c"], &["y"], branches)
}

#[test]
fn a_node_of_a_branch_may_be_named_like_a_value_from_around_it() -> TractResult<()> {
    let branch = |op: &str| {
        let mut branch = Sketch::new().node(op, &["x"], &["b"], vec![]).output("b", Float, &[2]);
        branch.0.node[0].name = "x".into();
        branch.0
    };
    let sketch = branches(branch("Neg"), branch("Abs")).output("y", Float, &[2]);
    let outputs = sketch.run(vec![tensor1(&[1f32, -2.0]), tensor0(false)])?;
    assert_eq!(outputs, [tensor1(&[1f32, 2.0])]);
    Ok(())
}

#[test]
fn branches_of_different_shapes_are_refused_as_such() -> TractResult<()> {
    let then = Sketch::new().cast("x", Int64, "a");
    let other = Sketch::new()
        .node("Concat", &["x", "x"], &["d"], vec![int("axis", 0)])
        .cast("d", Int64, "a");
    let returning = |mut sketch: Sketch| {
        sketch.0.output.push(shaped("a", Int64, vec![symbol("A")]));
        sketch.0
    };
    let mut sketch = branches(returning(then), returning(other));
    sketch.0.output.push(shaped("y", Int64, vec![symbol("B")]));
    let error = sketch.load()?.into_typed().expect_err("two shapes");
    let message = format!("{error:#}");
    assert!(
        message.contains(
            "node `If_y` (If): output 0 has the shape [2] in one branch and [4] in the other; \
             tract needs one shape"
        ),
        "{message}"
    );
    Ok(())
}

/// What a node makes and nobody uses is made all the same.
#[test]
fn unused_outputs_are_counted() -> TractResult<()> {
    let body = Sketch::new()
        .input("a", Float, &[])
        .input("e", Float, &[])
        .node("Add", &["a", "e"], &["o"], vec![])
        .node("Identity", &["o"], &["p"], vec![])
        .output("o", Float, &[])
        .output("p", Float, &[]);
    let scan = |outputs: &[&str]| {
        let with = vec![int("num_scan_inputs", 1), graph_attribute("body", body.0.clone())];
        Sketch::new()
            .input("x", Float, &[3])
            .initializer(TensorProto { dims: vec![], ..tensor("zero", Float, &[0.0]) })
            .node("Scan", &["zero", "x"], outputs, with)
    };
    let x = || vec![tensor1(&[1f32, 2.0, 3.0])];
    let scanned = scan(&["", "y"]).output("y", Float, &[3]).run(x())?;
    assert_eq!(scanned, [tensor1(&[1f32, 3.0, 6.0])]);
    let last = scan(&["y", ""]).output("y", Float, &[]).run(x())?;
    assert_eq!(last, [tensor0(6f32)]);
    let split = Sketch::new()
        .input("x", Float, &[4])
        .node("Split", &["x"], &["y", ""], vec![int("num_outputs", 2)])
        .output("y", Float, &[2]);
    assert_eq!(split.run(vec![tensor1(&[1f32, 2.0, 3.0, 4.0])])?, [tensor1(&[1f32, 2.0])]);
    let places = Sketch::new()
        .input("x", Float, &[3])
        .initializer(int64("k", &[1]))
        .node("TopK", &["x", "k"], &["", "y"], vec![])
        .output("y", Int64, &[1]);
    assert_eq!(places.run(x())?, [tensor1(&[2i64])]);
    Ok(())
}

/// Scanned outputs of one value, or of values made of each other, that are collected in two
/// directions.
#[test]
fn scanned_outputs_have_their_own_directions() -> TractResult<()> {
    let scan = |collected: [&str; 2], directions: &[i64]| {
        let body = Sketch::new()
            .input("a", Float, &[2])
            .input("e", Float, &[2])
            .initializer(TensorProto { dims: vec![], ..tensor("half", Float, &[0.5]) })
            .node("Add", &["a", "e"], &["o"], vec![])
            .node("Mul", &["o", "half"], &["d"], vec![])
            .node("Identity", &["o"], &["p"], vec![])
            .output("o", Float, &[2])
            .output(collected[0], Float, &[2])
            .output(collected[1], Float, &[2]);
        let with = vec![
            int("num_scan_inputs", 1),
            ints("scan_output_directions", directions),
            graph_attribute("body", body.0),
        ];
        Sketch::new()
            .input("x", Float, &[2, 2])
            .initializer(tensor("zero", Float, &[0.0, 0.0]))
            .node("Scan", &["zero", "x"], &["", "y", "z"], with)
            .output("y", Float, &[2, 2])
            .output("z", Float, &[2, 2])
            .run(vec![tensor2(&[[1f32, 2.0], [3.0, 4.0]])])
    };
    let (sums, back) = (tensor2(&[[1f32, 2.0], [4.0, 6.0]]), tensor2(&[[4f32, 6.0], [1.0, 2.0]]));
    let halves = tensor2(&[[0.5f32, 1.0], [2.0, 3.0]]);
    assert_eq!(scan(["d", "p"], &[0, 1])?, [halves, back.clone()]);
    assert_eq!(scan(["p", "p"], &[0, 0])?, [sums.clone(), sums.clone()]);
    assert_eq!(scan(["p", "p"], &[1, 0])?, [back, sums]);
    Ok(())
}

#[test]
fn a_squeeze_without_axes_takes_all_of_size_one() -> TractResult<()> {
    for opset in [1, 11, 13] {
        let mut proto =
            Sketch::new().input("x", Float, &[1, 2, 1]).output("y", Float, &[2]).model();
        let graph = proto.graph.take().map(|mut graph| {
            graph.node.push(node("Squeeze", &["x"], &["y"], vec![]));
            graph
        });
        let proto = model(opset, graph.expect("a graph"));
        let plan = onnx().model_for_proto_model(&proto)?.into_optimized()?.into_runnable()?;
        let x = Tensor::from_shape(&[1, 2, 1], &[1f32, 2.0])?;
        assert_eq!(*plan.run(tvec!(x.into_tvalue()))?[0], tensor1(&[1f32, 2.0]));
    }
    let kept = Sketch::new()
        .input("x", Float, &[1, 2, 1])
        .node("Squeeze", &["x"], &["y"], vec![ints("axes", &[0])])
        .output("y", Float, &[2, 1]);
    let plan = onnx().model_for_proto_model(&model(11, kept.0))?.into_optimized()?;
    assert_eq!(plan.output_fact(0)?.shape.as_concrete(), Some(&[2, 1][..]));
    Ok(())
}

#[test]
fn an_expand_without_a_shape_is_refused() {
    for inputs in [&["x"][..], &[]] {
        let sketch = Sketch::new()
            .input("x", Float, &[2])
            .node("Expand", inputs, &["y"], vec![])
            .output("y", Float, &[2]);
        let lacking = inputs.len();
        let message = format!("lacks input {lacking}, which it needs, the model imports 24");
        assert_eq!(sketch.refusal(), format!("node `Expand_y` (Expand): {message}"));
    }
}

#[test]
fn a_convolution_may_leave_its_last_input_without_a_name() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[1, 1, 3])
        .initializer(raw("w", Float as i32, &[1, 1, 1], &2f32.to_le_bytes()))
        .node("Conv", &["x", "w", ""], &["y"], vec![])
        .output("y", Float, &[1, 1, 3]);
    let x = tensor1(&[1f32, 2., 3.]).into_shape(&[1, 1, 3])?;
    assert_eq!(sketch.run(vec![x])?[0].as_bytes(), tensor1(&[2f32, 4., 6.]).as_bytes());
    Ok(())
}

#[test]
fn an_early_pad_takes_away_in_each_type() -> TractResult<()> {
    for ty in [Float, Float16, Double] {
        for (mode, last) in [("constant", 0f32), ("reflect", 3.), ("edge", 4.)] {
            let mut model = Sketch::new()
                .input("x", ty, &[4])
                .node("Pad", &["x"], &["y"], vec![string("mode", mode), ints("pads", &[-1, 1])])
                .output("y", ty, &[4])
                .model();
            model.opset_import[0].version = 7;
            let of = |values: &[f32]| from_f32(&tensor1(values), ty, Rules::default());
            let plan = onnx().model_for_proto_model(&model)?.into_optimized()?.into_runnable()?;
            let made = plan.run(tvec!(of(&[1., 2., 3., 4.])?.into_tvalue()))?;
            assert_eq!(*made[0], of(&[2., 3., 4., last])?, "{ty} {mode}");
        }
    }
    Ok(())
}

#[test]
fn only_a_constant_pads_by_its_value() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[2])
        .initializer(int64("pads", &[1, 1]))
        .initializer(tensor("value", Float, &[9.0]))
        .node("Pad", &["x", "pads", "value"], &["y"], vec![string("mode", "edge")])
        .output("y", Float, &[4]);
    assert_eq!(sketch.run(vec![tensor1(&[1f32, 2.])])?, [tensor1(&[1f32, 1., 2., 2.])]);
    Ok(())
}
