//! Where inputs that nobody gives are exactly what makes operators part: numbers that they are
//! compared with, rows of zeros, the edges of an image.

use tract_onnx::pb::{ModelProto, NodeProto, TensorProto, ValueInfoProto};
use tract_onnx_cast::ElementType::{Float, Int64};

use crate::common::proto::{cast, int, int64, ints, node, shaped, string, symbol, value};
use crate::looked::{compared, of, open, scalar};
use crate::verdict::{held, values};

/// The ruined model is told from the original, which passes.
fn assert_told_apart(original: &ModelProto, ruined: &ModelProto, arguments: &[&str]) {
    compared(0, [original, original], arguments);
    compared(1, [original, ruined], arguments);
}

fn of_x(x: ValueInfoProto, nodes: &[NodeProto], constants: Vec<TensorProto>) -> ModelProto {
    of(&[x], nodes, constants)
}

#[test]
fn a_comparison_that_differs_at_one_number_alone_is_found() {
    let compared = |op: &str, x: &ValueInfoProto, limit: f32| {
        let nodes = [
            node("Sub", &["x", "mean"], &["moved"], vec![]),
            node("Mul", &["moved", "factor"], &["line"], vec![]),
            node(op, &["line", "limit"], &["is"], vec![]),
            cast("is", Float, "y"),
        ];
        let constants = vec![scalar("limit", limit), scalar("mean", 0.5), scalar("factor", 2.0)];
        of_x(x.clone(), &nodes, constants)
    };
    for x in [value("x", Float, &[3, 4]), open("x", Float, &["batch", "2"]), value("x", Float, &[])]
    {
        for limit in [0.0, 6.0, 70.0] {
            let models = ["Greater", "GreaterOrEqual"].map(|op| compared(op, &x, limit));
            assert_told_apart(&models[0], &models[1], &["--search", "0"]);
        }
    }
}

/// A branch that is chosen by the largest value, far beyond what is usual.
#[test]
fn what_only_the_largest_value_decides_is_decided_both_ways() {
    let chosen = |op: &str| {
        let nodes = [
            node("ReduceMax", &["x"], &["most"], vec![int("keepdims", 0)]),
            node("Greater", &["most", "limit"], &["is"], vec![]),
            node(op, &["x"], &["far"], vec![]),
            node("Tanh", &["x"], &["near"], vec![]),
            node("Where", &["is", "far", "near"], &["y"], vec![]),
        ];
        of_x(open("x", Float, &["batch", "8"]), &nodes, vec![scalar("limit", 700.0)])
    };
    assert_told_apart(&chosen("Sigmoid"), &chosen("Erf"), &["--search", "0"]);
}

/// They differ below 0 alone.
#[test]
fn what_is_left_of_a_division_is_looked_at_below_zero() {
    let left = |fmod: i64| {
        let nodes = [node("Mod", &["x", "seven"], &["y"], vec![int("fmod", fmod)])];
        let mut model = of_x(value("x", Int64, &[16]), &nodes, vec![int64("seven", &[7])]);
        let graph = model.graph.as_mut().expect("a graph");
        graph.output[0] = value("y", Int64, &[16]);
        model
    };
    assert_told_apart(&left(0), &left(1), &["--search", "0"]);
}

#[test]
fn the_end_of_a_clip_is_met() {
    let clipped = |most: f32| {
        let nodes = [node("Clip", &["x", "least", "most"], &["y"], vec![])];
        of_x(value("x", Float, &[2, 8]), &nodes, vec![scalar("least", -1.0), scalar("most", most)])
    };
    for most in [5.98, 6.02] {
        assert_told_apart(&clipped(6.0), &clipped(most), &["--search", "0"]);
    }
}

/// A norm of nothing.
#[test]
fn a_row_holds_nothing_but_zeros() {
    let normal = |x: ValueInfoProto, axis: i64, least: f32| {
        let nodes = [
            node("ReduceL2", &["x"], &["norm"], vec![int("keepdims", 1)]),
            node("Max", &["norm", "least"], &["held"], vec![]),
            node("Div", &["x", "held"], &["y"], vec![]),
        ];
        let mut model = of_x(x, &nodes, vec![scalar("least", least)]);
        let graph = model.graph.as_mut().expect("a graph");
        graph.node[0].attribute.push(ints("axes", &[axis]));
        model
    };
    for (shape, axis) in [(&[3, 8][..], -1), (&[1, 4, 6, 6], 1), (&[1, 8], -1)] {
        let models = [1e-6, 0.0].map(|least| normal(value("x", Float, shape), axis, least));
        assert_told_apart(&models[0], &models[1], &[]);
    }
}

