//! What goes wrong around the program: a full disk, an interruption, a folder that cannot be
//! written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use tract_onnx_cast::ElementType;

use crate::common::proto::{cast, graph, model, node, value};
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

/// A command, what it is given, and what it writes: all of it or nothing if it is a set, else each
/// file by itself.
struct Writer {
    arguments: Vec<String>,
    is_set: bool,
}

/// Every command that writes files, into the folder `out`. What is there before is what it would
/// write of other inputs.
fn writers(folder: &Folder) -> Vec<Writer> {
    let path = long(folder);
    let (many, half) = (several(folder), halved(folder));
    let golden = folder.text("golden");
    done(&["record", &path, &golden]);
    let out = folder.text("out");
    let file = |name: &str| format!("{out}/{name}");
    let set = |arguments: &[&str]| Writer {
        arguments: arguments.iter().map(ToString::to_string).collect(),
        is_set: true,
    };
    let files = |arguments: &[&str]| Writer { is_set: false, ..set(arguments) };
    let reports = ["--report", "--junit", "--model-explorer", "--json", "--markdown"];
    let reports: Vec<String> = reports
        .iter()
        .flat_map(|option| [option.to_string(), file(&format!("{}.x", &option[2..]))])
        .collect();
    let with_reports = |arguments: &[&str]| {
        let mut all: Vec<&str> = arguments.to_vec();
        // Where a word could be a model it needs the sign.
        let joined: Vec<String> =
            reports.chunks(2).map(|pair| format!("{}={}", pair[0], pair[1])).collect();
        all.extend(joined.iter().map(String::as_str));
        files(&all)
    };
    vec![
        set(&["run", &many, "-o", &out]),
        set(&["run", &path, "-o", &file("y.npy")]),
        set(&["run", &many, "-o", &file("y.npz")]),
        set(&["record", &path, &out, "--sets", "3"]),
        set(&["fix", &half, "-o", &file("fixed.onnx")]),
        set(&["convert", &path, "--to", "FLOAT16", "-o", &file("converted.onnx")]),
        with_reports(&["compare", &path, &half, "--search", "0"]),
        with_reports(&["audit", &half]),
        files(&[
            "keep",
            &path,
            "--to",
            "FLOAT16",
            "--search=0",
            &format!("--json={}", file("keep.json")),
        ]),
        files(&["test", &golden, &format!("--junit={}", file("junit.xml"))]),
    ]
}

/// A model of several results, 256 KiB each.
fn several(folder: &Folder) -> String {
    let value = |name: &str| value(name, ElementType::Float, &[LONG]);
    let nodes = ["a", "b", "c"].map(|name| node("Neg", &["x"], &[name], vec![]));
    let graph = graph(&[value("x")], &nodes, &["a", "b", "c"].map(value));
    folder.message("many.onnx", &model(21, graph))
}

/// As [`long`], converted, with a long name to write.
fn halved(folder: &Folder) -> String {
    let value = |name: &str, ty| value(name, ty, &[LONG]);
    let name = "n".repeat(100_000);
    let nodes = [
        cast("x", ElementType::Float16, &name),
        node("Neg", &[&name], &["h"], vec![]),
        cast("h", ElementType::Float, "y"),
    ];
    let (x, y) = (value("x", ElementType::Float), value("y", ElementType::Float));
    folder.message("half.onnx", &model(21, graph(&[x], &nodes, &[y])))
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn held(folder: &Path) -> Files {
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a file");
        (path.strip_prefix(folder).expect("inside").into(), bytes)
    };
    files(folder).into_iter().map(read).collect()
}

fn fill(folder: &Path, files: &Files) {
    let _ = fs::remove_dir_all(folder);
    for (path, bytes) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    fs::create_dir_all(folder).expect("a folder");
}

/// What a command makes of an empty folder, and what might be there before: nothing, or other files
/// at their places.
struct Trial {
    writer: Writer,
    out: PathBuf,
    whole: Files,
}

