//! `convert`.

use std::fs;

use prost::Message;
use serde_json::{Value, json};
use tract_onnx::pb::{ModelProto, TensorProto};
use tract_onnx::prelude::tensor1;
use tract_onnx_cast::ElementType::{self, Float, Float16};

use crate::common::cases::root;
use crate::common::proto::{
    Change, Sketch, bytes, graph, graph_attribute, int, model, node, tensor, value,
};
use crate::program::*;
use crate::verdict::{held, one, values};

/// `y = (x · w)²` with weights of this size.
fn squares(size: f32) -> Vec<u8> {
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .initializer(tensor("w", Float, &[size, size, size, size]))
        .node("Mul", &["x", "w"], &["m"], vec![])
        .node("Mul", &["m", "m"], &["s"], vec![])
        .node("Sqrt", &["s"], &["y"], vec![])
        .output("y", Float, &[4]);
    bytes(&sketch.model())
}

/// Converts a file; what `--json` says, and what was written.
fn convert(status: i32, file: &[u8], options: &[&str]) -> (Value, Option<ModelProto>) {
    let folder = Folder::new();
    let (model, output) = (folder.write("m.onnx", file), folder.text("out.onnx"));
    let call = [&["convert", &model, "-o", &output, "--json"], options].concat();
    let report = json(&said(status, &call));
    assert_eq!(report["schema"], json!("onnx-cast/convert/1"));
    let written = fs::read(&output).ok();
    assert_eq!(report["output"].is_null(), written.is_none());
    let left = fs::read_dir(folder.path("")).expect("a folder").count();
    assert_eq!(left, 1 + usize::from(written.is_some()), "nothing else is left");
    (report, written.map(|file| ModelProto::decode(&*file).expect("a model")))
}

fn weight(model: &ModelProto) -> Option<ElementType> {
    let graph = model.graph.as_ref()?;
    ElementType::from_id(graph.initializer.first()?.data_type)
}

fn kept(report: &Value) -> Vec<&str> {
    let rows = report["kept"].as_array().expect("rows");
    rows.iter().filter_map(|row| row["op"].as_str()).collect()
}

#[test]
fn what_holds_is_written() {
    let (report, model) = convert(0, &squares(0.5), &["--to", "FLOAT16"]);
    assert_eq!((&report["verdict"], &report["casts"]), (&json!("holds"), &json!(2)));
    assert_eq!(kept(&report), [""; 0]);
    assert_eq!(weight(&model.expect("a model")), Some(Float16));
}

/// What overflows only where inputs are large stays, as `compare` and `audit` look there too.
#[test]
fn what_holds_holds_for_those_who_look_after_it() {
    let folder = Folder::new();
    let (model, out) = (folder.write("m.onnx", squares(10.0)), folder.text("out.onnx"));
    let text = said(0, &["convert", &model, "--to", "FLOAT16", "-o", &out]);
    assert!(text.contains("on    3 sets of random inputs (seeds 0 to 2)"), "{text}");
    assert!(text.contains("stays: Mul"), "{text}");
    said(0, &["compare", &model, &out, "--search", "0"]);
    said(0, &["audit", &out]);
}

