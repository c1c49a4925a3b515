//! Where inputs that nobody gives look for faults: along axes, at lengths, magnitudes, branches,
//! masks and caches.

use serde_json::Value;
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use tract_onnx_cast::ElementType;
use tract_onnx_cast::ElementType::{Bool, Float, Float8E4M3FN, Int8, Int32, Int64, Uint4};

use crate::common::proto::{
    dim, graph, graph_attribute, int, int64, model, node, shaped, symbol, tensor, unshaped, value,
};
use crate::program::{Folder, cast, json, said};

pub(crate) fn of(
    inputs: &[ValueInfoProto],
    nodes: &[NodeProto],
    constants: Vec<TensorProto>,
) -> ModelProto {
    let graph = graph(inputs, nodes, &[unshaped("y", Float)]);
    model(17, GraphProto { initializer: constants, ..graph })
}

/// A FLOAT of symbolic sizes.
pub(crate) fn open(name: &str, ty: ElementType, symbols: &[&str]) -> ValueInfoProto {
    let size = |name: &&str| name.parse().map_or_else(|_| symbol(name), dim);
    shaped(name, ty, symbols.iter().map(size).collect())
}

/// What `compare` says of two models without inputs.
pub(crate) fn compared(status: i32, models: [&ModelProto; 2], arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let (a, b) = (folder.message("a.onnx", models[0]), folder.message("b.onnx", models[1]));
    let text = said(status, &[&["compare", "--json", &a, &b][..], arguments].concat());
    json(&text)["comparisons"][0].clone()
}

/// Each pair differs only where the fault is, and is told apart; the original passes against
/// itself.
fn assert_told_apart(original: &ModelProto, ruined: &ModelProto) {
    compared(0, [original, original], &[]);
    compared(1, [original, ruined], &[]);
}

pub(crate) fn scalar(name: &str, value: f32) -> TensorProto {
    TensorProto { dims: vec![], ..tensor(name, Float, &[value]) }
}

fn whole(name: &str, value: i64) -> TensorProto {
    TensorProto { dims: vec![], ..int64(name, &[value]) }
}

#[test]
fn a_fault_along_an_axis_is_found() {
    let x = [open("x", Float, &["batch", "seq"])];
    let one = |op: &str, axis| of(&x, &[node(op, &["x"], &["y"], vec![int("axis", axis)])], vec![]);
    assert_told_apart(&one("Softmax", 1), &one("Hardmax", 1));
    assert_told_apart(&one("Softmax", 1), &one("Softmax", 0));
    // Sizes without a name, too.
    let x = [shaped("x", Float, vec![Default::default(), Default::default()])];
    let one = |op: &str| of(&x, &[node(op, &["x"], &["y"], vec![int("axis", 1)])], vec![]);
    assert_told_apart(&one("Softmax"), &one("Hardmax"));
}

#[test]
fn a_fault_beyond_length_500_is_found() {
    let x = [open("x", Float, &["batch", "seq", "4"])];
    let pooled = |end: i64| {
        let nodes = [
            node("Slice", &["x", "start", "end", "axis"], &["part"], vec![]),
            node("ReduceSum", &["part", "axis"], &["y"], vec![]),
        ];
        let constants = vec![int64("start", &[0]), int64("end", &[end]), int64("axis", &[1])];
        of(&x, &nodes, constants)
    };
    assert_told_apart(&pooled(1 << 30), &pooled(500));
}

#[test]
fn a_fault_of_large_values_is_found() {
    for x in [open("x", Float, &["n", "k"]), value("x", Float, &[4])] {
        let clipped = |most: f32| {
            let nodes =
                [node("Abs", &["x"], &["a"], vec![]), node("Min", &["a", "most"], &["y"], vec![])];
            of(std::slice::from_ref(&x), &nodes, vec![scalar("most", most)])
        };
        assert_told_apart(&clipped(1e6), &clipped(100.0));
    }
}

#[test]
fn a_fault_of_the_largest_codes_is_found() {
    let x = [open("x", Uint4, &["n", "8"])];
    let cut = |most: f32| {
        let nodes = [cast("x", "x", "f", Float), node("Min", &["f", "most"], &["y"], vec![])];
        let mut model = of(&x, &nodes, vec![scalar("most", most)]);
        model.opset_import[0].version = 21;
        model
    };
    compared(1, [&cut(15.0), &cut(12.0)], &["--search", "0"]);
}

