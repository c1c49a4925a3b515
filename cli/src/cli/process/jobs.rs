//! Requests at work: one, or many at once, each thread with a worker process of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

use super::protocol::RequestOutcome;
use super::request::Request;
use super::supervisor::Supervisor;
use crate::cli::args::resources::Resources;
use crate::cli::message::{ReportedProblem, single_line};
use crate::cli::report::progress_bar::Teller;

/// Has a worker answer, and shows what it is at.
/// Fails when there is no answer. The error begins with the model's path.
pub(crate) fn ask<R: Request>(request: &R, resources: Resources) -> anyhow::Result<R::Answer> {
    let teller = Teller::of(1);
    let outcome =
        Supervisor::new(resources).ask(request, |progress| teller.tell(progress.to_owned()));
    drop(teller);
    outcome?.about(request.model())
}

/// Has workers answer, at most `jobs` at once, and shows how far they are. Where there is no
/// answer, `unusable` makes one of the request and the reason. The answers are in the order of the
/// requests. Fails when there is no worker to be had.
pub(crate) fn ask_all<R: Request<Answer: Send> + Sync>(
    requests: &[R],
    jobs: usize,
    resources: Resources,
    unusable: impl Fn(&R, ReportedProblem) -> R::Answer + Sync,
) -> anyhow::Result<Vec<R::Answer>> {
    let teller = Teller::of(requests.len());
    let answer = |request: &R, supervisor: &mut Supervisor| {
        let model = single_line(&request.subject().display().to_string());
        let outcome = supervisor
            .ask(request, |progress| teller.tell(format!("{progress}: {model}")))
            .map(|outcome| match outcome {
                RequestOutcome::Done(answer) => answer,
                RequestOutcome::Unusable(problem) => unusable(request, problem),
            });
        teller.end_piece();
        outcome
    };
    let next = AtomicUsize::new(0);
    let serve = || {
        let mut supervisor = Supervisor::new(resources);
        let mut done = vec![];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = requests.get(index) else { return done };
            done.push((index, answer(request, &mut supervisor)));
        }
    };
    let mut done = thread::scope(|scope| {
        let more = 1..jobs.clamp(1, requests.len().max(1));
        // Where there is no further thread to be had, the others do what is left.
        let more = more.filter_map(|_| thread::Builder::new().spawn_scoped(scope, serve).ok());
        let more: Vec<_> = more.collect();
        let mut done = serve();
        for thread in more {
            done.extend(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
        }
        done
    });
    drop(teller);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}
