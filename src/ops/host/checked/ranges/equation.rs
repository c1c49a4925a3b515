//! The equation of an `Einsum`.

use std::collections::HashSet;

use tract_onnx::pb::NodeProto;

use super::Known;

const ELLIPSIS: &str = "...";

/// Checks that the equation is of letters, that it has a term for each input with a letter for each axis, and that the output's
/// letters are those of inputs, none twice. What is wrong is said in words.
pub(super) fn check(node: &NodeProto, known: &dyn Known) -> Result<(), String> {
    let Some(equation) = node.attribute.iter().find(|given| given.name == "equation") else {
        return Ok(());
    };
    let equation = String::from_utf8_lossy(&equation.s).replace(' ', "");
    let problem = |why: &str| Err(format!("has attribute `equation` `{equation}`, {why}"));
    let (terms, output) = match equation.split_once("->") {
        Some((terms, output)) => (terms, Some(output)),
        None => (&*equation, None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != node.input.len() {
        return problem(&format!("with {} terms of {} inputs", terms.len(), node.input.len()));
    }
    let mut letters: HashSet<char> = HashSet::new();
    for (place, term) in terms.iter().copied().chain(output).enumerate() {
        let named = term.replacen(ELLIPSIS, "", 1);
        if let Some(other) = named.chars().find(|letter| !letter.is_ascii_alphabetic()) {
            return problem(&format!("where `{other}` names no axis"));
        }
        if place == terms.len() {
            let mut seen = HashSet::new();
            for letter in named.chars() {
                if !letters.contains(&letter) {
                    return problem(&format!("and no operand with the axis {letter}"));
                }
                if !seen.insert(letter) {
                    return problem(&format!("with the axis {letter} twice in the output"));
                }
            }
            continue;
        }
        let (has_more, axes) = (named.len() < term.len(), named.len());
        if let Some(rank) = known.shape(place).map(|shape| shape.len())
            && (rank < axes || rank > axes && !has_more)
        {
            return problem(&format!("where `{term}` stands for an input of rank {rank}"));
        }
        letters.extend(named.chars());
    }
    Ok(())
}
