//! Scales and limits, which are floats.

use onnx_cast_graph::Node;

use super::{Asked, Role};

/// What a node asks of a float that it takes at a place for how it works.
pub(super) fn of(node: &Node, place: usize) -> Option<Asked> {
    let within =
        |low: f64, high: f64, how: &str| Some((85, Role::Within { low, high }, how.to_owned()));
    match (node.op_type.as_str(), place) {
        ("Resize", 2) | ("Upsample", 1) => within(1.0, 2.0, "scales by it"),
        ("Clip", 1) => within(-1.0, 0.0, "takes it for the least value"),
        ("Clip", 2) => within(0.5, 2.0, "takes it for the largest value"),
        ("QuantizeLinear" | "DequantizeLinear", 1)
        | ("QLinearConv" | "QLinearMatMul", 1 | 4 | 6) => within(0.01, 0.1, "takes it for a scale"),
        // That is all that it may be in these types.
        ("QuantizeLinear" | "DequantizeLinear", 2) => within(0.0, 0.0, "takes it for a zero point"),
        ("Range", 0) => within(0.0, 0.0, "begins there"),
        ("Range", 1) => within(3.0, 6.0, "ends there"),
        ("Range", 2) => within(0.5, 1.0, "takes it for a step"),
        ("OneHot", 1) => within(4.0, 4.0, "takes it for a depth"),
        _ => None,
    }
}
