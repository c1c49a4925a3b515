//! The text of compositions, whose first lines say what it means.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cast::element_type::ElementType;

const TEXTS: [&str; 4] = [
    include_str!("attention.txt"),
    include_str!("compositions.txt"),
    include_str!("experts.txt"),
    include_str!("quantised.txt"),
];

/// What stands for an operator.
#[derive(Debug)]
pub(super) struct Composition {
    pub(super) domain: &'static str,
    operator: &'static str,
    pub(super) inputs: Vec<&'static str>,
    pub(super) outputs: Vec<(&'static str, OutputType)>,
    /// Whether half precision is computed in FLOAT.
    pub(super) is_wide: bool,
    /// The input whose type decides.
    pub(super) by: usize,
    /// The types of the first output, where it stands for some alone.
    pub(super) only: Vec<ElementType>,
    /// Of which one holds; none where it stands for all nodes.
    pub(super) when: Vec<(Guard, bool)>,
    pub(super) statements: Vec<Statement>,
}

/// The type of an output.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputType {
    AsInput(usize),
    Always(ElementType),
}

/// `[guards] made = operator<attributes>(inputs)`; the operator is empty for another name of one
/// value.
#[derive(Debug)]
pub(super) struct Statement {
    /// Each holds, or does not.
    pub(super) guards: Vec<(Guard, bool)>,
    pub(super) made: Vec<&'static str>,
    pub(super) operator: &'static str,
    pub(super) attributes: Vec<(&'static str, &'static str)>,
    pub(super) inputs: Vec<&'static str>,
}

/// What a statement depends on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Guard {
    /// An input, output or attribute is given.
    There(&'static str),
    Attribute(&'static str, &'static str),
    /// A rank that nobody has told is another one, unless it is checked.
    Rank {
        input: &'static str,
        rank: usize,
        is_checked: bool,
    },
    /// A size of an input: `x.1`.
    Size(&'static str, i64),
    /// Two sizes of inputs or lengths of lists, where both are known, are not the same.
    Differ(&'static str, &'static str),
    /// The node is of an older version.
    Before(i64),
}

/// By domain and operator.
static COMPOSITIONS: LazyLock<HashMap<&str, HashMap<&str, Composition>>> = LazyLock::new(|| {
    let mut all: HashMap<&str, HashMap<&str, Composition>> = HashMap::new();
    for composition in TEXTS.into_iter().flat_map(read).flatten() {
        all.entry(composition.domain).or_default().insert(composition.operator, composition);
    }
    all
});

/// What stands for an operator, if anything does.
pub(super) fn composition(domain: &str, operator: &str) -> Option<&'static Composition> {
    COMPOSITIONS.get(domain)?.get(operator)
}

impl Composition {
    /// The types of the outputs, given those of the inputs.
    pub(super) fn output_types(&self, inputs: &[Option<ElementType>]) -> Vec<Option<ElementType>> {
        let ty = |(_, typed): &(_, OutputType)| match *typed {
            OutputType::AsInput(place) => inputs.get(place).copied().flatten(),
            OutputType::Always(ty) => Some(ty),
        };
        self.outputs.iter().map(ty).collect()
    }
}

/// The compositions of a text, `None` for each that cannot be read.
fn read(text: &'static str) -> Vec<Option<Composition>> {
    let mut compositions: Vec<Option<Composition>> = vec![];
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for line in lines {
        if !line.starts_with(' ') {
            compositions.push(header(line));
            continue;
        }
        let statement = statement(line.trim());
        if let Some(last) = compositions.last_mut() {
            match (last.as_mut(), statement) {
                (Some(composition), Some(statement)) => composition.statements.push(statement),
                _ => *last = None,
            }
        }
    }
    compositions
}

/// `domain::Operator(inputs) -> output, output:FLOAT ; wide by=1`.
fn header(line: &'static str) -> Option<Composition> {
    let (line, words) = line.split_once(" ; ").unwrap_or((line, ""));
    let (call, outputs) = line.split_once(" -> ")?;
    let (name, inputs) = call.split_once('(')?;
    let (domain, operator) = name.split_once("::").unwrap_or(("", name));
    let word = |key: &str| words.split(' ').find_map(|word| word.strip_prefix(key));
    let only = word("only=").unwrap_or_default().split(',').filter(|name| !name.is_empty());
    let only = only.map(ElementType::from_name).collect::<Option<_>>()?;
    let when = word("when:").unwrap_or_default().split('|').filter(|text| !text.is_empty());
    let when = when.map(guard).collect::<Option<_>>()?;
    let by = word("by=").map_or(Some(0), |by| by.parse().ok())?;
    let output = |text: &'static str| match text.split_once(':') {
        None => Some((text, OutputType::AsInput(by))),
        Some((name, ty)) => Some((
            name,
            match ElementType::from_name(ty) {
                Some(ty) => OutputType::Always(ty),
                None => OutputType::AsInput(ty.parse().ok()?),
            },
        )),
    };
    Some(Composition {
        domain,
        operator,
        inputs: split(inputs.strip_suffix(')')?),
        outputs: split(outputs).into_iter().map(output).collect::<Option<_>>()?,
        is_wide: words.split(' ').any(|word| word == "wide"),
        by,
        only,
        when,
        statements: vec![],
    })
}

