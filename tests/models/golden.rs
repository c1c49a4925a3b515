//! The project's own models and ONNX's node tests, from file to outputs, each prepared in every way
//! that tract has.
//!
//! The outputs of the project's models are kept as snapshots. `make snapshots` adds missing ones
//! and changes none; `make snapshots-changed` accepts changes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::cases::{
    Preparation, Tolerance, Typed, data, differences, numbers, root, run, spell, tensors,
};
use serde::Deserialize;
use test_tools::{insta, serde_json};

#[derive(Deserialize)]
struct Manifest {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    covers: String,
    oracle: String,
    tolerance: Option<ManifestTolerance>,
}

#[derive(Deserialize)]
struct ManifestTolerance {
    rtol: f64,
    atol: f64,
}

impl Case {
    fn folder(&self) -> PathBuf {
        root().join("models").join(&self.name)
    }

    fn tolerance(&self) -> Option<Tolerance> {
        let ManifestTolerance { rtol, atol } = *self.tolerance.as_ref()?;
        Some(Tolerance { rtol, atol })
    }
}

fn manifest() -> Vec<Case> {
    let text = fs::read_to_string(root().join("models/MANIFEST.json")).expect("the manifest");
    let Manifest { cases } = serde_json::from_str(&text).expect("a manifest");
    cases
}

/// What is wrong with a case, prepared in one way.
fn complaint(
    folder: &Path,
    tolerance: Option<Tolerance>,
    preparation: Preparation,
) -> Result<Vec<Typed>, String> {
    let about = |what: String| format!("{} {preparation:?}: {what}", folder.display());
    let data = data(folder);
    let (inputs, wanted) = (tensors(&data, "input"), tensors(&data, "output"));
    let outputs = run(&folder.join("model.onnx"), &inputs, preparation)
        .map_err(|error| about(format!("{error:#}")))?;
    if outputs.len() != wanted.len() {
        return Err(about(format!("{} outputs, not {}", outputs.len(), wanted.len())));
    }
    for (index, (got, want)) in outputs.iter().zip(&wanted).enumerate() {
        if (got.ty, got.tensor.shape()) != (want.ty, want.tensor.shape()) {
            let (g, w) = (got.tensor.shape(), want.tensor.shape());
            return Err(about(format!("output {index}: {} {g:?}, not {} {w:?}", got.ty, want.ty)));
        }
        if let Some(first) = differences(got, want, tolerance).first() {
            let (got, want) = (&spell(got)[*first], &spell(want)[*first]);
            return Err(about(format!("output {index}: element {first} is {got}, not {want}")));
        }
    }
    Ok(outputs)
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{} wrong:\n{}", complaints.len(), complaints.join("\n"));
}

fn complaints(preparation: Preparation) -> Vec<String> {
    let cases = manifest();
    assert!(cases.len() > 200, "{} cases", cases.len());
    let wrong = |case: &Case| complaint(&case.folder(), case.tolerance(), preparation).err();
    cases.iter().filter_map(wrong).collect()
}

#[test]
fn models_run_typed() {
    assert_none(complaints(Preparation::Typed));
}

#[test]
fn models_run_decluttered() {
    assert_none(complaints(Preparation::Decluttered));
}

/// The models that tract cannot type without concrete shapes, and what it says: for none of them is
/// Cast the reason.
const NEED_SHAPES: &[(&str, &str)] = &[
    ("whole/declared_one_symbol", "Clashing resolution"),
    ("whole/shape_flatten", "shape input is variable"),
];

#[test]
fn models_run_with_their_declared_shapes() {
    let mut complaints = complaints(Preparation::OptimizedAsDeclared);
    for (name, reason) in NEED_SHAPES {
        let known = |complaint: &String| {
            complaint.contains(&format!("models/{name} ")) && complaint.contains(reason)
        };
        let at = complaints.iter().position(known);
        complaints.remove(at.unwrap_or_else(|| panic!("{name} runs now, or fails otherwise")));
    }
    assert_none(complaints);
}

