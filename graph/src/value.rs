//! Values: what makes one, and what uses it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tract_onnx::pb::{TensorProto, TypeProto};

use crate::arena::{BodyId, NodeId};

/// A tensor, a sequence or an optional that nodes pass on.
#[derive(Debug, Clone)]
pub struct Value {
    /// Its name in the file, or the one that it was given.
    pub name: Arc<str>,
    /// The body in which it is made.
    pub(crate) body: BodyId,
    pub(crate) origin: Origin,
    pub(crate) uses: BTreeSet<Use>,
    /// What the file declares of its type and shape: of an input, or in `value_info`.
    pub declared: Option<TypeProto>,
    /// The documentation that stands with the declaration.
    pub doc_string: Box<str>,
}

/// What makes a value.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Whoever runs the model, or the node around the body.
    Input,
    /// The file: an initializer. One that is an input of its body as well is that input's default.
    Constant(Arc<TensorProto>),
    /// A node, as its output at a place.
    Node(NodeId, usize),
    /// Nothing, which is a problem of the file.
    Missing,
}

/// A place that a value is used at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// The input of a node at a place.
    Node(NodeId, usize),
    /// The output of a body at a place.
    Output(BodyId, usize),
}

impl Value {
    /// The body in which it is made.
    pub fn body(&self) -> BodyId {
        self.body
    }

    /// What makes it.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Who uses it: nodes in the order in which they were added, then outputs of bodies.
    pub fn uses(&self) -> impl DoubleEndedIterator<Item = Use> + ExactSizeIterator + '_ {
        self.uses.iter().copied()
    }

    /// Whether it is an output of a body.
    pub fn is_output(&self) -> bool {
        // They come last, so that a value with many users is no search.
        matches!(self.uses.last(), Some(Use::Output(..)))
    }

    /// Whether it is a constant of the file.
    pub fn is_constant(&self) -> bool {
        matches!(self.origin, Origin::Constant(_))
    }
}
