//! Files that are not what their names say: pipes and devices, archives whose directory lies, names
//! that no archive holds.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use tract_onnx::pb::{ModelProto, NodeProto};
use tract_onnx_cast::ElementType;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::common::proto::{graph, model, node, untyped, value};
use crate::program::*;

fn float_model(input: &str, output: &str) -> ModelProto {
    let nodes: [NodeProto; 1] = [cast("c", input, output, ElementType::Int32)];
    let x = value(input, ElementType::Float, &[2]);
    model(21, graph(&[x], &nodes, &[untyped(output)]))
}

/// The one error line of a call, which must not wait for anything, nor read without end.
fn refused_at_once(arguments: &[&str]) -> String {
    let mut command = assert_cmd::Command::new(cargo_bin!("onnx-cast"));
    let output = command.args(arguments).timeout(Duration::from_secs(30)).output();
    let output = output.expect("the program starts");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {:?} {told}", output.status);
    assert_eq!(told.lines().count(), 1, "{told}");
    told
}

#[test]
fn nothing_is_read_of_pipes_and_devices() {
    let folder = Folder::new();
    let pipe = folder.text("a.pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let path = folder.message("m.onnx", &float_model("x", "y"));
    for (kind, target) in [("pipe", &*pipe), ("zero", "/dev/zero"), ("stdin", "/dev/stdin")] {
        let odd = |name: &str| {
            let place = folder.path(&format!("{kind}/{name}"));
            fs::create_dir_all(place.parent().expect("a parent")).expect("a folder");
            symlink(target, &place).expect("a link");
            place.to_str().expect("UTF-8").to_owned()
        };
        let case = |name: &str| {
            let (model, input) = (format!("{kind}/{name}/model.onnx"), "input_0.pb");
            folder.message(&model, &float_model("x", "y"));
            if name != input {
                let x = tract_onnx::prelude::tensor1(&[1f32, 2.]);
                folder.tensor(&format!("{kind}/{name}/{input}"), ElementType::Float, x);
            }
            odd(&format!("{name}/{name}"));
            folder.text(&format!("{kind}/{name}"))
        };
        let (inputs, outputs) = (case("input_0.pb"), case("output_0.pb"));
        let given = |name: &str| format!("x={}", odd(name));
        for arguments in [
            vec!["test", &inputs],
            vec!["test", &outputs],
            vec!["audit", &inputs],
            vec!["run", &path, "-i", &given("a.pb")],
            vec!["run", &path, "-i", &given("a.npy")],
            vec!["run", &path, "-i", &odd("a.npz")],
            vec!["compare", &odd("b.pb"), &path],
            vec!["compare", &odd("b.npy"), &path],
            vec!["compare", &odd("b.npz"), &path],
            vec!["compare", &odd("b.json"), &path],
            vec!["audit", &path, "--tolerance", &odd("a.toml")],
            vec!["run", &odd("a.onnx")],
            vec!["fix", &odd("b.onnx"), "-o", &folder.text("fixed.onnx")],
        ] {
            let line = refused_at_once(&arguments);
            assert!(line.contains("is no file"), "{arguments:?}: {line}");
        }
    }
}

fn npy(values: &[f32]) -> Vec<u8> {
    let header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", values.len());
    let length = (header.len() as u16).to_le_bytes();
    let data = bytes(values, f32::to_le_bytes);
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
}

fn archive(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method))
            .expect("a member");
        zip.write_all(bytes).expect("is written");
    }
    zip.finish().expect("an archive").into_inner()
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        bytes.windows(old.len()).enumerate().filter(|(_, w)| *w == old).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[*at..at + new.len()].copy_from_slice(new));
    bytes
}

