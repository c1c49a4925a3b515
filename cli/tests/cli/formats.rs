//! What the reports are written as besides JSON: JUnit, Model Explorer's node data, Markdown, the
//! page; and the metrics.

use std::fs;

use serde_json::{Value, json};
use tract_onnx::pb::NodeProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Float, Float16, Int64};

use crate::common::proto::{Change, graph, model, node, value};
use crate::program::*;

fn models() -> [String; 2] {
    ["rms_norm_FLOAT", "rms_norm_FLOAT16"]
        .map(|name| in_repository(&format!("models/whole/{name}")))
}

fn chain(folder: &Folder, name: &str, casts: usize) -> String {
    let node = |index: usize| {
        let to = if index.is_multiple_of(2) { Float16 } else { Float };
        let name = format!("/model/encoder/layers.{index}/attention/self/query/Cast_{index}");
        cast(&name, &format!("v{index}"), &format!("v{}", index + 1), to)
    };
    let nodes: Vec<NodeProto> = (0..casts).map(node).collect();
    let last = value(&format!("v{casts}"), Float, &[64]);
    folder.message(name, &model(13, graph(&[value("v0", Float, &[64])], &nodes, &[last])))
}

#[test]
fn junit_tells_failures_from_what_cannot_be_used() {
    let folder = Folder::new();
    let [original, broken] = models();
    let file = folder.text("r.xml");
    let xml = || fs::read_to_string(&file).expect("XML");
    said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--junit", &file]);
    let text = xml();
    assert!(text.contains("tests=\"1\" skipped=\"0\" failures=\"1\" errors=\"0\""), "{text}");
    assert!(
        text.contains("name=\"scores\"")
            && text.contains("<failure message=\"8 of 8 values differ"),
        "{text}"
    );
    let named = node("Cast", &["x"], &["y"], vec![]).named("<a & \"b\">");
    let named = NodeProto { attribute: cast("c", "x", "y", Int64).attribute, ..named };
    let onnx = folder.message(
        "m.onnx",
        &model(13, graph(&[value("x", Float, &[1])], &[named], &[value("y", Int64, &[1])])),
    );
    let x = format!("x={}", folder.tensor("x.pb", Float, tensor1(&[1e30f32])));
    said(1, &["audit", &onnx, "-i", &x, "--junit", &file]);
    assert!(xml().contains("message=\"`&lt;a &amp; &quot;b&quot;&gt;`: undefined 1"), "{}", xml());
    refused(&["audit", &folder.text("missing.onnx"), "--junit", &file]);
    assert!(xml().contains("failures=\"0\" errors=\"1\""), "{}", xml());
    done(&["test", &original, "--rtol", "1e-3", "--junit", &file]);
    assert!(
        xml().contains("<testsuite name=\"onnx-cast test\" tests=\"1\" skipped=\"0\" errors=\"0\" failures=\"0\""),
        "{}",
        xml()
    );
    assert!(refused(&["audit", &broken, "--junit", "-"]).contains("--junit: it needs a file"));
}

#[test]
fn model_explorer_gets_a_number_for_every_node() {
    let folder = Folder::new();
    let [original, broken] = models();
    let file = folder.text("nodes.json");
    said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--model-explorer", &file]);
    let data = json(&fs::read_to_string(&file).expect("JSON"));
    let nodes = &data["rms_norm_FLOAT16"]["results"];
    assert_eq!(nodes["Sqrt_norm"]["value"], 3.0, "{data}");
    assert_eq!(nodes["Cast_sum_half"]["bgColor"], "#b3261e", "{data}");
    assert!(nodes["MatMul_hidden"]["value"].as_f64().expect("a number") < -3.0, "{data}");
    assert_eq!(data["rms_norm_FLOAT16"]["gradient"][0]["stop"], 0.0);
    said(1, &["audit", &broken, "--model-explorer", &file]);
    let data = json(&fs::read_to_string(&file).expect("JSON"));
    assert_eq!(data["rms_norm_FLOAT16"]["results"]["Cast_sum_half"]["value"], 1.0, "{data}");
}

