//! INT64 and the unsigned types that tract holds in it keep all their bits, beside shapes and away
//! from them.

use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType;

use crate::common::proto::{Sketch, graph_attribute, int, int64, set_dim, symbol, tensor};

use ElementType::{Float, Int64};

#[test]
fn unsigned_initializers_come_from_their_own_field() -> TractResult<()> {
    for (ty, expected) in [
        (ElementType::Uint32, tensor1(&[7u32, u32::MAX]).cast_to::<i64>()?.into_owned()),
        (ElementType::Uint64, tensor1(&[7i64, i64::from(u32::MAX)])),
    ] {
        let weights = TensorProto {
            name: "w".into(),
            data_type: ty as i32,
            dims: vec![2],
            uint64_data: vec![7, u64::from(u32::MAX)],
            ..Default::default()
        };
        let sketch =
            Sketch::new().initializer(weights).cast("w", Int64, "y").output("y", Int64, &[2]);
        assert_eq!(sketch.run(vec![])?, [expected]);
    }
    Ok(())
}

#[test]
fn int64_is_exact_at_outputs_and_inside() -> TractResult<()> {
    let cast = |from| Sketch::new().input("x", from, &[2]).cast("x", Int64, "y");
    let whole = |from, x: Tensor| cast(from).output("y", Int64, &[2]).run(vec![x]);
    assert_eq!(whole(Int64, tensor1(&[i64::MAX, i64::MIN]))?, [tensor1(&[i64::MAX, i64::MIN])]);
    assert_eq!(
        whole(Float, tensor1(&[1e10f32, -1e10]))?,
        [tensor1(&[10_000_000_000i64, -10_000_000_000])]
    );
    assert_eq!(
        whole(ElementType::Uint32, tensor1(&[u32::MAX, 1 << 31]))?,
        [tensor1(&[4294967295i64, 2147483648])]
    );
    assert_eq!(
        whole(ElementType::Uint64, tensor1(&[1u64 << 40, u64::MAX]))?,
        [tensor1(&[1i64 << 40, -1])]
    );
    let doubled = cast(Float).node("Add", &["y", "y"], &["z"], vec![]).output("z", Int64, &[2]);
    assert_eq!(doubled.run(vec![tensor1(&[1e10f32, 3.0])])?, [tensor1(&[20_000_000_000i64, 6])]);
    Ok(())
}

/// tract would turn the data into symbolic dimensions, by way of 32 bits.
#[test]
fn int64_data_beside_a_shape_is_exact() -> TractResult<()> {
    let sketch = Sketch::new()
        .input("x", Float, &[10])
        .input("e", ElementType::Double, &[1])
        .cast("e", Int64, "v")
        .node("Shape", &["x"], &["s"], vec![])
        .node("Add", &["v", "s"], &["sum"], vec![])
        .node("Concat", &["s", "v"], &["both"], vec![int("axis", 0)])
        .node("Less", &["v", "s"], &["less"], vec![])
        .output("sum", Int64, &[1])
        .output("both", Int64, &[2])
        .output("less", ElementType::Bool, &[1]);
    let outputs = sketch.run(vec![Tensor::zero::<f32>(&[10])?, tensor1(&[1e10f64])])?;
    let expected =
        [tensor1(&[10_000_000_010i64]), tensor1(&[10, 10_000_000_000i64]), tensor1(&[false])];
    assert_eq!(outputs, expected);
    Ok(())
}

/// A shape of [2, 3] and what it meets on the way to the output `y`.
fn beside_shape(extend: impl FnOnce(Sketch) -> Sketch) -> TractResult<Tensor> {
    let sketch = Sketch::new().input("x", Float, &[2, 3]).input("d", Int64, &[2]).node(
        "Shape",
        &["x"],
        &["s"],
        vec![],
    );
    let inputs = vec![Tensor::zero::<f32>(&[2, 3])?, tensor1(&[1i64 << 40, 0])];
    Ok(extend(sketch).output("y", Int64, &[2]).run(inputs)?.remove(0))
}

