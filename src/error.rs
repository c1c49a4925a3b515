//! What can be wrong with a model or a tensor. Each message is one line that names the place.

#![forbid(unsafe_code)]

use crate::cast::element_type::ElementType;

/// Why a model, a node or a tensor cannot be used.
///
/// tract reports errors as [`anyhow::Error`](tract_onnx::prelude::TractError); `downcast_ref` finds this one in its
/// chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An attribute that the operator's version does not have, or not with this value ([SEMANTICS §2](crate::semantics)).
    #[error("node `{node}`: attribute `{attribute}` {problem}, the model imports {opset}")]
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
    #[error("node `{node}` ({op}): {problem}")]
    Node {
        /// The node's name, or its first output where it has none.
        node: String,
        /// The node's operator.
        op: String,
        /// What is wrong, with the type and the opset where they are involved.
        problem: String,
    },
    /// A tensor whose data contradicts its description.
    #[error("tensor `{tensor}`: {problem}")]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A model that is none.
    #[error("the model {problem}")]
    Model {
        /// What is wrong.
        problem: String,
    },
    /// A graph whose parts do not fit together.
    #[error("graph `{graph}`: {problem}")]
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

impl Error {
    /// A node, by what messages call it, and its operator.
    pub(crate) fn node(
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
