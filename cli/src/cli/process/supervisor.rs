//! The process that the user started: it has the worker do what may end badly, and survives it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::cli::args::resources::Resources;
use crate::cli::message::{ProblemKind, ReportedProblem};
use crate::cli::output_file::Place;
use crate::cli::process::engines::by_either;
use crate::cli::process::protocol::{
    Order, REPLY, Reply, RequestOutcome, WORKER_VARIABLE, reason_of_end,
};
use crate::cli::process::request::Request;
use crate::cli::progress::PROGRESS;
use crate::cli::work::engine::{Engine, NoPlan};

const GIB: u64 = 1 << 30;

/// Asks a worker, and starts another one where that one died.
pub(crate) struct Supervisor {
    worker: Option<Worker>,
    resources: Resources,
}

impl Supervisor {
    pub(crate) fn new(resources: Resources) -> Supervisor {
        Supervisor { worker: None, resources }
    }

    /// Has a worker answer. Its death is an outcome too. While the worker is at it, `follow` is
    /// told what it is at. Fails when there is no worker to be had.
    pub(crate) fn ask<R: Request>(
        &mut self,
        request: &R,
        follow: impl Fn(&str),
    ) -> anyhow::Result<RequestOutcome<R::Answer>> {
        let asked = self.resources.engine;
        // Who says how many nodes a plan may have wants one.
        let is_once = R::RUNS_ONCE && asked.is_none() && self.resources.max_nodes.is_none();
        by_either((asked, R::ENGINE), is_once, |engine, no_plan, is_once| {
            self.ask_by(request, engine, no_plan, is_once, &follow)
        })
    }

    /// Has a worker answer by an engine; if that is not the one to begin with, with the reason.
    fn ask_by<R: Request>(
        &mut self,
        request: &R,
        engine: Engine,
        no_plan: Option<NoPlan>,
        is_once: bool,
        follow: &impl Fn(&str),
    ) -> anyhow::Result<Reply<R::Answer>> {
        let Resources { max_memory, max_nodes, .. } = self.resources;
        let timeout = self.resources.timeout();
        let memory_bytes = max_memory.unwrap_or_else(|| default_memory(request));
        // Who says how long all may take has thought of loading as well.
        let is_said = self.resources.is_timeout_said();
        let load_seconds = (!is_said).then(|| default_seconds(request.model()));
        let kind = R::NAME.to_owned();
        let order = Order {
            kind,
            request,
            memory_bytes,
            max_nodes,
            engine,
            no_plan,
            is_once,
            load_seconds,
        };
        let unusable = |problem| {
            let outcome = RequestOutcome::Unusable(problem);
            Ok(Reply { outcome, is_last: true, no_plan: None })
        };
        let Ok(line) = serde_json::to_string(&order) else {
            let message = "the path is not UTF-8".into();
            return unusable(ReportedProblem { kind: ProblemKind::Call, message });
        };
        // What it is at names what has needed more than there was.
        let at = RefCell::new(request.subject().display().to_string());
        let follow = |what: &str| {
            let doing = what.split(": ").next().unwrap_or_default();
            at.replace(format!("{}: {doing}", request.subject().display()));
            follow(what);
        };
        let written = request.output().map(Place::of);
        loop {
            let mut worker = match self.worker.take() {
                Some(worker) => worker,
                None => Worker::start(timeout).context("cannot start a second process")?,
            };
            let (is_fresh, start) = (worker.answers == 0, Instant::now());
            if let Some(reply) = worker.ask(&line, follow) {
                let reply: Reply<R::Answer> =
                    serde_json::from_str(&reply).context("the second process")?;
                self.worker = (!reply.is_last).then_some(worker);
                return Ok(reply);
            }
            let late = timeout.filter(|most| start.elapsed() >= *most);
            // Earlier requests may have used up its memory, so this one is asked again of a fresh
            // worker. If that dies as well, it is for this request.
            if is_fresh || late.is_some() {
                let (id, last_words) = (worker.id(), worker.last_words());
                if let Some(written) = &written {
                    written.tidy(id);
                }
                let ReportedProblem { kind, message } = match late {
                    Some(most) => too_late(most, is_said),
                    None => reason_of_end(&last_words, memory_bytes),
                };
                let message = format!("{}: {message}", at.borrow());
                return unusable(ReportedProblem { kind, message });
            }
        }
    }
}

