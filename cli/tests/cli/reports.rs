//! `audit`, `compare` and `record` through the real program, and the page in a real browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::{Tensor, tensor1};
use tract_onnx_cast::{ElementType, tensor_proto};

use crate::common::cases::root;
use crate::common::machine::browser;
use crate::program::{Folder, in_repository, json, onnx_cast, refused, said};

fn model(name: &str) -> String {
    in_repository(&format!("models/{name}"))
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("UTF-8").into()
}

/// A saved output, `y` of its file's name.
fn saved(folder: &TempDir, name: &str, ty: ElementType, values: &Tensor) -> String {
    let proto = tensor_proto::write("y", ty, values).expect("a tensor");
    let file = path(folder, name);
    fs::write(&file, proto.encode_to_vec()).expect("written");
    file
}

/// A changed copy of a model.
fn changed(from: &str, to: &Path, change: impl FnOnce(&mut ModelProto)) {
    let bytes = fs::read(PathBuf::from(from).join("model.onnx")).expect("a model");
    let mut proto = ModelProto::decode(bytes.as_slice()).expect("a model");
    change(&mut proto);
    fs::write(to, proto.encode_to_vec()).expect("written");
}

const ORIGINAL: &str = "whole/rms_norm_FLOAT";
const BROKEN: &str = "whole/rms_norm_FLOAT16";
const FIXED: &str = "whole/rms_norm_FLOAT16_fixed";
const TOLERANCE: [&str; 4] = ["--rtol", "1e-2", "--atol", "1e-2"];

// ---- audit ----

#[test]
fn the_cast_that_overflows_is_the_worst() {
    let report = json(&said(1, &["audit", &model(BROKEN), "--json"]));
    assert_eq!(report["schema"], "onnx-cast/audit/1");
    let worst = &report["models"][0]["casts"][0];
    assert_eq!(
        (&worst["node"], &worst["outcomes"]["overflowed"]),
        (&"Cast_sum_half".into(), &2.into())
    );
    assert!(worst["source"]["min"].as_f64().expect("a number") > 65504.0);
    said(0, &["audit", &model(FIXED)]);
    said(0, &["audit", &model(BROKEN), "--allow", "overflowed=2"]);
    assert!(refused(&["audit", &model(BROKEN), "--allow", "boiled"]).contains("boiled"));
}

#[test]
fn casts_of_subgraphs_and_of_constants_are_counted() {
    let rows = |name: &str| {
        let report = json(&said(
            0,
            &[
                "audit",
                &model(name),
                "--json",
                "--allow",
                "became_nan",
                "--allow",
                "nan_lost",
                "--allow",
                "overflowed",
                "--allow",
                "wrapped",
                "--allow",
                "undefined",
            ],
        ));
        report["models"][0]["casts"].as_array().expect("casts").clone()
    };
    for name in ["whole/scan_bool_counts", "whole/scan_bfloat16_state", "whole/if_casts_then"] {
        let inner = rows(name).into_iter().filter(|row| {
            row["graph"].as_str().is_some_and(|graph| graph.contains('/')) && row["elements"] != 0
        });
        assert!(inner.count() > 0, "{name}");
    }
    let weights = rows("whole/mlp_weights_FLOAT8E4M3FN");
    assert!(weights.iter().all(|row| row["constant"] == true && row["runs"] == 1));
    assert_eq!(
        weights.iter().map(|row| row["elements"].as_u64().expect("a count")).sum::<u64>(),
        16 * 12 + 4 * 12
    );
}

#[test]
fn sets_are_merged_and_constants_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let goldens = path(&folder, "goldens");
    let onnx = format!("{}/model.onnx", model("whole/mlp_weights_FLOAT8E4M3FN"));
    said(0, &["record", &onnx, &goldens, "--sets", "3"]);
    let report = json(&said(0, &["audit", &goldens, "--json"]));
    let model = &report["models"][0];
    assert_eq!(model["sets"], 3);
    assert!(model["casts"].as_array().expect("casts").iter().all(|row| row["runs"] == 1));
    let other = json(&said(0, &["audit", &onnx, "-i", &goldens, "--json"]));
    assert_eq!(other["models"][0]["casts"], model["casts"]);
}

