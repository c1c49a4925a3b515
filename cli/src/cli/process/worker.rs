//! The process that runs tract. It answers requests until its standard input ends.

use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{self, ExitCode};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use super::protocol::{Header, MARK, Order, Outcome, REPLY, Reply, explain};
use crate::cli::message::{ErrorKind, Problem};
use crate::cli::output_file::remove_drafts;
use crate::cli::phase;
use crate::cli::work::audit::AuditRequest;
use crate::cli::work::check::CheckRequest;
use crate::cli::work::compare::CompareRequest;
use crate::cli::work::deadline;
use crate::cli::work::fix::FixRequest;
use crate::cli::work::inspect::InspectRequest;
use crate::cli::work::keep::KeepRequest;
use crate::cli::work::model::allow_nodes;
use crate::cli::work::record::RecordRequest;
use crate::cli::work::request::{Kind, Request};
use crate::cli::work::run::RunRequest;

/// The size of the working thread's stack. tract recurses over graphs and symbolic expressions, which a file may nest deep.
const STACK_BYTES: usize = 256 << 20;

/// Whether this process was started as a worker.
pub(crate) fn is_this_process() -> bool {
    env::var_os(MARK).is_some()
}

/// Answers requests until there are no more. When standard input ends, the supervisor has all it
/// wants or is gone, so work that still goes on ends too.
pub(crate) fn serve() -> ExitCode {
    panic::set_hook(Box::new(|_| {}));
    phase::tell();
    let (sender, orders) = mpsc::channel::<String>();
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    if thread.spawn(move || orders.iter().try_for_each(|order| reply(&order))).is_err() {
        return ExitCode::FAILURE;
    }
    deadline::watch(give_up);
    for line in io::stdin().lock().lines() {
        let is_sent = line.is_ok_and(|order| sender.send(order).is_ok());
        if !is_sent {
            break;
        }
    }
    remove_drafts();
    ExitCode::SUCCESS
}

/// Replies that a model takes too long to load, and ends.
fn give_up(allowed: Duration) {
    remove_drafts();
    let seconds = allowed.as_secs();
    let message = format!(
        "tract takes longer to load this model than {seconds} s, which is for a file of this size; --timeout says how long all may take"
    );
    let outcome = Outcome::<()>::Unusable(Problem { kind: ErrorKind::Limit, message });
    if let Ok(reply) = serde_json::to_string(&Reply { outcome, is_last: true }) {
        let mut stdout = io::stdout();
        let _ = writeln!(stdout, "{REPLY}{reply}").and_then(|()| stdout.flush());
    }
    process::exit(1);
}

fn reply(order: &str) -> io::Result<()> {
    let unusable = |error: serde_json::Error| {
        let problem = Problem { kind: ErrorKind::Call, message: error.to_string() };
        let outcome = Outcome::<()>::Unusable(problem);
        serde_json::to_string(&Reply { outcome, is_last: false })
    };
    let reply = reply_to_any(order).or_else(unusable)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{REPLY}{reply}")?;
    stdout.flush()
}

fn reply_to_any(order: &str) -> serde_json::Result<String> {
    let Header { kind } = serde_json::from_str(order)?;
    match kind {
        Kind::Run => reply_to::<RunRequest>(order),
        Kind::Inspect => reply_to::<InspectRequest>(order),
        Kind::Check => reply_to::<CheckRequest>(order),
        Kind::Audit => reply_to::<AuditRequest>(order),
        Kind::Compare => reply_to::<CompareRequest>(order),
        Kind::Record => reply_to::<RecordRequest>(order),
        Kind::Fix => reply_to::<FixRequest>(order),
        Kind::Keep => reply_to::<KeepRequest>(order),
    }
}

fn reply_to<R: Request>(order: &str) -> serde_json::Result<String> {
    let Order::<R> { request, memory_bytes, max_nodes, load_seconds, .. } =
        serde_json::from_str(order)?;
    deadline::allow(load_seconds.map(Duration::from_secs));
    limit_memory(memory_bytes);
    if let Some(nodes) = max_nodes {
        allow_nodes(nodes);
    }
    let reply = match panic::catch_unwind(AssertUnwindSafe(|| request.answer())) {
        Ok(Ok(answer)) => Reply { outcome: Outcome::Done(answer), is_last: false },
        Ok(Err(error)) => {
            let problem = Problem::of(&error, ErrorKind::Model);
            Reply { outcome: Outcome::Unusable(problem), is_last: false }
        }
        Err(payload) => {
            let words = payload.downcast_ref::<String>().map(String::as_str);
            let words = words.or(payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
            Reply { outcome: Outcome::Unusable(explain(words, memory_bytes)), is_last: true }
        }
    };
    serde_json::to_string(&reply)
}

/// Makes allocations fail before the machine is out of memory, and keeps the system from writing a core file when the
/// worker dies. Systems without such limits are left as they are.
#[cfg(unix)]
fn limit_memory(bytes: u64) {
    use rlimit::Resource;
    for (resource, limit) in [(Resource::AS, bytes), (Resource::CORE, 0)] {
        if let Ok((_, hard)) = resource.get() {
            let _ = resource.set(limit.min(hard), hard);
        }
    }
}

#[cfg(not(unix))]
fn limit_memory(_bytes: u64) {}