fn too_late(most: Duration, is_said: bool) -> ReportedProblem {
    let seconds = most.as_secs();
    let message = if is_said {
        format!("takes longer than the --timeout of {seconds} s")
    } else {
        format!("takes longer than {seconds} s, which --timeout changes")
    };
    ReportedProblem { kind: ProblemKind::Limit, message }
}

/// The limit of memory if the user sets none: room for tract itself, and for copies of what the
/// files hold. A file that has several names is there once, and holes in it hold nothing.
fn default_memory(request: &impl Request) -> u64 {
    let mut seen = HashSet::new();
    let mut held = |path: &Path| match (path.canonicalize(), fs::metadata(path)) {
        (Ok(path), Ok(metadata)) if seen.insert(identity(&path, &metadata)) => {
            held_bytes(&metadata)
        }
        _ => 0,
    };
    let mut total = |place: &PathBuf| match fs::read_dir(place) {
        Ok(entries) => entries.flatten().map(|entry| held(&entry.path())).sum(),
        Err(_) => held(place),
    };
    let folder = request.model().parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder: PathBuf = folder.unwrap_or(Path::new(".")).into();
    let places = request.places();
    let bytes: u64 = places.iter().chain([&folder]).map(&mut total).fold(0, u64::saturating_add);
    let wanted = bytes.saturating_mul(6).saturating_add(4 * GIB);
    // Files that libraries map and the stacks of threads take addresses, and no memory that is not
    // there.
    let there = free_memory().map(|free| free.saturating_add(bytes).saturating_add(GIB));
    there.map_or(wanted, |there| wanted.min(there))
}

/// What the machine has free, and what the group of processes may still take that this one is in.
fn free_memory() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let of_machine = read("/proc/meminfo").and_then(|text| available(&text))?;
    let number = |name: &str| {
        let text = read(&format!("/sys/fs/cgroup/memory.{name}"))?;
        text.trim().parse::<u64>().ok()
    };
    let of_group = number("max").map(|most| most.saturating_sub(number("current").unwrap_or(0)));
    Some(of_group.map_or(of_machine, |of_group| of_machine.min(of_group)))
}

/// What `/proc/meminfo` says is free, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// How long tract may take to load a model if the user says nothing, in seconds: more for one that
/// has much to load.
fn default_seconds(model: &Path) -> u64 {
    const ALWAYS: u64 = 4;
    ALWAYS + model_bytes(model) / (1 << 20)
}

/// What a model has on the disk. What is beside it may be its data, if it is no other model and no
/// array.
fn model_bytes(model: &Path) -> u64 {
    let is_other = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|name| ["onnx", "npy", "npz", "pb"].contains(&name))
    };
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let beside = entries.map(|entry| entry.path()).filter(|path| !is_other(path));
    let held = |path: &Path| fs::metadata(path).map_or(0, |metadata| held_bytes(&metadata));
    beside.map(|path| held(&path)).fold(held(model), u64::saturating_add)
}

/// What a file has on the disk.
#[cfg(unix)]
fn held_bytes(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.len().min(metadata.blocks().saturating_mul(512))
}

#[cfg(not(unix))]
fn held_bytes(metadata: &Metadata) -> u64 {
    metadata.len()
}

/// What two names of one file have in common.
#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> PathBuf {
    path.into()
}

/// A running worker.
struct Worker {
    child: Arc<Mutex<Child>>,
    orders: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    last_words: Option<JoinHandle<Vec<u8>>>,
    answers: usize,
    /// How long it may take for an answer.
    timeout: Option<Duration>,
}

/// How the allocators are set on Linux: the program's, and glibc's, which threads are made with.
/// `--max-memory` limits the addresses that a worker has: those of what is freed go back to the
/// system as well, and no thread reserves 128 MiB of them.
const ALLOCATORS: [(&str, &str); 2] =
    [("_RJEM_MALLOC_CONF", "retain:false"), ("MALLOC_ARENA_MAX", "1")];

