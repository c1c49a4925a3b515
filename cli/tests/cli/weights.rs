//! What a conversion did to weights, and what the original excuses: `compare`, and `audit
//! --baseline`.

use serde_json::{Value, json};
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx::prelude::*;
use tract_onnx_cast::{Conversion, ElementType, Rules, tensor_proto};

use crate::common::proto::{Change, graph, int, int64, model, node, value};
use crate::program::{Folder, cast, json, refused, said};
use ElementType::{Bool, Float, Float8E4M3FN, Float16, Int8, Int16, Int64, String};

/// A model of these nodes that holds weights: the type, and FLOAT values that are cast to it.
fn holding(
    inputs: &[(&str, ElementType, &[i64])],
    nodes: &[NodeProto],
    output: (&str, ElementType, &[i64]),
    weights: &[(&str, ElementType, Tensor)],
) -> ModelProto {
    let inputs: Vec<_> = inputs.iter().map(|(name, ty, shape)| value(name, *ty, shape)).collect();
    let mut graph = graph(&inputs, nodes, &[value(output.0, output.1, output.2)]);
    graph.initializer = weights.iter().map(|(name, ty, tensor)| held(name, *ty, tensor)).collect();
    model(19, graph)
}

fn held(name: &str, ty: ElementType, floats: &Tensor) -> tract_onnx::pb::TensorProto {
    let cast = Conversion::new(Float, ty, Rules::default()).run(floats).expect("a cast");
    tensor_proto::write(name, ty, &cast).expect("a tensor")
}

/// Sixteen different numbers.
fn numbers() -> Vec<f32> {
    (0..16).map(|place| (place * 37 % 16) as f32 / 3.0 - 2.0).collect()
}

fn matrix(numbers: &[f32]) -> Tensor {
    tensor1(numbers).into_shape(&[4, 4]).expect("a matrix")
}

/// `y` is `x` times a matrix of this type.
fn product(ty: ElementType, weight: &[f32]) -> ModelProto {
    let nodes = match ty {
        Float => vec![node("MatMul", &["x", "w"], &["y"], vec![])],
        _ => vec![
            cast("down", "x", "h", ty),
            node("MatMul", &["h", "w"], &["p"], vec![]),
            cast("up", "p", "y", Float),
        ],
    };
    let weights = [("w", ty, matrix(weight))];
    holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights)
}

fn compared(status: i32, arguments: &[&str]) -> Value {
    json(&said(status, &[&["compare", "--json"], arguments].concat()))["comparisons"][0].clone()
}

#[test]
fn a_weight_that_is_rounded_is_no_finding() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &product(Float, &numbers()));
    let b = folder.message("b.onnx", &product(Float16, &numbers()));
    let weights = &compared(0, &[&a, &b, "--sqnr", "40"])["weights"];
    assert_eq!(
        (&weights["compared"], &weights["rounded"], &weights["changed"]),
        (&json!(1), &json!(1), &json!([]))
    );
    said(0, &["audit", &b, "--baseline", &a]);
}

#[test]
fn a_weight_that_is_clipped_is_named() {
    let folder = Folder::new();
    let mut weight = numbers();
    weight[6] = 20000.0;
    let a = folder.message("a.onnx", &product(Float, &weight));
    weight[6] = 10000.0;
    let b = folder.message("b.onnx", &product(Float16, &weight));
    for tolerance in ["0.1", "1e9"] {
        let report = compared(1, &[&a, &b, "--atol", tolerance]);
        let changed = &report["weights"]["changed"][0];
        assert_eq!((&changed["name"], &changed["is_error"]), (&json!("w"), &json!(true)));
        assert_eq!(
            (&changed["outcomes"]["clipped"], &changed["max_abs"]),
            (&json!(1), &json!(1e4))
        );
        assert!(changed["largest"].as_str().expect("a place").contains("[1, 2]"), "{changed}");
    }
    let text = said(1, &["audit", &b, "--baseline", &a]);
    assert!(text.contains("wrong weight `w` (FLOAT → FLOAT16): of 16 values 1 clipped"), "{text}");
    assert!(text.contains("beyond the limits: weight `w`"), "{text}");
    said(0, &["audit", &b, "--sets", "1"]);
}

