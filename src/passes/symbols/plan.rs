//! What is found out about the values and nodes of a graph.

use onnx_cast_graph::{BodyId, Graph, NodeId, Table, ValueId};

use super::bounds::Bounds;
use crate::onnx::operators::behaviour::{Behaviour, Sizes};

/// What a node takes an input as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::passes) enum TakenAs {
    Symbols,
    Numbers,
    Either,
}

/// What tract can hold a value as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::passes) enum ValueKind {
    /// Elements as any other.
    Numbers,
    /// Dimensions of tensors, as they are, beside constants of 32 bits.
    Dimensions,
    /// What tract computes symbolically and exactly from dimensions.
    Expression,
    /// A truth that tract finds from dimensions.
    Condition,
}

/// What is found out about a value.
#[derive(Debug, Clone)]
pub(in crate::passes) struct ValuePlan {
    pub(in crate::passes) kind: ValueKind,
    /// Whether it is made of constants alone.
    pub(in crate::passes) is_constant: bool,
    /// Where its elements lie, if that is known.
    pub(in crate::passes) bounds: Option<Bounds>,
    /// Where those of them lie that are symbols.
    pub(in crate::passes) symbol_bounds: Option<Bounds>,
    /// Whether something needs it as symbols.
    pub(in crate::passes) as_symbols: bool,
    /// Whether something needs it as numbers.
    pub(in crate::passes) as_numbers: bool,
    /// The value of its numbers, where its own is that of its symbols.
    pub(in crate::passes) numbers: Option<ValueId>,
}

impl ValuePlan {
    pub(in crate::passes) fn of_kind(kind: ValueKind) -> ValuePlan {
        ValuePlan {
            kind,
            is_constant: false,
            bounds: None,
            symbol_bounds: None,
            as_symbols: false,
            as_numbers: false,
            numbers: None,
        }
    }

    /// Whether tract may hold it as dimensions.
    pub(in crate::passes) fn is_symbolic(&self) -> bool {
        matches!(self.kind, ValueKind::Dimensions | ValueKind::Expression)
    }

    /// Whether it is a constant that keeps its value among symbols.
    pub(in crate::passes) fn is_small_constant(&self) -> bool {
        self.is_constant && self.bounds.is_some_and(|bounds| bounds.fits_32_bits())
    }
}

/// What becomes of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::passes) struct NodePlan {
    /// Whether it is there a second time, for numbers.
    pub(in crate::passes) is_doubled: bool,
    /// Whether it computes with symbols.
    pub(in crate::passes) is_symbolic: bool,
}

/// What is found out about a graph.
#[derive(Debug, Default)]
pub(in crate::passes) struct SymbolPlan {
    pub(in crate::passes) values: Table<ValueId, ValuePlan>,
    pub(in crate::passes) nodes: Table<NodeId, NodePlan>,
    /// Which outputs of a branch are returned as symbols, the others as numbers.
    pub(in crate::passes) returns_symbols: Table<BodyId, Vec<bool>>,
}

impl SymbolPlan {
    pub(in crate::passes) fn value(&self, value: Option<ValueId>) -> Option<&ValuePlan> {
        self.values.get(value?)
    }

    /// The kind of a node's outputs. Those of an `If` may be of several.
    pub(in crate::passes) fn kind(&self, graph: &Graph, id: NodeId) -> ValueKind {
        let first = graph.node(id).outputs().iter().flatten().next().copied();
        self.value(first).map_or(ValueKind::Numbers, |value| value.kind)
    }

    /// What a node takes its input at a place as, if it computes with symbols or if it does not.
    pub(in crate::passes) fn takes(
        &self,
        graph: &Graph,
        id: NodeId,
        place: usize,
        is_symbolic: bool,
    ) -> TakenAs {
        let node = graph.node(id);
        let behaviour = Behaviour::of(node);
        let Some(input) = self.value(node.input(place)) else { return TakenAs::Either };
        match behaviour.sizes {
            // What is measured may be either.
            Sizes::Measures => return TakenAs::Either,
            // A cast to another type resolves dimensions by itself.
            Sizes::Casts if self.kind(graph, id) == ValueKind::Numbers => {
                let resolves = input.kind == ValueKind::Dimensions;
                return if resolves { TakenAs::Either } else { TakenAs::Numbers };
            }
            _ => {}
        }
        let is_fine = |value: &Option<ValueId>| {
            let held = self.value(*value);
            held.is_none_or(|held| held.is_symbolic() || held.is_small_constant())
        };
        let combines = behaviour.combines_shapes;
        if behaviour.shapes.contains(place) && (!combines || node.inputs().iter().all(is_fine)) {
            return TakenAs::Symbols;
        }
        let is_moved = match behaviour.sizes {
            Sizes::Keeps(moved) | Sizes::Moves(moved) => moved.contains(place),
            _ => true,
        };
        if is_symbolic && (is_moved || input.kind == ValueKind::Condition) {
            TakenAs::Symbols
        } else {
            TakenAs::Numbers
        }
    }
}