fn statement(line: &'static str) -> Option<Statement> {
    let (guards, rest) = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("] ")?,
        None => ("", line),
    };
    let guards = guards.split(' ').filter(|guard| !guard.is_empty());
    let guards = guards.map(guard).collect::<Option<_>>()?;
    if let Some(reason) = rest.strip_prefix("refuse ") {
        let (made, attributes) = (vec![], vec![]);
        return Some(Statement {
            guards,
            made,
            operator: "refuse",
            attributes,
            inputs: vec![reason],
        });
    }
    let (made, call) = rest.split_once(" = ")?;
    let made = split(made);
    let Some((head, inputs)) = call.split_once('(') else {
        return Some(Statement {
            guards,
            made,
            operator: "",
            attributes: vec![],
            inputs: vec![call],
        });
    };
    let (operator, attributes) = match head.split_once('<') {
        Some((operator, attributes)) => (operator, split(attributes.strip_suffix('>')?)),
        None => (head, vec![]),
    };
    let attributes = attributes.into_iter().map(|text| text.split_once('='));
    let attributes = attributes.collect::<Option<_>>()?;
    Some(Statement { guards, made, operator, attributes, inputs: split(inputs.strip_suffix(')')?) })
}

/// `bias`, `!bias`, `axis=1`, `before:7`, `rank:x=4`, `rank:x=4?`, `dim:x.1=2` or
/// `differ:scale=x.1`.
fn guard(text: &'static str) -> Option<(Guard, bool)> {
    let (text, wanted) = text.strip_prefix('!').map_or((text, true), |text| (text, false));
    let guard = match (text.split_once(':'), text.split_once('=')) {
        (Some(("rank", rest)), _) => {
            let (input, rank) = rest.split_once('=')?;
            let (number, is_checked) =
                rank.strip_suffix('?').map_or((rank, true), |rank| (rank, false));
            Guard::Rank { input, rank: number.parse().ok()?, is_checked }
        }
        (Some(("before", opset)), _) => Guard::Before(opset.parse().ok()?),
        (Some(("dim", rest)), _) => {
            let (name, size) = rest.split_once('=')?;
            Guard::Size(name, size.parse().ok()?)
        }
        (Some(("differ", rest)), _) => {
            let (one, other) = rest.split_once('=')?;
            Guard::Differ(one, other)
        }
        (_, Some((name, value))) => Guard::Attribute(name, value),
        _ => Guard::There(text),
    };
    Some((guard, wanted))
}

/// The members of a list, apart by commas outside of brackets.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut depth = 0;
    let members = text.split(move |sign| {
        depth += i32::from(sign == '[') - i32::from(sign == ']');
        sign == ',' && depth == 0
    });
    members.map(str::trim).filter(|member| !member.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_composition_is_read() {
        let mut names = vec![];
        for text in TEXTS {
            let headers = text.lines().filter(|line| !line.starts_with([' ', '#']));
            let headers: Vec<&str> = headers.filter(|line| !line.is_empty()).collect();
            let read = read(text);
            assert_eq!(headers.len(), read.len());
            for (header, composition) in headers.into_iter().zip(read) {
                let composition = composition.unwrap_or_else(|| panic!("{header}"));
                let name = (composition.domain, composition.operator);
                assert!(!names.contains(&name), "{header}: twice");
                names.push(name);
                for statement in &composition.statements {
                    let known = composition.statements.iter().flat_map(|other| &other.made);
                    let known: Vec<&str> = known.chain(&composition.inputs).copied().collect();
                    for input in &statement.inputs {
                        let is_name = input.chars().all(|sign| sign.is_ascii_lowercase());
                        assert!(!is_name || known.contains(input), "{header}: {input}");
                    }
                }
            }
        }
    }
}