#[test]
fn what_stands_for_an_infinity_may_be_cut_off() {
    let folder = Folder::new();
    let masked = |ty, mask: f32| {
        let nodes = match ty {
            Float => vec![
                node("Where", &["c", "mask", "x"], &["q"], vec![]),
                node("Softmax", &["q"], &["y"], vec![]),
            ],
            _ => vec![
                cast("down", "x", "h", ty),
                node("Where", &["c", "mask", "h"], &["p"], vec![]),
                cast("up", "p", "q", Float),
                node("Softmax", &["q"], &["y"], vec![]),
            ],
        };
        let weights = [("mask", ty, tensor0(mask))];
        let inputs: [(&str, ElementType, &[i64]); 2] = [("x", Float, &[4]), ("c", Bool, &[4])];
        folder
            .message(&format!("{ty}.onnx"), &holding(&inputs, &nodes, ("y", Float, &[4]), &weights))
    };
    let (a, b) = (masked(Float, f32::MIN), masked(Float16, -10000.0));
    let c = format!("c={}", folder.tensor("c.pb", Bool, tensor1(&[true, false, false, true])));
    let report = compared(0, &[&a, &b, "-i", &c, "--atol", "0.01"]);
    let changed = &report["weights"]["changed"][0];
    assert_eq!((&changed["name"], &changed["is_error"]), (&json!("mask"), &json!(false)));
    // It is no place where the models part either.
    let report = compared(1, &[&a, &b, "-i", &c, "--atol", "1e-9"]);
    for place in ["first_difference", "largest_jump"] {
        assert_ne!(report[place]["tensor"]["name"], "q", "{place}");
    }
    assert_eq!(report["first_difference"]["tensor"]["name"], "y");
    // FLOAT16 holds this one, and onnxconverter-common cuts it off all the same.
    let a = masked(Float, -65504.0);
    assert_eq!(compared(0, &[&a, &b, "-i", &c])["verdict"], "rounded");
    let other = masked(Float16, -3000.0);
    assert_eq!(compared(1, &[&a, &other, "-i", &c])["verdict"], "broken");
}

#[test]
fn a_row_that_no_input_reads_is_not_equal() {
    let folder = Folder::new();
    let table = |off: f32| {
        let mut numbers = numbers();
        numbers[8..12].iter_mut().for_each(|number| *number += off);
        let nodes = [node("Gather", &["table", "ids"], &["y"], vec![])];
        let weights = [("table", Float, matrix(&numbers))];
        holding(&[("ids", Int64, &[2])], &nodes, ("y", Float, &[2, 4]), &weights)
    };
    let a = folder.message("a.onnx", &table(0.0));
    let b = folder.message("b.onnx", &table(5.0));
    let ids = |ids: &[i64]| format!("ids={}", folder.tensor("ids.pb", Int64, tensor1(ids)));
    let report = compared(1, &[&a, &b, "-i", &ids(&[0, 1])]);
    assert_eq!(report["identical"], json!(true));
    let changed = &report["weights"]["changed"][0];
    let unread = changed["unexercised"].as_str().expect("a row");
    assert!(unread.contains("no run has read the row 2 where values differ"), "{unread}");
    let rows = &report["unexercised"][0];
    for (heading, fact) in [("weight", changed), ("unexercised", rows)] {
        let named = fact.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        let mut documented = crate::reports::documented(heading);
        documented.retain(|name| !named.contains(name));
        assert_eq!(documented, [""; 0], "{heading}");
    }
    assert_eq!((&rows["kind"], &rows["name"]), (&json!("rows"), &json!("table")));
    assert_eq!((&rows["seen"], &rows["total"]), (&json!(2), &json!(4)));
    let text = said(1, &["compare", &a, &b, "-i", &ids(&[0, 1])]);
    assert!(!text.contains("exactly equal"), "{text}");
    assert!(text.contains("off by 5") && text.contains("[2, "), "{text}");
    // The same row from the other end.
    let report = compared(1, &[&a, &b, "-i", &ids(&[0, -2])]);
    assert_eq!(report["weights"]["changed"][0]["unexercised"], Value::Null);
    assert!(said(0, &["compare", &a, &a, "-i", &ids(&[0, 1])]).contains("exactly equal"));
}

