//! What the passes share: options, limits, what analyses have found out, what is to be told, and
//! diagnostics.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use onnx_cast_graph::{NodeId, Table, ValueId};
use tract_onnx::pb::{TensorProto, ValueInfoProto};
use tract_onnx::prelude::{Tensor, TractResult};

use super::casts::finding::{Finding, FindingKind};
use super::casts::node::CastNode;
use super::diagnostics::{Diagnostics, Survey};
use super::half_in_float::{WidenedNode, Widening};
use super::symbols::plan::SymbolPlan;
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::onnx::limits::Limits;
use crate::onnx::lowered::{Lowered, OperatorForm};
use crate::onnx::operators::registered::Registered;
use crate::onnx::quantizers::QuantizerNode;
use crate::passes::facts::fact::Facts;
use crate::passes::facts::meaning::Meaning;
use crate::tensor::proto::{self, external::Resolver};

/// What to lower a model by.
pub(crate) struct PassOptions<'a> {
    /// Where external data is looked for.
    pub(crate) folder: Option<&'a Path>,
    /// How external data is read.
    pub(crate) resolver: &'a Resolver,
    /// The operators that tract is to build.
    pub(crate) registered: Registered<'a>,
    /// Whether a declared type of an inner value that contradicts the graph is overlooked.
    pub(crate) ignore_value_info: bool,
    /// Whether a declared type of an output that contradicts the graph is overlooked.
    pub(crate) ignore_output_types: bool,
    /// What computes in FLOAT instead of half precision.
    pub(crate) widening: Widening,
    /// Whether each cast is to be followed by a probe.
    pub(crate) probes: bool,
    /// How large the model may be.
    pub(crate) limits: Limits,
}

/// What the passes share.
pub(crate) struct PassContext<'a> {
    pub(crate) options: &'a PassOptions<'a>,
    /// The limits, grown with the data that the model really has.
    pub(crate) limits: Limits,
    pub(crate) diagnostics: Diagnostics,
    /// What is known of values: `types` fills it, later passes add what they make.
    pub(crate) facts: Facts,
    /// What `types` has read of nodes.
    pub(crate) meanings: Table<NodeId, Meaning>,
    /// What builders are to be told of nodes.
    pub(crate) lowered: Table<NodeId, Lowered>,
    /// What an audit counts, by node: casts, quantisers, roundings.
    pub(crate) casts: Vec<(NodeId, CastNode)>,
    pub(crate) quantizers: Vec<QuantizerNode>,
    /// What can be said of casts without running the model, by node.
    pub(super) findings: Vec<(NodeId, FindingKind, String)>,
    /// What is wrong with declarations that options have overlooked.
    pub(super) overlooked: Vec<Error>,
    pub(crate) widened: Vec<WidenedNode>,
    /// The types of the main graph's outputs, where known.
    pub(crate) output_types: Vec<Option<ElementType>>,
    /// What `data shapes` has found out of sizes; gone as soon as a later pass edits the graph.
    pub(super) size_plan: Option<SymbolPlan>,
    /// The values from whose declared shapes nothing is to be concluded.
    pub(crate) measured: HashSet<ValueId>,
    /// The declared shapes that may settle what the model leaves open.
    pub(crate) declared: Vec<ValueInfoProto>,
    /// The symbols that weights make numbers, by their names.
    pub(crate) sizes: Vec<(String, i64)>,
}

impl<'a> PassContext<'a> {
    pub(super) fn new(
        options: &'a PassOptions<'a>,
        limits: Limits,
        diagnostics: Diagnostics,
    ) -> Self {
        PassContext {
            options,
            limits,
            diagnostics,
            facts: Facts::default(),
            meanings: Table::default(),
            lowered: Table::default(),
            casts: vec![],
            quantizers: vec![],
            findings: vec![],
            overlooked: vec![],
            widened: vec![],
            output_types: vec![],
            size_plan: None,
            measured: HashSet::new(),
            declared: vec![],
            sizes: vec![],
        }
    }

    /// A result; `None` for an error that is collected.
    pub(super) fn take<T>(
        &mut self,
        result: TractResult<T>,
        is_of_cast: bool,
    ) -> TractResult<Option<T>> {
        self.diagnostics.take(result, is_of_cast)
    }

    /// Whether nothing was found to be wrong so far.
    pub(super) fn is_sound(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Reads a constant, external data included; `None` where it cannot be read.
    pub(super) fn read(&self, tensor: &TensorProto) -> Option<(ElementType, Tensor)> {
        proto::read_with(tensor, self.options.folder, self.options.resolver).ok()
    }

    /// Has a node's operator become one of this crate's.
    pub(super) fn lower(&mut self, node: NodeId, form: OperatorForm) {
        match self.lowered.get_mut(node) {
            Some(lowered) => lowered.form = form,
            None => drop(self.lowered.insert(node, Lowered { form, ..Lowered::default() })),
        }
    }

    /// What has become of a node's operator.
    pub(super) fn form(&self, node: NodeId) -> &OperatorForm {
        self.lowered.get(node).map_or(&OperatorForm::Own, |lowered| &lowered.form)
    }

    pub(super) fn into_survey(self) -> Survey {
        let rows = self.casts.iter().enumerate().map(|(place, (id, _))| (*id, place));
        let places: HashMap<NodeId, usize> = rows.collect();
        let finding = |(id, kind, text): (NodeId, FindingKind, String)| {
            Some(Finding { place: *places.get(&id)?, kind, text })
        };
        let mut findings: Vec<Finding> = self.findings.into_iter().filter_map(finding).collect();
        findings.sort_by_key(|finding| finding.place);
        Survey {
            findings,
            overlooked: self.overlooked,
            rows: self.casts.into_iter().map(|(_, cast)| cast).collect(),
            quantizers: self.quantizers,
            widened: self.widened,
            problems: self.diagnostics.into_problems(),
        }
    }
}