#[test]
fn both_branches_run() {
    let branch = |op: &str, name: &str| {
        graph(&[], &[node(op, &["x"], &[name], vec![])], &[unshaped(name, Float)])
    };
    let decided = |then: &str, otherwise: &str, is_given: bool| {
        let mut inputs = vec![value("x", Float, &[6])];
        let mut nodes = vec![];
        if is_given {
            inputs.push(value("flag", Bool, &[]));
            nodes.push(node("Not", &["flag"], &["c"], vec![]));
        } else {
            inputs.push(value("step", Int64, &[]));
            nodes.push(node("Greater", &["step", "limit"], &["c"], vec![]));
        }
        let attributes = vec![
            graph_attribute("then_branch", branch(then, "t")),
            graph_attribute("else_branch", branch(otherwise, "e")),
        ];
        nodes.push(node("If", &["c"], &["y"], attributes));
        of(&inputs, &nodes, vec![whole("limit", 20)])
    };
    for is_given in [true, false] {
        let original = decided("Neg", "Sin", is_given);
        assert_told_apart(&original, &decided("Abs", "Sin", is_given));
        assert_told_apart(&original, &decided("Neg", "Cos", is_given));
    }
}

#[test]
fn masks_hold_zeros() {
    for ty in [Int64, Bool, Float] {
        let inputs =
            [open("x", Float, &["batch", "seq"]), open("attention_mask", ty, &["batch", "seq"])];
        let masked = |bias: f32| {
            let nodes = [
                cast("widen", "attention_mask", "m", Float),
                node("Sub", &["one", "m"], &["hidden"], vec![]),
                node("Mul", &["hidden", "bias"], &["far"], vec![]),
                node("Add", &["x", "far"], &["scores"], vec![]),
                node("Softmax", &["scores"], &["y"], vec![int("axis", -1)]),
            ];
            of(&inputs, &nodes, vec![scalar("one", 1.0), scalar("bias", bias)])
        };
        assert_told_apart(&masked(-1e4), &masked(0.0));
    }
}

#[test]
fn caches_hold_what_a_run_puts_out() {
    let inputs = [
        open("x", Float, &["batch", "seq", "8"]),
        open("past_key_values.0.key", Float, &["batch", "past", "8"]),
    ];
    let joined = |order: [&str; 2]| {
        let nodes = [
            node("Concat", &order, &["present.0.key"], vec![int("axis", 1)]),
            node("CumSum", &["present.0.key", "axis"], &["y"], vec![]),
        ];
        let outputs = [unshaped("y", Float), unshaped("present.0.key", Float)];
        let graph = graph(&inputs, &nodes, &outputs);
        model(17, GraphProto { initializer: vec![whole("axis", 1)], ..graph })
    };
    let original = joined(["past_key_values.0.key", "x"]);
    assert_told_apart(&original, &joined(["x", "past_key_values.0.key"]));
    let report = compared(0, [&original, &original], &[]);
    let told = &report["inputs"]["look"]["inputs"][1];
    assert_eq!(told["taken_for"], "what the output `present.0.key` held before");
}

#[test]
fn each_cache_holds_its_own_output() {
    let cache = |name: &str| open(name, Float, &["batch", "1", "past", "4"]);
    let x = open("x", Float, &["batch", "1", "seq", "4"]);
    let attention = node(
        "Attention",
        &["x", "x", "x", "", "past_key", "past_value"],
        &["y", "present_key", "present_value"],
        vec![],
    );
    let outputs = ["y", "present_key", "present_value"].map(|name| unshaped(name, Float));
    let inputs = [x, cache("past_value"), cache("past_key")];
    let look = looked(&model(23, graph(&inputs, &[attention], &outputs)), &[]);
    let told = |place: usize| look["inputs"][place]["taken_for"].clone();
    assert_eq!(told(1), "what the output `present_value` held before");
    assert_eq!(told(2), "what the output `present_key` held before");
}

/// What `run` says of the first set of a model's inputs.
fn looked(model: &ModelProto, arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let path = folder.message("m.onnx", model);
    json(&said(0, &[&["run", "--json", &path][..], arguments].concat()))["inputs"]["look"].clone()
}

