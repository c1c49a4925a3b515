//! References in DOUBLE and in half precision, and what their conversions may do.

use tract_onnx::pb::{ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType::{self, BFloat16, Double, Float, Float16};

use crate::common::proto::{Change, cast, int, int64, node};
use crate::verdict::{broken, held, judged, of, one, values};

fn number(name: &str, value: i64) -> TensorProto {
    TensorProto { dims: vec![], ..int64(name, &[value]) }
}

fn unary(op: &str, input: &str, made: &str) -> NodeProto {
    node(op, &[input], &[made], vec![]).named(op)
}

/// FLOAT has no number for what DOUBLE makes, and makes no number of it behind.
#[test]
fn what_overflows_in_float_is_no_fault_of_a_conversion_from_double() {
    let model = |ty: ElementType, last: &str| -> ModelProto {
        let nodes = vec![
            cast("x", ty, "d"),
            node("Mul", &["d", "far"], &["m"], vec![]).named("Mul"),
            unary("Exp", "m", "e"),
            unary("Reciprocal", "e", "r"),
            node("Add", &["e", "r"], &["s"], vec![]).named("Add"),
            unary(last, "s", "l"),
            cast("l", Float, "y"),
        ];
        of(&[8, 8], nodes, &[8, 8], vec![one("far", ty, 300.0)])
    };
    let reference = model(Double, "Log");
    let (verdict, node, _) = judged(&reference, &model(Float, "Log"));
    assert_eq!((verdict.as_str(), node.as_str()), ("imprecise", "Exp"));
    let (verdict, node, _) = judged(&reference, &model(Float, "Sqrt"));
    assert_eq!((verdict.as_str(), node.as_str()), ("broken", "Sqrt"));
}

/// What a sequence and an optional hold has been rounded before it is FLOAT again.
#[test]
fn what_has_been_in_a_sequence_or_an_optional_may_be_rounded() {
    let model = |ty: ElementType, at: &str| {
        let piece =
            |made: &str, at: &str| node("SequenceAt", &["s", at], &[made], vec![]).named("at");
        let mut nodes = vec![unary("Tanh", "x", "t")];
        let mut split = "t";
        if ty != Float {
            nodes = vec![cast("x", ty, "h"), unary("Tanh", "h", "t"), cast("t", Float, "f")];
            split = "f";
        }
        nodes.extend([
            node("SplitToSequence", &[split, "two"], &["s"], vec![int("axis", 0)]).named("split"),
            piece("p", at),
            node("Optional", &["p"], &["o"], vec![]).named("optional"),
            node("OptionalGetElement", &["o"], &["g"], vec![]).named("get"),
            node("ConcatFromSequence", &["s"], &["c"], vec![int("axis", 1)]).named("joined"),
            node("MatMul", &["c", "w"], &["m"], vec![]).named("product"),
            node("Add", &["m", "g"], &["y"], vec![]).named("last"),
        ]);
        let held = vec![
            held("w", Float, &[16, 8], &values(128, 3)),
            number("two", 2),
            number("first", 0),
            number("second", 1),
        ];
        of(&[4, 8], nodes, &[2, 8], held)
    };
    let reference = model(Float, "first");
    for ty in [Float16, BFloat16] {
        assert_eq!(judged(&reference, &model(ty, "first")).0, "rounded");
        assert_eq!(judged(&reference, &model(ty, "second")), broken("at", "attribute"));
    }
}

/// Both are made of one model, and the reference is the coarser.
#[test]
fn digits_of_weights_that_the_reference_has_lost_are_no_fault() {
    let model = |ty: ElementType, times: f32| {
        let odd = |count, seed| -> Vec<f32> {
            values(count, seed).iter().map(|x| x * 0.371 * times).collect()
        };
        let nodes = vec![
            cast("x", ty, "h"),
            node("MatMul", &["h", "w"], &["m"], vec![]).named("product"),
            node("Mul", &["m", "factor"], &["s"], vec![]).named("scaled"),
            cast("s", Float, "y"),
        ];
        let held = vec![held("w", ty, &[64, 8], &odd(512, 3)), one("factor", ty, 1.7)];
        of(&[4, 64], nodes, &[4, 8], held)
    };
    for (reference, converted) in
        [(Float16, Float), (BFloat16, Float), (BFloat16, Float16), (Float16, Double)]
    {
        let reference = model(reference, 1.0);
        assert_eq!(judged(&reference, &model(converted, 1.0)).0, "rounded");
        assert_eq!(judged(&reference, &model(converted, 1.02)).0, "broken");
    }
}

/// A converter keeps from vanishing in FLOAT16 what FLOAT has as good as 0.
#[test]
fn what_a_reference_has_kept_from_vanishing_is_no_fault() {
    let model = |ty: ElementType, small: f32| {
        let mut weight = values(64, 3);
        weight.iter_mut().step_by(8).for_each(|w| *w = small);
        let nodes = vec![
            cast("x", ty, "h"),
            node("MatMul", &["h", "w"], &["m"], vec![]).named("product"),
            cast("m", Float, "y"),
        ];
        of(&[4, 8], nodes, &[4, 8], vec![held("w", ty, &[8, 8], &weight)])
    };
    let reference = model(Float16, 2f32.powi(-23));
    assert_eq!(judged(&reference, &model(Float, 1e-18)).0, "rounded");
    assert_eq!(judged(&reference, &model(Float, -1e-6)).0, "broken");
}

/// What the reference casts to BFLOAT16, and takes in FLOAT elsewhere, a conversion may cast to
/// FLOAT16 for both.
#[test]
fn a_cast_to_another_type_is_another_rounding() {
    let model = |ty: ElementType, is_both: bool| {
        let mut nodes = vec![
            cast("x", ty, "h"),
            node("Mul", &["h", "h"], &["m"], vec![]).named("square"),
            cast("m", Float, "f"),
        ];
        let mean = |x: &str, made: &str| node("ReduceMean", &[x], &[made], vec![]).named("mean");
        if is_both {
            nodes.extend([mean("h", "n"), cast("n", Float, "r")])
        } else {
            nodes.push(mean("x", "r"))
        }
        nodes.push(node("Add", &["f", "r"], &["y"], vec![]).named("last"));
        of(&[4, 8], nodes, &[4, 8], vec![])
    };
    assert_eq!(judged(&model(BFloat16, false), &model(Float16, true)).0, "rounded");
}
