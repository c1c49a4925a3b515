//! What a node that ran is to a conversion, by its operator, and the nodes behind a value.

use std::collections::{BTreeSet, HashSet};

use super::doubt::MOVED;
use super::trace::{Ran, Trace};

/// The nodes that compute a value of those where a walk back ends, in their order.
pub(super) fn region<'a>(
    trace: &'a Trace,
    value: &str,
    ends: impl Fn(&str) -> bool,
) -> Vec<&'a Ran> {
    let (mut found, mut next) = (BTreeSet::new(), vec![value]);
    while let Some(value) = next.pop() {
        let Some(place) = trace.place(value) else { continue };
        let Some(ran) = trace.nodes.get(place) else { continue };
        if ran.op != "Constant" && found.insert(place) {
            let taken = ran.inputs.iter().chain(&ran.inside).map(String::as_str);
            next.extend(taken.filter(|input| !ends(input)));
        }
    }
    // There is a region for each value: to ask all nodes each time would go by the square of them.
    found.into_iter().filter_map(|place| trace.nodes.get(place)).collect()
}

/// What conversions add and leave out.
pub(super) fn is_form(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "Cast" | "Identity" | "Constant")
}

/// What takes or makes codes.
pub(super) fn is_of_codes(ran: &Ran) -> bool {
    ["Quantize", "Integer", "QLinear"].iter().any(|part| ran.op.contains(part))
}

/// What multiplies by a weight.
pub(super) fn is_product(ran: &Ran) -> bool {
    ["MatMul", "Gemm", "Conv"].iter().any(|op| ran.op.contains(op))
}

/// What gives elements another shape alone.
pub(super) fn is_shaping(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze")
}

/// What moves elements alone.
pub(super) fn is_moving(ran: &Ran) -> bool {
    MOVED.iter().any(|(op, ..)| *op == ran.op) && !ran.op.contains("Max")
}

/// What is fused into a product.
pub(super) fn is_fused(ran: &Ran) -> bool {
    matches!(ran.op.as_str(), "Add" | "BatchNormalization" | "Mul" | "Reshape" | "Transpose")
}

/// What makes codes of values, or values of codes.
pub(super) fn is_coder(ran: &Ran) -> bool {
    ran.op.ends_with("QuantizeLinear") || ran.op == "DequantizeLinear"
}

/// The constants of a model that are codes, however few they are: what `DequantizeLinear` takes
/// back, also behind what only moves elements, and what a product of codes takes behind that. The
/// few that it takes itself stay what they are: the other factor's doubt has room for their
/// rounding, and what is wrong with them is told.
pub(super) fn codes(trace: &Trace) -> HashSet<String> {
    let taken = trace.nodes.iter().flat_map(|ran| {
        let is_product = ran.op.ends_with("Integer");
        let count = match &*ran.op {
            "DequantizeLinear" => 1,
            _ if is_product => 2,
            _ => 0,
        };
        ran.inputs.iter().take(count).map(move |input| (input, is_product))
    });
    let all = taken.filter_map(|(input, is_product)| {
        let held = before_moves(trace, input)?;
        (!is_product || held != input).then_some(held)
    });
    all.filter(|name| trace.is_constant(name)).map(String::from).collect()
}

/// What nodes that only move elements have made a value of.
fn before_moves<'a>(trace: &'a Trace, value: &'a str) -> Option<&'a str> {
    let mut value = value;
    while let Some(ran) = trace.maker(value).filter(|ran| is_moving(ran)) {
        value = ran.inputs.first()?;
    }
    Some(value)
}