fn sizes(look: &Value) -> Vec<(String, u64)> {
    let sizes = look["sizes"].as_array().expect("a list").iter();
    sizes
        .map(|size| {
            let name = size["dimension"].as_str().expect("a name").to_owned();
            (name, size["sizes"][0].as_u64().expect("a size"))
        })
        .collect()
}

#[test]
fn sizes_differ_unless_the_model_needs_them_equal() {
    let named = |symbols: [&[&str]; 2]| {
        let inputs = [open("a", Float, symbols[0]), open("b", Float, symbols[1])];
        of(&inputs, &[node("Add", &["a", "b"], &["y"], vec![])], vec![])
    };
    let free = looked(&named([&["batch", "seq"], &["batch", "seq"]]), &[]);
    assert_eq!(sizes(&free), [("batch".into(), 2), ("seq".into(), 7)]);
    // Two names that have to be one size.
    let tied = sizes(&looked(&named([&["batch", "rows"], &["batch", "lines"]]), &[]));
    assert!(tied[1].1 > 1 && tied[1].1 == tied[2].1, "{tied:?}");
    let set = looked(&named([&["batch", "seq"], &["batch", "seq"]]), &["--set", "seq=5"]);
    // Of what is left, the batch is what faults may show along.
    assert_eq!(sizes(&set), [("batch".into(), 7)]);
    // Where nothing but 1 will do, it is 1, and the verdict says so.
    let only_one = {
        let nodes = [node("Squeeze", &["a", "axis"], &["y"], vec![])];
        of(&[open("a", Float, &["n", "3"])], &nodes, vec![int64("axis", &[0])])
    };
    assert_eq!(sizes(&looked(&only_one, &[])), [("n".into(), 1)]);
    let warned = compared(0, [&only_one, &only_one], &[])["warnings"].to_string();
    assert!(warned.contains("nothing along an axis"), "{warned}");
    compared(1, [&only_one, &only_one], &["--strict"]);
}

#[test]
fn inputs_are_taken_for_what_takes_them() {
    let table = |rows: usize| TensorProto {
        dims: vec![rows as i64, 2],
        ..tensor("table", Float, &vec![0.5; rows * 2])
    };
    let told = |input: ValueInfoProto, nodes: &[NodeProto], constants: Vec<TensorProto>| {
        let look = looked(&of(&[input], nodes, constants), &[]);
        look["inputs"][0]["taken_for"].as_str().expect("words").to_owned()
    };
    let gather = node("Gather", &["table", "i"], &["y"], vec![]);
    let ids = |name: &str| open(name, Int64, &["batch", "seq"]);
    assert_eq!(told(ids("i"), std::slice::from_ref(&gather), vec![table(30)]), "indices below 30");
    let positions = [node("Identity", &["position_ids"], &["i"], vec![]), gather.clone()];
    assert_eq!(told(ids("position_ids"), &positions, vec![table(64)]), "positions");
    let chosen = [node("Where", &["m", "one", "two"], &["y"], vec![])];
    let constants = || vec![scalar("one", 1.0), scalar("two", 2.0)];
    assert_eq!(told(open("m", Bool, &["n"]), &chosen, constants()), "a mask");
    let divided = [node("Div", &["x", "range"], &["y"], vec![])];
    let x = || open("x", Float, &["n", "3", "8", "8"]);
    assert_eq!(told(x(), &divided, vec![scalar("range", 255.0)]), "numbers from 0 to 255");
    let logarithm = [node("Log", &["x"], &["y"], vec![])];
    assert_eq!(told(x(), &logarithm, vec![]), "numbers from 0.001 to 1");
    // Through the branches of an If, too.
    let inner =
        graph(&[], &[node("Gather", &["table", "i"], &["t"], vec![])], &[unshaped("t", Float)]);
    let both =
        vec![graph_attribute("then_branch", inner.clone()), graph_attribute("else_branch", inner)];
    let truth = TensorProto { dims: vec![], ..tensor("c", Bool, &[1.0]) };
    let branches = [node("If", &["c"], &["y"], both)];
    assert_eq!(told(ids("i"), &branches, vec![table(9), truth]), "indices below 9");
}

