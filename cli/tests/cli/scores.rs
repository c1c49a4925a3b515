//! Outputs that are scores, compared as distributions.

use serde_json::Value;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx_cast::ElementType::{Float, Int64};

use crate::common::proto::{dim, graph, int, model, node, shaped, tensor, unshaped};
use crate::program::{Folder, json, said};

const SIZE: usize = 64;
const TOKENS: usize = 120;

/// As scripts/reference/llama_cpp_scores.py has it: all numbers are exact.
fn base(t: usize, v: usize) -> f32 {
    ((t * 31 + v * 17 + (t * v) % 23) % 97) as f32 / 8.0 - 4.0
}

fn changed(t: usize, v: usize) -> f32 {
    base(t, v) + (((t * 13 + v * 7) % 11) as f32 - 5.0) / 16.0
}

/// A language model whose logits depend on the last token alone.
fn bigrams(table: fn(usize, usize) -> f32, is_softmax: bool) -> ModelProto {
    let places = (0..SIZE * SIZE).map(|place| table(place / SIZE, place % SIZE));
    let table = tensor("table", Float, &places.collect::<Vec<f32>>());
    let ids = shaped("input_ids", Int64, vec![dim(1), dim(TOKENS as i64)]);
    let mut nodes = vec![node("Gather", &["table", "input_ids"], &["logits"], vec![])];
    let mut output = "logits";
    if is_softmax {
        nodes.push(node("Softmax", &["logits"], &["p"], vec![int("axis", -1)]));
        output = "p";
    }
    let mut graph = graph(&[ids], &nodes, &[unshaped(output, Float)]);
    let dims = vec![SIZE as i64, SIZE as i64];
    graph.initializer = vec![tract_onnx::pb::TensorProto { dims, ..table }];
    model(17, graph)
}

fn compared(is_softmax: bool, arguments: &[&str]) -> Value {
    let folder = Folder::new();
    let ids: Vec<i64> = (0..TOKENS as i64).map(|i| (i * 37 + 11) % SIZE as i64).collect();
    let ids = tensor1(&ids).into_shape(&[1, TOKENS]).expect("a row");
    let ids = format!("input_ids={}", folder.tensor("ids.pb", Int64, ids));
    let a = folder.message("a.onnx", &bigrams(base, is_softmax));
    let b = folder.message("b.onnx", &bigrams(changed, is_softmax));
    let always = ["compare", &a, &b, "-i", &ids, "--rtol", "10", "--atol", "10"];
    let text = said(0, &[&always, arguments].concat());
    if arguments.contains(&"--json") { json(&text)["comparisons"][0].clone() } else { text.into() }
}

fn assert_near(found: &Value, value: f64, error: Option<f64>) {
    let near = |found: &Value, wanted: f64| {
        let found = found.as_f64().expect("a number");
        let is_near = (found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0);
        assert!(is_near, "{found} is not {wanted}");
    };
    near(&found["value"], value);
    error.into_iter().for_each(|error| near(&found["error"], error));
}

/// The figures are those that scripts/reference/llama_cpp_scores.py prints.
#[test]
fn logits_are_compared_as_llama_cpp_does() {
    let report = compared(false, &["--json"]);
    let scores = &report["outputs"][0]["scores"];
    assert_eq!((&scores["kind"], &scores["rows"]), (&"logits".into(), &TOKENS.into()));
    assert_near(&scores["kl_mean"], 0.018509833934391904, Some(0.00028329829372250955));
    assert_near(&scores["kl_median"], 0.018829243, None);
    assert_near(&scores["kl_999"], 0.028038371, None);
    assert_near(&scores["same_top"], 0.525, Some(0.045777595341980525));
    let perplexity = &scores["perplexity"];
    assert_eq!(perplexity["tokens"], TOKENS - 1);
    assert_near(&perplexity["reference"], 3279.355081122397, Some(1061.0674595095222));
    assert_near(&perplexity["converted"], 3351.2188894022083, Some(1085.8854451284383));
    assert_near(&perplexity["ln_ratio"], 0.021677345788779334, Some(0.01904892179276729));
    assert_near(&perplexity["ratio"], 1.021914006413485, Some(0.019466359987103967));
}

#[test]
fn probabilities_are_compared_as_they_are() {
    let report = compared(true, &["--json"]);
    let scores = &report["outputs"][0]["scores"];
    assert_eq!(scores["kind"], "probabilities");
    // Softmax rounds once more.
    let mean = scores["kl_mean"]["value"].as_f64().expect("a number");
    assert!((mean - 0.018509834).abs() < 1e-5, "{mean}");
}

#[test]
fn scores_stand_in_every_report() {
    let sentence = "scores: `logits`: KL divergence 0.01851 ± 2.833e-4 (median 0.01883";
    let text = compared(false, &[]);
    assert!(text.as_str().expect("text").contains(sentence), "{text}");
    let markdown = compared(false, &["--markdown"]);
    let markdown = markdown.as_str().expect("text");
    assert!(markdown.contains("KL divergence 0.01851 ± 2.833e-4"), "{markdown}");
    assert!(markdown.contains("ratio 1.022 ± 0.01947 of 119 tokens"), "{markdown}");
}
