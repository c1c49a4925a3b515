//! What the tree keeps to: no file longer than is read at once, no folder with more than is seen at
//! once, no comment beyond the column where code ends.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a file, entries of a folder, columns of a comment.
const LINES: usize = 450;
const ENTRIES: usize = 16;
const COLUMNS: usize = 100;

/// The folders of the crates' own code, and those of its tests.
const SOURCES: [&str; 3] = ["src", "graph/src", "cli/src"];
const TESTS: [&str; 5] = ["tests", "cli/tests", "graph/tests", "benches", "examples"];

#[test]
fn files_and_folders_are_small() {
    let mut files = vec![];
    for root in SOURCES {
        walk(&root_of(root), &mut files, &|folder, entries| {
            assert!(entries <= ENTRIES, "{}: {entries} entries", folder.display());
        });
    }
    assert!(files.len() > 400, "{} files were read", files.len());
    for file in files {
        let lines = read(&file).lines().count();
        assert!(lines <= LINES, "{}: {lines} lines", file.display());
    }
}

#[test]
fn comments_end_where_code_ends() {
    let mut files = vec![];
    for root in SOURCES.into_iter().chain(TESTS) {
        let folder = root_of(root);
        if folder.exists() {
            walk(&folder, &mut files, &|_, _| ());
        }
    }
    let mut long = vec![];
    for file in files {
        for (at, line) in read(&file).lines().enumerate() {
            // A link has no place where it could be broken.
            let text = line.trim_start();
            let is_link = text.split_whitespace().any(|word| word.len() > COLUMNS / 2);
            if text.starts_with("//") && line.chars().count() > COLUMNS && !is_link {
                long.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(long.is_empty(), "beyond column {COLUMNS}:\n{}", long.join("\n"));
}

fn root_of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).expect("a file")
}

/// Adds the files of Rust in a folder, and gives each folder with code in it and the number of its
/// entries to a function.
fn walk(folder: &Path, files: &mut Vec<PathBuf>, each: &dyn Fn(&Path, usize)) {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    each(folder, paths.len());
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, files, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
