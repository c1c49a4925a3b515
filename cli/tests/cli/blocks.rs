//! That a test runs each block of README.md and docs/, and what is tried here of those that are no
//! commands of this program's.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::common::cases::root;
use crate::documented::pages;
use crate::program::{Folder, in_repository, onnx_cast, stderr};

/// The languages of blocks, the pages that have such, and what runs them; no page is named where
/// all may.
const RUN: [(&str, &[&str], &str); 8] = [
    ("console", &[], "documented.rs"),
    ("sh", &[], "documented.rs, and below"),
    ("pycon", &["README.md", "python.md"], "test_documented.py"),
    (
        "python",
        &["checking-a-conversion.md", "converting.md", "python.md", "reducing.md"],
        "test_documented.py",
    ),
    (
        "rust,no_run",
        &["README.md", "converting.md", "rust.md", "tract.md", "untrusted.md"],
        "the doctests of src/lib.rs compile them",
    ),
    ("toml", &["README.md", "checking-a-conversion.md", "rust.md"], "make test-package, and below"),
    ("yaml", &["README.md", "checking-a-conversion.md"], "make test-workflow"),
    ("text", &["semantics.md"], "nothing, as they are no code"),
];

/// How lines of the shell begin that no test runs, and why.
const LEFT: [(&str, &str); 8] = [
    ("make ", "that the target is there is tried below; what they measure or fetch takes long"),
    ("cargo bench", "they measure"),
    ("cargo build", "they measure"),
    ("nm ", "they measure"),
    ("grep ", "goes on with that"),
    ("pip install", "make test-python installs what it builds"),
    ("PYTHONPATH=scripts python -P -m campaign.replay", "make found, which needs other tools"),
    ("python ", "test_documented.py runs dump.py; the scripts below scripts/ are there"),
];

/// The blocks of a page, each with its language.
fn blocks(page: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(page).expect("a page is text");
    let mut parts = text.split("\n```").skip(1);
    let mut blocks = vec![];
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (language, lines) = block.split_once('\n').unwrap_or((block, ""));
        blocks.push((language.to_owned(), lines.to_owned()));
    }
    blocks
}

fn name(page: &Path) -> String {
    page.file_name().expect("a page has a name").to_string_lossy().into_owned()
}

#[test]
fn a_test_runs_every_block() {
    let mut wrong = vec![];
    for page in pages() {
        let page_name = name(&page);
        for (language, lines) in blocks(&page) {
            let is_run = |(known, pages, _): &(&str, &[&str], &str)| {
                *known == language && (pages.is_empty() || pages.contains(&&*page_name))
            };
            if !RUN.iter().any(is_run) {
                wrong.push(format!("{page_name}: {language}: {lines}"));
            }
            let lines = lines.lines().map(str::trim).filter(|line| !line.starts_with('#'));
            for line in lines.filter(|_| language == "sh") {
                let is_left = || LEFT.iter().any(|(start, _)| line.starts_with(start));
                if !line.is_empty() && !line.starts_with("onnx-cast ") && !is_left() {
                    wrong.push(format!("{page_name}: {line}"));
                }
                let mut words = line.split_whitespace();
                let script = words.find(|word| word.starts_with("scripts/"));
                if script.is_some_and(|script| !root().join(script).exists()) {
                    wrong.push(format!("{page_name}: {line}: there is no such script"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "no test runs\n{}", wrong.join("\n"));
}

/// `make` is told of in sentences and in blocks.
#[test]
fn targets_of_make_are_there() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let rules = makefile.lines().filter(|line| !line.starts_with(['\t', '#', '.', ' ']));
    let rules = rules.filter_map(|line| line.split_once(':'));
    let targets: HashSet<&str> = rules.flat_map(|(names, _)| names.split_whitespace()).collect();
    let others = ["CONTRIBUTING.md", "fuzz/README.md", "scripts/README.md"];
    let (mut told, mut missing) = (0, vec![]);
    for page in pages().into_iter().chain(others.map(|page| root().join(page))) {
        let text = fs::read_to_string(&page).expect("a page is text");
        for rest in text.split("`make ").chain(text.split("\nmake ")).skip(1) {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let target = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            told += usize::from(!target.is_empty());
            if !target.is_empty() && !targets.contains(target) {
                missing.push(format!("{}: make {target}", name(&page)));
            }
        }
    }
    assert!(told >= 40, "the pages name {told} targets");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The file of limits that the walk-through shows is one.
#[test]
fn the_limits_of_a_model_can_be_read() {
    let folder = Folder::new();
    let page = root().join("docs/checking-a-conversion.md");
    let toml = blocks(&page).into_iter().find(|(language, _)| language == "toml");
    let limits = folder.write("limits.toml", toml.expect("a file of limits").1);
    let [reference, converted] = ["rms_norm_FLOAT", "rms_norm_FLOAT16_fixed"]
        .map(|name| in_repository(&format!("models/whole/{name}")));
    for call in [&["compare", &reference, &converted][..], &["audit", &converted]] {
        let output = onnx_cast([call, &["--tolerance", &limits]].concat());
        assert_eq!(output.status.code(), Some(0), "{call:?}: {}", stderr(&output));
    }
}

/// README.md's dependencies are tried as a package's; docs/rust.md shows the same.
#[test]
fn the_dependencies_are_the_same_everywhere() {
    let toml = |page: &str| {
        let found = blocks(&root().join(page)).into_iter().find(|(language, _)| language == "toml");
        found.expect("dependencies").1
    };
    assert_eq!(toml("README.md"), format!("[dependencies]\n{}", toml("docs/rust.md")));
}