/// `y = x + tanh(10⁴ x) · (v − w)`, where v and w are nearly the same: beside large values the
/// difference is nothing, and of small ones all that there is.
#[test]
fn what_holds_holds_for_each_set_of_inputs() {
    let folder = Folder::new();
    let near = values(256, 3).into_iter().zip(values(256, 4));
    let near: Vec<f32> = near.map(|(x, y)| x + y / 512.0).collect();
    let sketch = Sketch::new()
        .input("x", Float, &[2, 16])
        .initializer(held("v", Float, &[16, 16], &values(256, 3)))
        .initializer(held("w", Float, &[16, 16], &near))
        .initializer(one("steep", Float, 1e4))
        .node("Mul", &["x", "steep"], &["s"], vec![])
        .node("Tanh", &["s"], &["t"], vec![])
        .node("MatMul", &["t", "v"], &["p"], vec![])
        .node("MatMul", &["t", "w"], &["q"], vec![])
        .node("Sub", &["p", "q"], &["d"], vec![])
        .node("Add", &["d", "x"], &["y"], vec![])
        .output("y", Float, &[2, 16]);
    let model = folder.write("m.onnx", bytes(&sketch.model()));
    let convert = |status, sizes: &[f32]| {
        let sets = folder.path("sets");
        let _ = fs::remove_dir_all(&sets);
        for (place, size) in sizes.iter().enumerate() {
            let x: Vec<f32> = values(32, 5).iter().map(|x| x * size).collect();
            let x = tensor1(&x).into_shape(&[2, 16]).expect("as many values");
            folder.tensor(&format!("sets/test_data_set_{place}/input_0.pb"), Float, x);
        }
        let (sets, out) = (folder.text("sets"), folder.text("out.onnx"));
        let _ = fs::remove_file(&out);
        said(status, &["convert", &model, "--weights", "INT8", "-o", &out, "-i", &sets])
    };
    convert(0, &[1e3]);
    convert(1, &[1e-3]);
    let text = convert(1, &[1e3, 1e-3]);
    assert!(text.contains("1 of 2 fail; the worst"), "{text}");
}

/// As `compare` judges: the outputs alone would hold.
#[test]
fn what_is_written_is_judged_by_its_arithmetic() {
    let (report, _) = convert(0, &squares(0.3), &["--to", "FLOAT16"]);
    let compared = &report["compared"];
    assert_eq!(compared["verdict"], json!("rounded"));
    assert_eq!(compared["band_seeds"], json!([1, 2, 3]));
    let (report, _) = convert(0, &squares(0.3), &["--to", "FLOAT16", "--sqnr", "40"]);
    assert_eq!(report["compared"]["is_judged_by_tolerance"], json!(true));
}

/// Whether the quantiser is converted, from opset 19 on, or stays behind a cast.
#[test]
fn a_range_that_the_model_has_itself_is_no_fault_of_the_conversion() {
    let quantised = |opset| {
        let scale = tensor("scale", Float, &[0.01]);
        let sketch = Sketch::new()
            .input("x", Float, &[4])
            .initializer(TensorProto { dims: vec![], ..scale })
            .node("Exp", &["x"], &["e"], vec![])
            .node("QuantizeLinear", &["e", "scale"], &["q"], vec![])
            .node("DequantizeLinear", &["q", "scale"], &["d"], vec![])
            .node("Neg", &["d"], &["y"], vec![])
            .output("y", Float, &[4]);
        let mut model = sketch.model();
        model.opset_import[0].version = opset;
        bytes(&model)
    };
    for opset in [13, 23] {
        let options = ["--to", "FLOAT16", "--range", "x=1:2"];
        let (report, _) = convert(0, &quantised(opset), &options);
        assert_eq!(report["compared"]["verdict"], json!("rounded"), "{report}");
    }
}

#[test]
fn the_page_says_what_stays_and_why_whether_written_or_not() {
    let folder = Folder::new();
    let model = folder.write("m.onnx", squares(1e3));
    let (output, page) = (folder.text("o.onnx"), folder.text("page.html"));
    let call = ["convert", &model, "--to", "FLOAT16", "-o", &output, "--report", &page];
    let call = [&call[..], &["--range", "x=1:2"]].concat();
    said(1, &[&call[..], &["--rtol", "1e-12"]].concat());
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.contains("nothing is written"), "{text}");
    said(0, &call);
    let text = fs::read_to_string(&page).expect("a page");
    let (_, stays) = text.split_once("What stays as it is").expect("a table");
    assert!(stays.contains("<td>Mul</td>"), "{stays}");
}

#[test]
fn nodes_stay_that_overflow() {
    let (report, model) = convert(0, &squares(1e3), &["--to", "FLOAT16", "--range", "x=1:2"]);
    assert_eq!(report["verdict"], json!("holds"));
    assert!(!kept(&report).is_empty(), "{report}");
    assert!(model.is_some());
}