#[test]
fn times_conditions_and_what_is_added_to_scores_are_told_apart() {
    let told = |input: ValueInfoProto, nodes: &[NodeProto], constants: Vec<TensorProto>| {
        let look = looked(&of(&[input], nodes, constants), &[]);
        look["inputs"][0]["taken_for"].as_str().expect("words").to_owned()
    };
    let angles = [
        cast("widen", "step", "t", Float),
        node("Mul", &["t", "frequency"], &["angle"], vec![]),
        node("Cos", &["angle"], &["y"], vec![]),
    ];
    let frequency = scalar("frequency", 0.5);
    let steps = open("step", Int64, &["batch"]);
    assert_eq!(told(steps, &angles, vec![frequency]), "numbers from 0 to 999");
    let chosen = [node("Mul", &["has_mask_input", "one"], &["y"], vec![])];
    let flag = value("has_mask_input", Float, &[1]);
    assert_eq!(told(flag, &chosen, vec![scalar("one", 1.0)]), "a condition");
    let added = [
        node("Identity", &["mask"], &["same"], vec![]),
        node("Neg", &["mask"], &["scores"], vec![]),
        node("Add", &["scores", "same"], &["y"], vec![]),
    ];
    let mask = open("mask", Float, &["batch", "1", "1", "seq"]);
    assert_eq!(told(mask, &added, vec![]), "a mask that is added");
    // Indices of the first axis alone, whatever the size of the others.
    let table = TensorProto { dims: vec![5, 3], ..tensor("table", Float, &[0.5; 15]) };
    let rows = [node("GatherND", &["table", "i"], &["y"], vec![])];
    assert_eq!(told(open("i", Int64, &["n", "1"]), &rows, vec![table]), "indices below 5");
    let images = TensorProto { dims: vec![3, 1, 4, 4], ..tensor("images", Float, &[0.5; 48]) };
    let boxes = TensorProto { dims: vec![2, 4], ..tensor("boxes", Float, &[0.0; 8]) };
    let regions = [node("RoiAlign", &["images", "boxes", "i"], &["y"], vec![])];
    assert_eq!(told(value("i", Int64, &[2]), &regions, vec![images, boxes]), "indices below 3");
}

#[test]
fn the_range_of_a_quantised_input_is_taken_for_what_it_holds() {
    let x = [open("x", Float, &["n", "16"])];
    let plain = of(&x, &[node("Neg", &["x"], &["y"], vec![])], vec![]);
    let coded = [
        node("QuantizeLinear", &["x", "by", "zero"], &["codes"], vec![]),
        node("DequantizeLinear", &["codes", "by", "zero"], &["same"], vec![]),
        node("Neg", &["same"], &["y"], vec![]),
    ];
    let zero = TensorProto { dims: vec![], ..tensor("zero", Int8, &[0.0]) };
    let coded = of(&x, &coded, vec![scalar("by", 0.5), zero]);
    let report = compared(0, [&plain, &coded], &["--search", "0"]);
    let told = &report["inputs"]["look"]["inputs"][0]["taken_for"];
    assert_eq!(*told, "numbers from -64 to 63.5");
}

/// Images are not always what their name says: those that a quantiser was calibrated with are in
/// its range, and nothing is cut off.
#[test]
fn a_range_says_more_than_a_name() {
    let image = [open("image", Float, &["n", "16"])];
    let plain = of(&image, &[node("Neg", &["image"], &["y"], vec![])], vec![]);
    let coded = [
        node("QuantizeLinear", &["image", "by", "zero"], &["codes"], vec![]),
        node("DequantizeLinear", &["codes", "by", "zero"], &["same"], vec![]),
        node("Neg", &["same"], &["y"], vec![]),
    ];
    let zero = TensorProto { dims: vec![], ..tensor("zero", Int8, &[-128.0]) };
    let coded = of(&image, &coded, vec![scalar("by", 1.0 / 256.0), zero]);
    let report = compared(0, [&plain, &coded], &["--search", "0"]);
    let told = &report["inputs"]["look"]["inputs"][0]["taken_for"];
    assert_eq!(*told, "numbers from 0 to 0.99609375");
    let alone = compared(0, [&plain, &plain], &["--search", "0"]);
    let told = &alone["inputs"]["look"]["inputs"][0]["taken_for"];
    assert_eq!(*told, "numbers from -2.5 to 2.5");
}

