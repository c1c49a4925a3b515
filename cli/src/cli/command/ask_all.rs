//! Many requests of one kind, as `audit` and `compare` have them.

use crate::cli::judge::status::Status;
use crate::cli::message::{Problem, single_line};
use crate::cli::process::jobs;
use crate::cli::process::protocol::Outcome;
use crate::cli::report::progress::progress_bar;
use crate::cli::work::request::Request;

/// Has workers answer, at most `jobs` at once, and shows how far they are. Where there is no answer, `unusable` makes one of
/// the request and the reason.
///
/// # Errors
///
/// When there is no worker to be had.
pub(super) fn ask_all<R: Request<Answer: Send> + Sync>(
    requests: &[R],
    jobs: usize,
    max_memory: Option<u64>,
    unusable: impl Fn(&R, Problem) -> R::Answer + Sync,
) -> anyhow::Result<Vec<R::Answer>> {
    let bar = progress_bar(requests.len());
    let answers = jobs::each(requests, jobs, max_memory, |request, supervisor| {
        let model = single_line(&request.subject().display().to_string());
        let outcome = supervisor.ask_and_follow(request, |phase| {
            bar.set_message(format!("{phase}: {model}"));
        });
        bar.inc(1);
        Ok(match outcome? {
            Outcome::Done(answer) => answer,
            Outcome::Unusable(problem) => unusable(request, problem),
        })
    });
    bar.finish_and_clear();
    answers.into_iter().collect()
}

/// The worst of all.
pub(super) fn worst(statuses: impl Iterator<Item = Status>) -> Status {
    statuses.max().unwrap_or(Status::Passed)
}
