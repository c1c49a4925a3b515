//! A command of the user's that a worker runs on a model: without a shell, for a limited time, and
//! without the worker's limit of memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tract_onnx::prelude::TractResult;

use crate::cli::caller;
use crate::cli::process::protocol::WORKER_VARIABLE;

/// What is run to see whether a part shows the finding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Check {
    /// As it was typed; `{model}` and `{inputs}` stand for paths.
    pub(crate) command: String,
    /// Whether a shell runs it.
    pub(crate) is_shell: bool,
    /// The exit status that is the finding; any but 0 without it.
    pub(crate) status: Option<i32>,
    /// What standard error has to hold.
    pub(crate) stderr: Option<String>,
    /// How many seconds it may take.
    pub(crate) seconds: Option<u64>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It took too long.
    Late,
}

impl End {
    /// As a shell tells it.
    fn status(self) -> i32 {
        match self {
            End::Exited(status) => status,
            End::Killed(signal) => 128 + signal,
            End::Late => 124,
        }
    }

    /// In words.
    pub(crate) fn in_words(self) -> String {
        match self {
            End::Exited(status) => format!("ends with status {status}"),
            End::Killed(signal) => format!("is killed by signal {signal}"),
            End::Late => "does not end in time".into(),
        }
    }
}

/// What became of a command.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) end: End,
    /// The end of what it wrote to standard error.
    pub(crate) stderr: String,
    /// How long it took.
    pub(crate) took: Duration,
}

/// How much of standard error is read.
const WORDS: u64 = 1 << 20;

impl Check {
    /// The words of the command, without the paths. Fails when it has none, or a quote is not
    /// closed.
    pub(crate) fn words(&self) -> anyhow::Result<Vec<String>> {
        let words = shlex::split(&self.command).context("--check: a quote is not closed")?;
        ensure!(!words.is_empty(), "--check: there is no command");
        Ok(words)
    }

    /// Runs it on a model and a folder of inputs. Fails when it cannot be started.
    pub(crate) fn run(&self, model: &Path, inputs: &Path) -> TractResult<Ended> {
        let (model, inputs) = (utf8(model)?, utf8(inputs)?);
        let filled = |text: &str| text.replace("{model}", model).replace("{inputs}", inputs);
        let mut command = if self.is_shell {
            let quoted = |path| shlex::try_quote(path).map(String::from).unwrap_or_default();
            let text = self.command.replace("{model}", &quoted(model));
            let mut command = Command::new("sh");
            command.arg("-c").arg(text.replace("{inputs}", &quoted(inputs)));
            command
        } else {
            let words: Vec<String> = self.words()?.iter().map(|word| filled(word)).collect();
            let (program, arguments) = words.split_first().context("--check: no command")?;
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let said = tempfile::tempfile()?;
        // It may be this program.
        command.env_remove(WORKER_VARIABLE).env_remove(caller::PYTHON_FILES);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let start = Instant::now();
        let child = unlimited(|| command.spawn());
        let child = Running::of(child.with_context(|| format!("--check: {}", self.command))?);
        let end = child.wait(self.seconds.map(Duration::from_secs))?;
        Ok(Ended { end, stderr: words(said)?, took: start.elapsed() })
    }

    /// Whether that is the finding, given how the command ended on the whole model.
    pub(crate) fn is_shown(&self, ended: &Ended, whole: Option<&Ended>) -> bool {
        let is_status = match (self.status, whole) {
            (Some(status), _) => ended.end.status() == status,
            (None, None) => ended.end.status() != 0,
            // What is killed or never ends is another finding than what exits.
            (None, Some(whole)) => match (ended.end, whole.end) {
                (End::Exited(status), End::Exited(_)) => status != 0,
                (one, other) => one == other,
            },
        };
        is_status && self.stderr.as_ref().is_none_or(|text| ended.stderr.contains(text))
    }
}

fn utf8(path: &Path) -> TractResult<&str> {
    path.to_str().with_context(|| format!("the path {path:?} is not UTF-8"))
}

fn words(mut said: File) -> TractResult<String> {
    use std::io::{Seek, SeekFrom};
    let length = said.seek(SeekFrom::End(0))?;
    said.seek(SeekFrom::Start(length.saturating_sub(WORDS)))?;
    let mut bytes = vec![];
    said.take(WORDS).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How much memory this process might use before a limit was set, and is to use from then on.
#[cfg(unix)]
static INHERITED: Mutex<Option<u64>> = Mutex::new(None);

/// Has this process use no more memory than that, or than the system lets it, which is returned;
/// commands that it starts may use what it might before.
#[cfg(unix)]
pub(crate) fn limit_memory(bytes: u64) -> u64 {
    use rlimit::Resource;
    let mut inherited = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok((soft, hard)) = Resource::AS.get() else { return bytes };
    inherited.get_or_insert(soft);
    let _ = Resource::AS.set(bytes.min(hard), hard);
    bytes.min(hard)
}

#[cfg(not(unix))]
pub(crate) fn limit_memory(bytes: u64) -> u64 {
    bytes
}

/// Starts a process without the limit: it inherits what is set at this moment.
#[cfg(unix)]
fn unlimited<T>(start: impl FnOnce() -> T) -> T {
    use rlimit::Resource;
    let inherited = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    let own = Resource::AS.get().ok().zip(*inherited);
    if let Some(((_, hard), inherited)) = own {
        let _ = Resource::AS.set(inherited, hard);
    }
    let started = start();
    if let Some(((soft, hard), _)) = own {
        let _ = Resource::AS.set(soft, hard);
    }
    started
}

#[cfg(not(unix))]
fn unlimited<T>(start: impl FnOnce() -> T) -> T {
    start()
}

/// The process of a command that runs. When this program ends, it does too.
struct Running(Child);

/// The command that runs, by its process.
static RUNNING: Mutex<Option<u32>> = Mutex::new(None);

/// Ends the command that runs, before this process ends.
pub(crate) fn end_command() {
    if let Some(id) = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take() {
        kill_group(id);
    }
}

#[cfg(unix)]
fn kill_group(id: u32) {
    let id = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(id) = id {
        let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: u32) {}

impl Running {
    fn of(child: Child) -> Running {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
        Running(child)
    }

    fn wait(mut self, most: Option<Duration>) -> TractResult<End> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(end_of(status));
            }
            if most.is_some_and(|most| start.elapsed() >= most) {
                return Ok(End::Late);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_command();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn end_of(status: ExitStatus) -> End {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return End::Killed(signal);
    }
    End::Exited(status.code().unwrap_or(1))
}