/// The mean of what is not masked, where all is.
#[test]
fn a_mask_hides_a_whole_row_where_no_softmax_needs_what_is_left() {
    let inputs = [open("x", Float, &["batch", "seq"]), open("mask", Int64, &["batch", "seq"])];
    let mean = |least: f32| {
        let nodes = [
            cast("mask", Float, "kept"),
            node("Mul", &["x", "kept"], &["part"], vec![]),
            node("ReduceSum", &["part", "axis"], &["sum"], vec![]),
            node("ReduceSum", &["kept", "axis"], &["count"], vec![]),
            node("Max", &["count", "least"], &["held"], vec![]),
            node("Div", &["sum", "held"], &["y"], vec![]),
        ];
        of(&inputs, &nodes, vec![int64("axis", &[1]), scalar("least", least)])
    };
    assert_told_apart(&mean(1.0), &mean(0.0), &["--search", "0"]);
}

#[test]
fn images_whose_sizes_are_all_open_are_large() {
    let x = || shaped("x", Float, ["n", "c", "h", "w"].map(symbol).into());
    let cut = |end: i64| {
        let nodes = [
            node("Slice", &["x", "start", "end", "axis"], &["part"], vec![]),
            node("GlobalAveragePool", &["part"], &["y"], vec![]),
        ];
        of_x(x(), &nodes, vec![int64("start", &[0]), int64("end", &[end]), int64("axis", &[2])])
    };
    assert_told_apart(&cut(1 << 30), &cut(200), &["--search", "0"]);
}

#[test]
fn grids_end_beyond_the_image() {
    let inputs = [value("x", Float, &[1, 2, 5, 6]), value("grid", Float, &[1, 4, 4, 2])];
    let sampled = |padding: &str| {
        let nodes = [
            node("Mul", &["grid", "half"], &["places"], vec![]),
            node("GridSample", &["x", "places"], &["y"], vec![string("padding_mode", padding)]),
        ];
        of(&inputs, &nodes, vec![scalar("half", 0.5)])
    };
    assert_told_apart(&sampled("zeros"), &sampled("border"), &["--search", "0"]);
}

/// What is left out rounds to a whole number, and the `Cast` behind it cuts off what it does not.
#[test]
fn whole_numbers_are_not_rounded_once_more() {
    let counted = |rounded: &[&str]| {
        let mut nodes = vec![
            node("MatMul", &["x", "w"], &["p"], vec![]),
            node("Mul", &["p", "hundred"], &["far"], vec![]),
        ];
        nodes.extend(rounded.iter().map(|op| node(op, &["far"], &["whole"], vec![])));
        let last = if rounded.is_empty() { "far" } else { "whole" };
        nodes.extend([
            cast(last, Int64, "count"),
            cast("count", Float, "number"),
            node("Mul", &["number", "hundredth"], &["y"], vec![]),
        ]);
        let w = held("w", Float, &[8, 8], &values(64, 3));
        let constants = vec![w, scalar("hundred", 100.0), scalar("hundredth", 0.01)];
        of_x(value("x", Float, &[4, 8]), &nodes, constants)
    };
    for op in ["Round", "Ceil", "Floor"] {
        assert_told_apart(&counted(&[op]), &counted(&[]), &["--sets", "1"]);
    }
}

/// Of values that are the same, one by one.
#[test]
fn a_tie_falls_as_the_operator_says() {
    let chosen = |last: i64| {
        let nodes = [
            node("MatMul", &["x", "w"], &["p"], vec![]),
            node("Round", &["p"], &["whole"], vec![]),
            node(
                "ArgMax",
                &["whole"],
                &["place"],
                vec![int("axis", -1), int("keepdims", 0), int("select_last_index", last)],
            ),
            node("Gather", &["table", "place"], &["y"], vec![]),
        ];
        let constants = vec![
            held("w", Float, &[8, 8], &values(64, 3)),
            held("table", Float, &[8, 4], &values(32, 5)),
        ];
        of_x(value("x", Float, &[16, 8]), &nodes, constants)
    };
    assert_told_apart(&chosen(0), &chosen(1), &["--sets", "1"]);
}