#[test]
fn wide_numbers_beside_shapes_are_exact_wherever_they_come_from() -> TractResult<()> {
    let max = |s: Sketch| s.initializer(int64("max", &[i64::MAX]));
    let clipped = beside_shape(|s| max(s).node("Min", &["s", "max"], &["y"], vec![]))?;
    assert_eq!(clipped, tensor1(&[2i64, 3]));
    let scaled = beside_shape(|s| {
        s.initializer(int64("k", &[10_000_000_000])).node("Mul", &["s", "k"], &["y"], vec![])
    })?;
    assert_eq!(scaled, tensor1(&[20_000_000_000i64, 30_000_000_000]));
    let folded = beside_shape(|s| {
        s.initializer(tensor("k", Float, &[1e10])).cast("k", Int64, "wide").node(
            "Add",
            &["s", "wide"],
            &["y"],
            vec![],
        )
    })?;
    assert_eq!(folded, tensor1(&[10_000_000_002i64, 10_000_000_003]));
    let derived = beside_shape(|s| {
        s.initializer(tensor("k", ElementType::Double, &[1e10]))
            .cast("s", ElementType::Double, "float")
            .node("Mul", &["float", "k"], &["big"], vec![])
            .cast("big", Int64, "wide")
            .node("Add", &["s", "wide"], &["y"], vec![])
    })?;
    assert_eq!(derived, tensor1(&[20_000_000_002i64, 30_000_000_003]));
    let moved = beside_shape(|s| {
        s.initializer(int64("i", &[1, 0]))
            .node("Mul", &["d", "i"], &["index"], vec![])
            .initializer(int64("zero", &[0, 0]))
            .node("Mul", &["index", "zero"], &["first"], vec![])
            .node("Gather", &["s", "first"], &["picked"], vec![])
            .node("Add", &["picked", "d"], &["y"], vec![])
    })?;
    assert_eq!(moved, tensor1(&[(1i64 << 40) + 2, 2]));
    Ok(())
}

#[test]
fn a_branch_may_return_a_shape_and_the_other_data() -> TractResult<()> {
    let then = Sketch::new().node("Identity", &["s"], &["b"], vec![]).output("b", Int64, &[2]);
    let other = Sketch::new().node("Identity", &["d"], &["b"], vec![]).output("b", Int64, &[2]);
    let branches =
        vec![graph_attribute("then_branch", then.0), graph_attribute("else_branch", other.0)];
    let outputs = Sketch::new()
        .input("c", ElementType::Bool, &[])
        .input("x", Float, &[2, 3])
        .input("d", Int64, &[2])
        .node("Shape", &["x"], &["s"], vec![])
        .node("If", &["c"], &["chosen"], branches)
        .node("Add", &["chosen", "d"], &["y"], vec![])
        .output("y", Int64, &[2])
        .run(vec![tensor0(true), Tensor::zero::<f32>(&[2, 3])?, tensor1(&[1i64 << 40, 0])])?;
    assert_eq!(outputs, [tensor1(&[(1i64 << 40) + 2, 3])]);
    Ok(())
}

#[test]
fn a_shape_leaves_the_model_as_numbers() -> TractResult<()> {
    let mut sketch = Sketch::new()
        .input("x", Float, &[1, 3])
        .node("Shape", &["x"], &["s"], vec![])
        .cast("s", Int64, "y")
        .output("y", Int64, &[2])
        .output("s", Int64, &[2]);
    set_dim(&mut sketch.0.input[0], 0, symbol("batch"));
    let outputs = sketch.run(vec![Tensor::zero::<f32>(&[5, 3])?])?;
    assert_eq!(outputs, [tensor1(&[5i64, 3]), tensor1(&[5i64, 3])]);
    Ok(())
}
