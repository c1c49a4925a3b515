//! Models that cannot be used: one line each, whatever is wrong with them.

use prost::Message;
use tract_onnx::pb::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use tract_onnx_cast::ElementType;

use crate::common::proto::{
    Change, external, graph, int, model, node, raw, shaped, string, symbol, untyped, value,
    value_of,
};
use crate::program::{
    Folder, cast, cast_model, done, large_result, onnx_cast, refused, shape_model, stderr,
};

/// `y` is the initializer `w` cast to INT32.
fn weight_model(weight: TensorProto) -> ModelProto {
    let nodes = [cast("c1", "w", "y", ElementType::Int32)];
    let mut graph = graph(&[], &nodes, &[untyped("y")]);
    graph.initializer = vec![weight];
    model(21, graph)
}

/// A model whose only input, cast to INT32, has this symbolic dimension.
fn dim_model(dim: &str) -> ModelProto {
    let x = shaped("x", ElementType::Float, vec![symbol(dim)]);
    model(13, graph(&[x], &[cast("c1", "x", "y", ElementType::Int32)], &[untyped("y")]))
}

#[test]
fn models_that_cannot_be_used_take_one_line() {
    use ElementType::*;
    let folder = Folder::new();
    folder.write("secret.bin", [0; 8]);
    folder.write("models/short.bin", [0; 7]);
    let with = |opset: i64, attributes: Vec<AttributeProto>| {
        let mut model = cast_model(opset, Float, Int32);
        let node = &mut model.graph.as_mut().expect("a graph").node[0];
        node.attribute.extend(attributes);
        model
    };
    let to = |opset: i64, attribute: Vec<AttributeProto>| {
        let mut model = with(opset, vec![]);
        model.graph.as_mut().expect("a graph").node[0].attribute = attribute;
        model
    };
    let edited = |edit: fn(&mut GraphProto)| {
        let mut model = with(13, vec![]);
        edit(model.graph.as_mut().expect("a graph"));
        model
    };
    let weight = |dims: &[i64], bytes: usize| weight_model(raw("w", 1, dims, &vec![0; bytes]));
    let two_fields = TensorProto { float_data: vec![0.0], ..raw("w", 1, &[1], &[0; 4]) };
    let stored = |location: &str| external(raw("w", 1, &[2], &[]), location, None);
    let secret = folder.text("secret.bin");
    let k = |op: &str, inputs: &[&str]| node(op, inputs, &["t"], vec![]).named("k");
    let cases: Vec<(ModelProto, &[&str])> = vec![
        (
            with(13, vec![int("saturate", 1)]),
            &["node `c1`", "attribute `saturate`", "opset 19", "imports 13"],
        ),
        (
            with(21, vec![string("round_mode", "up")]),
            &["node `c1`", "attribute `round_mode`", "24", "21"],
        ),
        (with(24, vec![string("round_mode", "Up")]), &["node `c1`", "`round_mode`", "Up"]),
        (with(13, vec![int("frob", 1)]), &["node `c1`", "`frob`"]),
        (to(13, vec![]), &["node `c1`", "`to`", "13"]),
        (to(13, vec![int("to", 99)]), &["node `c1`", "`to`", "99"]),
        (to(13, vec![int("to", 14)]), &["node `c1`", "`to`", "COMPLEX64"]),
        (to(12, vec![int("to", 16)]), &["node `c1`", "`to`", "BFLOAT16", "13", "12"]),
        (to(6, vec![string("to", "FLOAT")]), &["node `c1`", "`to`", "6"]),
        (to(5, vec![string("to", "float32")]), &["node `c1`", "`to`", "float32"]),
        (cast_model(12, BFloat16, Float), &["BFLOAT16", "13", "12"]),
        (weight(&[3], 11), &["tensor `w`", "FLOAT", "11", "12"]),
        (weight(&[-3], 12), &["tensor `w`", "-3"]),
        (weight(&[1 << 40, 1 << 40], 12), &["tensor `w`", "overflow"]),
        (weight(&[1 << 50], 12), &["tensor `w`", "12"]),
        (weight_model(raw("w", 77, &[1], &[0])), &["tensor `w`", "77"]),
        (weight_model(raw("w", 14, &[1], &[0; 8])), &["tensor `w`", "COMPLEX64"]),
        (weight_model(two_fields), &["tensor `w`", "raw_data", "float_data"]),
        (weight_model(stored("../secret.bin")), &["tensor `w`", "../secret.bin"]),
        (weight_model(stored(&secret)), &["tensor `w`", "secret.bin"]),
        (weight_model(stored("none.bin")), &["tensor `w`", "none.bin"]),
        (weight_model(stored("short.bin")), &["tensor `w`", "7"]),
        (weight_model(stored("")), &["tensor `w`"]),
        (ModelProto { graph: None, ..with(13, vec![]) }, &["no graph"]),
        (edited(|graph| graph.output[0].name = "z".into()), &["nothing makes", "`z`"]),
        (edited(|graph| graph.node[0].input[0] = "z".into()), &["`c1`", "nothing makes", "`z`"]),
        (edited(|graph| graph.node[0].input[0] = "y".into()), &["`c1`", "own output"]),
        (edited(|graph| graph.node.push(graph.node[0].clone())), &["`y`", "twice"]),
        (edited(|graph| graph.node[0].input.clear()), &["`c1`", "input"]),
        (edited(|graph| graph.node[0].op_type = "Frob".into()), &["c1", "Frob"]),
        (edited(|graph| graph.input[0].r#type = None), &["`x`"]),
        (edited(|graph| graph.input[0] = value_of("x", 99, Some(vec![]))), &["99"]),
        (
            edited(|graph| graph.output[0] = value("y", ElementType::Float, &[])),
            &["`c1`", "INT32", "FLOAT"],
        ),
        (dim_model("N-5000"), &["`x`", "-4999"]),
        (shape_model(k("ConstantOfShape", &["s"]), &[-1]), &["`k` (ConstantOfShape)", "-1"]),
        (shape_model(k("Reshape", &["f", "s"]), &[7]), &["node `k`", "7"]),
        (shape_model(k("Loop", &["f", "s"]), &[7]), &["`k`", "Loop"]),
    ];
    for (model, words) in cases {
        let path = folder.message("models/m.onnx", &model);
        let line = refused(&["run", &path]);
        let start = format!("error: {path}: ");
        assert!(line.starts_with(&start) && line.chars().count() < start.len() + 1001, "{line}");
        for word in words {
            assert!(line.contains(word), "{word:?} in {line}");
        }
    }
}

#[test]
fn memory_is_limited() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &large_result());
    let line = refused(&["run", &path, "--max-memory", "1"]);
    assert!(line.contains("out of memory") && line.contains("limit of 1.0 GiB"), "{line}");
}

