//! What is known of values: their element types, and whether they are made of constants.

use onnx_cast_graph::{Node, Table, ValueId};

use crate::cast::element_type::ElementType;

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    /// `None` where only tract's analysis can tell; never an exotic type then.
    pub(crate) ty: Option<ElementType>,
    pub(crate) origin: FactOrigin,
}

/// What a value is computed from; the last that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FactOrigin {
    /// Nothing but constants.
    Constants,
    /// What a graph is fed, or the shape of a value.
    Data,
}

impl Fact {
    /// A value that a graph is fed.
    pub(crate) fn data(ty: Option<ElementType>) -> Fact {
        Fact { ty, origin: FactOrigin::Data }
    }
}

/// What is known of the values of a graph.
#[derive(Debug, Default)]
pub(crate) struct Facts(Table<ValueId, Fact>);

impl Facts {
    pub(crate) fn insert(&mut self, value: ValueId, fact: Fact) {
        self.0.insert(value, fact);
    }

    pub(crate) fn get(&self, value: ValueId) -> Option<Fact> {
        self.0.get(value).copied()
    }

    /// The type of a value, where it is known.
    pub(crate) fn ty(&self, value: ValueId) -> Option<ElementType> {
        self.get(value).and_then(|fact| fact.ty)
    }

    /// What is known of a node's inputs, by place.
    pub(crate) fn inputs(&self, node: &Node) -> Vec<Option<Fact>> {
        node.inputs().iter().map(|value| value.and_then(|value| self.get(value))).collect()
    }

    /// The types of a node's inputs, by place, where they are known.
    pub(crate) fn types(&self, node: &Node) -> Vec<Option<ElementType>> {
        self.inputs(node).into_iter().map(|fact| fact.and_then(|fact| fact.ty)).collect()
    }
}
