//! Which engines are asked for an answer, one after another.

use crate::cli::process::protocol::{Reply, RequestOutcome};
use crate::cli::work::engine::{Engine, NoPlan};

/// What comes of asking by the engine that the user wants, or else by the usual one; if that is a
/// plan, and there is none, node by node. `ask` is given the engine, why there is no plan, and
/// whether a plan may not be worth it. Fails as that does.
pub(super) fn by_either<A>(
    (asked, usual): (Option<Engine>, Engine),
    is_once: bool,
    mut ask: impl FnMut(Engine, Option<NoPlan>, bool) -> anyhow::Result<Reply<A>>,
) -> anyhow::Result<RequestOutcome<A>> {
    let first = ask(asked.unwrap_or(usual), None, is_once)?;
    let (problem, no_plan) =
        match first {
            Reply {
                outcome: RequestOutcome::Unusable(problem), no_plan: Some(no_plan), ..
            } if asked.is_none() && usual == Engine::Plan => (problem, no_plan),
            reply => return Ok(reply.outcome),
        };
    let is_possible = no_plan.is_possible;
    let by_nodes = ask(Engine::Nodes, Some(no_plan), is_once)?;
    if is_possible && by_nodes.no_plan.is_some() {
        // What tract cannot do with a node alone it may with all of them.
        return Ok(ask(Engine::Plan, None, false)?.outcome);
    }
    // Of two problems that are tract's, the plan's says more of the model. What took more time or
    // memory than there is, or is wrong without a plan, is told.
    let is_told = match &by_nodes.outcome {
        RequestOutcome::Done(_) => true,
        RequestOutcome::Unusable(_) => by_nodes.is_last || by_nodes.no_plan.is_none(),
    };
    Ok(if is_told { by_nodes.outcome } else { RequestOutcome::Unusable(problem) })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::cli::message::{ProblemKind, ReportedProblem};

    #[test]
    fn what_cannot_run_node_by_node_is_tried_by_a_plan() -> anyhow::Result<()> {
        let unusable = |message: &str, is_possible: bool| {
            let problem = ReportedProblem { kind: ProblemKind::Model, message: message.into() };
            let no_plan = Some(NoPlan { note: String::new(), is_possible });
            Reply { outcome: RequestOutcome::Unusable(problem), is_last: false, no_plan }
        };
        for is_possible in [true, false] {
            let planned = Reply { outcome: RequestOutcome::Done(7), is_last: false, no_plan: None };
            let first = unusable("no plan", is_possible);
            let mut replies = vec![planned, unusable("a node", false), first].into_iter();
            let mut asked = vec![];
            let outcome = by_either((None, Engine::Plan), true, |engine, no_plan, is_once| {
                asked.push((engine, no_plan.is_some(), is_once));
                replies.next_back().context("a reply")
            })?;
            let both = [(Engine::Plan, false, true), (Engine::Nodes, true, true)];
            match outcome {
                RequestOutcome::Done(made) => {
                    assert_eq!(
                        (made, &asked[..2], asked[2]),
                        (7, &both[..], (Engine::Plan, false, false))
                    );
                    assert!(is_possible);
                }
                RequestOutcome::Unusable(problem) => {
                    assert_eq!((problem.message.as_str(), &asked[..]), ("no plan", &both[..]));
                    assert!(!is_possible);
                }
            }
        }
        Ok(())
    }
}