#[test]
fn limits_come_from_the_file_beside_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = path(&folder, "m.onnx");
    fs::copy(format!("{}/model.onnx", model(BROKEN)), &copy).expect("copied");
    let data = model(BROKEN);
    said(1, &["audit", &copy, "-i", &data]);
    let limits = path(&folder, "m.tolerance.toml");
    fs::write(&limits, "[audit.cast.Cast_sum_half]\noverflowed = \"any\"\n").expect("written");
    said(0, &["audit", &copy, "-i", &data]);
    fs::write(&limits, "[audit]\noverflowed = 5\nrounded = 1\n").expect("written");
    assert!(said(1, &["audit", &copy, "-i", &data]).contains("rounded 2, the limit is 1"));
    for wrong in ["[audit]\nboiled = 1\n", "[compare]\nrtol = -1.0\n", "[", "[compare]\nfoo = 1\n"]
    {
        fs::write(&limits, wrong).expect("written");
        assert!(refused(&["audit", &copy, "-i", &data]).contains("m.tolerance.toml"), "{wrong}");
    }
}

#[test]
fn many_models_are_audited_in_the_order_they_are_given() {
    let of = |jobs: &str| onnx_cast(["audit", &model("audit"), "--jobs", jobs, "--json"]).stdout;
    assert_eq!(of("1"), of("3"));
    let text = String::from_utf8(of("2")).expect("UTF-8");
    let names: Vec<String> = json(&text)["models"]
        .as_array()
        .expect("models")
        .iter()
        .map(|model| model["model"].as_str().expect("a name").into())
        .collect();
    assert!(names.is_sorted() && names.len() == 26, "{names:?}");
}

#[test]
fn a_type_that_contradicts_a_cast_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let onnx = path(&folder, "m.onnx");
    changed(&model(FIXED), Path::new(&onnx), |proto| {
        let graph = proto.graph.as_mut().expect("a graph");
        let mut info = graph.output.first().cloned().expect("an output");
        info.name = "x_half".into();
        graph.value_info.push(info);
    });
    let text = said(1, &["audit", &onnx]);
    assert!(
        text.contains(
            "invalid: `Cast_x_half`: makes `x_half` FLOAT16, but the model declares it FLOAT"
        ),
        "{text}"
    );
    let line = refused(&["compare", &format!("{}/model.onnx", model(ORIGINAL)), &onnx]);
    assert!(line.contains("node `Cast_x_half` (Cast): makes `x_half` FLOAT16"), "{line}");
}

#[test]
fn a_folder_is_audited_on_given_inputs_and_on_random_ones() {
    let of_model = |arguments: &[&str]| {
        let report = json(&said(1, &[arguments, &["--json"]].concat()));
        assert_eq!(report["models"].as_array().expect("models").len(), 1, "{arguments:?}");
        report["models"][0]["casts"][0]["source"]["max"].clone()
    };
    let (broken, data) = (model(BROKEN), format!("{}/test_data_set_0", model(BROKEN)));
    let own = of_model(&["audit", &broken]);
    assert_eq!(of_model(&["audit", &broken, "-i", &data]), own);
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(format!("{broken}/model.onnx"), folder.path().join("model.onnx")).expect("copied");
    let bare = folder.path().to_str().expect("UTF-8");
    assert_eq!(of_model(&["audit", bare, "-i", &data]), own);
    assert_ne!(of_model(&["audit", bare, "--set", "batch=9"]), own);
}

#[test]
fn limits_for_a_cast_that_the_model_does_not_have_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = path(&folder, "limits.toml");
    fs::write(&limits, "[audit.cast.Cast_sum]\noverflowed = \"any\"\n").expect("written");
    let line = refused(&["audit", &model(BROKEN), "--tolerance", &limits]);
    assert!(line.contains("`Cast_sum`"), "{line}");
    fs::write(&limits, "[audit]\noverflowed = inf\n").expect("written");
    assert!(refused(&["audit", &model(BROKEN), "--tolerance", &limits]).contains("\"any\""));
}

