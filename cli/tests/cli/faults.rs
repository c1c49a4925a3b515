//! What goes wrong around the program: a full disk, an interruption, a folder that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use tract_onnx_cast::ElementType;

use crate::common::proto::{graph, model, node, value};
use crate::program::*;

const LONG: i64 = 1 << 16;

/// A model with a result of 256 KiB.
fn long(folder: &Folder) -> String {
    let value = |name: &str| value(name, ElementType::Float, &[LONG]);
    let nodes = [node("Neg", &["x"], &["y"], vec![])];
    folder.message("m.onnx", &model(21, graph(&[value("x")], &nodes, &[value("y")])))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Every write of more than 1 KiB fails, as on a disk that is full.
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let folder = Folder::new();
    let path = long(&folder);
    for (command, place) in [("run", "out"), ("record", "golden")] {
        let target = folder.text(place);
        let mut arguments = vec![command, &path];
        arguments.extend(if command == "run" { vec!["-o", &target] } else { vec![&*target] });
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\""])
            .arg(cargo_bin("onnx-cast"))
            .args(&arguments)
            .output()
            .expect("a shell");
        assert_eq!(output.status.code(), Some(2), "{command}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        let left: Vec<_> = files(&folder.path(place));
        let is_model = |path: &&PathBuf| !path.ends_with("model.onnx");
        assert!(left.iter().find(is_model).is_none(), "{command}: {left:?}");
    }
}

/// Whenever it comes, an interruption leaves whole sets and nothing else.
#[test]
fn an_interrupted_recording_leaves_whole_sets() {
    let folder = Folder::new();
    let path = long(&folder);
    let golden = folder.text("golden");
    for (index, signal) in ["TERM", "INT"].into_iter().cycle().take(12).enumerate() {
        let seed = (index * 100).to_string();
        let arguments = ["record", &path, &golden, "--sets", "20", "--seed", &seed];
        let mut child = Command::new(cargo_bin("onnx-cast"))
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        sleep(Duration::from_millis(30 * index as u64));
        let id = child.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &id]).stderr(Stdio::null()).status();
        kill.expect("a signal");
        child.wait().expect("an end");
        // The worker finds out by itself, and tidies up.
        let start = Instant::now();
        let is_draft = |path: &PathBuf| path.display().to_string().contains("/.onnx-cast-");
        while files(&folder.path("golden")).iter().any(is_draft) {
            assert!(start.elapsed() < Duration::from_secs(20), "drafts are left");
            sleep(Duration::from_millis(20));
        }
    }
    for entry in fs::read_dir(folder.path("golden")).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            assert_eq!(files(&entry.path()).len(), 2, "{}", entry.path().display());
        }
    }
    done(&["record", &path, &golden, "--seed", "5000"]);
    let told = done(&["test", &golden]);
    assert!(told.ends_with(" passed, 0 failed\n"), "{told}");
}

/// Whoever may write everywhere, as an administrator, does.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let path = long(&folder);
    folder.write("file", "no folder");
    for arguments in [
        ["run", &path, "-o", &folder.text("file/out")].to_vec(),
        ["record", &path, &folder.text("file/golden")].to_vec(),
    ] {
        let line = refused(&arguments);
        assert!(line.contains("file"), "{line}");
    }
}
