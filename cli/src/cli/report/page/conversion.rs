//! A conversion: the comparison with the original, what was converted, and what stays with the
//! reason.

use super::{Section, comparison_section, folded, render};
use crate::cli::found::compared::Compared;

/// How many nodes that stay are shown; the reader can unfold the others.
const TOP: usize = 40;

/// The page of a conversion, given what was found out about it; `stays` is what was not converted:
/// operator, node and reason. Where nothing was written or compared, `problem` says why.
/// Fails when the template cannot be filled in.
pub(crate) fn of_conversion(
    model: &str,
    compared: Option<&Compared>,
    problem: Option<&str>,
    facts: Vec<(&'static str, String)>,
    stays: Vec<[String; 3]>,
) -> anyhow::Result<String> {
    let mut section = match compared {
        Some(compared) => comparison_section(compared, usize::MAX),
        None => Section { name: model.into(), subject: model.into(), ..Section::default() },
    };
    section.is_good = problem.is_none();
    if let Some(problem) = problem {
        section.verdict = format!("nothing is written: {problem}");
    }
    section.facts.splice(0..0, facts);
    (section.stays, section.more_stays) = folded(stays, TOP);
    render("A model and its conversion", vec![section])
}
