//! Every command that README.md and docs/ show with what it prints: run, and compared. Those that
//! they and the help show without are run too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use tract_onnx::pb::ModelProto;
use tract_onnx_cast::ElementType::Float;

use crate::common::cases::root;
use crate::common::proto::{Change, dim, graph, model, node, shaped, symbol, tensor, value};
use crate::program::{Folder, bytes, done, in_repository, stderr};
use crate::run::{npy, npz};

/// By how much a printed number may differ, as last digits of sums depend on the CPU.
const RELATIVE: f64 = 0.02;

/// What begins with one of these and stands between backticks is a file of the repository.
const FOLDERS: [&str; 5] = ["src/", "cli/", "graph/", "tests/", "scripts/"];

struct Shown {
    page: String,
    command: String,
    printed: Vec<String>,
}

#[test]
fn commands_print_what_the_pages_show() {
    let mut wrong = Vec::new();
    let mut commands = 0;
    for page in pages() {
        let folder = Folder::new();
        for Shown { page, command, printed } in shown_in(&page) {
            commands += 1;
            let got = run(&command, &folder.path(""));
            if !agrees(&printed, &got) {
                let (shown, printed) = (printed.join("\n"), got.join("\n"));
                wrong.push(format!("{page}: $ {command}\nshown:\n{shown}\nprinted:\n{printed}"));
            }
        }
    }
    assert!(commands >= 4, "the pages show {commands} commands");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Links among the pages lead to files and headings that are there, and the files that they name
/// are there.
#[test]
fn links_lead_somewhere() {
    let others = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root().join(name));
    let folders = ["fuzz", "scripts", "tests/data"].map(|name| root().join(name).join("README.md"));
    let mut dead = vec![];
    for page in pages().iter().chain(&others).chain(&folders) {
        let text = fs::read_to_string(page).expect("a page is text");
        // What stands between two backticks is each second part.
        let code = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for named in code.filter_map(|code| code.split([' ', ':']).next()) {
            let is_path = FOLDERS.iter().any(|folder| named.starts_with(folder));
            if is_path && !root().join(named).exists() {
                dead.push(format!("{}: {named}", page.display()));
            }
        }
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (link, _) in links.filter(|(link, _)| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.parent().expect("a folder");
            let to = if file.is_empty() { page.clone() } else { folder.join(file) };
            let has_heading = || {
                let text = fs::read_to_string(&to).expect("a page is text");
                text.lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line) == heading)
            };
            if !to.exists() || !heading.is_empty() && !has_heading() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// The lines that pages and the help show without what is printed do something with the files that
/// they name, each in a folder that has these: what is no call, or names an option that is not
/// there, has the exit status 2.
#[test]
#[cfg(unix)]
fn lines_without_output_run() {
    let (mut lines, mut wrong) = (0, vec![]);
    for line in pages().iter().flat_map(|page| in_shell(page)).chain(in_help()) {
        lines += 1;
        let folder = Folder::new();
        furnish(&folder);
        let words = line.split(" > ").next().unwrap_or_default();
        let words = shlex::split(words.split("  #").next().unwrap_or_default()).expect("words");
        if let Some(at) = words.iter().position(|word| word == "-o") {
            // What is written has to be new.
            let written = folder.path(&words[at + 1]);
            let _ = fs::remove_file(&written).or_else(|_| fs::remove_dir_all(written));
        }
        let mut program = Command::new(cargo_bin!("onnx-cast"));
        program.args(&words[1..]).current_dir(folder.path("")).stdin(Stdio::null());
        program.env("PATH", folder.path("bin"));
        let output = program.output().expect("the program starts");
        if !matches!(output.status.code(), Some(0 | 1)) {
            wrong.push(format!("{line}: {}", stderr(&output)));
        }
    }
    assert!(lines >= 40, "there are {lines} lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The commands of a page's blocks of `sh`.
fn in_shell(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page is text");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).filter(|line| line.starts_with("onnx-cast "));
    lines.map(String::from).collect()
}

/// The examples of every command's help.
fn in_help() -> Vec<String> {
    let help = done(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // A longer description goes on below itself.
    let commands = commands.filter(|line| !line.starts_with("   "));
    let names = commands.filter_map(|line| line.split_whitespace().next());
    let of = |name: &str| done(&[name, "--help"]);
    let texts = names.filter(|name| *name != "help").map(of);
    let examples = |text: String| {
        let lines = text.lines().skip_while(|line| !line.starts_with("Example"));
        let lines = lines.map(str::trim).filter(|line| line.starts_with("onnx-cast "));
        lines.map(String::from).collect::<Vec<_>>()
    };
    texts.flat_map(examples).collect()
}

/// A small network whose sizes and names are those that the lines speak of.
fn network(scale: f32) -> ModelProto {
    let nodes = [
        node("Mul", &["x", "scale"], &["scaled"], vec![]),
        node("MatMul", &["scaled", "W"], &["product"], vec![]),
        node("Pow", &["product", "two"], &["power"], vec![]).named("/norm/Pow"),
        node("Softmax", &["power"], &["scores"], vec![]),
    ];
    let x = shaped("x", Float, vec![symbol("batch"), dim(32)]);
    let scores = shaped("scores", Float, vec![symbol("batch"), dim(16)]);
    let mut graph = graph(&[x, value("scale", Float, &[32])], &nodes, &[scores]);
    let numbers: Vec<f32> = (0..512).map(|i| scale * ((i * 37 % 101) as f32 - 50.0)).collect();
    let mut weight = tensor("W", Float, &numbers);
    weight.dims = vec![32, 16];
    graph.initializer = vec![weight, tensor("two", Float, &[2.0])];
    model(17, graph)
}

/// Writes what the lines name.
#[cfg(unix)]
fn furnish(folder: &Folder) {
    use std::os::unix::fs::PermissionsExt;
    let network = network(1e-3);
    let [plain, other] = [network.clone(), self::network(1.0001e-3)];
    for name in ["model", "a", "model/model"] {
        folder.message(&format!("{name}.onnx"), &plain);
    }
    for name in ["model_fp16", "slim", "fp16", "model_int4", "b", "new"] {
        folder.message(&format!("{name}.onnx"), &other);
    }
    let floats = |numbers: &[f32]| bytes(numbers, f32::to_le_bytes);
    let x: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
    let [x, scale] = [
        npy("<f4", false, "(2, 32)", &floats(&x)),
        npy("<f4", false, "(32,)", &floats(&[1.0; 32])),
    ];
    folder.write("x.npy", &x);
    folder.tensor("scale.pb", Float, tract_onnx::prelude::tensor1(&[1f32; 32]));
    let inputs = npz(&[("x", x), ("scale", scale)]);
    for name in ["inputs", "calibration", "recorded/0"] {
        folder.write(&format!("{name}.npz"), &inputs);
    }
    let model = folder.text("model.onnx");
    for name in ["saved_outputs", "good.npz", "bad.npz", "dump.npz", "dump_fp16.npz"] {
        done(&["run", &model, "-i", &folder.text("inputs.npz"), "-o", &folder.text(name)]);
    }
    for name in ["model", "model_fp16"] {
        let (model, inputs) = (folder.text(&format!("{name}.onnx")), folder.text("inputs.npz"));
        done(&["record", &model, &folder.text(&format!("goldens/{name}")), "-i", &inputs]);
    }
    let case = "models/node/cast_opset13_FLOAT_to_BFLOAT16";
    for name in ["model.onnx", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"] {
        let bytes = fs::read(in_repository(&format!("{case}/{name}"))).expect("a file");
        for to in [case, "case"] {
            folder.write(&format!("{to}/{name}"), &bytes);
        }
    }
    // What finds each part of a model at fault.
    let python = folder.write("bin/python", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(python, fs::Permissions::from_mode(0o755)).expect("it may run");
}

/// How links name a heading.
fn anchor(line: &str) -> String {
    let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

pub fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("docs is a folder");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("it can be read").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// How an example of the library is run.
const EXAMPLE: &str = "cargo run --quiet --example ";

/// The commands of a page's blocks of `console`: a line that begins with `$ onnx-cast` or runs an
/// example, and what is printed up to the next.
fn shown_in(page: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(page).expect("a page is text");
    let name = page.file_name().expect("a page has a name").to_string_lossy().into_owned();
    let mut shown: Vec<Shown> = Vec::new();
    for block in text.split("```console\n").skip(1) {
        let block = block.split("\n```").next().expect("a block ends");
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                let is_known = command.starts_with("onnx-cast ") || command.starts_with(EXAMPLE);
                assert!(is_known, "{name}: {command}");
                let (page, command) = (name.clone(), command.into());
                shown.push(Shown { page, command, printed: Vec::new() });
            } else {
                let last = shown.last_mut().expect("a block begins with its command");
                last.printed.push(line.trim_end().into());
            }
        }
    }
    shown
}

/// What a command prints, on both streams, in a folder of the page's own where `models/` is the
/// repository's.
fn run(command: &str, folder: &Path) -> Vec<String> {
    let repository = format!("{}/", root().to_str().expect("UTF-8"));
    let words = command.split_whitespace().skip(1);
    let words = words.map(|word| {
        if word.starts_with("models/") { format!("{repository}{word}") } else { word.to_owned() }
    });
    let mut program = if command.starts_with(EXAMPLE) {
        Command::new(env!("CARGO"))
    } else {
        Command::new(cargo_bin!("onnx-cast"))
    };
    if command.starts_with(EXAMPLE) {
        program.args(["run", "--locked", "--manifest-path"]).arg(root().join("Cargo.toml"));
    }
    let skipped = usize::from(command.starts_with(EXAMPLE));
    let folder = if skipped == 0 { folder.to_path_buf() } else { root() };
    let output =
        program.args(words.skip(skipped)).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("UTF-8").replace(&repository, "");
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Whether the lines are the same, but for the last digits of numbers; `…` alone stands for any
/// lines.
pub fn agrees(shown: &[String], got: &[String]) -> bool {
    match (shown.split_first(), got.split_first()) {
        (None, None) => true,
        (Some((line, rest)), _) if line == "…" => {
            (0..=got.len()).any(|at| agrees(rest, &got[at..]))
        }
        (Some((line, rest)), Some((printed, others))) => {
            same_words(line, printed) && agrees(rest, others)
        }
        _ => false,
    }
}

fn same_words(shown: &str, got: &str) -> bool {
    let (shown, got): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), got.split_whitespace().collect());
    shown.len() == got.len() && shown.iter().zip(&got).all(|(a, b)| a == b || same_number(a, b))
}

fn same_number(shown: &str, got: &str) -> bool {
    let number = |word: &str| word.trim_matches([',', ':', ';', '(', ')']).parse::<f64>().ok();
    match (number(shown), number(got)) {
        (Some(a), Some(b)) => (a - b).abs() <= RELATIVE * a.abs().max(b.abs()),
        _ => false,
    }
}