#[test]
fn the_error_is_told_along_the_graph() {
    let [original, broken] = models();
    let report = json(&said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--json"]));
    let profile = &report["comparisons"][0]["profile"];
    let points = profile["points"].as_array().expect("points");
    let error = |name: &str| {
        points.iter().find(|point| point["tensor"] == name).expect(name)["error"].clone()
    };
    assert!(error("hidden").as_f64().expect("a number") < 1e-3);
    assert_eq!((error("norm"), error("scores")), (json!("Infinity"), json!(1.0)));
    assert!(points.windows(2).all(|pair| pair[0]["depth"].as_u64() <= pair[1]["depth"].as_u64()));
    let around = profile["around"].as_array().expect("nodes");
    let centre: Vec<&Value> = around.iter().filter(|node| node["is_centre"] == true).collect();
    assert_eq!(centre.len(), 1);
    assert_eq!(centre[0]["node"], "Sqrt_norm");
    let from = centre[0]["from"][0].as_u64().expect("a place") as usize;
    assert_eq!(around[from]["node"], "Cast_sum_half");
}

#[test]
fn markdown_has_room_in_a_comment() {
    let folder = Folder::new();
    let [original, broken] = models();
    let text = said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--markdown"]);
    assert!(
        !text.contains("&#96;") && text.contains("<code>Cast&#95;sum&#95;half</code>"),
        "{text}"
    );
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.windows(2) {
        let is_row = |line: &str| line.starts_with('|');
        assert!(is_row(pair[0]) == is_row(pair[1]) || pair.contains(&""), "{pair:?}");
    }
    let long = chain(&folder, "long.onnx", 1000);
    let many: Vec<String> = std::iter::repeat_n(long, 12).collect();
    let mut words = vec!["audit", "--markdown", "--sets", "1", "--top", "5000"];
    words.extend(many.iter().map(String::as_str));
    let text = done(&words);
    assert!(
        text.chars().count() < 65_536 && text.contains("a comment has no room"),
        "{}",
        text.len()
    );
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
}

#[test]
fn the_page_of_a_thousand_casts_is_small_and_folded() {
    let folder = Folder::new();
    let (long, page) = (chain(&folder, "long.onnx", 1000), folder.text("page.html"));
    said(1, &["audit", &long, "--range", "v0=-70000:70000", "--report", &page]);
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert!(html.contains("<summary>980 more</summary>"));
    assert!(html.contains("seeds 0 to 2") && html.contains("--range v0=-70000:70000"));
    let [original, broken] = models();
    said(1, &["compare", &original, &broken, "--rtol", "1e-2", "--report", &page]);
    let html = fs::read_to_string(&page).expect("a page");
    let place = |words: &str| html.find(words).unwrap_or_else(|| panic!("{words}"));
    assert!(place("class=\"headline\"") < place("<table"));
    assert!(
        html.contains("class=\"graph\"") && place("class=\"advice\"") < place("class=\"parting")
    );
    for picture in html.split("<svg").skip(1) {
        let tag = picture.split('>').next().unwrap_or_default();
        assert!(tag.contains("aria-label"), "{tag}");
    }
    // Of many models those that failed come first, and those that passed are folded.
    let fixed = in_repository("models/whole/rms_norm_FLOAT16_fixed/model.onnx");
    let words = ["audit", &fixed, &fixed, &fixed, &fixed, &fixed, &broken, "--report", &page];
    said(1, &words);
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("1 of 6 failed or cannot be used, 5 passed"));
    assert_eq!(html.matches("<details class=\"folded\">").count(), 5);
}