#[test]
fn where_there_is_nothing_to_audit_that_is_said() {
    for others in [&[][..], &[model(FIXED)]] {
        let mut words = vec!["audit".to_owned(), model(ORIGINAL)];
        words.extend_from_slice(others);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = said(0, &words);
        assert!(text.contains("nothing to audit"), "{text}");
    }
    let report = json(&said(0, &["audit", &model(ORIGINAL), "--json"]));
    assert_eq!(report["models"][0]["status"], "passed");
    let empty = said(1, &["audit", &model("node/cast_opset9_empty_FLOAT_to_FLOAT16")]);
    assert!(empty.contains("no value other than NaN has reached a cast"), "{empty}");
}

#[test]
fn an_option_without_effect_is_refused() {
    let (fixed, original) = (model(FIXED), model(ORIGINAL));
    for option in [["--seed", "5"], ["--set", "batch=4"]] {
        let random = |arguments: &[&str]| {
            assert!(refused(arguments).contains("--seed and --set are for random inputs"));
        };
        random(&["audit", &fixed, option[0], option[1]]);
        random(&["compare", &original, &fixed, option[0], option[1]]);
        let onnx = format!("{original}/model.onnx");
        random(&["compare", &onnx, &fixed, "-i", &original, option[0], option[1]]);
    }
    // A model without recorded inputs among others.
    said(0, &["audit", &fixed, &format!("{fixed}/model.onnx"), "--seed", "5"]);
    let folder = tempfile::tempdir().expect("a folder");
    let one = saved(&folder, "one.pb", ElementType::Float, &tensor1(&[1f32]));
    assert!(refused(&["compare", &one, &one, "-i", "x=x.npy"]).contains("nothing is run"));
    assert!(refused(&["compare", &one, &one, "--all-tensors"]).contains("--all-tensors"));
}

#[test]
fn a_report_goes_where_nothing_else_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let onnx = path(&folder, "m.onnx");
    changed(&model(FIXED), Path::new(&onnx), |_| ());
    let before = fs::read(&onnx).expect("a model");
    for option in ["--report", "--json", "--markdown"] {
        let line = refused(&["audit", &onnx, &format!("{option}={onnx}")]);
        assert!(line.contains("already read or written"), "{line}");
    }
    assert_eq!(fs::read(&onnx).expect("a model"), before);
    let line = refused(&["audit", &onnx, "--json", "--markdown"]);
    assert!(line.contains("already read or written"), "{line}");
    assert!(refused(&["audit", &onnx, "--report", "-"]).contains("needs a file"));
}

#[test]
fn a_file_may_follow_after_a_space() {
    let folder = tempfile::tempdir().expect("a folder");
    let (facts, text) = (path(&folder, "a.json"), path(&folder, "a.md"));
    let words = said(0, &["audit", "--json", &facts, "--markdown", &text, &model(FIXED)]);
    assert!(words.contains("within its limits"), "{words}");
    json(&fs::read_to_string(&facts).expect("JSON"));
    assert!(fs::read_to_string(&text).expect("Markdown").starts_with("### ✅"));
    json(&said(0, &["audit", "--json", "-", &model(FIXED)]));
    json(&said(0, &["audit", "--json", &model(FIXED)]));
}

#[test]
fn what_cannot_be_used_is_in_the_report_and_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (facts, missing) = (path(&folder, "a.json"), path(&folder, "missing.onnx"));
    for models in [&[missing.as_str()][..], &[&model(FIXED), &missing]] {
        let line = refused(&[&["audit", "--json", &facts][..], models].concat());
        assert!(line.contains("missing.onnx"), "{line}");
        let report = json(&fs::read_to_string(&facts).expect("JSON"));
        let last = report["models"].as_array().expect("models").last().expect("one");
        assert_eq!(last["status"], "unusable");
        fs::remove_file(&facts).expect("removed");
    }
}

// ---- compare ----

