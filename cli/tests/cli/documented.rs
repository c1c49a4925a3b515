//! Every command that README.md and docs/ show with what it prints: run, and compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::common::cases::root;
use crate::program::Folder;

/// By how much a printed number may differ, as last digits of sums depend on the CPU.
const RELATIVE: f64 = 0.02;

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

/// Links among the pages lead to files and headings that are there.
#[test]
fn links_lead_somewhere() {
    let others = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root().join(name));
    let mut dead = vec![];
    for page in pages().iter().chain(&others) {
        let text = fs::read_to_string(page).expect("a page is text");
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

/// How links name a heading.
fn anchor(line: &str) -> String {
    let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("docs is a folder");
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.expect("it can be read").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// How an example of the library is run.
const EXAMPLE: &str = "cargo run --quiet --example ";

/// The commands of a page's blocks of `console`: a line that begins with `$ onnx-cast` or runs an example, and what is printed up to
/// the next.
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

/// What a command prints, on both streams, in a folder of the page's own where `models/` is the repository's.
fn run(command: &str, folder: &Path) -> Vec<String> {
    let repository = format!("{}/", root().to_str().expect("UTF-8"));
    let words = command.split_whitespace().skip(1);
    let words = words.map(|word| match word.starts_with("models/") {
        true => format!("{repository}{word}"),
        false => word.to_owned(),
    });
    let mut program = match command.starts_with(EXAMPLE) {
        true => Command::new(env!("CARGO")),
        false => Command::new(cargo_bin!("onnx-cast")),
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

/// Whether the lines are the same, but for the last digits of numbers; `…` alone stands for any lines.
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