#[test]
fn a_branch_that_did_not_run_is_told() {
    let folder = Folder::new();
    let branches = |factor: f32| {
        use crate::common::proto::{graph_attribute, unshaped};
        let branch = |op: &str, weight: &str, to: &str, number: f32| {
            let nodes = [node(op, &["x", weight], &[to], vec![])];
            let mut branch = graph(&[], &nodes, &[unshaped(to, Float)]);
            branch.initializer = vec![held(weight, Float, &tensor1(&[number; 4]))];
            branch
        };
        let attributes = vec![
            graph_attribute("then_branch", branch("Add", "one", "a", 1.0)),
            graph_attribute("else_branch", branch("Mul", "factor", "b", factor)),
        ];
        let nodes = [node("If", &["c"], &["y"], attributes)];
        let inputs: [(&str, ElementType, &[i64]); 2] = [("x", Float, &[4]), ("c", Bool, &[])];
        holding(&inputs, &nodes, ("y", Float, &[4]), &[])
    };
    let a = folder.message("a.onnx", &branches(1.0));
    let b = folder.message("b.onnx", &branches(3.0));
    let c = format!("c={}", folder.tensor("c.pb", Bool, tensor0(true)));
    let report = compared(1, &[&a, &b, "-i", &c]);
    assert_eq!(report["unexercised"][0]["kind"], json!("branch"));
    let changed = &report["weights"]["changed"][0];
    assert_eq!(
        (&changed["name"], &changed["graph"]),
        (&json!("factor"), &json!("If_y.else_branch"))
    );
    said(0, &["compare", &a, &a, "-i", &c]);
}

#[test]
fn a_weight_that_is_stored_narrow_is_compared_as_it_is_used() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &product(Float, &numbers()));
    let stored = |numbers: &[f32]| {
        let nodes = [
            cast("wide", "codes", "half", Float),
            node("Mul", &["half", "scale"], &["w"], vec![]),
            node("MatMul", &["x", "w"], &["y"], vec![]),
        ];
        let scaled: Vec<f32> = numbers.iter().map(|number| number * 8.0).collect();
        let weights =
            [("codes", Float8E4M3FN, matrix(&scaled)), ("scale", Float, tensor0(0.125f32))];
        holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights)
    };
    let b = folder.message("b.onnx", &stored(&numbers()));
    let weights = &compared(0, &[&a, &b, "--atol", "2", "--sets", "1"])["weights"];
    assert_eq!((&weights["rounded"], &weights["changed"]), (&json!(1), &json!([])));
    assert_eq!(weights["unpaired_converted"], json!([]));
    let mut wrong = numbers();
    wrong[5] += 5.0;
    let b = folder.message("b.onnx", &stored(&wrong));
    let weights = &compared(1, &[&a, &b, "--atol", "100"])["weights"];
    assert_eq!(weights["changed"][0]["name"], json!("w"));
}

#[test]
fn renamed_weights_are_paired_by_their_values() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &product(Float, &numbers()));
    let mut renamed = numbers();
    renamed[3] += 4.0;
    let mut b = product(Float, &renamed);
    let graph = b.graph.as_mut().expect("a graph");
    graph.initializer[0].name = "onnx::MatMul_7".into();
    graph.node[0].input[1] = "onnx::MatMul_7".into();
    let b = folder.message("b.onnx", &b);
    let changed = &compared(1, &[&a, &b, "--atol", "1e9"])["weights"]["changed"][0];
    assert_eq!((&changed["name"], &changed["paired_by"]), (&json!("w"), &json!("values")));
    assert_eq!(changed["converted_name"], json!("onnx::MatMul_7"));
}

// ---- The original ----

/// The product with a matrix of INT8 codes and a scale: dequantised before, or, as dynamic
/// quantisation has it, scaled behind.
fn quantized(is_dynamic: bool, codes: &[f32]) -> ModelProto {
    let nodes = if is_dynamic {
        vec![
            node("DynamicQuantizeLinear", &["x"], &["x_q", "x_scale", "x_zero"], vec![]),
            node("MatMulInteger", &["x_q", "w_quantized", "x_zero", "w_zero"], &["p"], vec![]),
            cast("wide", "p", "f", Float),
            node("Mul", &["x_scale", "w_scale"], &["scale"], vec![]),
            node("Mul", &["f", "scale"], &["h"], vec![]),
            node("Neg", &["h"], &["y"], vec![]),
        ]
    } else {
        vec![
            node("DequantizeLinear", &["w_quantized", "w_scale", "w_zero"], &["w_dq"], vec![]),
            node("MatMul", &["x", "w_dq"], &["h"], vec![]).named("multiply"),
            node("Neg", &["h"], &["y"], vec![]),
        ]
    };
    let weights = [
        ("w_quantized", Int8, matrix(codes)),
        ("w_scale", Float, tensor0(0.25f32)),
        ("w_zero", Int8, tensor0(0f32)),
    ];
    holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights)
}

