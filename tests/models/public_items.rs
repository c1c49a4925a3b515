//! The public items of the library, so that a change of them is seen in review.

use std::fs;
use std::path::Path;

use test_tools::insta;

/// What `src/lib.rs` exports, and each item that a module makes public, a line each. Items that are
/// public within the crate alone are left out.
#[test]
fn public_items_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lines = vec![];
    collect(&root, &root, &mut lines);
    lines.sort();
    insta::assert_snapshot!("public_items", lines.join("\n"));
}

fn collect(root: &Path, folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, lines);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let name = path.strip_prefix(root).expect("below").display().to_string();
            items(&text, &name.replace('\\', "/"), lines);
        }
    }
}

fn items(text: &str, file: &str, lines: &mut Vec<String>) {
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        let line = line.trim();
        if !line.starts_with("pub ") {
            continue;
        }
        let mut item = line.to_owned();
        while !item.ends_with(['{', ';', ',', '}']) {
            let Some(next) = rest.next() else { break };
            item = format!("{item} {}", next.trim());
        }
        let end = item.find(" {").filter(|_| !item.starts_with("pub use")).unwrap_or(item.len());
        lines.push(format!("{file}: {}", item[..end].trim_end_matches([';', ','])));
    }
}