#[test]
fn a_conversion_that_overflows_fails_and_the_place_is_named() {
    let (original, broken) = (model(ORIGINAL), model(BROKEN));
    let arguments = [&["compare", &original, &broken, "--json"][..], &TOLERANCE].concat();
    let report = json(&said(1, &arguments));
    let pair = &report["comparisons"][0];
    assert_eq!(pair["first_damage"]["tensor"]["name"], "norm");
    assert_eq!(pair["first_damage"]["op"], "Sqrt");
    let culprit = &pair["first_damage"]["culprit"];
    assert_eq!(
        (&culprit["node"], &culprit["outcomes"]["overflowed"]),
        (&"Cast_sum_half".into(), &2.into())
    );
    assert!(pair["first_difference"]["culprit"].is_null());
    assert_eq!(pair["casts"]["added"].as_array().expect("casts").len(), 4);
    let text = said(1, &[&["compare", &original, &broken][..], &TOLERANCE].concat());
    assert!(text.contains("first mismatching tensor: `"), "{text}");
    said(0, &[&["compare", &original, &model(FIXED)][..], &TOLERANCE].concat());
    let rounded = json(&said(0, &["compare", &original, &model(FIXED), "--json"]));
    assert_eq!(rounded["comparisons"][0]["verdict"], "rounded");
    said(0, &["compare", &original, &model(FIXED), "--cosine", "0.9999"]);
    said(0, &["compare", &original, &model(FIXED), "--per-output", "scores:rtol=1e-2,atol=1e-2"]);
    assert!(
        refused(&["compare", &original, &model(FIXED), "--per-output", "other:rtol=1"])
            .contains("`other`")
    );
}

#[test]
fn every_model_is_exactly_equal_to_itself() {
    let mut folders = vec![];
    for part in ["whole", "audit", "node"] {
        let entries = fs::read_dir(root().join("models").join(part)).expect("a folder");
        folders.extend(entries.map(|entry| entry.expect("a folder").path()));
    }
    folders.sort();
    // Each is a pair of processes; of the many single nodes a sample will do.
    for folder in folders.iter().step_by(5) {
        let folder = folder.to_str().expect("UTF-8");
        let is_compared = !folder.contains("_empty_");
        let report =
            json(&said(u8::from(!is_compared).into(), &["compare", folder, folder, "--json"]));
        assert_eq!(report["comparisons"][0]["identical"], true, "{folder}");
    }
}

#[test]
fn saved_outputs_are_compared_with_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let outputs = path(&folder, "outputs");
    let onnx = format!("{}/model.onnx", model(ORIGINAL));
    said(0, &["run", &onnx, "-o", &outputs]);
    assert!(said(0, &["compare", &onnx, &outputs, "--engine", "plan"]).contains("exactly equal"));
    // Node by node, sums may be added in another order.
    said(0, &["compare", &onnx, &outputs]);
    assert!(said(0, &["compare", &outputs, &outputs]).contains("exactly equal"));
    let other = format!("{}/model.onnx", model("whole/if_casts_then"));
    refused(&["compare", &other, &outputs]);
    refused(&["compare", &onnx, &path(&folder, "nothing")]);
}

/// Whether the two are within a tolerance of one kind.
fn passes(reference: &str, converted: &str, option: &str, limit: f64) -> bool {
    let limit = format!("{limit:e}");
    let output = onnx_cast(["compare", reference, converted, option, &limit]);
    match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        status => panic!("{status:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn the_smallest_tolerance_that_would_pass_does_and_no_smaller_one() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 1..12u32 {
        let at =
            |index: u32| f64::from((seed * 7919 + index * 104_729) % 8191) * 1.000_37e-3 + 1e-3;
        let x: Vec<f64> = (0..9).map(at).collect();
        let y: Vec<f64> =
            x.iter().zip(1u8..).map(|(x, i)| x + f64::from(i).sin() * 3.3e-4).collect();
        let a = saved(&folder, "a.pb", ElementType::Double, &tensor1(&x));
        let b = saved(&folder, "b.pb", ElementType::Double, &tensor1(&y));
        let report = json(&said(1, &["compare", &a, &b, "--json"]));
        let output = &report["comparisons"][0]["outputs"][0];
        let found = |key: &str| output[key].as_f64().expect("a number");
        for (option, limit) in [
            ("--atol", found("passing_atol")),
            ("--rtol", found("passing_rtol")),
            ("--ulp", found("max_ulp")),
        ] {
            assert!(passes(&a, &b, option, limit), "{option} {limit:e}");
            assert!(!passes(&a, &b, option, limit.next_down()), "{option} below {limit:e}");
        }
        let cosine = found("cosine");
        assert!(passes(&a, &b, "--cosine", cosine));
        assert!(cosine == 1.0 || !passes(&a, &b, "--cosine", cosine.next_up()));
        // What people read, and type.
        let text = said(1, &["compare", &a, &b]);
        let mut words = text.split_whitespace();
        let mut after = |word: &str| {
            words.find(|other| *other == word).expect("the word");
            words.next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
        };
        let (atol, rtol) = (after("atol"), after("rtol"));
        assert!(passes(&a, &b, "--atol", atol) && passes(&a, &b, "--rtol", rtol), "{text}");
    }
}

