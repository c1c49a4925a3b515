//! What the passes of a conversion share.

use std::collections::HashSet;
use std::path::Path;

use onnx_cast_graph::{BodyId, Graph, Node, NodeId, Table, ValueId};

use super::classes::{Classes, Point};
use super::weights::codes::WeightCodes;
use super::write::unknown_fields::Renamed;
use super::{KeptNode, Options};
use crate::cast::element_type::ElementType;
use crate::typed::functions::Functions;

/// Options, what analyses have found out, and what is to be reported.
pub(super) struct Context<'o> {
    pub(super) options: &'o Options,
    /// Where external data is.
    pub(super) folder: Option<&'o Path>,
    pub(super) functions: Functions,
    /// The functions that are called with values of several types.
    pub(super) mixed: HashSet<BodyId>,
    /// The types that are converted.
    sources: Vec<ElementType>,
    /// The element types of values as they are; after the rewrite as they have become.
    pub(super) types: Table<ValueId, ElementType>,
    /// What contradicts itself in the model's types.
    pub(super) contradictions: Vec<String>,
    /// The nodes that stay as they are as a whole, with the reason.
    pub(super) kept: Table<NodeId, String>,
    /// What stays as it is that is no node's: what bodies return, defaults of inputs; with the
    /// reason.
    pub(super) fixed: Vec<(Point, String)>,
    /// Which places have one type.
    pub(super) classes: Classes,
    /// The values that are sequences, of which [`Context::types`] has the elements'.
    pub(super) sequences: Vec<ValueId>,
    /// What was converted.
    pub(super) counts: Counts,
    pub(super) renamed: Renamed,
    /// How weights are stored as codes, in the order in which they were.
    pub(super) codes: Vec<WeightCodes>,
    /// What was cast by the conversion: a value, and the same in the other type.
    pub(super) added: Vec<(ValueId, ValueId)>,
    /// The nodes that stay as they are, for the report.
    pub(super) report: Vec<KeptNode>,
}

/// What was converted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Casts in the converted model, those that it had before among them.
    pub casts: usize,
    /// Casts that the conversion has added.
    pub added_casts: usize,
    /// Casts that it has taken out, as they would change nothing.
    pub removed_casts: usize,
    /// Weights that are of another type now.
    pub weights: usize,
    /// Nodes that compute, take or make values of the other type now.
    pub nodes: usize,
    /// Weights that are stored in few bits now.
    pub coded: usize,
}

impl<'o> Context<'o> {
    pub(super) fn new(
        functions: Functions,
        options: &'o Options,
        folder: Option<&'o Path>,
    ) -> Self {
        Context {
            options,
            folder,
            functions,
            mixed: HashSet::new(),
            sources: options.sources(),
            types: Table::default(),
            contradictions: vec![],
            kept: Table::default(),
            fixed: vec![],
            classes: Classes::default(),
            sequences: vec![],
            counts: Counts::default(),
            renamed: Renamed::default(),
            codes: vec![],
            added: vec![],
            report: vec![],
        }
    }

    /// The type that values are converted to.
    pub(super) fn to(&self) -> ElementType {
        self.options.to
    }

    /// Whether values of this type are converted.
    pub(super) fn is_source(&self, ty: ElementType) -> bool {
        self.sources.contains(&ty)
    }

    /// The type of a value, if it is one that is converted.
    pub(super) fn source(&self, value: ValueId) -> Option<ElementType> {
        self.types.get(value).copied().filter(|ty| self.is_source(*ty))
    }

    /// Whether a value is of a type without fractions.
    pub(super) fn is_integer(&self, value: ValueId) -> bool {
        self.types.get(value).is_some_and(|ty| !ty.is_float())
    }

    /// The body of the function that a node calls.
    pub(super) fn function(&self, node: &Node) -> Option<BodyId> {
        self.functions.called(node)
    }

    /// The names of the sequences whose elements are of the other type, after the rewrite.
    pub(super) fn retyped_sequences(&self, graph: &Graph) -> HashSet<String> {
        let sequences = self.sequences.iter();
        let retyped = sequences.filter(|value| self.types.get(**value) == Some(&self.to()));
        retyped.map(|value| graph.value(*value).name.to_string()).collect()
    }

    /// All nodes of the model, those of bodies and functions among them.
    pub(super) fn nodes(&self, graph: &Graph) -> Vec<NodeId> {
        self.functions.roots(graph).into_iter().flat_map(|root| graph.all_nodes(root)).collect()
    }

    /// All bodies of the model.
    pub(super) fn bodies(&self, graph: &Graph) -> Vec<BodyId> {
        self.functions.roots(graph).into_iter().flat_map(|root| graph.all_bodies(root)).collect()
    }

    /// Whether a value is an input of the main graph for which the file has a default. Before IR
    /// version 4 all weights were inputs, which nobody gives another value.
    pub(super) fn is_default(&self, graph: &Graph, value: ValueId) -> bool {
        let is_input = || graph.body(graph.main()).inputs().contains(&value);
        graph.model().ir_version >= 4 && graph.value(value).is_constant() && is_input()
    }

    /// Keeps a node as it is; the first reason counts.
    pub(super) fn keep(&mut self, node: NodeId, why: impl Into<String>) {
        if !self.kept.contains(node) {
            self.kept.insert(node, why.into());
        }
    }
}