impl Worker {
    fn start(timeout: Option<Duration>) -> anyhow::Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        // An interrupt from the terminal is for the process that the user started. When that is
        // gone, the worker tidies up.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let is_free = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
        command.envs(ALLOCATORS.into_iter().filter(is_free));
        let mut child = command
            .env(WORKER_VARIABLE, "1")
            // With these set, every error of tract's would capture a backtrace, which is slow and
            // would be shown.
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LIB_BACKTRACE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().context("it has no output")?);
        // Only the last words are of use, but all must be read: a worker whose pipe is full would
        // wait for ever.
        let stderr = child.stderr.take().context("it has no error output")?;
        let last_words = Some(thread::Builder::new().spawn(move || tail(stderr))?);
        let child = Arc::new(Mutex::new(child));
        Ok(Worker { child, orders, replies, last_words, answers: 0, timeout })
    }

    /// The reply; `None` when the worker died over the order, or was killed since it took too long.
    fn ask(&mut self, order: &str, follow: impl Fn(&str)) -> Option<String> {
        let (answered, is_answered) = mpsc::channel::<()>();
        let child = self.child.clone();
        let watch = move |timeout| {
            if is_answered.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
            }
        };
        let watch = self.timeout.map(|timeout| thread::spawn(move || watch(timeout)));
        let reply = self.reply(order, follow);
        drop(answered);
        if let Some(watch) = watch {
            let _ = watch.join();
        }
        reply
    }

    fn reply(&mut self, order: &str, follow: impl Fn(&str)) -> Option<String> {
        writeln!(self.orders.as_mut()?, "{order}").ok()?;
        let reply = read_reply(&mut self.replies, follow)?;
        self.answers += 1;
        Some(reply)
    }

    fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// What was said while it died, or else how it died.
    fn last_words(mut self) -> String {
        let status = self.end();
        let words = self.last_words.take().and_then(|words| words.join().ok()).unwrap_or_default();
        match (words.trim_ascii(), status) {
            (words @ [_, ..], _) => String::from_utf8_lossy(words).into(),
            ([], Ok(status)) => status.to_string(),
            ([], Err(error)) => error.to_string(),
        }
    }

    fn end(&mut self) -> io::Result<ExitStatus> {
        self.orders = None;
        self.child.lock().unwrap_or_else(PoisonError::into_inner).wait()
    }
}

impl Drop for Worker {
    /// The worker ends when there are no more orders; waiting leaves no process behind.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The next reply in what a worker says; `None` when it died before, or over the reply.
fn read_reply(said: &mut impl BufRead, follow: impl Fn(&str)) -> Option<String> {
    loop {
        let mut line = vec![];
        said.read_until(b'\n', &mut line).ok()?;
        if line.pop() != Some(b'\n') {
            return None;
        }
        let text = String::from_utf8(line).unwrap_or_default();
        if let Some(progress) = text.strip_prefix(PROGRESS) {
            follow(progress.trim_end());
        }
        if let Some(reply) = text.strip_prefix(REPLY) {
            return Some(reply.into());
        }
    }
}

/// The end of what a stream says.
fn tail(mut stream: impl Read) -> Vec<u8> {
    const KEPT: usize = 1 << 14;
    let (mut kept, mut buffer) = (vec![], [0; KEPT]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_bytes() {
        let text = "MemTotal:       24619576 kB\nMemAvailable:   23185920 kB\nBuffers: 0 kB\n";
        assert_eq!(available(text), Some(23_185_920 << 10));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert_eq!(available("MemAvailable: 99999999999999999 kB"), None);
    }

    #[test]
    fn a_reply_is_a_whole_line() {
        let said = format!("chatter\n{PROGRESS}loading\n{REPLY}{{}}\n{REPLY}{{\"cut");
        let (mut said, heard) = (said.as_bytes(), std::cell::RefCell::new(vec![]));
        let mut next =
            || read_reply(&mut said, |progress| heard.borrow_mut().push(progress.to_owned()));
        assert_eq!(next().as_deref(), Some("{}"));
        assert_eq!(next(), None);
        assert_eq!(*heard.borrow(), ["loading"]);
    }
}