#[test]
fn large_and_small_values_are_compared_as_exactly_as_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let doubles =
        |name: &str, values: &[f64]| saved(&folder, name, ElementType::Double, &tensor1(values));
    // 2^63 − 1 is no DOUBLE; its neighbour is one more.
    let whole = saved(&folder, "whole.pb", ElementType::Int64, &tensor1(&[i64::MAX, -5]));
    let near = doubles("near.pb", &[2f64.powi(63), -5.0]);
    let report = json(&said(1, &["compare", &whole, &near, "--json"]));
    assert_eq!(report["comparisons"][0]["outputs"][0]["max_abs"], 1.0);
    said(0, &["compare", &whole, &near, "--atol", "1"]);
    // The squares of these are no DOUBLEs.
    let huge = doubles("huge.pb", &[1e300, -1e308, 1e-300]);
    said(0, &["compare", &huge, &huge, "--cosine", "1"]);
    let (tiny, turned) =
        (doubles("tiny.pb", &[1e-300, 1e-300]), doubles("turned.pb", &[-1e-300, 1e-300]));
    said(1, &["compare", &tiny, &turned, "--cosine", "0.9"]);
    let zero = doubles("zero.pb", &[0.0, -0.0]);
    assert!(said(1, &["compare", &tiny, &zero, "--cosine", "0.9"]).contains("cosine undefined"));
    let other = doubles("other.pb", &[-0.0, 0.0]);
    assert!(said(0, &["compare", &zero, &other]).contains("equal, but for the signs of zeros"));
}

#[test]
fn where_there_is_nothing_to_compare_nothing_is_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let onnx = path(&folder, "m.onnx");
    changed(&model(ORIGINAL), Path::new(&onnx), |proto| {
        proto.graph.as_mut().expect("a graph").output.clear();
    });
    assert!(refused(&["compare", &onnx, &onnx]).contains("no outputs"));
    let gap = folder.path().join("gap");
    fs::create_dir(&gap).expect("a folder");
    saved(&folder, "gap/output_1.pb", ElementType::Float, &tensor1(&[1f32]));
    let gap = gap.to_str().expect("UTF-8");
    assert!(refused(&["compare", gap, gap]).contains("gap: output_0.pb is missing"));
    let none = saved(
        &folder,
        "none.pb",
        ElementType::Float,
        &Tensor::zero::<f32>(&[0]).expect("a tensor"),
    );
    assert!(said(1, &["compare", &none, &none]).contains("nothing was compared"));
    let nan = saved(&folder, "nan.pb", ElementType::Float, &tensor1(&[f32::NAN; 3]));
    assert!(said(1, &["compare", &nan, &nan]).contains("nothing was compared"));
}