/// A mask that hides by -1e9 becomes infinite where it is cast, which a row that hides all turns
/// into NaN, so what takes it stays as far as it reaches: whoever looks at what is written finds no
/// overflow.
#[test]
fn what_takes_a_value_that_does_not_fit_stays_as_well() {
    let sketch = Sketch::new()
        .input("scores", Float, &[2, 4])
        .input("mask", Float, &[2, 4])
        .initializer(tensor("one", Float, &[1.0]))
        .initializer(tensor("least", Float, &[-1e9]))
        .node("Sub", &["one", "mask"], &["hidden"], vec![])
        .node("Mul", &["hidden", "least"], &["far"], vec![])
        .node("Mul", &["far", "one"], &["same"], vec![])
        .node("Add", &["scores", "same"], &["masked"], vec![])
        .node("Softmax", &["masked"], &["shares"], vec![])
        .node("Mul", &["shares", "one"], &["y"], vec![])
        .output("y", Float, &[2, 4]);
    let folder = Folder::new();
    let model = folder.write("m.onnx", bytes(&sketch.model()));
    let out = folder.text("out.onnx");
    let report = json(&said(0, &["convert", &model, "--to", "FLOAT16", "-o", &out, "--json"]));
    assert_eq!(kept(&report), ["Mul", "Mul", "Add", "Softmax"], "{report}");
    said(0, &["audit", &out]);
}

/// What a step loses by an offset that FLOAT16 has no digits for: these two nodes stay, and no more
/// of the loop.
#[test]
fn nodes_of_a_body_stay_too() {
    let row = |name: &str| value(name, Float, &[4]);
    let body = [
        node("Add", &["step", "offset"], &["far"], vec![]).named("far"),
        node("Sub", &["far", "offset"], &["near"], vec![]).named("near"),
        node("Mul", &["near", "near"], &["square"], vec![]).named("square"),
        node("Tanh", &["square"], &["told"], vec![]).named("told"),
    ];
    let body = graph(&[row("step")], &body, &[row("told")]);
    let attributes = vec![graph_attribute("body", body), int("num_scan_inputs", 1)];
    let rows = |name: &str| value(name, Float, &[6, 4]);
    let mut main = graph(
        &[rows("x")],
        &[node("Scan", &["x"], &["y"], attributes).named("loop")],
        &[rows("y")],
    );
    main.initializer.push(TensorProto { dims: vec![], ..tensor("offset", Float, &[4096.0]) });
    let (report, _) = convert(0, &bytes(&model(19, main)), &["--to", "FLOAT16"]);
    let stays = report["kept"].as_array().expect("rows");
    let stays: Vec<_> = stays.iter().map(|row| row["node"].as_str()).collect();
    assert_eq!(stays, [Some("far"), Some("near")], "{report}");
}

#[test]
fn what_does_not_hold_is_not_written() {
    let options = ["--to", "FLOAT16", "--rtol", "1e-9"];
    let (report, model) = convert(1, &squares(0.3), &options);
    assert_eq!((&report["verdict"], model.is_none()), (&json!("fails"), true));
    assert_eq!(report["problem"], json!("the outputs hold only where nothing is converted"));
    let both = [&options[..], &["--convert-io"]].concat();
    let (report, model) = convert(1, &squares(0.3), &both);
    assert_eq!((&report["verdict"], model.is_none()), (&json!("fails"), true));
    assert!(report["problem"].as_str().is_some_and(|problem| problem.contains("output `y`")));
    let (report, model) = convert(0, &squares(0.3), &[&options[..], &["--unverified"]].concat());
    assert_eq!((&report["verdict"], model.is_some()), (&json!("unverified"), true));
}

/// As in `compare` and `keep`, whether a folder is named or its model.onnx.
#[test]
fn what_is_recorded_beside_a_model_is_run() {
    let folder = Folder::new();
    let model = in_repository("models/whole/rms_norm_FLOAT");
    let why = |model: &str, output: &str, options: &[&str]| {
        let output = folder.text(output);
        let call = ["convert", model, "--to", "FLOAT16", "-o", &output, "--json"];
        let text = stdout(&onnx_cast([&call, options].concat()));
        json(&text)["kept"][0]["why"].as_str().expect("a node that stays").to_owned()
    };
    assert!(why(&model, "a.onnx", &[]).contains("reaches 238805:"));
    let file = format!("{model}/model.onnx");
    assert!(why(&file, "b.onnx", &[]).contains("reaches 238805:"));
    assert!(!why(&file, "c.onnx", &["--random"]).contains("reaches 238805:"));
}

