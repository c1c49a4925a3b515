//! What decluttering makes of casts: no-ops go, casts of casts join, constants are cast once, less
//! is cast where less is used; and the values stay.

use crate::common::cases::root;
use crate::common::proto::{Sketch, int, int64, tensor};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx_cast::interop::OnnxCast;
use tract_onnx_cast::{ElementType, Rules};

use ElementType::{BFloat16, Double, Float, Float8E5M2, Float16, Int8, Int32, Int64, Uint8};

/// A model that casts its input along a chain of types.
fn chain(types: &[ElementType]) -> TypedModel {
    let mut model = TypedModel::default();
    let mut value = model.add_source("x", types[0].datum_type().fact([5usize])).unwrap();
    for (index, pair) in types.windows(2).enumerate() {
        let op = OnnxCast::new("cast", pair[0], pair[1], Rules::default());
        value = model.wire_node(format!("cast{index}"), op, &[value]).unwrap()[0];
    }
    model.select_output_outlets(&[value]).unwrap();
    model
}

/// The types that a chain goes through once it is decluttered.
fn decluttered(types: &[ElementType]) -> Vec<ElementType> {
    let model = chain(types).into_decluttered().unwrap();
    let order = model.eval_order().unwrap();
    let casts = order.iter().filter_map(|id| model.node(*id).op_as::<OnnxCast>());
    let mut through = vec![types[0]];
    for cast in casts {
        assert_eq!(through.last(), Some(&cast.conversion().source()));
        through.push(cast.conversion().target());
    }
    through
}

#[test]
fn chains_become_as_short_as_values_allow() {
    let cases: [(&[ElementType], &[ElementType]); 12] = [
        (&[Float, Float], &[Float]),
        (&[Float, Double, Float], &[Float]),
        (&[Float, Float16, Float], &[Float, Float16, Float]),
        (&[Float16, Float, Double, Float16], &[Float16]),
        (&[Double, Float, Float16], &[Double, Float, Float16]),
        (&[Double, Float, BFloat16], &[Double, Float, BFloat16]),
        (&[BFloat16, Float, Float8E5M2], &[BFloat16, Float8E5M2]),
        (&[Int32, Int64, Float], &[Int32, Float]),
        (&[Int32, Float, Int64], &[Int32, Float, Int64]),
        (&[Float, Int64, Int32], &[Float, Int64, Int32]),
        (&[Float, Int64, Uint8], &[Float, Uint8]),
        (&[Int64, Int32, Uint8, Int8], &[Int64, Int8]),
    ];
    for (given, expected) in cases {
        assert_eq!(decluttered(given), expected, "{given:?}");
    }
}

#[test]
fn a_value_that_is_cast_and_used_stays_where_reading_it_is_cheaper() {
    let mut model = TypedModel::default();
    let x = model.add_source("x", i64::fact([5usize])).unwrap();
    let cast = |from, to| OnnxCast::new("cast", from, to, Rules::default());
    let narrow = model.wire_node("narrow", cast(Int64, Int32), &[x]).unwrap()[0];
    let byte = model.wire_node("byte", cast(Int32, Uint8), &[narrow]).unwrap()[0];
    model.select_output_outlets(&[narrow, byte]).unwrap();
    let model = model.into_decluttered().unwrap();
    let byte = model.node(model.outputs[1].node);
    assert_eq!(byte.op_as::<OnnxCast>().unwrap().conversion().source(), Int32);
}

#[test]
fn constants_are_cast_when_the_model_is_loaded_however_large_they_are() {
    // Beyond what tract itself would fold, and used twice.
    let weights = Tensor::zero::<f16>(&[3 << 20]).unwrap();
    let mut model = TypedModel::default();
    let weights = model.add_const("weights", weights).unwrap();
    let cast = OnnxCast::new("cast", Float16, Float, Rules::default());
    let wide = model.wire_node("wide", cast.clone(), &[weights]).unwrap()[0];
    let other = model.wire_node("other", cast, &[weights]).unwrap()[0];
    model.select_output_outlets(&[wide, other]).unwrap();
    let model = model.into_decluttered().unwrap();
    for outlet in &model.outputs {
        let constant = model.node(outlet.node).op_as::<Const>().expect("a constant");
        assert_eq!(constant.val().datum_type(), DatumType::F32);
    }
}