/// No plan has the operator, which is no problem of a model that runs node by node.
#[test]
fn memory_is_limited_without_a_plan() {
    let folder = Folder::new();
    let texts: Vec<String> = (0..30).map(|level| format!("t{level}")).collect();
    let twice = |pair: &[String]| node("StringConcat", &[&pair[0], &pair[0]], &[&pair[1]], vec![]);
    let nodes: Vec<NodeProto> = texts.windows(2).map(twice).collect();
    let text = ElementType::String;
    let inputs = [value("t0", text, &[1])];
    let model = model(21, graph(&inputs, &nodes, &[value("t29", text, &[1])]));
    let path = folder.message("m.onnx", &model);
    let line = refused(&["run", &path, "--max-memory", "1"]);
    assert!(line.contains("out of memory") && line.contains("limit of 1.0 GiB"), "{line}");
}

#[test]
fn damaged_files_take_one_line() {
    let folder = Folder::new();
    let whole = cast_model(21, ElementType::BFloat16, ElementType::Float).encode_to_vec();
    for command in ["run", "inspect"] {
        refused(&[command, &folder.text("absent.onnx")]);
        refused(&[command, &folder.text("")]);
        refused(&[command, &folder.write("m.onnx", [0xff; 100])]);
        let line = refused(&[command, &folder.write("m.onnx", [])]);
        assert!(line.ends_with("no graph"), "{line}");
        for length in (1..whole.len()).step_by(7) {
            let path = folder.write("m.onnx", &whole[..length]);
            let output = onnx_cast([command, &path]);
            assert!(output.status.code().is_some_and(|code| code == 0 || code == 2), "{length}");
        }
    }
}

/// Not even through a link does external data come from outside the model's folder.
#[cfg(unix)]
#[test]
fn links_do_not_lead_outside() {
    let folder = Folder::new();
    folder.write("secret.bin", [0; 8]);
    let link = external(raw("w", 1, &[2], &[]), "link.bin", None);
    let path = folder.message("models/m.onnx", &weight_model(link));
    std::os::unix::fs::symlink(folder.path("secret.bin"), folder.path("models/link.bin")).unwrap();
    let line = refused(&["run", &path]);
    assert!(["tensor `w`", "link.bin", "outside"].iter().all(|word| line.contains(word)), "{line}");
}