#[test]
fn nothing_is_overwritten() {
    let folder = Folder::new();
    let (model, output) = (folder.write("m.onnx", squares(1.0)), folder.write("o.onnx", b"mine"));
    let line = refused(&["convert", &model, "--to", "FLOAT16", "-o", &output]);
    assert!(line.contains("is there already"), "{line}");
    assert_eq!(fs::read(&output).expect("a file"), b"mine");
}

#[test]
fn weights_are_stored_in_few_bits_alone_or_beside_a_type() {
    let numbers: Vec<f32> = (0..512).map(|i| (i * 7 % 15) as f32 * 0.5 - 3.5).collect();
    let sketch = Sketch::new()
        .input("x", Float, &[2, 32])
        .initializer(TensorProto { dims: vec![32, 16], ..tensor("w", Float, &numbers) })
        .node("MatMul", &["x", "w"], &["y"], vec![])
        .output("y", Float, &[2, 16]);
    let file = bytes(&sketch.model());
    let options = ["--weights", "INT4", "--block", "16"];
    let (report, model) = convert(0, &file, &options);
    assert_eq!((&report["verdict"], &report["coded_weights"]), (&json!("holds"), &json!(1)));
    assert_eq!((&report["to"], &report["casts"]), (&json!(""), &json!(0)));
    let model = model.expect("a model");
    assert_eq!(weight(&model), Some(ElementType::Int4));
    let both = [&options[..], &["--to", "FLOAT16"]].concat();
    let (report, model) = convert(0, &file, &both);
    assert_eq!((&report["verdict"], &report["casts"]), (&json!("holds"), &json!(2)));
    assert_eq!(weight(&model.expect("a model")), Some(ElementType::Int4));
    // By no weights and no type there is nothing to do.
    let folder = Folder::new();
    let (model, output) = (folder.write("m.onnx", &file), folder.text("out.onnx"));
    assert!(refused(&["convert", &model, "-o", &output]).contains("--to"));
}

/// The model rounds a value to FLOAT16 and back itself; its conversion, being FLOAT16, has no such
/// casts.
#[test]
fn a_rounding_that_the_model_has_itself_may_be_left_out() {
    let file = root().join("models/whole/torch_byte_image_torchscript/model.onnx");
    let file = fs::read(file).expect("a model");
    let (report, _) = convert(0, &file, &["--to", "FLOAT16"]);
    assert_eq!((&report["verdict"], &report["removed_casts"]), (&json!("holds"), &json!(4)));
}