/// The values are all wrong, so that nothing but the place, or what the codes mean, tells which
/// weight it is.
#[test]
fn a_quantised_weight_has_its_counterpart() {
    let codes: Vec<f32> = (0..16).map(|place| (place * 37 % 16) as f32 - 8.0).collect();
    let weight: Vec<f32> = codes.iter().map(|code| code / 4.0 + 0.01).collect();
    let nodes = [
        node("MatMul", &["x", "w"], &["h"], vec![]).named("multiply"),
        node("Neg", &["h"], &["y"], vec![]),
    ];
    let weights = [("w", Float, matrix(&weight))];
    let original = holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights);
    let folder = Folder::new();
    let a = &folder.message("a.onnx", &original);
    let turned: Vec<f32> = codes.iter().rev().copied().collect();
    for (is_dynamic, name, paired_by) in
        [(true, Value::Null, "name"), (false, json!("w_dq"), "place")]
    {
        let good = &folder.message("good.onnx", &quantized(is_dynamic, &codes));
        let bad = &folder.message("bad.onnx", &quantized(is_dynamic, &turned));
        let weights = &compared(0, &[a, good, "--cosine", "0.99"])["weights"];
        assert_eq!((&weights["compared"], &weights["changed"]), (&json!(1), &json!([])));
        let weights = &compared(1, &[a, bad, "--cosine", "0.99"])["weights"];
        let changed = &weights["changed"][0];
        assert_eq!((&changed["name"], &changed["converted_name"]), (&json!("w"), &name));
        assert_eq!(
            (&changed["paired_by"], &changed["is_error"]),
            (&json!(paired_by), &json!(true))
        );
    }
}

/// The integral part of the logarithm of `x`, with 0 where that has none: as FLOAT or FLOAT16.
fn logarithm(ty: ElementType) -> ModelProto {
    let nodes = [
        cast("narrow", "x", "h", ty),
        node("Relu", &["h"], &["r"], vec![]),
        node("Log", &["r"], &["l"], vec![]),
        cast("whole", "l", "i", Int64),
        cast("is_positive", "r", "m", Bool),
        cast("mask", "m", "n", Int64),
        node("Mul", &["i", "n"], &["y"], vec![]),
    ];
    holding(&[("x", Float, &[3])], &nodes, ("y", Int64, &[3]), &[])
}

#[test]
fn what_the_original_does_as_well_is_excused() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &logarithm(Float));
    let b = folder.message("b.onnx", &logarithm(Float16));
    let x = format!("x={}", folder.tensor("x.pb", Float, tensor1(&[-1f32, 3.0, 100.0])));
    said(1, &["audit", &a, "-i", &x]);
    let text = said(1, &["audit", &b, "-i", &x]);
    assert!(text.contains("beyond the limits: `Log_l`: made_infinite 1"), "{text}");
    let text = said(0, &["audit", &b, "-i", &x, "--baseline", &a]);
    assert!(text.contains("as in the original: `whole`: undefined 1"), "{text}");
    assert!(text.contains("as in the original: `Log_l`: made_infinite 1"), "{text}");
    // Twice as much is not excused.
    let low = format!("x={}", folder.tensor("low.pb", Float, tensor1(&[1e-9f32, -1.0, 3.0])));
    let text = said(1, &["audit", &b, "-i", &low, "--baseline", &a]);
    assert!(text.contains("beyond the limits: `whole`: undefined 2"), "{text}");
}

#[test]
fn a_baseline_that_is_none_is_refused() {
    let folder = Folder::new();
    let b = folder.message("b.onnx", &product(Float16, &numbers()));
    let other = {
        let nodes =
            [node("Sigmoid", &["x"], &["s"], vec![]), node("MatMul", &["s", "v"], &["y"], vec![])];
        let weights = [("v", Float, matrix(&[1.0, 9.0, 4.0, 7.0].repeat(4)))];
        holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights)
    };
    let other = folder.message("other.onnx", &other);
    let line = refused(&["audit", &b, "--baseline", &other]);
    assert!(line.contains("shares no weight"), "{line}");
    let inputs = folder.message("inputs.onnx", &logarithm(Float));
    let line = refused(&["audit", &b, "--baseline", &inputs]);
    assert!(line.contains("baseline has other inputs"), "{line}");
}

