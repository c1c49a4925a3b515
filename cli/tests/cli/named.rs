//! The node that is named first, where something beside it looks as wrong.

use tract_onnx_cast::ElementType::{Float, Float16, Int8, Int32, Uint8};

use crate::common::proto::{Change, cast, node};
use crate::culprits::{chain, dynamic};
use crate::verdict::{add, broken, coded, held, judged, one, values, verdict};

/// A weight of FLOAT16 has few digits where it is small.
#[test]
fn a_node_that_was_added_is_named_and_not_the_weight_behind_it() {
    let mut weight = values(64, 1);
    weight.iter_mut().step_by(5).for_each(|w| *w *= 1e-5);
    let product = |x: &str| node("MatMul", &[x, "w"], &["p"], vec![]).named("product");
    let relu = |x: &str| node("Relu", &[x], &["r"], vec![]).named("relu");
    let last = |made: &str| node("Tanh", &["p"], &[made], vec![]).named("last");
    let weights = |ty| vec![held("w", ty, &[8, 8], &weight)];
    let reference = chain(vec![relu("x"), product("r"), last("y")], weights(Float));
    let added = node("Neg", &["r"], &["n"], vec![]).named("added");
    let nodes = vec![cast("x", Float16, "h"), relu("h"), added, product("n")];
    let nodes = [nodes, vec![last("t"), cast("t", Float, "y")]].concat();
    assert_eq!(judged(&reference, &chain(nodes, weights(Float16))), broken("added", "added_node"));
}
