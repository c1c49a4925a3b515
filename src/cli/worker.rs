//! The process that runs tract. It answers requests, one line of JSON each, until its standard
//! input ends.

use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::mpsc;
use std::{env, thread};

use serde::{Deserialize, Serialize};

use super::message;
use super::request::{Answer, Request};

/// Set in the worker's environment, and only there.
pub(super) const MARK: &str = "ONNX_CAST_WORKER";

/// tract recurses over graphs and symbolic expressions; their depth is the file's.
const STACK_BYTES: usize = 256 << 20;

/// One request, with the limit that the user set.
#[derive(Serialize, Deserialize)]
pub(super) struct Order<R> {
    pub(super) request: R,
    pub(super) memory_bytes: u64,
}

/// An answer, and whether it should be the worker's last: after a panic, locks and caches may be in
/// any state.
#[derive(Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) is_last: bool,
}

/// Whether this process was started as a worker.
pub(super) fn is_this_process() -> bool {
    env::var_os(MARK).is_some()
}

/// Answers requests until there are no more. When standard input ends, the supervisor has all it
/// wants or is gone, so work that still goes on ends too.
pub(super) fn serve() -> ExitCode {
    panic::set_hook(Box::new(|_| {}));
    let (sender, orders) = mpsc::channel::<String>();
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    if thread.spawn(move || orders.iter().try_for_each(|order| reply(&order))).is_err() {
        return ExitCode::FAILURE;
    }
    for line in io::stdin().lock().lines() {
        let is_sent = line.is_ok_and(|order| sender.send(order).is_ok());
        if !is_sent {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn reply(order: &str) -> io::Result<()> {
    let mut line = serde_json::to_vec(&answer(order))?;
    line.push(b'\n');
    let mut stdout = io::stdout();
    stdout.write_all(&line)?;
    stdout.flush()
}

fn answer(line: &str) -> Reply {
    let order: Order<Request> = match serde_json::from_str(line) {
        Ok(order) => order,
        Err(error) => return Reply { answer: Answer::Unusable(error.to_string()), is_last: false },
    };
    limit_memory(order.memory_bytes);
    let work = AssertUnwindSafe(|| {
        let unusable = |error| Answer::Unusable(message::one_line(&error));
        order.request.answer().unwrap_or_else(unusable)
    });
    match panic::catch_unwind(work) {
        Ok(answer) => Reply { answer, is_last: false },
        Err(payload) => {
            let words = payload.downcast_ref::<String>().map(String::as_str);
            let words = words.or(payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
            Reply { answer: Answer::Unusable(order.explain(words)), is_last: true }
        }
    }
}

impl<R> Order<R> {
    /// What to tell the user, given what tract or the standard library said last.
    pub(super) fn explain(&self, last_words: &str) -> String {
        // By the standard library when it aborts, and by tract's assertions.
        let no_memory = ["memory allocation", "failed to allocate", "data.is_null()"];
        if no_memory.iter().any(|words| last_words.contains(words)) {
            let gib = self.memory_bytes as f64 / (1u64 << 30) as f64;
            format!("tract ran out of memory; --max-memory raises the limit of {gib:.1} GiB")
        } else if last_words.contains("overflowed its stack") {
            "tract ran out of stack".into()
        } else {
            format!("tract cannot handle this model ({})", message::shortened_line(last_words))
        }
    }
}

/// Makes allocations fail before the machine is out of memory, and a death leave no core file
/// behind. A system that knows no such limits goes without.
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