/// Scales of the least error leave a few values beyond the last code. Those are no fault, whereas
/// codes that are off inside of the range are one.
#[test]
fn what_codes_of_least_error_cut_off_is_no_fault() {
    let mut state = 1u32;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0 - 0.5
    };
    let mut numbers: Vec<f32> = (0..2048).map(|_| (0..12).map(|_| uniform()).sum()).collect();
    // Far enough out to be cut off.
    numbers[0] = -4.0;
    let sketch = Sketch::new()
        .input("x", Float, &[2, 64])
        .initializer(TensorProto { dims: vec![64, 32], ..tensor("w", Float, &numbers) })
        .node("MatMul", &["x", "w"], &["y"], vec![])
        .output("y", Float, &[2, 32]);
    let folder = Folder::new();
    let (whole, output) = (folder.write("m.onnx", bytes(&sketch.model())), folder.text("o.onnx"));
    let call = ["convert", &whole, "-o", &output, "--weights", "int4"];
    let said_of = said(0, &call);
    assert!(said_of.contains("1 weight stored as INT4"), "{said_of}");
    assert!(said_of.contains("3 sets of random inputs"), "{said_of}");
    let compared = |model: &str| json(&onnx_cast_json(&whole, model))["comparisons"][0].clone();
    assert_eq!(compared(&output)["verdict"], json!("rounded"));
    for ty in ["INT4", "FLOAT8E4M3FN"] {
        let output = folder.text(&format!("{ty}.onnx"));
        said(0, &["convert", &whole, "-o", &output, "--weights", ty]);
        let (found, none) = (compared(&output), json!([]));
        let weights = &found["weights"];
        let unpaired = (&weights["unpaired_reference"], &weights["unpaired_converted"]);
        // Codes are not held for values; those of INT4 leave some beyond the last.
        assert!(ty == "INT4" || weights["changed"] == none, "{ty}: {weights}");
        assert_eq!((&found["verdict"], unpaired), (&json!("rounded"), (&none, &none)), "{ty}");
    }
    let mut model = ModelProto::decode(&*fs::read(&output).expect("a model")).expect("a model");
    let weights = &mut model.graph.as_mut().expect("a graph").initializer;
    let codes = weights.iter_mut().find(|held| held.raw_data.len() == 1024).expect("the codes");
    // Code 1 becomes 3 in each low half: no end of the range.
    for byte in codes.raw_data.iter_mut().filter(|byte| **byte & 15 == 1) {
        *byte |= 3;
    }
    let off = folder.message("off.onnx", &model);
    assert_eq!(compared(&off)["verdict"], json!("broken"));
}

fn onnx_cast_json(reference: &str, converted: &str) -> String {
    stdout(&onnx_cast(["compare", "--json", "--search", "0", reference, converted]))
}

#[test]
fn double_is_converted_where_it_is_named() {
    let (report, model) = convert(0, &squares(0.5), &["--to", "DOUBLE"]);
    assert_eq!(report["verdict"], json!("holds"));
    assert_eq!(weight(&model.expect("a model")), Some(ElementType::Double));
    let folder = Folder::new();
    let (model, wide) = (folder.write("m.onnx", squares(0.5)), folder.text("wide.onnx"));
    let wide_io = ["convert", &model, "--to", "DOUBLE", "--convert-io", "-o", &wide];
    said(0, &wide_io);
    let back = folder.text("back.onnx");
    said(0, &["convert", &wide, "--from", "DOUBLE", "--to", "FLOAT", "--convert-io", "-o", &back]);
    let decoded = |path: &str| ModelProto::decode(&*fs::read(path).expect("a file"));
    assert_eq!(decoded(&back).expect("a model"), decoded(&model).expect("a model"));
}

/// An operator of many steps that computes in FLOAT is off what it makes in DOUBLE by more than one
/// rounding.
#[test]
fn what_float_rounds_inside_is_no_fault_of_double() {
    let spread = |count: i32| -> Vec<f32> {
        (0..count).map(|place| (place * 37 % 101) as f32 / 101.0 - 0.5).collect()
    };
    let of = |name: &str, dims: &[i64]| {
        let numbers = spread(dims.iter().product::<i64>() as i32);
        TensorProto { dims: dims.to_vec(), ..tensor(name, Float, &numbers) }
    };
    for (op, gates) in [("LSTM", 4), ("GRU", 3)] {
        let sketch = Sketch::new()
            .input("x", Float, &[12, 2, 5])
            .initializer(of("w", &[1, gates * 16, 5]))
            .initializer(of("r", &[1, gates * 16, 16]))
            .node(op, &["x", "w", "r"], &["y"], vec![int("hidden_size", 16)])
            .output("y", Float, &[12, 1, 2, 16]);
        let (report, _) = convert(0, &bytes(&sketch.model()), &["--to", "DOUBLE"]);
        assert_eq!(report["verdict"], json!("holds"), "{op}");
    }
}