#[test]
fn a_constant_text_that_is_no_number_fails_with_its_node() {
    let mut model = TypedModel::default();
    let texts = model.add_const("texts", tensor1(&["1".to_string(), "one".into()])).unwrap();
    let cast = OnnxCast::new("reader", ElementType::String, Int32, Rules::default());
    let numbers = model.wire_node("numbers", cast, &[texts]).unwrap();
    model.select_output_outlets(&numbers).unwrap();
    let error = format!("{:#}", model.into_decluttered().unwrap_err());
    assert!(error.contains("reader") || error.contains("numbers"), "{error}");
    assert!(error.contains("\"one\""), "{error}");
}

/// The shapes that casts see in an optimised model.
fn cast_volumes(name: &str) -> Vec<i64> {
    let path = root().join("models/whole").join(name).join("model.onnx");
    let model = tract_onnx_cast::onnx().model_for_path(path).unwrap().into_optimized().unwrap();
    let casts = model.nodes().iter().filter(|node| node.op_is::<OnnxCast>());
    casts.map(|node| node.outputs[0].fact.shape.volume().to_i64().unwrap()).collect()
}

#[test]
fn less_is_cast_where_less_is_used() {
    assert_eq!(cast_volumes("gathered_rows"), [12], "three rows of the table");
    assert_eq!(
        cast_volumes("sliced_and_tiled"),
        [24],
        "the slice, straight to DOUBLE, before it is repeated"
    );
}

/// A sum with 0 makes 0 of −0, which an integer by a positive number never is.
#[test]
fn zeros_are_added_where_they_change_something() {
    for (ty, scale, is_kept) in
        [(Int64, 0.5, false), (Int64, -0.5, true), (Int64, 0., true), (Float16, 0.5, true)]
    {
        let sketch = Sketch::new()
            .input("x", ty, &[2])
            .initializer(tensor("scale", Float, &[scale, 0.25]))
            .initializer(tensor("offset", Float, &[0., 0.]))
            .cast("x", Float, "f")
            .node("Mul", &["f", "scale"], &["p"], vec![])
            .node("Add", &["p", "offset"], &["y"], vec![])
            .output("y", Float, &[2]);
        let plan = sketch.load().unwrap().into_optimized().unwrap();
        let has_sum = plan.nodes().iter().any(|node| node.name.starts_with("Add_"));
        assert_eq!(has_sum, is_kept, "{ty} by {scale}");
        let x = if ty == Int64 { tensor1(&[-3i64, 0]) } else { tensor1(&[-3f32, -0.]) };
        let x = x.cast_to_dt(ty.datum_type()).unwrap().into_owned().into_tvalue();
        let made = plan.into_runnable().unwrap().run(tvec!(x)).unwrap();
        let made = made[0].try_as_plain_ram().unwrap();
        let bits: Vec<u32> =
            made.as_slice::<f32>().unwrap().iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [(-3. * scale + 0.).to_bits(), 0], "{ty} by {scale}");
    }
}

/// Two products that are the same twice over, of values that are the same: tract puts each of two
/// in the other's place.
#[test]
fn products_of_one_value_by_two_names() {
    let sketch = Sketch::new()
        .input("x", ElementType::Float, &[1, 2])
        .input("w", ElementType::Float, &[1])
        .output("y", ElementType::Float, &[1, 2])
        .initializer(int64("one", &[0]))
        .initializer(int64("other", &[0]))
        .node("Unsqueeze", &["w", "one"], &["cosine"], vec![])
        .node("Unsqueeze", &["w", "other"], &["sine"], vec![])
        .node("Split", &["x"], &["real", "imaginary"], vec![int("axis", 1), int("num_outputs", 2)])
        .node("Mul", &["real", "cosine"], &["a"], vec![])
        .node("Mul", &["imaginary", "sine"], &["b"], vec![])
        .node("Mul", &["real", "sine"], &["c"], vec![])
        .node("Mul", &["imaginary", "cosine"], &["d"], vec![])
        .node("Sub", &["a", "b"], &["p"], vec![])
        .node("Add", &["c", "d"], &["q"], vec![])
        .node("Concat", &["p", "q"], &["y"], vec![int("axis", 1)]);
    let made = sketch.run(vec![tensor2(&[[3f32, 5.]]), tensor1(&[-2f32])]).expect("a plan");
    assert_eq!(made, [tensor2(&[[4f32, -16.]])]);
}