#[test]
fn outputs_are_judged_as_a_whole_where_that_is_wanted() {
    let folder = Folder::new();
    let save = |name: &str, x: &[f32]| {
        let proto = tract_onnx_cast::tensor_proto::write(
            "y",
            Float,
            &Tensor::from_shape(&[2, 3], x).expect("a tensor"),
        );
        folder.message(name, &proto.expect("a tensor"))
    };
    let a = save("a.pb", &[1.0, 2.0, 3.0, 3.0, 2.0, 1.0]);
    let b = save("b.pb", &[1.0, 2.0, 3.0, 3.0, 2.0, 1.1]);
    let c = save("c.pb", &[3.0, 2.0, 1.0, 3.0, 2.0, 1.0]);
    let output = |other: &str| {
        json(&onnx_cast_text(&["compare", &a, other, "--json"]))["comparisons"][0]["outputs"][0]
            .clone()
    };
    // 28 by 0.01 is 34.47 dB.
    assert!((output(&b)["sqnr"].as_f64().expect("a number") - 34.47).abs() < 0.01);
    assert_eq!(output(&a)["sqnr"], "Infinity");
    assert_eq!((&output(&b)["top1"], &output(&c)["top1"]), (&json!(1.0), &json!(0.5)));
    assert_eq!(output(&b)["top5"], json!(null));
    done(&["compare", &a, &b, "--sqnr", "34"]);
    let text = said(1, &["compare", &a, &b, "--sqnr", "35"]);
    assert!(text.contains("SQNR 34.47 dB, at least 35 is wanted"), "{text}");
    done(&["compare", &a, &b, "--per-output", "y:sqnr=30"]);
    assert!(refused(&["compare", &a, &b, "--sqnr", "inf"]).contains("decibels"));
}

fn onnx_cast_text(arguments: &[&str]) -> String {
    stdout(&onnx_cast(arguments))
}

/// An operator that overflows by itself is the root cause, with no cast before it to blame.
#[test]
fn an_operator_that_overflows_is_marked_as_the_cause() {
    let folder = Folder::new();
    let (x, y) = (value("x", Float, &[4]), value("y", Float, &[4]));
    let made = |from: &str, to: &str| {
        [
            node("Mul", &[from, from], &["q"], vec![]).named("square"),
            node("Sqrt", &["q"], &[to], vec![]).named("root"),
            node("Neg", &[to], &["n"], vec![]).named("negated"),
        ]
    };
    let back = |from: &str| node("Identity", &[from], &["y"], vec![]).named("end");
    let plain = [&made("x", "r")[..], &[back("n")]].concat();
    let half =
        [&[cast("down", "x", "h", Float16)][..], &made("h", "r"), &[cast("up", "n", "y", Float)]]
            .concat();
    let path = |name: &str, nodes: &[NodeProto]| {
        let graph = graph(std::slice::from_ref(&x), nodes, std::slice::from_ref(&y));
        folder.message(name, &model(17, graph))
    };
    let (a, b) = (path("a.onnx", &plain), path("b.onnx", &half));
    let values = tensor1(&[1.0f32, 2.0, 300.0, 400.0]);
    let input = format!("x={}", folder.tensor("x.pb", Float, values));
    let (page, data) = (folder.text("page.html"), folder.text("nodes.json"));
    let call = ["compare", &a, &b, "-i", &input, "--report", &page, "--model-explorer", &data];
    let said = said(1, &call);
    assert!(said.contains("why   `square` (Mul, FLOAT → FLOAT16) overflows: 2 of 4"), "{said}");
    let page = fs::read_to_string(page).expect("a page");
    let marked = page.split("class=\"node culprit\"").next().expect("a page");
    assert!(marked.len() < page.len() && marked.ends_with("</title><rect "), "no cause is marked");
    assert!(
        marked.rsplit("<title>").next().expect("a title").starts_with("Mul square"),
        "{marked}"
    );
    let data = json(&fs::read_to_string(data).expect("JSON"));
    let nodes = data.as_object().expect("graphs").values().next().expect("a graph");
    assert_eq!(nodes["results"]["square"]["bgColor"], "#b3261e", "{data}");
}