#[test]
fn models_that_differ_in_their_inputs_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let onnx = path(&folder, "m.onnx");
    changed(&model(ORIGINAL), Path::new(&onnx), |proto| {
        let graph = proto.graph.as_mut().expect("a graph");
        graph.input[0].name = "renamed".into();
        graph
            .node
            .iter_mut()
            .flat_map(|node| &mut node.input)
            .filter(|name| *name == "x")
            .for_each(|name| *name = "renamed".into());
    });
    let original = format!("{}/model.onnx", model(ORIGINAL));
    let line = refused(&["compare", &original, &onnx]);
    assert!(line.contains("`x`") && line.contains("`renamed`"), "{line}");
}

/// How a model is named makes no difference: by its folder, or by its file.
#[test]
fn inputs_beside_a_model_are_taken_of_its_file_too() {
    let file = |name: &str| format!("{}/model.onnx", model(name));
    let (original, broken) = (file(ORIGINAL), file(BROKEN));
    let compared = |arguments: &[&str], status| {
        let words = [&["compare", &original, &broken, "--json"][..], &TOLERANCE, arguments];
        json(&said(status, &words.concat()))["comparisons"][0].clone()
    };
    let pair = compared(&[], 1);
    assert_eq!((&pair["sets"], &pair["inputs"]["origin"]), (&1.into(), &"given".into()));
    let notes = pair["notes"].to_string();
    assert!(notes.contains("the inputs are those recorded beside the model"), "{notes}");
    for random in [&["--random"][..], &["--seed", "0", "--sets", "3"]] {
        assert_eq!(compared(random, 1)["inputs"]["origin"], "random", "{random:?}");
    }
    said(1, &["audit", &broken]);
    said(1, &["audit", &broken, "--random"]);
    let folder = json(&said(1, &["audit", &model(BROKEN), "--random", "--json"]));
    assert_eq!(folder["models"][0]["inputs"]["origin"], "random");
    let kept = |path: &str| {
        json(&said_of_keep(&["keep", path, "--to", "FLOAT16", "--json"]))["keep"].clone()
    };
    assert_eq!(kept(&original), kept(&model(ORIGINAL)));
    assert!(refused(&["audit", &broken, "--random", "-i", &model(BROKEN)]).contains("--random"));
}

