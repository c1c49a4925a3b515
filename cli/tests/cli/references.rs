//! References in DOUBLE and in half precision, and what their conversions may do.

use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::ElementType::{self, Double, Float};

use crate::common::proto::{Change, cast, node};
use crate::verdict::{judged, of, one};

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
