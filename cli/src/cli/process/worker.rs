//! The process that runs tract. It answers requests until its standard input ends.

use std::io::{self, BufRead, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{self, ExitCode};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use tract_onnx_cast::untrusted::panic_words;

use crate::cli::message::{ProblemKind, ReportedProblem, tell_memory};
use crate::cli::output_file::remove_drafts;
use crate::cli::process::command::{end_command, limit_memory};
use crate::cli::process::protocol::{
    Header, Order, REPLY, Reply, RequestOutcome, WORKER_VARIABLE, reason_of_end,
};
use crate::cli::process::request::Request;
use crate::cli::work::deadline::{Deadline, TooLong};
use crate::cli::work::engine::{self, NoPlan};
use crate::cli::work::model::Loader;
use crate::cli::work::need::TooLarge;

/// The size of the working thread's stack. tract recurses over graphs and symbolic expressions,
/// which a file may nest deep.
pub(crate) const STACK_BYTES: usize = 256 << 20;
/// What this process may have while it judges whether a model fits what it is to have. Most of that
/// are addresses of stacks and of the allocator's arenas, which are taken but not used.
const TO_JUDGE: u64 = 1 << 30;

/// Whether this process was started as a worker.
pub(crate) fn is_this_process() -> bool {
    env::var_os(WORKER_VARIABLE).is_some()
}

/// The name of a request, and what replies to it in one line.
pub(crate) type Answerer = (&'static str, fn(&str, &Deadline) -> serde_json::Result<String>);

/// Answers requests until there are no more. When standard input ends, the supervisor has all it
/// wants or is gone, so work that still goes on ends too.
pub(crate) fn serve(answerers: &'static [Answerer]) -> ExitCode {
    panic::set_hook(Box::new(|_| {}));
    let deadline = Deadline::default();
    deadline.watch(give_up);
    let (sender, orders) = mpsc::channel::<String>();
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let answer = move || orders.iter().try_for_each(|order| reply(answerers, &order, &deadline));
    if thread.spawn(answer).is_err() {
        return ExitCode::FAILURE;
    }
    for line in io::stdin().lock().lines() {
        let is_sent = line.is_ok_and(|order| sender.send(order).is_ok());
        if !is_sent {
            break;
        }
    }
    end_command();
    remove_drafts();
    ExitCode::SUCCESS
}

/// Replies that a model takes too long to load, and ends.
fn give_up(allowed: Duration) {
    end_command();
    remove_drafts();
    let message = TooLong::than(allowed).to_string();
    let no_plan = NoPlan::because(&message);
    let outcome =
        RequestOutcome::<()>::Unusable(ReportedProblem { kind: ProblemKind::Limit, message });
    if let Ok(reply) =
        serde_json::to_string(&Reply { outcome, is_last: true, no_plan: Some(no_plan) })
    {
        let mut stdout = io::stdout();
        let _ = writeln!(stdout, "{REPLY}{reply}").and_then(|()| stdout.flush());
    }
    process::exit(1);
}

fn reply(answerers: &[Answerer], order: &str, deadline: &Deadline) -> io::Result<()> {
    let unusable = |error: serde_json::Error| {
        let problem = ReportedProblem { kind: ProblemKind::Call, message: error.to_string() };
        let outcome = RequestOutcome::<()>::Unusable(problem);
        serde_json::to_string(&Reply { outcome, is_last: false, no_plan: None })
    };
    let answer = || {
        let Header { kind } = serde_json::from_str(order)?;
        let answerer = answerers.iter().find(|(name, _)| *name == kind);
        let unknown = || serde::de::Error::custom(format!("there is no request `{kind}`"));
        answerer.ok_or_else(unknown)?.1(order, deadline)
    };
    let reply = answer().or_else(unusable)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{REPLY}{reply}")?;
    stdout.flush()
}

/// Does the work of an order, and makes one line of what comes of it.
/// Fails when the order is none of this type.
pub(crate) fn reply_to<R: Request>(order: &str, deadline: &Deadline) -> serde_json::Result<String> {
    let order: Order<R> = serde_json::from_str(order)?;
    let Order { request, memory_bytes, max_nodes, load_seconds, .. } = order;
    deadline.allow(load_seconds.map(Duration::from_secs));
    tell_memory(memory_bytes);
    let there = limit(memory_bytes.max(TO_JUDGE)).min(memory_bytes);
    let loader = Loader::new(max_nodes, deadline.clone()).within(there);
    let loader = loader.by(order.engine, order.no_plan).once(order.is_once);
    if let Some(reply) = refused(&request, &loader) {
        return serde_json::to_string(&reply);
    }
    limit(memory_bytes);
    let reply = match panic::catch_unwind(AssertUnwindSafe(|| request.answer(&loader))) {
        Ok(Ok(answer)) => {
            Reply { outcome: RequestOutcome::Done(answer), is_last: false, no_plan: None }
        }
        Ok(Err(error)) => {
            let mut problem = ReportedProblem::of(&error, ProblemKind::Model);
            if error.chain().any(|link| link.is::<TooLong>()) {
                problem.kind = ProblemKind::Limit;
            }
            let no_plan = engine::no_plan(&error, order.engine, max_nodes.is_none());
            Reply { outcome: RequestOutcome::Unusable(problem), is_last: false, no_plan }
        }
        Err(payload) => {
            let words = panic_words(&*payload).unwrap_or("panic");
            let outcome = RequestOutcome::Unusable(reason_of_end(words, memory_bytes));
            Reply { outcome, is_last: true, no_plan: Some(NoPlan::because(words)) }
        }
    };
    serde_json::to_string(&reply)
}

/// The refusal of an order for whose models there is not enough memory. Node by node there may be.
fn refused<R: Request>(request: &R, loader: &Loader) -> Option<Reply<R::Answer>> {
    let judge = || loader.too_large(&request.running());
    let TooLarge { model, reason } = panic::catch_unwind(AssertUnwindSafe(judge)).ok().flatten()?;
    let message = format!("{}: {reason}", model.display());
    let outcome = RequestOutcome::Unusable(ReportedProblem { kind: ProblemKind::Limit, message });
    let no_plan = (!loader.interprets()).then(|| NoPlan::because(&reason));
    Some(Reply { outcome, is_last: false, no_plan })
}

/// Makes allocations fail before the machine is out of memory, and keeps the system from writing a
/// core file when the worker dies. Systems without such limits are left as they are. Returns the
/// memory that there is.
fn limit(memory_bytes: u64) -> u64 {
    #[cfg(unix)]
    if let Ok((_, hard)) = rlimit::Resource::CORE.get() {
        let _ = rlimit::Resource::CORE.set(0, hard);
    }
    limit_memory(memory_bytes)
}