/// The codes of FLOAT8 are as far apart as they are large.
#[test]
fn what_is_quantised_to_float8_holds() {
    let one =
        |name: &str, ty, number: f32| TensorProto { dims: vec![], ..tensor(name, ty, &[number]) };
    let sketch = Sketch::new()
        .input("x", Float, &[4, 32])
        .initializer(one("scale", Float, 0.006))
        .initializer(one("zero", ElementType::Float8E4M3FN, 0.0))
        .node("QuantizeLinear", &["x", "scale", "zero"], &["codes"], vec![])
        .node("DequantizeLinear", &["codes", "scale", "zero"], &["coarse"], vec![])
        .node("Tanh", &["coarse"], &["y"], vec![])
        .output("y", Float, &[4, 32]);
    let (report, _) = convert(0, &bytes(&sketch.model()), &["--to", "DOUBLE"]);
    assert_eq!(report["verdict"], json!("holds"));
}

#[test]
fn a_call_that_cannot_do_is_refused_in_words_of_its_own() {
    let folder = Folder::new();
    let (model, out) = (folder.write("m.onnx", squares(0.5)), folder.text("out.onnx"));
    let line = refused(&["convert", &model, "-o", &out]);
    assert!(line.contains("--to <TYPE>|--weights <TYPE>"), "{line}");
    for option in ["-o", "--json", "--report"] {
        let place = folder.text("none/x");
        let given = if option == "--json" {
            vec![format!("--json={place}")]
        } else {
            vec![option.into(), place]
        };
        let mut call: Vec<&str> = vec!["convert", &model, "--to", "FLOAT16"];
        call.extend(given.iter().map(String::as_str));
        if option != "-o" {
            call.extend(["-o", &out]);
        }
        let line = refused(&call);
        let told = format!("{option}: {0}/x: there is no folder {0}", folder.text("none"));
        assert!(line.contains(&told), "{line}");
    }
    let line = refused(&["compare", &model, &model, "--report", &folder.text("none/x.html")]);
    assert!(line.contains("there is no folder"), "{line}");
}

#[test]
fn what_has_sequences_inside_is_judged_by_a_tolerance() {
    let sketch = Sketch::new()
        .input("x", Float, &[2, 4])
        .initializer(tensor("w", Float, &[0.5, 0.25, 2.0, 1.5]))
        .node("Mul", &["x", "w"], &["m"], vec![])
        .node("SequenceConstruct", &["m", "x"], &["s"], vec![])
        .node("Identity", &["s"], &["t"], vec![])
        .node("ConcatFromSequence", &["t"], &["c"], vec![int("axis", 0)])
        .node("Tanh", &["c"], &["y"], vec![])
        .output("y", Float, &[4, 4]);
    let options = ["--to", "FLOAT16", "--sqnr", "40"];
    let (report, _) = convert(0, &bytes(&sketch.model()), &options);
    assert_eq!(report["verdict"], json!("holds"));
}

#[test]
fn what_cannot_be_run_says_how_it_is_written() {
    let sketch = Sketch::new()
        .input("x", Float, &[4])
        .node("Sigmoid", &["x"], &["s"], vec![])
        .node("Bernoulli", &["s"], &["y"], vec![])
        .output("y", Float, &[4]);
    let folder = Folder::new();
    let (model, output) = (folder.write("m.onnx", bytes(&sketch.model())), folder.text("out.onnx"));
    for ty in ["FLOAT16", "DOUBLE"] {
        let call = ["convert", &model, "--to", ty, "-o", &output];
        let line = refused(&call);
        assert!(line.contains("(Bernoulli)"), "{line}");
        assert!(line.contains("--unverified writes the model without running it"), "{line}");
    }
    said(0, &["convert", &model, "--to", "FLOAT16", "-o", &output, "--unverified"]);
}

#[test]
fn that_no_weight_is_stored_in_few_bits_is_told() {
    let folder = Folder::new();
    let (model, out) = (folder.write("m.onnx", squares(0.5)), folder.text("out.onnx"));
    let done = onnx_cast(["convert", &model, "--weights", "INT8", "-o", &out]);
    let note =
        "no product or convolution has a weight of 256 elements or more that could be stored";
    assert_eq!(done.status.code(), Some(0));
    assert!(stderr(&done).contains(note), "{}", stderr(&done));
}