/// Inputs are small here, and outputs of 8 MiB: all of them would not fit into a gibibyte.
#[test]
fn outputs_are_held_against_the_original_a_set_at_a_time() {
    let nodes = [
        cast("widen", "x", "d", ElementType::Double),
        node("Expand", &["d", "shape"], &["y"], vec![]),
    ];
    let mut graph =
        graph(&[value("x", Float, &[1])], &nodes, &[value("y", ElementType::Double, &[1 << 20])]);
    graph.initializer = vec![int64("shape", &[1 << 20])];
    let folder = Folder::new();
    let a = folder.message("a.onnx", &model(19, graph));
    let sets = ["--sets", "90", "--max-memory", "1"];
    said(0, &[&["audit", &a, "--baseline", &a][..], &sets].concat());
}

/// As long as a few parts that are read at once, and some more.
const LONG: usize = (1 << 19) + 1000;

/// `y` is `x` and a long weight.
fn long(ty: ElementType, numbers: &[f32]) -> ModelProto {
    let nodes = [cast("up", "w", "wide", Float), node("Add", &["x", "wide"], &["y"], vec![])];
    let weights = [("w", ty, tensor1(numbers))];
    let size = LONG as i64;
    holding(&[("x", Float, &[size])], &nodes, ("y", Float, &[size]), &weights)
}

#[test]
fn weights_alone_are_compared_without_a_run() {
    let folder = Folder::new();
    let mut numbers: Vec<f32> = (0..LONG).map(|x| (x % 4096) as f32 / 3.0 + 0.5).collect();
    let a = folder.message("a.onnx", &long(Float, &numbers));
    let b = folder.message("b.onnx", &long(Float16, &numbers));
    let report = compared(0, &[&a, &b, "--weights-only"]);
    let weights = &report["weights"];
    assert_eq!((&report["is_of_weights"], &report["outputs"]), (&json!(true), &json!([])));
    assert_eq!((&report["sets"], &report["identical"]), (&json!(0), &json!(false)));
    assert_eq!((&weights["compared"], &weights["rounded"]), (&json!(1), &json!(1)));
    let same = compared(0, &[&a, &a, "--weights-only"]);
    assert_eq!((&same["identical"], &same["weights"]["exact"]), (&json!(true), &json!(1)));
    numbers[LONG - 3] = -77.0;
    let wrong = folder.message("wrong.onnx", &long(Float16, &numbers));
    let report = compared(1, &[&a, &wrong, "--weights-only"]);
    let changed = &report["weights"]["changed"][0];
    let outcomes = changed["outcomes"].as_object().expect("counts");
    let counted: u64 = outcomes.values().filter_map(Value::as_u64).sum();
    assert_eq!((counted, &changed["outcomes"]["changed"]), (LONG as u64, &json!(1)));
    let text = changed["text"].as_str().expect("words");
    assert!(text.contains(&format!("at [{}]", LONG - 3)), "{text}");
    assert_eq!(report["rows"][0]["code"], "wrong_weight");
    let words = said(1, &["compare", &a, &wrong, "--weights-only"]);
    assert!(words.contains("of 1 weight compared, the weight `w` is wrong"), "{words}");
}

