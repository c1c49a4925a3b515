//! What tract says, as errors of this crate's: the node that it is at, and what is wrong there in
//! plain words.

#![forbid(unsafe_code)]

use tract_onnx::prelude::TractError;

use super::{Cause, Error, ErrorKind, shown};

impl Error {
    /// What tract's loader says, unless it is an error of this crate's already.
    pub(crate) fn of_tract(error: TractError) -> TractError {
        let own = error.chain().find_map(|link| link.downcast_ref::<Error>());
        if let Some(own) = own.filter(|own| own.kind() != ErrorKind::Argument) {
            // What tract says around it has the node's name as the file has it.
            let is_whole = own.names_its_place() || own.node().is_some();
            return if is_whole { own.clone().into() } else { error };
        }
        let links: Vec<String> = error.chain().map(ToString::to_string).collect();
        let named = |(place, link): (usize, &String)| {
            let (name, op) = named_by_tract(link)?;
            // What tract does with the node, and the rules that it asks, are no words of the
            // problem.
            let is_problem = |link: &&String| !DOINGS.iter().any(|doing| link.starts_with(doing));
            let problem: Vec<&str> =
                links.iter().skip(place + 1).filter(is_problem).map(String::as_str).collect();
            let problem = if problem.is_empty() { links.join(": ") } else { problem.join(": ") };
            Some((Some(name.to_owned()), Some(op.to_owned()), problem))
        };
        // The innermost: a node of a body stands behind the one that holds it.
        let named = links.iter().enumerate().rev().find_map(named);
        let (node, op, problem) = named.unwrap_or_else(|| (None, None, links.join(": ")));
        let message = || match (&node, &op) {
            (Some(node), Some(op)) => format!("node `{}` ({op}): {problem}", shown(node)),
            _ => problem.clone(),
        };
        let cause = if error.chain().any(|link| link.is::<prost::DecodeError>()) {
            Cause::NoModel { problem: message() }
        } else if error.chain().any(|link| link.is::<std::io::Error>()) {
            Cause::File { message: message() }
        } else {
            Cause::Tract { node, op, problem: plain(&problem) }
        };
        Error::from(cause).into()
    }

    /// The same of what is done to a loaded model; an error that is about no node may not be
    /// tract's, and is left as it is.
    pub(crate) fn of_tract_at_node(error: TractError) -> TractError {
        let is_about_node = error.chain().any(|link| named_by_tract(&link.to_string()).is_some());
        if is_about_node { Error::of_tract(error) } else { error }
    }
}

/// What tract says of its own work on a node.
const DOINGS: [&str; 3] = ["in output_facts invocation", "Infering facts", "Applying rule"];

/// The node that tract says it is at, and its operator.
fn named_by_tract(link: &str) -> Option<(&str, &str)> {
    let (name, op) = match link.strip_prefix("Building node ") {
        Some(words) => words.rsplit_once(" (")?,
        None => {
            // "Evaluating #3 \"NAME\" Operator"
            let (doing, words) = link.split_once('"')?;
            let is_known = ["Failed analyse", "Translating", "Evaluating", "Wiring node"];
            is_known.iter().any(|known| doing.starts_with(known)).then_some(())?;
            words.split_once('"')?
        }
    };
    let op = op.split_whitespace().next().unwrap_or_default();
    // tract has operators for versions of ONNX's.
    let op = op.trim_end_matches(|c: char| c.is_ascii_digit() || "():,.".contains(c));
    (!name.is_empty()).then_some((name, op))
}

/// A problem of a part of a node, which may be of another version, with the opset that the node is
/// of; where none is told, that is added on demand.
pub(crate) fn with_opset(problem: &str, opset: i64, is_added: bool) -> String {
    const BEFORE: &str = ", the model imports ";
    match problem.rsplit_once(BEFORE) {
        Some((problem, part)) if part.parse::<i64>().is_ok() => {
            format!("{problem}{BEFORE}{opset}")
        }
        None if is_added => format!("{problem}{BEFORE}{opset}"),
        _ => problem.into(),
    }
}

/// What tract says where sizes, ranks or types are to be one and are two.
const UNLIKE: &str = "Impossible to unify ";

/// A problem without tract's words for numbers that are to be the same, and without the end of a
/// sentence, behind which more may be told.
fn plain(problem: &str) -> String {
    let problem = problem.strip_suffix('.').unwrap_or(problem);
    let both = problem.split_once(UNLIKE).and_then(|(_, both)| both.split_once(" with "));
    let Some((one, other)) = both else { return problem.into() };
    format!("what it takes and makes does not fit: {} is to be {}", bare(one), bare(other))
}

/// A size without the name of the enum that holds it.
fn bare(size: &str) -> &str {
    let inner = ["Val(", "Sym("].iter().find_map(|name| size.strip_prefix(name));
    inner.and_then(|inner| inner.strip_suffix(')')).unwrap_or(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_are_told_in_plain_words() {
        for (said, told) in [
            (
                "Impossible to unify Val(32) with Val(4).",
                "what it takes and makes does not fit: 32 is to be 4",
            ),
            (
                "Unifying shapes 2,3 and 4: Impossible to unify closed shapes of different rank (found 2,3 and 4).",
                "Unifying shapes 2,3 and 4: Impossible to unify closed shapes of different rank (found 2,3 and 4)",
            ),
            (
                "Impossible to unify Sym(N) with Val(2).",
                "what it takes and makes does not fit: N is to be 2",
            ),
            ("no such axis", "no such axis"),
        ] {
            assert_eq!(plain(said), told);
        }
    }
}
