//! What can be wrong with a model or a tensor. Each message is one line that names the place. What
//! tract says is read by [`Error::of_tract`] (`tract`); `plug/guard` puts the model's own operator
//! and opset to it.

#![forbid(unsafe_code)]

mod tract;

use std::borrow::Cow;
use std::fmt;

use onnx_cast_graph::is_unprintable;
use tract_onnx::prelude::TractError;

use crate::cast::element_type::ElementType;

pub(crate) use tract::with_opset;

/// Why a model, a node or a tensor cannot be used.
///
/// tract reports errors as [`anyhow::Error`](tract_onnx::prelude::TractError), which this becomes
/// by `?`; `downcast_ref` finds it in their chain.
///
/// ```
/// use tract_onnx_cast::{ErrorKind, onnx};
///
/// let error = onnx().load("no/such/model.onnx").unwrap_err();
/// assert_eq!((error.kind(), error.node()), (ErrorKind::File, None));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Cause>);

/// What an [`Error`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file that cannot be read: a model's, or of its external data.
    File,
    /// An attribute that the operator's version does not have, or not with this value ([SEMANTICS
    /// §2](crate::semantics)).
    Attribute,
    /// A node that cannot be run as it stands.
    Node,
    /// A tensor of a model whose data contradicts its description.
    Tensor,
    /// A graph whose parts do not fit together.
    Graph,
    /// A model that is none.
    Model,
    /// A model that is larger than the loader's [`Limits`](crate::Limits).
    Limit,
    /// A model that this crate finds sound and tract does not: its loader, or what types, optimises
    /// or runs it.
    Tract,
    /// Memory that is not there, as far as that does not end the process.
    Memory,
    /// A panic, in most cases of tract's, that [`without_panic`](crate::untrusted::without_panic)
    /// has caught.
    Panic,
    /// A string that spells no number, or none that the target can hold ([SEMANTICS
    /// §8](crate::semantics)).
    Text,
    /// A tensor or a model that a function was given and does not take.
    Argument,
}

/// What is told of an [`Error`], by its kind. A node is named by its first output where it has no
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    File {
        message: String,
    },
    /// The problem ends so that the version of the default domain can follow which the model
    /// imports.
    Attribute {
        node: String,
        attribute: String,
        problem: String,
        opset: i64,
    },
    Node {
        node: String,
        op: String,
        problem: String,
        /// Whether it is that the node goes round too often.
        is_endless: bool,
    },
    Tensor {
        tensor: String,
        problem: String,
    },
    Graph {
        graph: String,
        problem: String,
    },
    Model {
        problem: String,
    },
    /// What decoding says of bytes that are no model's, or a part of one's.
    NoModel {
        problem: String,
    },
    /// `what` is a field of [`Limits`](crate::Limits); `found` is how much there is, or at least
    /// is.
    Limit {
        place: String,
        what: &'static str,
        found: u64,
        limit: u64,
    },
    /// The node and its operator where tract tells them; without an operator the problem is the
    /// whole message.
    Tract {
        node: Option<String>,
        op: Option<String>,
        problem: String,
    },
    /// At a node, its name and its operator, where it is known.
    Memory {
        node: Option<(String, String)>,
    },
    Panic {
        message: String,
    },
    /// The element by its place in row-major order, its text shortened if it is very long.
    Text {
        index: usize,
        text: String,
        to: ElementType,
    },
    Argument {
        message: String,
    },
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Error {
        Error(Box::new(cause))
    }
}

impl std::error::Error for Error {}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Attribute { node, attribute, problem, opset } => {
                let (node, attribute, problem) = (shown(node), shown(attribute), text(problem));
                write!(
                    f,
                    "node `{node}`: attribute `{attribute}` {problem}, the model imports {opset}"
                )
            }
            Cause::Node { node, op, problem, .. }
            | Cause::Tract { node: Some(node), op: Some(op), problem } => {
                write!(f, "node `{}` ({}): {}", shown(node), shown(op), text(problem))
            }
            Cause::Tensor { tensor, problem } => {
                write!(f, "tensor `{}`: {}", shown(tensor), text(problem))
            }
            Cause::Graph { graph, problem } => {
                write!(f, "graph `{}`: {}", shown(graph), text(problem))
            }
            Cause::Model { problem } => write!(f, "the model {}", text(problem)),
            Cause::NoModel { problem } => {
                let problem = text(problem);
                write!(f, "the model is not an ONNX file, or only a part of one: {problem}")
            }
            Cause::Limit { place, what, found, limit } => {
                write!(f, "{}: `{what}` is {found}, and the limit is {limit}", text(place))
            }
            Cause::File { message }
            | Cause::Tract { problem: message, .. }
            | Cause::Argument { message } => f.write_str(&text(message)),
            Cause::Memory { node } => {
                if let Some((node, op)) = node {
                    write!(f, "node `{}` ({}): ", shown(node), shown(op))?;
                }
                f.write_str(OUT_OF_MEMORY)
            }
            Cause::Panic { message } => {
                write!(f, "tract cannot handle this model ({})", text(message))
            }
            Cause::Text { index, text, to } => {
                write!(f, "element {index}, {text:?}, is no number that {to} can hold")
            }
        }
    }
}