#[test]
fn what_no_conversion_rounds_fails_where_one_element_is_another() {
    const MANY: usize = 72;
    let folder = Folder::new();
    let made = |name: &str, ty: ElementType, numbers: &[f32]| {
        let (nodes, size) = ([node("Concat", &["x", "w"], &["y"], vec![int("axis", 0)])], 8);
        let weights = [("w", ty, tensor1(numbers))];
        let shapes = (&[size][..], &[size + numbers.len() as i64][..]);
        let model = holding(&[("x", ty, shapes.0)], &nodes, ("y", ty, shapes.1), &weights);
        folder.message(name, &model)
    };
    // Of these the first ones are others.
    let others = |count: usize, by: f32| {
        let first = |place: usize| if place < count { 1.0 - by } else { 1.0 };
        (0..MANY).map(first).collect::<Vec<f32>>()
    };
    for ty in [String, Bool, Int64, Int16] {
        let is_code = ty == Int16;
        let a = made("a.onnx", ty, &[1.0; MANY]);
        compared(0, &[&a, &a, "--weights-only"]);
        // Codes of another quantiser may be others, and a few of them by a step.
        let one = made("one.onnx", ty, &others(1, 1.0));
        let report = compared(i32::from(!is_code), &[&a, &one, "--weights-only"]);
        let changed = &report["weights"]["changed"][0];
        let outcomes = json!({"exact": MANY - 1, "changed": 1});
        assert_eq!((&changed["outcomes"], &changed["is_error"]), (&outcomes, &json!(!is_code)));
        assert_eq!(compared(1, &[&a, &one])["weights"]["changed"][0]["outcomes"], outcomes, "{ty}");
        let some = made("some.onnx", ty, &others(MANY / 3, 1.0));
        compared(i32::from(!is_code), &[&a, &some, "--weights-only"]);
        let all = made("all.onnx", ty, &others(MANY, 1.0));
        compared(1, &[&a, &all, "--weights-only"]);
    }
    let (a, b) = (others(0, 0.0), others(1, 9.0));
    let (a, b) = (made("a.onnx", Int16, &a), made("b.onnx", Int16, &b));
    compared(1, &[&a, &b, "--weights-only"]);
    // Of few integers nobody can tell: these may be pads.
    let pads = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0];
    let turned = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0];
    let (a, b) = (made("a.onnx", Int64, &pads), made("b.onnx", Int64, &turned));
    let report = compared(0, &[&a, &b, "--weights-only"]);
    assert_eq!(report["weights"]["changed"][0]["is_error"], json!(false));
}

#[test]
fn weights_that_are_quantised_or_turned_are_compared_alone() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &product(Float, &numbers()));
    let quantised = |scale: f32| {
        let codes: Vec<f32> = numbers().iter().map(|x| (x / 0.03).round()).collect();
        let nodes = [
            node("DequantizeLinear", &["codes", "scale"], &["w"], vec![]),
            node("MatMul", &["x", "w"], &["y"], vec![]),
        ];
        let weights = [("codes", Int8, matrix(&codes)), ("scale", Float, tensor0(scale))];
        holding(&[("x", Float, &[2, 4])], &nodes, ("y", Float, &[2, 4]), &weights)
    };
    let b = folder.message("b.onnx", &quantised(0.03));
    let weights = &compared(0, &[&a, &b, "--weights-only"])["weights"];
    assert_eq!((&weights["compared"], &weights["rounded"]), (&json!(1), &json!(1)));
    let b = folder.message("b.onnx", &quantised(0.06));
    compared(1, &[&a, &b, "--weights-only"]);
    let columns = |place: usize| [0.5, 1.25, 3.0, 0.75][place % 4];
    let folded: Vec<f32> =
        numbers().iter().enumerate().map(|(place, x)| x * columns(place)).collect();
    let b = folder.message("folded.onnx", &product(Float, &folded));
    let report = compared(0, &[&a, &b, "--weights-only"]);
    let text = report["weights"]["changed"][0]["text"].as_str().expect("a text");
    assert!(text.ends_with("each channel is a number of times what it was"), "{text}");
    let turned = matrix(&numbers()).permute_axes(&[1, 0]).expect("two axes");
    let turned = turned.into_shape(&[16]).expect("a row");
    let turned = turned.try_as_plain_ram().and_then(|x| Ok(x.as_slice::<f32>()?.to_vec()));
    let mut other = product(Float, &turned.expect("numbers"));
    let graph = other.graph.as_mut().expect("a graph");
    graph.initializer[0].name = "w_turned".into();
    graph.node[0].input[1] = "w_turned".into();
    let b = folder.message("turned.onnx", &other);
    let report = compared(0, &[&a, &b, "--weights-only"]);
    assert_eq!((&report["weights"]["exact"], &report["identical"]), (&json!(1), &json!(true)));
}