impl Trial {
    fn of(folder: &Folder, writer: Writer) -> Trial {
        let out = folder.path("out");
        fill(&out, &Files::new());
        let output = onnx_cast(&writer.arguments);
        assert!(output.status.code() < Some(2), "{:?}: {}", writer.arguments, stderr(&output));
        let whole = held(&out);
        assert!(!whole.is_empty(), "{:?}", writer.arguments);
        Trial { writer, out, whole }
    }

    /// Before the command: nothing, or, where it replaces what is there, something else.
    fn reset(&self, has_old: bool) -> Files {
        let is_replaced = has_old && !["record", "convert"].contains(&&*self.writer.arguments[0]);
        let old = |(path, _): (&PathBuf, _)| (path.clone(), b"old".to_vec());
        let old = if is_replaced { self.whole.iter().map(old).collect() } else { Files::new() };
        fill(&self.out, &old);
        old
    }

    /// No file is half-written, and a set is there as a whole or not at all.
    fn check(&self, old: &Files, when: &str) {
        self.check_files(old, when);
        let (found, what) = (held(&self.out), &self.writer.arguments);
        let news = self.whole.iter().filter(|(path, bytes)| found.get(*path) == Some(bytes));
        let (news, all) = (news.count(), self.whole.len());
        assert!(
            !self.writer.is_set || news == 0 || news == all,
            "{what:?}, {when}: {news} of {all}"
        );
    }

    /// No file is half-written or lost.
    fn check_files(&self, old: &Files, when: &str) {
        let found = held(&self.out);
        let what = &self.writer.arguments;
        let is_draft = |path: &&PathBuf| path.display().to_string().contains(".onnx-cast-");
        let draft = found.keys().find(is_draft);
        assert!(draft.is_none(), "{what:?}, {when}: {draft:?} is left");
        for (path, bytes) in &found {
            // Reports tell times and versions of nothing, so they are the same each time.
            let is_one = old.get(path) == Some(bytes) || self.whole.get(path) == Some(bytes);
            assert!(is_one, "{what:?}, {when}: {} is neither old nor new", path.display());
        }
        for path in old.keys() {
            assert!(found.contains_key(path), "{what:?}, {when}: {} is lost", path.display());
        }
    }
}

/// Writes fail from so many bytes of a file, as on a disk that is full.
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let folder = Folder::new();
    for writer in writers(&folder) {
        let trial = Trial::of(&folder, writer);
        let most = trial.whole.values().map(Vec::len).max().expect("a file");
        // In units of 512 bytes: the longest file fails, and where it is long the shorter ones do
        // not.
        for blocks in [0, most / 1024] {
            let old = trial.reset(true);
            let output = Command::new("sh")
                .args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")])
                .arg(cargo_bin!("onnx-cast"))
                .args(&trial.writer.arguments)
                .output()
                .expect("a shell");
            let (what, told) = (&trial.writer.arguments, stderr(&output));
            assert_eq!(output.status.code(), Some(2), "{what:?}: {told}");
            let errors = told.lines().filter(|line| !line.starts_with("note: ")).count();
            assert_eq!(errors, 1, "{what:?}: {told}");
            trial.check(&old, &format!("{blocks} blocks"));
        }
    }
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' '));
        fields.is_some_and(|mut fields| fields.nth(1) == Some(&parent.to_string()))
    };
    ids.filter(is_child).collect()
}

/// Whether a process does anything.
fn is_alive(id: &u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

fn signal(name: &str, process: u32) {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, &process.to_string()]).stderr(Stdio::null()).status().expect("a signal");
}

