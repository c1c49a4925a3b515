//! What the user's process and a worker say to each other: a request and its reply are a line of
//! JSON each, and the type of the answer follows from that of the request.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tract_onnx_cast::untrusted::{OUT_OF_MEMORY, is_of_memory};

use crate::cli::message::{self, ProblemKind, ReportedProblem, at};
use crate::cli::work::engine::{Engine, NoPlan};

/// Set in the worker's environment, and only there.
pub(crate) const WORKER_VARIABLE: &str = "ONNX_CAST_WORKER";

/// Stands at the start of every reply: other lines come from libraries that print.
pub(crate) const REPLY: &str = "onnx-cast reply: ";

/// One request, with the limits that the user set.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order<R> {
    /// The name of the request.
    pub(crate) kind: String,
    pub(crate) request: R,
    pub(crate) memory_bytes: u64,
    /// How many nodes tract may be given to load, if not as many as by default.
    pub(crate) max_nodes: Option<u64>,
    pub(crate) engine: Engine,
    /// Why models are not run by plans, where nobody has asked for that.
    pub(crate) no_plan: Option<NoPlan>,
    /// Whether the model runs once, by whatever engine has it done first.
    pub(crate) is_once: bool,
    /// How long each load of a model may take, in seconds.
    pub(crate) load_seconds: Option<u64>,
}

/// What a worker reads of an [`Order`] before it knows the type of the request.
#[derive(Deserialize)]
pub(crate) struct Header {
    pub(crate) kind: String,
}

/// What became of a request.
#[derive(Serialize, Deserialize)]
pub(crate) enum RequestOutcome<A> {
    /// The answer.
    Done(A),
    /// The model or an input cannot be used, for this reason.
    Unusable(ReportedProblem),
}

/// What became of a request, and whether the worker should be asked nothing else: after a panic,
/// locks and caches may be in any state.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reply<A> {
    pub(crate) outcome: RequestOutcome<A>,
    pub(crate) is_last: bool,
    /// What tract cannot do, where another engine may do the work.
    pub(crate) no_plan: Option<NoPlan>,
}

impl<A> RequestOutcome<A> {
    /// The answer. Fails when there is none. The error begins with the model's path.
    pub(crate) fn about(self, model: &Path) -> anyhow::Result<A> {
        match self {
            RequestOutcome::Done(answer) => Ok(answer),
            // What opens several models has said which.
            RequestOutcome::Unusable(problem)
                if problem.message.starts_with(&format!("{}: ", model.display())) =>
            {
                Err(problem.into())
            }
            RequestOutcome::Unusable(problem) => at(model.display(), Err(problem)),
        }
    }
}

/// What to tell the user about a worker's end, given what tract or the standard library said last.
pub(crate) fn reason_of_end(last_words: &str, memory_bytes: u64) -> ReportedProblem {
    if is_of_memory(last_words) {
        let message = format!("{OUT_OF_MEMORY}{}", message::more_memory(memory_bytes));
        return ReportedProblem { kind: ProblemKind::Limit, message };
    }
    let (kind, message) = if last_words.contains("overflowed its stack") {
        (ProblemKind::Limit, "tract ran out of stack".into())
    } else {
        let words = message::shortened_line(last_words);
        (ProblemKind::Model, format!("tract cannot handle this model ({words})"))
    };
    ReportedProblem { kind, message }
}
