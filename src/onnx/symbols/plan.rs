//! What is found out about the values, nodes and graphs of a model.

use std::collections::HashMap;

use super::bounds::Bounds;
use crate::onnx::operators::behaviour::{Behaviour, Sizes};

/// What a node takes an input as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::onnx) enum Use {
    Symbols,
    Numbers,
    Either,
}

/// A value's place among all values of a model.
pub(in crate::onnx) type ValueId = usize;

/// What tract can hold a value as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::onnx) enum Kind {
    /// Elements as any other.
    Numbers,
    /// Dimensions of tensors, as they are, beside constants of 32 bits.
    Dimensions,
    /// What tract computes symbolically and exactly from dimensions.
    Expression,
    /// A truth that tract finds from dimensions.
    Condition,
}

/// A value of a graph or subgraph.
#[derive(Debug, Clone)]
pub(in crate::onnx) struct Value {
    pub(in crate::onnx) name: String,
    pub(in crate::onnx) kind: Kind,
    /// Whether it is made of constants alone.
    pub(in crate::onnx) is_constant: bool,
    /// Where its elements lie, if that is known.
    pub(in crate::onnx) bounds: Option<Bounds>,
    /// Where those of them lie that are symbols.
    pub(in crate::onnx) symbol_bounds: Option<Bounds>,
    /// Whether something needs it as symbols.
    pub(in crate::onnx) as_symbols: bool,
    /// Whether something needs it as numbers.
    pub(in crate::onnx) as_numbers: bool,
    /// What its numbers are called where its own name is that of its symbols.
    pub(in crate::onnx) numbers: Option<String>,
}

impl Value {
    pub(in crate::onnx) fn of_kind(name: &str, kind: Kind) -> Value {
        Value {
            name: name.into(),
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
    pub(in crate::onnx) fn is_symbolic(&self) -> bool {
        matches!(self.kind, Kind::Dimensions | Kind::Expression)
    }

    /// Whether it is a constant that keeps its value among symbols.
    pub(in crate::onnx) fn is_small_constant(&self) -> bool {
        self.is_constant && self.bounds.is_some_and(|bounds| bounds.fits_32_bits())
    }
}

/// A graph, its nodes in the order of computation.
#[derive(Debug, Default)]
pub(in crate::onnx) struct GraphPlan {
    pub(in crate::onnx) nodes: Vec<NodePlan>,
    pub(in crate::onnx) outputs: Vec<Option<ValueId>>,
    /// Which outputs are returned as symbols, the others as numbers.
    pub(in crate::onnx) returns_symbols: Vec<bool>,
    pub(in crate::onnx) names: HashMap<String, ValueId>,
}

/// A node.
#[derive(Debug)]
pub(in crate::onnx) struct NodePlan {
    /// Its place in the graph.
    pub(in crate::onnx) index: usize,
    pub(in crate::onnx) behaviour: &'static Behaviour,
    pub(in crate::onnx) inputs: Vec<Option<ValueId>>,
    pub(in crate::onnx) outputs: Vec<Option<ValueId>>,
    pub(in crate::onnx) subgraphs: Vec<GraphPlan>,
    /// Whether it is there a second time, for numbers.
    pub(in crate::onnx) is_doubled: bool,
    /// Whether it computes with symbols.
    pub(in crate::onnx) is_symbolic: bool,
}

impl NodePlan {
    /// The kind of its outputs. Those of an `If` may be of several.
    pub(in crate::onnx) fn kind(&self, values: &[Value]) -> Kind {
        let first = self.outputs.iter().flatten().next();
        first.and_then(|id| values.get(*id)).map_or(Kind::Numbers, |value| value.kind)
    }

    /// What it takes the input at a place as, if it computes with symbols or if it does not.
    pub(in crate::onnx) fn takes(&self, place: usize, is_symbolic: bool, values: &[Value]) -> Use {
        let value = |id: &Option<ValueId>| id.and_then(|id| values.get(id));
        let Some(input) = self.inputs.get(place).and_then(value) else { return Use::Either };
        let is_shape = self.behaviour.shapes.contains(place);
        match self.behaviour.sizes {
            // What is measured may be either.
            Sizes::Measures => return Use::Either,
            // A cast to another type resolves dimensions by itself.
            Sizes::Casts if self.kind(values) == Kind::Numbers => {
                let resolves = input.kind == Kind::Dimensions;
                return if resolves { Use::Either } else { Use::Numbers };
            }
            _ => {}
        }
        let is_fine = |id: &Option<ValueId>| {
            value(id).is_none_or(|value| value.is_symbolic() || value.is_small_constant())
        };
        if is_shape && (!self.behaviour.combines_shapes || self.inputs.iter().all(is_fine)) {
            return Use::Symbols;
        }
        let is_moved = match self.behaviour.sizes {
            Sizes::Keeps(moved) | Sizes::Moves(moved) => moved.contains(place),
            _ => true,
        };
        match is_symbolic && (is_moved || input.kind == Kind::Condition) {
            true => Use::Symbols,
            false => Use::Numbers,
        }
    }
}