/// What is said where there was no memory.
pub const OUT_OF_MEMORY: &str = "tract ran out of memory";

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        match *self.0 {
            Cause::File { .. } => ErrorKind::File,
            Cause::Attribute { .. } => ErrorKind::Attribute,
            Cause::Node { .. } => ErrorKind::Node,
            Cause::Tensor { .. } => ErrorKind::Tensor,
            Cause::Graph { .. } => ErrorKind::Graph,
            Cause::Model { .. } | Cause::NoModel { .. } => ErrorKind::Model,
            Cause::Limit { .. } => ErrorKind::Limit,
            Cause::Tract { .. } => ErrorKind::Tract,
            Cause::Memory { .. } => ErrorKind::Memory,
            Cause::Panic { .. } => ErrorKind::Panic,
            Cause::Text { .. } => ErrorKind::Text,
            Cause::Argument { .. } => ErrorKind::Argument,
        }
    }

    /// The name of the node that cannot be used, where that is known; of one without a name, its
    /// first output.
    pub fn node(&self) -> Option<&str> {
        match &*self.0 {
            Cause::Attribute { node, .. }
            | Cause::Node { node, .. }
            | Cause::Memory { node: Some((node, _)) } => Some(node),
            Cause::Tract { node, .. } => node.as_deref(),
            _ => None,
        }
    }

    /// The operator of a node that cannot be run as it stands; tract's own name of it where that is
    /// all that is known.
    pub fn operator(&self) -> Option<&str> {
        match &*self.0 {
            Cause::Node { op, .. }
            | Cause::Tract { op: Some(op), .. }
            | Cause::Memory { node: Some((_, op)) } => Some(op),
            _ => None,
        }
    }

    /// The field of [`Limits`](crate::Limits) that a model is beyond.
    pub fn limit(&self) -> Option<&'static str> {
        match *self.0 {
            Cause::Limit { what, .. } => Some(what),
            _ => None,
        }
    }

    /// Whether a `Loop` that runs node by node goes round so often that nothing may ever end it.
    pub fn is_endless(&self) -> bool {
        matches!(*self.0, Cause::Node { is_endless: true, .. })
    }

    /// What decoding says of a file that is no ONNX model, or only a part of one.
    pub fn no_model(&self) -> Option<&str> {
        match &*self.0 {
            Cause::NoModel { problem } => Some(problem),
            _ => None,
        }
    }

    /// Whether the message says what of the model it is about: a node, an attribute of one, a
    /// tensor, a graph.
    pub fn names_its_place(&self) -> bool {
        use ErrorKind::{Attribute, Graph, Limit, Memory, Node, Tensor};
        match self.kind() {
            Attribute | Graph | Limit | Node | Tensor => true,
            Memory => self.node().is_some(),
            _ => false,
        }
    }

    pub(crate) fn cause(&self) -> &Cause {
        &self.0
    }

    /// What tract's functions return, as an error of this crate's.
    pub(crate) fn of(error: TractError) -> Error {
        match Error::of_tract(error).downcast::<Error>() {
            Ok(own) => own,
            // An error of ours, to which somebody has added what it was about.
            Err(other) => match other.chain().find_map(|link| link.downcast_ref::<Error>()) {
                Some(own) => own.clone(),
                None => Cause::Model { problem: format!("cannot be read: {other}") }.into(),
            },
        }
    }

    /// What is wrong with a tensor that a function was given, as an error of this crate's.
    pub(crate) fn of_argument(error: TractError) -> Error {
        error.downcast::<Error>().unwrap_or_else(|error| {
            let links: Vec<String> = error.chain().map(ToString::to_string).collect();
            Error::argument(links.join(": "))
        })
    }

    /// A tensor or a model that a function does not take.
    pub(crate) fn argument(message: String) -> Error {
        Cause::Argument { message }.into()
    }

    /// A node, by what messages call it, and its operator.
    pub(crate) fn of_node(
        node: impl Into<String>,
        op: impl Into<String>,
        problem: impl Into<String>,
    ) -> Error {
        let (node, op, problem) = (node.into(), op.into(), problem.into());
        Cause::Node { node, op, problem, is_endless: false }.into()
    }

    /// The same error about a node, which is no fault of the model's: it is sound, and this project
    /// or tract's plans cannot compute it.
    pub(crate) fn of_sound_model(self) -> Error {
        match *self.0 {
            Cause::Node { node, op, problem, .. } => {
                Cause::Tract { node: Some(node), op: Some(op), problem }.into()
            }
            _ => {
                let node = self.node().map(String::from);
                Cause::Tract { node, op: None, problem: self.to_string() }.into()
            }
        }
    }

    /// A graph, by its name or path.
    pub(crate) fn graph(graph: impl Into<String>, problem: impl Into<String>) -> Error {
        Cause::Graph { graph: graph.into(), problem: problem.into() }.into()
    }
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

/// The text without what ends a line, which becomes a blank, and without other characters that
/// would not be seen as themselves, by which a file could write over a terminal.
fn on_one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return text;
    }
    let plain = |c: char| match c {
        _ if !is_unprintable(c) => c,
        _ if c.is_whitespace() => ' ',
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(plain).collect::<String>().into()
}

/// The text, the middle of one with more characters than that replaced by how many bytes are
/// missing.
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
