//! What can be wrong with a model or a tensor. Each message is one line that names the place.

#![forbid(unsafe_code)]

use std::borrow::Cow;

use tract_onnx::prelude::TractError;

use crate::cast::element_type::ElementType;

/// Why a model, a node or a tensor cannot be used.
///
/// tract reports errors as [`anyhow::Error`](tract_onnx::prelude::TractError); `downcast_ref` finds this one in its
/// chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An attribute that the operator's version does not have, or not with this value ([SEMANTICS §2](crate::semantics)).
    #[error(
        "node `{}`: attribute `{}` {}, the model imports {opset}",
        shown(node),
        shown(attribute),
        text(problem)
    )]
    Attribute {
        /// The node's name, or its first output where it has none.
        node: String,
        /// The attribute's name.
        attribute: String,
        /// What is wrong, ending so that the model's opset can follow.
        problem: String,
        /// The version of the default domain that the model imports.
        opset: i64,
    },
    /// A node that cannot be run as it stands.
    #[error("node `{}` ({}): {}", shown(node), shown(op), text(problem))]
    Node {
        /// The node's name, or its first output where it has none.
        node: String,
        /// The node's operator.
        op: String,
        /// What is wrong, with the type and the opset where they are involved.
        problem: String,
    },
    /// A tensor whose data contradicts its description.
    #[error("tensor `{}`: {}", shown(tensor), text(problem))]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A model that is none.
    #[error("the model {}", text(problem))]
    Model {
        /// What is wrong.
        problem: String,
    },
    /// A model that is larger than the loader's [`Limits`](crate::Limits).
    #[error("{}: `{what}` is {found}, and the limit is {limit}", text(place))]
    Limit {
        /// Where it is.
        place: String,
        /// The field of [`Limits`](crate::Limits).
        what: &'static str,
        /// How much there is, or at least is.
        found: u64,
        /// How much there may be.
        limit: u64,
    },
    /// A model that this crate finds sound and tract does not: its loader, or what types, optimises or runs it.
    #[error("{}", text(message))]
    Tract {
        /// The node's name, where it has one and tract tells.
        node: Option<String>,
        /// What tract says.
        message: String,
    },
    /// A panic, in most cases of tract's, that [`without_panic`](crate::without_panic) has caught.
    #[error("tract cannot handle this model ({})", text(message))]
    Panic {
        /// What was said.
        message: String,
    },
    /// A graph whose parts do not fit together.
    #[error("graph `{}`: {}", shown(graph), text(problem))]
    Graph {
        /// The graph's name.
        graph: String,
        /// What is wrong.
        problem: String,
    },
    /// A string that spells no number, or none that the target can hold ([SEMANTICS §8](crate::semantics)).
    #[error("element {index}, {text:?}, is no number that {to} can hold")]
    Text {
        /// The element's place in row-major order.
        index: usize,
        /// The string, shortened if it is very long.
        text: String,
        /// The type that was asked for.
        to: ElementType,
    },
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What tract's functions return, as an error of this crate's.
    pub(crate) fn of(error: TractError) -> Error {
        match Error::of_tract(error).downcast::<Error>() {
            Ok(own) => own,
            // An error of ours, to which somebody has added what it was about.
            Err(other) => match other.chain().find_map(|link| link.downcast_ref::<Error>()) {
                Some(own) => own.clone(),
                None => Error::Model { problem: format!("cannot be read: {other}") },
            },
        }
    }

    /// The name of the node that cannot be used, where that is known; of one without a name, its first output.
    pub fn node(&self) -> Option<&str> {
        match self {
            Error::Attribute { node, .. } | Error::Node { node, .. } => Some(node),
            Error::Tract { node, .. } => node.as_deref(),
            _ => None,
        }
    }

    /// Whether the message says what of the model it is about.
    fn names_its_place(&self) -> bool {
        use Error::{Attribute, Graph, Limit, Node, Tensor};
        matches!(self, Attribute { .. } | Graph { .. } | Limit { .. } | Node { .. } | Tensor { .. })
    }

    /// What tract's loader says, unless it is an error of this crate's already.
    pub(crate) fn of_tract(error: TractError) -> TractError {
        if let Some(own) = error.chain().find_map(|link| link.downcast_ref::<Error>()) {
            // What tract says around it has the node's name as the file has it.
            return if own.names_its_place() { own.clone().into() } else { error };
        }
        let links: Vec<String> = error.chain().map(ToString::to_string).collect();
        let node = links.iter().find_map(|link| named_by_tract(link)).map(String::from);
        Error::Tract { node, message: links.join(": ") }.into()
    }

    /// The same of what is done to a loaded model; an error that is about no node may not be tract's, and is left as it is.
    pub(crate) fn of_tract_at_node(error: TractError) -> TractError {
        let is_about_node = error.chain().any(|link| named_by_tract(&link.to_string()).is_some());
        if is_about_node { Error::of_tract(error) } else { error }
    }

    /// A node, by what messages call it, and its operator.
    pub(crate) fn of_node(
        node: impl Into<String>,
        op: impl Into<String>,
        problem: impl Into<String>,
    ) -> Error {
        Error::Node { node: node.into(), op: op.into(), problem: problem.into() }
    }

    /// A graph, by its name or path.
    pub(crate) fn graph(graph: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Graph { graph: graph.into(), problem: problem.into() }
    }
}

/// The node that tract says it is at.
fn named_by_tract(link: &str) -> Option<&str> {
    let name = match link.strip_prefix("Building node ") {
        Some(words) => words.rsplit_once(" (")?.0,
        None => {
            // "Evaluating #3 \"NAME\" Operator"
            let (doing, words) = link.split_once('"')?;
            let is_known = ["Failed analyse", "Translating", "Evaluating", "Wiring node"];
            is_known.iter().any(|known| doing.starts_with(known)).then_some(())?;
            words.split_once('"')?.0
        }
    };
    (!name.is_empty()).then_some(name)
}

/// How many characters of a name are told. A file can have names of any length.
const NAME: usize = 400;
/// How many characters of a problem are told; it can hold names.
const TEXT: usize = 1600;

/// A name as paths have it.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    without_middle(text, NAME)
}

/// A name as messages have it: on one line.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    on_one_line(name(text))
}

fn text(text: &str) -> Cow<'_, str> {
    on_one_line(without_middle(text, TEXT))
}

/// The text without what ends a line, which becomes a blank, and without other control characters, by which a file could write
/// over a terminal.
fn on_one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_separator = |c: char| matches!(c, '\u{2028}' | '\u{2029}');
    let is_odd = |c: char| c.is_control() || is_separator(c);
    if !text.contains(is_odd) {
        return text;
    }
    let plain = |c: char| match c {
        _ if !is_odd(c) => c,
        _ if c.is_whitespace() => ' ',
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(plain).collect::<String>().into()
}

/// The text, the middle of one with more characters than that replaced by how many bytes are missing.
fn without_middle(text: &str, characters: usize) -> Cow<'_, str> {
    // A character has at least a byte.
    if text.len() <= characters {
        return text.into();
    }
    let half = characters / 2;
    let start = text.char_indices().nth(half).map_or(text.len(), |(index, _)| index);
    let end = text.char_indices().rev().nth(half.saturating_sub(1)).map_or(0, |(index, _)| index);
    match (text.get(..start), end.checked_sub(start), text.get(end..)) {
        (Some(head), Some(missing @ 1..), Some(tail)) => {
            format!("{head}…({missing} more bytes)…{tail}").into()
        }
        _ => text.into(),
    }
}