#[test]
fn the_first_screen_says_how_wide_it_looked() {
    let folder = Folder::new();
    let nodes = [node("Softmax", &["x"], &["y"], vec![int("axis", 1)])];
    let model = of(&[open("x", Float, &["batch", "seq"])], &nodes, vec![]);
    let path = folder.message("m.onnx", &model);
    let text = said(0, &["compare", &path, &path]);
    let line = "looked at: batch 2, 3, 2, 2, 1; seq 7, 33, 2, 517, 1; floats of scale 1, 30, 0.01";
    assert!(text.contains(line), "{text}");
    // Which numbers operators took is told without a search, too.
    for arguments in [&["--search", "0"][..], &["--sets", "2"], &[]] {
        let text = said(0, &[&["compare", &path, &path], arguments].concat());
        assert!(text.contains("operators saw: Softmax -"), "{arguments:?}: {text}");
    }
    let quiet = said(0, &["compare", &path, &path, "--search", "0", "--quiet"]);
    assert!(!quiet.contains("operators saw") && quiet.contains("warning: "), "{quiet}");
    let text = said(1, &["compare", &path, &path, "--sets", "1", "--strict"]);
    assert!(text.contains("one set of random inputs alone"), "{text}");
}

#[test]
fn large_sets_of_a_model_of_many_operators_are_left_out_which_is_said() {
    let name = |place: usize| match place {
        0 => "x".to_owned(),
        80 => "y".to_owned(),
        inner => format!("t{inner}"),
    };
    let one = |place: usize| node("Neg", &[&name(place)], &[&name(place + 1)], vec![]);
    let nodes: Vec<NodeProto> = (0..80).map(one).collect();
    let model = of(&[open("x", Float, &["n", "3", "height", "width"])], &nodes, vec![]);
    let report = compared(0, [&model, &model], &["--search", "0"]);
    let look = &report["inputs"]["look"];
    // A batch of one is tried where two are too many.
    assert_eq!(look["sizes"][0]["sizes"], serde_json::json!([2, 3, 2, 1, 1]));
    assert_eq!(look["sizes"][1]["sizes"], serde_json::json!([64, 96, 33, 224, 1]));
    assert_eq!(look["left_out"], serde_json::json!(["n 2, height 224, width 256"]));
}

#[test]
fn codes_bits_and_settings_are_those_of_their_types() {
    let told = |input: ValueInfoProto, nodes: &[NodeProto], constants: Vec<TensorProto>| {
        let mut model = of(&[input], nodes, constants);
        model.opset_import[0].version = 26;
        looked(&model, &[])["inputs"][0]["taken_for"].as_str().expect("words").to_owned()
    };
    let codes = [node("DequantizeLinear", &["x", "scale"], &["y"], vec![])];
    let x = |ty| open("x", ty, &["n", "4"]);
    let scale = scalar("scale", 0.5);
    assert_eq!(told(x(Float8E4M3FN), &codes, vec![scale]), "the whole range of its type");
    // Not what is NaN or infinite in that type.
    let bits = [node("BitCast", &["x"], &["y"], vec![int("to", 1)])];
    assert_eq!(told(x(Int32), &bits, vec![]), "the bits of FLOAT");
    let limit = value("limit", Float, &[]);
    let counted = [node("Sub", &["limit", "one"], &["y"], vec![])];
    assert_eq!(told(limit, &counted, vec![scalar("one", 1.0)]), "numbers from 3 to 6");
}

/// What zeros are tried of is in each column some other number as well.
#[test]
fn each_column_is_looked_at_in_each_set() {
    let product = |flipped: bool| {
        let weight = |place: usize| {
            let value = (place * 37 % 31) as f32 / 16.0 - 0.9375;
            if flipped && (place / 8) % 8 == 3 { -value } else { value }
        };
        let mut held = tensor("w", Float, &(0..64 * 8).map(weight).collect::<Vec<f32>>());
        held.dims = vec![64, 8];
        of(
            &[open("x", Float, &["4", "64"])],
            &[node("MatMul", &["x", "w"], &["y"], vec![])],
            vec![held],
        )
    };
    for arguments in [["--sets", "1"], ["--sets", "3"], ["--search", "0"]] {
        compared(0, [&product(false), &product(false)], &arguments);
        compared(1, [&product(false), &product(true)], &arguments);
    }
}