fn start(arguments: &[String]) -> Child {
    let mut command = Command::new(cargo_bin!("onnx-cast"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("the program")
}

/// Waits until a process stands still, or has ended.
fn stopped(id: u32) {
    let start = Instant::now();
    let stands = |stat: String| stat.contains(") T") || stat.contains(") Z");
    while !fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, stands) {
        assert!(start.elapsed() < Duration::from_secs(60), "{id} goes on");
        sleep(Duration::from_millis(1));
    }
}

fn ended(workers: &[u32]) {
    let start = Instant::now();
    while workers.iter().any(is_alive) {
        assert!(start.elapsed() < Duration::from_secs(60), "{workers:?} are still there");
        sleep(Duration::from_millis(5));
    }
}

/// Whenever it comes, an interruption leaves what was there or what was to be.
#[test]
#[cfg(target_os = "linux")]
fn an_interruption_leaves_nothing_half_written() {
    const MOMENTS: u32 = 5;
    let folder = Folder::new();
    for writer in writers(&folder) {
        let trial = Trial::of(&folder, writer);
        let begin = Instant::now();
        trial.reset(true);
        onnx_cast(&trial.writer.arguments);
        let whole = begin.elapsed();
        for moment in 0..MOMENTS {
            let old = trial.reset(moment % 3 > 0);
            let mut child = start(&trial.writer.arguments);
            sleep(whole * moment / MOMENTS);
            // It starts no worker that nobody knows of while it stands still.
            signal("STOP", child.id());
            stopped(child.id());
            let workers = children(child.id());
            let name = if moment % 2 == 0 { "TERM" } else { "INT" };
            signal(name, child.id());
            signal("CONT", child.id());
            child.wait().expect("an end");
            ended(&workers);
            trial.check(&old, &format!("SIG{name} at moment {moment}"));
        }
    }
}

/// A worker that is killed is an error of one line.
#[test]
#[cfg(target_os = "linux")]
fn a_killed_worker_leaves_nothing_half_written() {
    const MOMENTS: u32 = 3;
    let folder = Folder::new();
    for writer in writers(&folder) {
        let trial = Trial::of(&folder, writer);
        let begin = Instant::now();
        trial.reset(true);
        onnx_cast(&trial.writer.arguments);
        let whole = begin.elapsed();
        for moment in 1..=MOMENTS {
            let old = trial.reset(moment % 2 > 0);
            let child = start(&trial.writer.arguments);
            sleep(whole * moment / MOMENTS);
            let workers = children(child.id());
            workers.iter().for_each(|worker| signal("KILL", *worker));
            let output = child.wait_with_output().expect("an end");
            let told = stderr(&output);
            if output.status.code() == Some(2) {
                let errors = told.lines().filter(|line| line.starts_with("error: ")).count();
                assert_eq!(errors, 1, "{told}");
            } else {
                assert!(output.status.code() < Some(2), "{:?}: {told}", output.status);
            }
            // Where the worker is gone a report says so.
            let is_told = output.status.code() == Some(2);
            let report =
                |path: &PathBuf| !trial.writer.is_set && is_told && path.extension().is_some();
            let old = match held(&trial.out) {
                found if found.keys().any(report) => {
                    let json = found.iter().filter(|(path, _)| path.starts_with("json.x"));
                    json.for_each(|(_, bytes)| {
                        drop(crate::program::json(&String::from_utf8_lossy(bytes)))
                    });
                    old.into_iter().chain(found).collect()
                }
                _ => old,
            };
            // Files are put in their places one after another, which waits for no SIGKILL.
            trial.check_files(&old, &format!("killed at moment {moment}"));
        }
    }
}

/// Of recordings that are made anew each set is the old one or the new one, at any time.
#[test]
#[cfg(target_os = "linux")]
fn a_recording_made_anew_is_whole_at_any_time() {
    let folder = Folder::new();
    let (many, golden) = (several(&folder), folder.text("out"));
    let twice = {
        let value = |name: &str| value(name, ElementType::Float, &[LONG]);
        let nodes = ["a", "b", "c"].map(|name| node("Add", &["x", "x"], &[name], vec![]));
        folder.message(
            "twice.onnx",
            &model(21, graph(&[value("x")], &nodes, &["a", "b", "c"].map(value))),
        )
    };
    done(&["record", &many, &golden, "--sets", "3"]);
    folder.write("out/test_data_set_0/notes.txt", "mine");
    let sets = || -> Vec<Files> {
        (0..3).map(|set| held(&folder.path(&format!("out/test_data_set_{set}")))).collect()
    };
    let old = sets();
    done(&["rerecord", &golden, &twice]);
    let new = sets();
    assert_ne!(old, new);
    let anew = |model: &str| {
        ["rerecord", &golden, model].iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let begin = Instant::now();
    done(&["rerecord", &golden, &many]);
    let whole = begin.elapsed();
    assert_eq!(sets(), old);
    for moment in 0..5 {
        let mut children_of_both = vec![];
        let mut both = [&many, &twice].map(|model| start(&anew(model)));
        sleep(whole * moment / 4);
        for child in &mut both {
            children_of_both.extend(children(child.id()));
            if moment > 0 {
                signal("TERM", child.id());
            }
            child.wait().expect("an end");
        }
        ended(&children_of_both);
        for ((found, old), new) in sets().iter().zip(&old).zip(&new) {
            let names: Vec<_> = found.keys().collect();
            assert!(found == old || found == new, "moment {moment}: {names:?}");
        }
    }
    let left = files(&folder.path("out"));
    assert!(
        left.iter().all(|path| !path.display().to_string().contains(".onnx-cast-")),
        "{left:?}"
    );
}

/// Whoever looks while a set is recorded sees all of it or nothing.
#[test]
fn a_set_that_is_seen_is_whole() {
    let folder = Folder::new();
    let (many, golden) = (several(&folder), folder.text("golden"));
    let mut seen = 0;
    for seed in 0..3 {
        let mut child = start(
            &["record", &many, &golden, "--sets", "5", "--seed", &(100 * seed).to_string()]
                .map(str::to_owned),
        );
        while child.try_wait().expect("a status").is_none() {
            for entry in fs::read_dir(folder.path("golden")).into_iter().flatten().flatten() {
                let is_set = entry.file_name().to_str().is_some_and(|n| n.starts_with("test_data"));
                let lengths = files(&entry.path());
                let lengths: Vec<u64> = lengths
                    .iter()
                    .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
                    .collect();
                if is_set {
                    seen += 1;
                    let is_whole =
                        lengths.len() == 4 && lengths.iter().all(|n| *n > 4 * LONG as u64);
                    assert!(is_whole, "{}: {lengths:?}", entry.path().display());
                }
            }
        }
    }
    assert!(seen > 0);
}

/// Many at once, of the same inputs: the first adds them, and the others find them there.
#[test]
fn the_same_recording_at_once_is_there_once() {
    let folder = Folder::new();
    let (path, golden) = (several(&folder), folder.text("golden"));
    let record = ["record", &path, &golden, "--sets", "3"].map(str::to_owned);
    let all: Vec<Child> = (0..6).map(|_| start(&record)).collect();
    for child in all {
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{}", stderr(&output));
    }
    // The model, and three sets of an input and three outputs.
    assert_eq!(files(&folder.path("golden")).len(), 1 + 3 * 4);
}

/// A device on which there is no room.
#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_an_error_of_one_line() {
    let folder = Folder::new();
    let (path, half) = (long(&folder), halved(&folder));
    for arguments in [
        ["compare", &path, &half, "--search", "0", "--report=/dev/full"].to_vec(),
        ["compare", &path, &half, "--search", "0", "--json=/dev/full"].to_vec(),
        ["audit", &half, "--markdown=/dev/full"].to_vec(),
        ["audit", &half, "--junit=/dev/full"].to_vec(),
        ["fix", &half, "-o", "/dev/full"].to_vec(),
        ["run", &path, "-o", "/dev/full"].to_vec(),
    ] {
        let line = refused(&arguments);
        assert!(line.contains("/dev/full"), "{line}");
    }
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

/// Takes away, or gives back, the right to write into a folder and those in it.
#[cfg(unix)]
fn allow(folder: &Path, writes: bool) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if writes { 0o755 } else { 0o555 };
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("our own folder");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            allow(&entry.path(), writes);
        }
    }
}

