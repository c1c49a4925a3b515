//! The equation of an `Einsum`: a letter for each axis of its operands, and those of its output.

use std::collections::HashSet;

use crate::error::{self, Error};
use crate::ops::host::hook::refused;
use crate::ops::host::label::Label;
use onnx_cast_graph::counted;

/// The letters of an operand, or of the output.
#[derive(Debug, Clone)]
struct EquationTerm {
    /// Those before an ellipsis.
    before: Vec<char>,
    /// Those behind it, where there is one.
    after: Option<Vec<char>>,
}

impl EquationTerm {
    fn letters(&self) -> impl Iterator<Item = char> {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }

    /// All letters, with these in the place of the ellipsis.
    fn with(&self, ellipsis: &[char]) -> Vec<char> {
        let ellipsis = if self.after.is_some() { ellipsis } else { &[] };
        let after = self.after.iter().flatten();
        self.before.iter().chain(ellipsis).chain(after).copied().collect()
    }
}

/// What stands before and behind the arrow.
#[derive(Debug, Clone)]
pub(super) struct Equation {
    /// For messages, as the version of the default domain.
    node: Label,
    opset: i64,
    text: String,
    inputs: Vec<EquationTerm>,
    output: Option<EquationTerm>,
}

impl Equation {
    /// Reads `ij,jk->ik`.
    pub(super) fn parse(node: &str, opset: i64, text: &str) -> Result<Equation, Error> {
        let mut equation =
            Equation { node: node.into(), opset, text: text.into(), inputs: vec![], output: None };
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text, None),
        };
        equation.inputs =
            inputs.split(',').map(|term| equation.term(term)).collect::<Result<_, _>>()?;
        equation.output = output.map(|term| equation.term(term)).transpose()?;
        let known: HashSet<char> = equation.inputs.iter().flat_map(EquationTerm::letters).collect();
        let mut seen = HashSet::new();
        for letter in equation.output.iter().flat_map(EquationTerm::letters) {
            if !known.contains(&letter) {
                return Err(equation.error(format!("has no operand with the axis {letter}")));
            }
            if !seen.insert(letter) {
                return Err(equation.error(format!("makes the axis {letter} twice")));
            }
        }
        Ok(equation)
    }

    fn term(&self, text: &str) -> Result<EquationTerm, Error> {
        let letters = |text: &str| -> Result<Vec<char>, Error> {
            let letters = text.chars().filter(|letter| *letter != ' ');
            let letter = |letter: char| match letter {
                'a'..='z' | 'A'..='Z' => Ok(letter),
                other => Err(self.error(format!("is wrong: `{other}` names no axis"))),
            };
            letters.map(letter).collect()
        };
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(letters(after)?)),
            None => (text, None),
        };
        Ok(EquationTerm { before: letters(before)?, after })
    }

    fn error(&self, problem: impl Into<String>) -> Error {
        let (text, problem, opset) = (error::shown(&self.text), problem.into(), self.opset);
        let problem = format!("`equation` {text} {problem}, the model imports {opset}");
        refused(&self.node, "Einsum", problem)
    }

    /// Fails where there are not as many terms as inputs.
    pub(super) fn check_operands(&self, given: usize) -> Result<(), Error> {
        if self.inputs.len() != given {
            return Err(self.error(format!(
                "has {} for {}",
                counted(self.inputs.len(), "term"),
                counted(given, "input")
            )));
        }
        Ok(())
    }

    /// How many operands there are.
    pub(super) fn operands(&self) -> usize {
        self.inputs.len()
    }

    /// The letters of operands of these ranks, and of the output.
    pub(super) fn resolve(&self, ranks: &[usize]) -> Result<(Vec<Vec<char>>, Vec<char>), Error> {
        let mut behind = vec![];
        for (place, (term, rank)) in self.inputs.iter().zip(ranks).enumerate() {
            let named = term.letters().count();
            let rest = rank.checked_sub(named).filter(|rest| *rest == 0 || term.after.is_some());
            behind.push(rest.ok_or_else(|| {
                let term = self.text.split([',', '-']).nth(place).unwrap_or_default().trim();
                self.error(format!("is wrong: `{term}` stands for an input of rank {rank}"))
            })?);
        }
        let most = behind.iter().copied().max().unwrap_or_default();
        let used: HashSet<char> = self.inputs.iter().flat_map(EquationTerm::letters).collect();
        let free = ('a'..).filter(|letter| letter.is_alphabetic() && !used.contains(letter));
        let ellipsis: Vec<char> = free.take(most).collect();
        let of_rest = |rest: usize| ellipsis.get(most - rest..).unwrap_or_default();
        let terms = self.inputs.iter().zip(&behind).map(|(term, rest)| term.with(of_rest(*rest)));
        let output = match &self.output {
            Some(term) if term.after.is_none() && most > 0 => {
                return Err(self.error("has an ellipsis before the arrow only"));
            }
            Some(term) => term.with(&ellipsis),
            None => {
                let is_once = |letter: &char| {
                    let all = self.inputs.iter().flat_map(EquationTerm::letters);
                    all.filter(|other| other == letter).count() == 1
                };
                let mut once: Vec<char> = used.into_iter().filter(is_once).collect();
                once.sort_unstable();
                ellipsis.iter().copied().chain(once).collect()
            }
        };
        Ok((terms.collect(), output))
    }
}