/// What is wrong with a file or an option is said in words that tell what to do.
#[test]
fn errors_say_what_was_meant() {
    let folder = Folder::new();
    let text = folder.write("text.onnx", "hello, I am a text and no model");
    assert!(refused(&["audit", &text]).contains("is not an ONNX model: it begins \"hello, I am"));
    let whole = dim_model("n").encode_to_vec();
    let good = folder.write("whole.onnx", &whole);
    for part in [b"hello", &whole[..whole.len() / 2]] {
        let part = folder.write("part.onnx", part);
        for line in [refused(&["inspect", &part]), refused(&["compare", &good, &part])] {
            assert!(line.contains(" not an ONNX ") && !line.contains("instead"), "{line}");
        }
    }
    let pointer =
        folder.write("lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    assert!(refused(&["run", &pointer]).contains("git lfs pull"));
    let memory = refused(&["audit", &text, "--max-memory", "5KB"]);
    assert!(memory.contains("1.5GiB or 768MiB"), "{memory}");
    let kind = refused(&["audit", &text, "--allow", "overflow"]);
    assert!(kind.contains("did you mean `overflowed`?"), "{kind}");
}

#[test]
fn the_program_alone_shows_its_help_and_shells_know_it() {
    let help = done(&[]);
    let place = |words: &str| help.find(words).unwrap_or_else(|| panic!("{words}: {help}"));
    assert!(place("  compare ") < place("  keep ") && place("  keep ") < place("  run "), "{help}");
    assert!(done(&["completions", "bash"]).contains("--rtol"));
    let page = done(&["man", "compare"]);
    assert!(page.starts_with(".ie") && page.contains("rtol"), "{page}");
    assert!(refused(&["man", "fly"]).contains("no command `fly`"));
    let long = done(&["compare", "--help"]);
    assert!(
        ["Inputs:", "Tolerance:", "Reports:", "Limits:"].iter().all(|h| long.contains(h)),
        "{long}"
    );
}

#[test]
fn the_path_of_a_model_is_said_once() {
    let folder = Folder::new();
    let [none, other] = ["none", "other.onnx"].map(|name| folder.text(name));
    for call in [&["keep", &none, "--to", "FLOAT16"][..], &["reduce", &none, &other, "-o", "case"]]
    {
        let said = stderr(&onnx_cast(call));
        assert_eq!(said.matches(&none).count(), 1, "{said}");
        assert!(said.starts_with(&format!("error: {none}: ")), "{said}");
    }
}

/// A file that is no model is called the same by all that open it: a text, of which some read as a
/// model without anything, a picture, nothing, other bytes.
#[test]
fn all_verbs_say_the_same_of_a_file_that_is_no_model() {
    let folder = Folder::new();
    let good = folder.message("good.onnx", &cast_model(13, ElementType::Float, ElementType::Int32));
    let made = folder.text("made.onnx");
    let files: [(&str, &[u8], &str); 6] = [
        (
            "text",
            b"hello, I am no model",
            "is not an ONNX model: it begins \"hello, I am no model\"",
        ),
        ("fields", b"PaPaPa", "is not an ONNX model: it begins \"PaPaPa\""),
        ("picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not an ONNX file, or only a part of one"),
        ("random", &[0xb5, 0x0e, 0x9f], "is not an ONNX file, or only a part of one"),
        ("empty", b"", "the model holds no graph"),
        ("unknown", &[0x50, 0x01], "the model holds no graph"),
    ];
    for (name, bytes, expected) in files {
        let file = folder.write(&format!("{name}.onnx"), bytes);
        let line = refused(&["run", &file]);
        let told = line.strip_prefix("error: ").expect("an error");
        assert!(told.starts_with(&format!("{file}: {expected}")), "{line}");
        let calls: [&[&str]; 13] = [
            &["run", &file, "--engine", "nodes"],
            &["audit", &file],
            &["audit", &file, "--engine", "plan"],
            &["audit", &good, "--baseline", &file],
            &["compare", &file, &good],
            &["compare", &good, &file],
            &["compare", &good, &file, "--engine", "plan"],
            &["compare", &good, &file, "--weights-only"],
            &["inspect", &file],
            &["convert", &file, "--to", "FLOAT16", "-o", &made],
            &["keep", &file, "--to", "FLOAT16"],
            &["reduce", &good, &file, "-o", &made],
            &["fix", &file, "-o", &made],
        ];
        for call in calls {
            // Some say first what the file was to them.
            let line = refused(call);
            assert!(line.ends_with(told), "{call:?}: {line}");
        }
    }
}