#[test]
fn archives_are_read_within_their_limits_whatever_they_say() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &float_model("x", "y"));
    // The directory and the member's own header say 200 bytes.
    let long = npy(&vec![0.; (280 << 20) / 4]);
    let archived = archive(&[("x.npy", &long)], CompressionMethod::Deflated);
    assert!(archived.len() < 1 << 20);
    let length = (long.len() as u32).to_le_bytes();
    let lying = folder.write("lying.npz", replaced(&archived, &length, &200u32.to_le_bytes()));
    for arguments in [["run", &path, "-i", &lying], ["compare", &lying, &lying, "--all-tensors"]] {
        let line = refused(&arguments);
        assert!(line.contains("more than 268435456 bytes unpacked"), "{line}");
    }
    // So it is with several that are within it alone.
    let half = npy(&vec![0.; (140 << 20) / 4]);
    let two = archive(&[("x.npy", &half), ("y.npy", &half)], CompressionMethod::Deflated);
    let line = refused(&["compare", &folder.write("two.npz", two), &path]);
    assert!(line.contains("array `y`: its arrays have more than 268435456 bytes"), "{line}");
}

#[test]
fn members_of_archives_share_no_bytes() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &float_model("x", "y"));
    let one = archive(&[("x.npy", &npy(&[1., 2.]))], CompressionMethod::Stored);
    let end = one.len() - 22;
    let number = |at: usize| u32::from_le_bytes(one[at..at + 4].try_into().expect("four bytes"));
    let (size, start) = (number(end + 12), number(end + 16) as usize);
    let entry = &one[start..end];
    let mut last = one[end..].to_vec();
    last[8] = 2;
    last[10] = 2;
    last[12..16].copy_from_slice(&(2 * size).to_le_bytes());
    let other = replaced(entry, b"x.npy", b"z.npy");
    let shared = [&one[..start], entry, &other, &last].concat();
    let line = refused(&["run", &path, "-i", &folder.write("shared.npz", shared)]);
    assert!(line.contains("`x.npy` and `z.npy` share bytes of the archive"), "{line}");
    done(&["run", &path, "-i", &folder.write("one.npz", one)]);
}

/// What is no input is not unpacked.
#[test]
fn names_are_looked_at_before_arrays() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &float_model("x", "y"));
    let members: [(&str, &[u8]); 2] = [("x.npy", &npy(&[1., 2.])), ("other.npy", b"no array")];
    let both = folder.write("both.npz", archive(&members, CompressionMethod::Stored));
    let output = onnx_cast(["run", &path, "-i", &both]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("`other` is no input of the model"), "{}", stderr(&output));
    let line = refused(&["compare", &both, &path]);
    assert!(line.contains("array `other`"), "{line}");
}

#[test]
fn names_and_paths_may_hold_an_equals_sign() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &float_model("a=b", "y"));
    let array = folder.write("d=1/x=2.npy", npy(&[1., 2.]));
    done(&["run", &path, "-i", &format!("a=b={array}")]);
    let plain = folder.message("plain.onnx", &float_model("x", "y"));
    done(&["run", &plain, "-i", &format!("x={array}")]);
    let dashed = folder.message("dashed.onnx", &float_model("--x", "y"));
    done(&["run", &dashed, &format!("--input=--x={array}")]);
    let nodes = [node("Add", &["a", "a=b"], &["y"], vec![])];
    let inputs = ["a", "a=b"].map(|name| value(name, ElementType::Float, &[2]));
    let both = folder.message("both.onnx", &model(21, graph(&inputs, &nodes, &[untyped("y")])));
    done(&["run", &both, "-i", &format!("a=b={array}"), "-i", &format!("a={array}")]);
    let line = refused(&["run", &path, "-i", &format!("c={array}")]);
    assert!(line.contains("more than one `=`"), "{line}");
}

#[test]
fn outputs_whose_names_no_archive_holds_are_refused() {
    let folder = Folder::new();
    let to = folder.text("out.npz");
    let run = |name: &str| {
        let path = folder.message("m.onnx", &float_model("x", name));
        refused(&["run", &path, "-o", &to])
    };
    for (name, problem) in [
        ("Y".repeat(65_531), "is 65531 bytes long"),
        ("Y".repeat(500_000), "is 500000 bytes long"),
        ("../../z".into(), "leads upwards"),
        ("a\\..\\z".into(), "leads upwards"),
        ("a\0b".into(), "holds a NUL"),
    ] {
        let line = run(&name);
        assert!(line.contains(problem) && line.contains(".npz cannot hold"), "{line}");
        assert!(!folder.path("out.npz").exists());
    }
    for name in ["Y".repeat(65_530), "/layer/y:0".into(), "a..b".into()] {
        let path = folder.message("m.onnx", &float_model("x", &name));
        done(&["run", &path, "-o", &to]);
        fs::remove_file(&to).expect("an archive");
    }
}

