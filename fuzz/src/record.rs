//! What `record` copies: nothing that it writes is outside its folder, and nothing that is there is
//! changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::readers::scratch;
use crate::cli::output_file::Drafts;
use crate::cli::verb::record::copy::copy_model;

/// The bytes are a model's, whose folder has a side file, a link out of it and a folder in it.
pub fn copies(data: &[u8]) {
    let root = tempfile::tempdir_in(scratch()).expect("a scratch folder");
    let at = |place: &str| root.path().join(place);
    for folder in ["from/sub", "to/golden", "other"] {
        fs::create_dir_all(at(folder)).expect("a scratch folder");
    }
    for (place, bytes) in [
        ("from/m.onnx", data),
        ("from/w", b"weights"),
        ("from/sub/w", b"more"),
        ("evil", b"theirs"),
    ] {
        fs::write(at(place), bytes).expect("a scratch file");
    }
    #[cfg(unix)]
    for (link, target) in [("from/link", "../evil"), ("to/golden/sub", "../../other")] {
        std::os::unix::fs::symlink(target, at(link)).expect("a link");
    }
    let golden = at("to/golden");
    let outside = || {
        let mut files = vec![];
        walk(root.path(), &golden, &mut files);
        files
    };
    let before = outside();
    let (from, to) = (at("from/m.onnx"), golden.join("model.onnx"));
    let mut drafts = Drafts::default();
    if copy_model(&from, &to, data.len().is_multiple_of(2), &mut drafts).is_ok() {
        drafts.put().expect("drafts that can be put");
    }
    assert_eq!(outside(), before);
}

/// The files below a folder and their bytes, but for those below `without`. Links are not followed.
fn walk(folder: &Path, without: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    let mut entries: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if path == without {
            continue;
        }
        if kind.is_dir() {
            walk(&path, without, files);
        } else if kind.is_file() {
            files.push((path.clone(), fs::read(path).expect("a file")));
        }
    }
}