#[test]
fn models_run_optimized_and_their_outputs_are_as_recorded() {
    let mut wrong = vec![];
    for case in manifest() {
        match complaint(&case.folder(), case.tolerance(), Preparation::Optimized) {
            Ok(outputs) => record(&case, &outputs),
            Err(complaint) => wrong.push(complaint),
        }
    }
    assert_none(wrong);
}

/// Keeps a case's outputs as a snapshot.
fn record(case: &Case, outputs: &[Typed]) {
    let mut text = format!("{}\nexpected outputs: {}\n", case.covers, case.oracle);
    for (output, want) in outputs.iter().zip(tensors(&data(&case.folder()), "output")) {
        text.push_str(&format!("\n{} {:?}\n", output.ty, output.tensor.shape()));
        for row in shown(output, &want, case.tolerance()).chunks(10) {
            text.push_str(&format!("  {}\n", row.join("  ")));
        }
    }
    let name = case.name.replace('/', "__");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

/// Our elements as text: exactly or, of floats that may be off, as multiples of the power of ten
/// below what each may be off by. They are counted from the expected value, near which ours is, so
/// that the last digits of another CPU's arithmetic do not lie between two multiples, and half of
/// what is allowed shows.
fn shown(ours: &Typed, want: &Typed, tolerance: Option<Tolerance>) -> Vec<String> {
    let exact = spell(ours);
    let Some(tolerance) = tolerance else { return exact };
    if !ours.ty.is_float() {
        return exact;
    }
    let pairs = numbers(ours).into_iter().zip(numbers(want));
    pairs.zip(exact).map(|((ours, want), exact)| rounded(ours, want, tolerance, exact)).collect()
}

fn rounded(ours: f64, want: f64, Tolerance { rtol, atol }: Tolerance, exact: String) -> String {
    let allowed = atol + rtol * want.abs();
    if !ours.is_finite() || !want.is_finite() || allowed == 0.0 {
        return exact;
    }
    let exponent = allowed.log10().floor() as i32;
    let step = 10f64.powi(exponent);
    let steps = ((ours - want) / step).round();
    let digits = usize::try_from(-exponent).unwrap_or(0);
    let text = format!("{:.digits$}", want + steps * step);
    // A negative number may round to zero.
    if text.trim_start_matches(['-', '0', '.']).is_empty() { "0".into() } else { text }
}

#[test]
fn a_drift_within_the_tolerance_shows() {
    let tolerance = Tolerance { rtol: 1e-3, atol: 1e-5 };
    let shown = |ours: f64| rounded(ours, 0.123_456_7, tolerance, String::new());
    assert_eq!(shown(0.123_456_7), "0.1235");
    assert_eq!(shown(0.123_456_9), "0.1235");
    assert_eq!(shown(0.123_556_7), "0.1236");
    assert_eq!(rounded(-1e-7, 1e-7, tolerance, String::new()), "0");
    assert_eq!(rounded(f64::INFINITY, 1.0, tolerance, "INF".into()), "INF");
}

const EVERY_PREPARATION: [Preparation; 4] = [
    Preparation::Typed,
    Preparation::Decluttered,
    Preparation::Optimized,
    Preparation::OptimizedAsDeclared,
];

/// What is wrong with the cases of a folder, which has so many, prepared in every way.
fn complaints_below(folder: &str, count: usize, tolerance: Option<Tolerance>) -> Vec<String> {
    let folders: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .expect("cases")
        .map(|entry| entry.expect("a folder").path())
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(folders.len(), count);
    let wrong = |folder: &PathBuf| {
        EVERY_PREPARATION.map(|preparation| complaint(folder, tolerance, preparation).err())
    };
    folders.iter().flat_map(wrong).flatten().collect()
}

#[test]
fn official_node_tests_pass_in_every_preparation() {
    assert_none(complaints_below("tests/data/node_tests", 172, None));
}

/// Operators as ONNX spells them out in smaller ones, casts among them.
#[test]
fn official_tests_of_expanded_operators_pass_in_every_preparation() {
    let as_onnx_compares = Tolerance { rtol: 1e-3, atol: 1e-6 };
    assert_none(complaints_below("tests/data/expanded_tests", 80, Some(as_onnx_compares)));
}