#[test]
fn what_is_printed_and_written_holds_no_control_characters() {
    let folder = Folder::new();
    let name = "y\u{9b}31m\u{7f}\u{85}\u{1b}[2J\0";
    let graph = graph(
        &[value(name, ElementType::Float, &[2])],
        &[cast(name, name, "t", ElementType::Int32), node("Neg", &["t"], &["z\u{9b}"], vec![])],
        &[untyped("z\u{9b}")],
    );
    let path = folder.message("m\u{9b}.onnx", &model(21, graph));
    let [page, written] = ["page.html", "written.json"].map(|name| folder.text(name));
    let to = [format!("--json={written}"), format!("--report={page}"), "--model-explorer".into()];
    let explorer = folder.text("explorer.json");
    done(&["audit", &path, &to[0], &to[1], &to[2], &explorer]);
    let read = |path: &str| fs::read_to_string(path).expect("a report");
    let inspected = done(&["inspect", &path, "--json"]);
    assert_eq!(json(&inspected)["casts"][0]["node"], name);
    let ran = done(&["run", &path, "--json"]);
    assert_eq!(json(&ran)["outputs"][0]["name"], "z\u{9b}");
    for text in [inspected, ran, read(&written), read(&page), read(&explorer)] {
        let odd = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(odd, None);
    }
}

/// The folder's name ends a line, clears the screen and turns what follows around.
#[test]
fn names_and_paths_are_printed_on_their_line() {
    const NAME: &str = "a\n\u{1b}[2J\u{202e}b";
    let folder = Folder::new();
    let graph = |op| {
        let nodes = [node(op, &["x"], &[NAME], vec![])];
        graph(&[value("x", ElementType::Float, &[2])], &nodes, &[untyped(NAME)])
    };
    let right = folder.message(&format!("{NAME}/right.onnx"), &model(21, graph("Exp")));
    let wrong = folder.message(&format!("{NAME}/wrong.onnx"), &model(21, graph("Neg")));
    let to = |name: &str| folder.text(&format!("{NAME}/{name}"));
    for arguments in [
        vec!["fix", &right, "-o", &to("fixed.onnx")],
        vec!["convert", &right, "-o", &to("narrow.onnx"), "--to", "FLOAT16"],
        vec!["keep", &right, "--to", "FLOAT16"],
        vec!["reduce", &right, &wrong, "-o", &to("case")],
        vec!["inspect", &right],
        vec!["run", &right, "-o", &to("out.npz")],
        vec!["audit", &right],
        vec!["compare", &right, &wrong],
        vec!["record", &right, "-o", &to("case2")],
        vec!["test", &to("case2")],
    ] {
        let told = Command::new(cargo_bin!("onnx-cast")).args(&arguments).output().expect("starts");
        let told = [stdout(&told), stderr(&told)].concat();
        assert!(!told.is_empty());
        let is_odd = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
        assert_eq!(told.chars().find(is_odd), None, "{arguments:?}: {told}");
        assert!(!told.contains("a\n"), "{arguments:?}: {told}");
    }
    let page = fs::read_to_string(folder.path(NAME).join("case/README.md")).expect("a page");
    assert!(page.starts_with("# `Neg_a �[2J�b` (Neg)"), "{page}");
}

/// Limits that are beside a model and cannot be read are not passed by.
#[test]
fn a_folder_of_the_name_of_limits_is_refused() {
    let folder = Folder::new();
    let path = folder.message("m.onnx", &float_model("x", "y"));
    fs::create_dir(folder.path("m.tolerance.toml")).expect("a folder");
    let told = refused_at_once(&["compare", &path, &path]);
    assert!(told.contains("m.tolerance.toml: is no file"), "{told}");
}

/// Among what a folder has may be what never ends.
#[test]
fn what_folders_have_is_given_a_limited_time() {
    let help = done(&["test", "--help"]);
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("600 s for one that `test` or `audit` finds in a folder"), "{words}");
}