/// A chain of products of 64 channels, one of whose weights is turned where that is said; the
/// diagonal stays what it is.
fn chain(is_turned: impl Fn(usize) -> bool) -> ModelProto {
    const SIDE: usize = 64;
    let value =
        |step: usize, place: usize| ((step * 991 + place * 7919) % 4093) as f32 / 4093.0 - 0.5;
    let names = ["w0", "w1", "w2", "w3"];
    let weights = names.iter().enumerate().map(|(step, name)| {
        let numbers: Vec<f32> = (0..SIDE * SIDE).map(|place| value(step, place)).collect();
        let whole = tensor1(&numbers).into_shape(&[SIDE, SIDE]).expect("a matrix");
        let turned = whole.clone().permute_axes(&[1, 0]).expect("two axes");
        (*name, Float, if is_turned(step) { turned } else { whole })
    });
    let nodes = [("x", "w0", "a"), ("a", "w1", "b"), ("b", "w2", "c"), ("c", "w3", "y")];
    let nodes = nodes.map(|(x, weight, made)| node("MatMul", &[x, weight], &[made], vec![]));
    let weights: Vec<_> = weights.collect();
    holding(&[("x", Float, &[1, 64])], &nodes, ("y", Float, &[1, 64]), &weights)
}

#[test]
fn a_square_weight_that_is_turned_is_a_changed_one() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &chain(|_| false));
    let b = folder.message("b.onnx", &chain(|step| step == 2));
    let report = compared(1, &[&a, &b, "--weights-only"]);
    let weights = &report["weights"];
    assert_eq!((&weights["compared"], &weights["exact"]), (&json!(4), &json!(3)), "{weights}");
    let changed = &weights["changed"][0];
    assert_eq!((&changed["name"], &changed["is_error"]), (&json!("w2"), &json!(true)), "{weights}");
    said(1, &["audit", &b, "--baseline", &a]);
}

/// Some of its values are another's, by which it was taken for that, and most are not.
#[test]
fn a_weight_that_is_compared_with_none_is_listed() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &chain(|_| false));
    let mut other = chain(|_| false);
    let graph = other.graph.as_mut().expect("a graph");
    let held = &mut graph.initializer[2];
    held.name = "other".into();
    let numbers = held.raw_data.chunks_exact_mut(4).enumerate();
    for (_, number) in numbers.filter(|(place, _)| place % 65 != 0 && place % 67 != 0) {
        number[3] ^= 0x80;
    }
    graph.node[2] = node("MatMul", &["b", "other"], &["d"], vec![]);
    graph.node[3].input[0] = "d".into();
    let b = folder.message("b.onnx", &other);
    let weights = &compared(0, &[&a, &b, "--weights-only"])["weights"];
    let lists = (&weights["unpaired_reference"], &weights["unpaired_converted"]);
    assert_eq!(lists, (&json!(["w2"]), &json!(["other"])), "{weights}");
    assert_eq!(weights["compared"], json!(3), "{weights}");
}

/// Where the product takes the weight behind a `Transpose`, it is the same weight.
#[test]
fn a_square_weight_that_is_turned_back_is_the_same() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &chain(|_| false));
    let mut turned = chain(|step| step == 2);
    let graph = turned.graph.as_mut().expect("a graph");
    graph.node[2].input[1] = "turned_back".into();
    let back = node("Transpose", &["w2"], &["turned_back"], vec![]);
    graph.node.insert(2, back);
    let b = folder.message("b.onnx", &turned);
    let weights = &compared(0, &[&a, &b, "--weights-only"])["weights"];
    assert_eq!((&weights["compared"], &weights["exact"]), (&json!(4), &json!(4)), "{weights}");
}

#[test]
fn weights_alone_take_nothing_that_is_of_runs() {
    let folder = Folder::new();
    let a = folder.message("a.onnx", &product(Float, &numbers()));
    for option in [
        ["--seed", "0"],
        ["--rtol", "0.1"],
        ["-i", "x.npy"],
        ["--samples", "3"],
        ["--engine", "plan"],
    ] {
        let why = refused(&[&["compare", &a, &a, "--weights-only"][..], &option].concat());
        assert!(why.contains("--weights-only") && why.contains(option[0]), "{why}");
    }
    said(0, &["run", &a, "-o", &folder.text("out")]);
    let why = refused(&["compare", &a, &folder.text("out"), "--weights-only"]);
    assert!(why.contains("--weights-only is for models"), "{why}");
    let nothing = holding(
        &[("x", Float, &[2])],
        &[node("Neg", &["x"], &["y"], vec![])],
        ("y", Float, &[2]),
        &[],
    );
    let b = folder.message("nothing.onnx", &nothing);
    let report = compared(1, &[&a, &b, "--weights-only"]);
    assert_eq!(report["rows"][0]["code"], "nothing_compared");
}