/// Where nothing may be written, nothing is, and a line says where.
#[test]
#[cfg(unix)]
fn a_folder_that_is_read_only_stays_as_it_is() {
    let folder = Folder::new();
    let root = folder.path("");
    let writers = writers(&folder);
    allow(&root, false);
    let may_anyway = fs::write(root.join("probe"), "").is_ok();
    allow(&root, true);
    let mut start = vec![];
    if may_anyway {
        // An administrator without the right to do so anyway.
        start =
            ["setpriv", "--bounding-set=-dac_override,-dac_read_search"].map(String::from).into();
        let probe = Command::new(&start[0]).args(&start[1..]).arg("true").output();
        if !probe.is_ok_and(|probe| probe.status.success()) {
            println!("skipped: an administrator without setpriv may write everywhere");
            return;
        }
    }
    for writer in writers {
        let trial = Trial::of(&folder, writer);
        let old = trial.reset(true);
        allow(&root, false);
        let words = [&start[..], &[cargo_bin!("onnx-cast").display().to_string()]].concat();
        let output =
            Command::new(&words[0]).args(&words[1..]).args(&trial.writer.arguments).output();
        allow(&root, true);
        let output = output.expect("a program");
        let (what, told) = (&trial.writer.arguments, stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{what:?}: {told}");
        let errors: Vec<&str> = told.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert_eq!(errors.len(), 1, "{what:?}: {told}");
        assert!(errors[0].contains("out") && errors[0].contains("denied"), "{what:?}: {told}");
        trial.check(&old, "read-only");
        assert_eq!(held(&trial.out), old, "{what:?}");
    }
}

/// What is said and written is the same whenever the files are from, and whatever the clock says
/// meanwhile: it goes back by a year each second time that it is asked.
#[test]
#[cfg(target_os = "linux")]
fn a_clock_that_jumps_changes_nothing() {
    const CLOCK: &str = "
        struct when { long seconds, rest; };
        long syscall(long, ...);
        int clock_gettime(int clock, struct when *now) {
            static int asked;
            int failed = syscall(NUMBER, clock, now);
            if (clock == 0 && __sync_fetch_and_add(&asked, 1) % 2) now->seconds -= 31536000;
            return failed;
        }
    ";
    let folder = Folder::new();
    let number = if cfg!(target_arch = "aarch64") { "113" } else { "228" };
    let source = folder.write("clock.c", CLOCK.replace("NUMBER", number));
    let library = folder.text("clock.so");
    // What links Rust's programs compiles this.
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o", &library, &source]).status();
    assert!(compiled.is_ok_and(|status| status.success()), "no C compiler");
    for writer in writers(&folder) {
        let trial = Trial::of(&folder, writer);
        trial.reset(true);
        let plain = onnx_cast(&trial.writer.arguments);
        for years in [-30, 30] {
            const YEAR: Duration = Duration::from_secs(365 * 86_400);
            let now = std::time::SystemTime::now();
            let then = if years < 0 { now - 30 * YEAR } else { now + 30 * YEAR };
            trial.reset(true);
            for path in files(&folder.path("")) {
                let file = fs::File::options().append(true).open(&path).expect("a file");
                file.set_modified(then).expect("a time");
            }
            let output = Command::new(cargo_bin!("onnx-cast"))
                .args(&trial.writer.arguments)
                .env("LD_PRELOAD", &library)
                .output()
                .expect("the program");
            let what = (&trial.writer.arguments, years);
            assert_eq!(output.status, plain.status, "{what:?}: {}", stderr(&output));
            assert_eq!(stderr(&output), stderr(&plain), "{what:?}");
            assert_eq!(stdout(&output), stdout(&plain), "{what:?}");
            assert_eq!(held(&trial.out), trial.whole, "{what:?}");
        }
    }
}

/// Nor are folders left that it has made.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_recording_leaves_no_folder() {
    let folder = Folder::new();
    let (onnx, made) = (long(&folder), folder.text("made/goldens"));
    let mut child =
        start(&["record", &onnx, &made, "--sets", "10000"].map(std::string::ToString::to_string));
    let begin = Instant::now();
    while !folder.path("made/goldens").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no folder is made");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(100));
    let workers = children(child.id());
    signal("TERM", child.id());
    child.wait().expect("an end");
    ended(&workers);
    assert!(!folder.path("made").exists());
}

/// Nor does a run that comes to nothing.
#[test]
fn a_run_without_an_outcome_leaves_no_folder() {
    let folder = Folder::new();
    let (onnx, made) = (long(&folder), folder.text("made/outputs"));
    refused(&["run", &onnx, "-o", &made, "-i", &folder.text("nothing.npz")]);
    assert!(!folder.path("made").exists());
    done(&["run", &onnx, "-o", &made]);
    assert!(folder.path("made/outputs/output_0.pb").exists());
}