/// Its standard output; notes go to the other stream.
fn said_of_keep(arguments: &[&str]) -> String {
    let output = onnx_cast(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The call of `keep` takes what the call of `compare` took, however it was spelt; other words may
/// be no text.
#[test]
#[cfg(unix)]
fn the_next_call_takes_the_same_inputs() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let folder = Folder::new();
    let inputs = format!("{}/test_data_set_0/input_0.pb", model(ORIGINAL));
    let input = format!("-ix={inputs}");
    let (original, broken) = (model(ORIGINAL), model(BROKEN));
    let mut words: Vec<OsString> =
        ["compare", &original, &broken, &input, "--search-steps", "10", "--quiet", "--report"]
            .map(OsString::from)
            .into();
    let page = [folder.text("page").into_bytes(), b"\xff.html".to_vec()].concat();
    words.push(OsString::from_vec(page));
    let output = onnx_cast(words);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let next = text.lines().find_map(|line| line.strip_prefix("next  ")).expect("a call");
    let words = ["onnx-cast", "keep", &original, "--to", "FLOAT16", &input, "--search-steps", "10"];
    assert_eq!(shlex::split(next).expect("words"), words);
}

/// What a verdict about a whole output says stands in the JSON too.
#[test]
fn swapped_models_are_noticed() {
    let text = said(1, &["compare", &model(BROKEN), &model(ORIGINAL), "--quiet"]);
    assert!(text.contains("\nnext  Swap the two"), "{text}");
    assert_eq!(text.matches("warning: the reference is FLOAT16 and").count(), 1, "{text}");
    let text = said(1, &["compare", &model(ORIGINAL), &model(BROKEN), "--quiet"]);
    assert!(!text.contains("Swap"), "{text}");
}

#[test]
fn why_an_output_fails_is_in_the_json() {
    let arguments = ["compare", &model(ORIGINAL), &model(FIXED), "--sqnr", "120", "--json"];
    let pair = json(&said(1, &arguments))["comparisons"][0].clone();
    let why = pair["outputs"][0]["why"].as_str().expect("a sentence");
    assert!(why.starts_with("SQNR 68.") && why.ends_with("at least 120 is wanted"), "{why}");
    let passed = json(&said(0, &["compare", &model(FIXED), &model(FIXED), "--json"]));
    assert_eq!(passed["comparisons"][0]["outputs"][0]["why"], Value::Null);
}

#[test]
fn models_in_the_wrong_order_are_noticed() {
    let (original, broken) = (model(ORIGINAL), model(BROKEN));
    let swapped = [&["compare", &broken, &original][..], &TOLERANCE].concat();
    assert!(said(1, &swapped).contains("the reference is FLOAT16 and the converted model is not"));
}

// ---- record ----

#[test]
fn recordings_are_added_replayed_and_only_changed_on_demand() {
    let folder = tempfile::tempdir().expect("a folder");
    let goldens = path(&folder, "goldens");
    let onnx = |name| format!("{}/model.onnx", model(name));
    assert_eq!(said(0, &["record", &onnx(ORIGINAL), &goldens, "--sets", "2"]).lines().count(), 2);
    assert!(said(0, &["test", &goldens]).ends_with("2 passed, 0 failed\n"));
    assert!(said(0, &["record", &onnx(ORIGINAL), &goldens]).starts_with("kept"));
    assert!(refused(&["record", &onnx(FIXED), &goldens]).contains("rerecord"));
    assert!(said(0, &["test", &goldens]).ends_with("2 passed, 0 failed\n"));
    assert!(said(0, &["rerecord", &goldens]).lines().all(|line| line.starts_with("kept")));
    assert!(
        said(0, &["rerecord", &goldens, &onnx(FIXED)])
            .lines()
            .all(|line| line.starts_with("changed"))
    );
    assert!(said(0, &["test", &goldens]).ends_with("2 passed, 0 failed\n"));
    let external = path(&folder, "external");
    said(0, &["record", &onnx("whole/mlp_external_data"), &external]);
    assert!(said(0, &["test", &external]).ends_with("1 passed, 0 failed\n"));
}

// ---- The page ----

/// A model whose names are HTML.
fn hostile(folder: &TempDir) -> String {
    let onnx = path(folder, "m.onnx");
    changed(&model(BROKEN), Path::new(&onnx), |proto| {
        let graph = proto.graph.as_mut().expect("a graph");
        for node in &mut graph.node {
            node.name = format!("<script>document.title='run'</script><b>{}", node.name);
        }
    });
    onnx
}

#[test]
fn the_inputs_of_another_model_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let goldens = path(&folder, "goldens");
    let onnx = |name| format!("{}/model.onnx", model(name));
    // Its first input is a truth value, the first of the other a matrix.
    said(0, &["record", &onnx("whole/if_casts_then"), &goldens]);
    let line = refused(&["audit", &onnx(BROKEN), "-i", &goldens]);
    assert!(line.contains("goldens"), "{line}");
    refused(&["rerecord", &goldens, &onnx(BROKEN)]);
    assert!(said(0, &["test", &goldens]).ends_with("1 passed, 0 failed\n"));
    // The same input under another name, and then of another type.
    let own = path(&folder, "own");
    said(0, &["record", &onnx(BROKEN), &own]);
    let file = folder.path().join("own/test_data_set_0/input_0.pb");
    let write = |name: &str, ty: ElementType, values: &Tensor| {
        let proto = tensor_proto::write(name, ty, values).expect("a tensor");
        fs::write(&file, proto.encode_to_vec()).expect("written");
    };
    write("z", ElementType::Float, &Tensor::zero::<f32>(&[2, 8]).expect("a tensor"));
    let text = said(0, &["audit", &onnx(BROKEN), "-i", &own, "--allow", "made_nan"]);
    assert!(text.contains("holds `z`, which is taken for `x`"), "{text}");
    write("z", ElementType::Double, &Tensor::zero::<f64>(&[2, 8]).expect("a tensor"));
    let line = refused(&["audit", &onnx(BROKEN), "-i", &own]);
    assert!(line.contains("holds `z`, DOUBLE of shape [2, 8]; the model takes `x`"), "{line}");
    write("x", ElementType::Double, &Tensor::zero::<f64>(&[2, 8]).expect("a tensor"));
    // Of zeros the model makes NaN.
    said(0, &["audit", &onnx(BROKEN), "-i", &own, "--allow", "made_nan"]);
}

/// The fields that docs/report-format.md names in a table, by the table's heading.
pub fn documented(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/report-format.md")).expect("the page");
    let begin = format!("| {heading} | |");
    let rows = text.lines().skip_while(|line| *line != begin).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let names = rows.filter_map(|line| line.split('|').nth(1)).flat_map(|cell| cell.split('`'));
    let is_name =
        |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut names: Vec<String> = names.filter(is_name).map(String::from).collect();
    names.sort();
    names
}

#[test]
fn the_format_of_the_reports_is_the_documented_one() {
    let fields = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> =
            value.as_object().expect("an object").keys().cloned().collect();
        names.sort();
        names
    };
    let audit = json(&said(1, &["audit", &model(BROKEN), "--json"]));
    let compare =
        json(&said(1, &["compare", &model(ORIGINAL), &model(BROKEN), "--all-tensors", "--json"]));
    assert_eq!(fields(&audit), ["models", "schema"]);
    assert_eq!(fields(&compare), ["comparisons", "schema"]);
    let (audited, pair) = (&audit["models"][0], &compare["comparisons"][0]);
    let (cast, tensor) = (&audited["casts"][0], &pair["tensors"][0]);
    for (heading, value) in [
        ("model", audited),
        ("cast", cast),
        ("range", &cast["source"]),
        ("comparison", pair),
        ("tensor", tensor),
        ("range", &tensor["source"]),
        ("tensor", &pair["first_damage"]["tensor"]),
        ("weights", &pair["weights"]),
    ] {
        assert_eq!(fields(value), documented(heading), "{heading}");
    }
}

#[test]
fn a_page_needs_nothing_else_and_escapes_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (page, comment) = (path(&folder, "audit.html"), path(&folder, "comment.md"));
    said(
        1,
        &[
            "audit",
            &hostile(&folder),
            "-i",
            &model(BROKEN),
            "--report",
            &page,
            &format!("--markdown={comment}"),
        ],
    );
    let html = fs::read_to_string(page).expect("a page");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script>document.title"));
    // Of the fourth cast every value is zero, which has no exponent.
    assert_eq!(html.matches("<svg").count(), 3);
    let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http") && !elsewhere.contains("src="));
    let markdown = fs::read_to_string(comment).expect("Markdown");
    assert!(!markdown.contains("<script") && markdown.contains("2 overflowed"), "{markdown}");
}

#[test]
fn the_pages_open_in_a_browser() {
    let Some(browser) = browser() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (audit, compare) = (path(&folder, "audit.html"), path(&folder, "compare.html"));
    said(1, &["audit", &hostile(&folder), "-i", &model(BROKEN), "--report", &audit]);
    let arguments = ["compare", &model(ORIGINAL), &model(BROKEN), "--report", &compare];
    said(1, &[&arguments[..], &TOLERANCE].concat());
    for (page, what) in [(&audit, "2 overflowed"), (&compare, "inf converted")] {
        let profile = tempfile::tempdir().expect("a folder");
        let picture = path(&profile, "page.png");
        let open = |what: &str| {
            let mut command = Command::new(browser);
            command.args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ]);
            command.args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ]);
            command.arg(format!("--user-data-dir={}", profile.path().display()));
            command.args(["--window-size=390,844", what]).arg(format!("file://{page}"));
            command.output().expect("the browser starts")
        };
        let dom = String::from_utf8(open("--dump-dom").stdout).expect("UTF-8");
        // The script gives heads a place in the order of tabs; the title is still the page's own.
        assert!(dom.contains("tabindex=\"0\"") && !dom.contains("<title>run</title>"), "{dom}");
        assert!(dom.contains(what) && dom.contains("<svg"), "{dom}");
        open(&format!("--screenshot={picture}"));
        let bytes = fs::read(&picture).expect("a screenshot");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 10_000, "{} bytes", bytes.len());
    }
}
