//! Which tensors `quantize_static` quantises, given the nodes that it leaves out.
//!
//! It goes by tensors: each operator marks what it takes and makes, and whoever else takes a marked
//! tensor gets it quantised too, nodes that are left out included. Where a node only moves elements
//! of a marked tensor, the result has the same scale. A Relu or Clip behind a marked tensor is left
//! to the range of the codes, if nobody else takes that. A bias has 32 bits, and the scale of the
//! products that it is added to.
//!
//! What is marked is as of ONNX Runtime 1.32 (`quantization/registry.py`, `qdq_quantizer.py`).

use std::collections::{HashMap, HashSet};

use onnx_cast_graph::{attribute, int};
use tract_onnx::pb::NodeProto;

use super::scheme::Scheme;
use super::subject::FloatModel;

/// A tensor to quantise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) value: String,
    pub(super) how: EntryKind,
    /// The one node that gets it quantised, where not all do.
    pub(super) only: Option<usize>,
    /// The nodes that ask for it.
    pub(super) by: Vec<usize>,
}

/// How a tensor is quantised.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EntryKind {
    /// By the range of its values.
    Activation,
    /// By the scale of another tensor.
    Like(String),
    /// Without a zero point; with a scale for each place of the axis, if there is one.
    Weight { axis: Option<usize> },
    /// In blocks of a column.
    Blocks,
    /// In 32 bits, by the scales of two tensors.
    Bias { input: String, weight: String, beta: f32 },
}

/// What is quantised.
#[derive(Debug, Default, Clone)]
pub(super) struct QuantizationPlan {
    pub(super) entries: Vec<Entry>,
    /// Values whose makers make another one instead, in this order.
    pub(super) renamed: Vec<(String, String)>,
    /// Nodes that go.
    pub(super) removed: HashSet<usize>,
    /// The places of the entries that are no biases, by their values.
    marked: HashMap<String, usize>,
}

/// What an operator marks.
enum MarkingRule {
    All,
    Product,
    MatMul,
    Bounds,
    Moves,
    Split,
    Pad,
    Gather,
    Where,
    Normalization,
}

/// That of a node; `None` for an operator that is not quantised.
fn rule(node: &NodeProto, opset: i64, is_float8: bool) -> Option<MarkingRule> {
    Some(match node.op_type.as_str() {
        "Conv" | "ConvTranspose" | "Gemm" => MarkingRule::Product,
        "MatMul" => MarkingRule::MatMul,
        "Clip" | "Relu" => MarkingRule::Bounds,
        "Resize" if opset < 11 => return None,
        "MaxPool" if opset < 12 || is_float8 => return None,
        "AveragePool" | "Flatten" | "MaxPool" | "Reshape" | "Resize" | "Slice" | "Squeeze"
        | "TopK" | "Transpose" | "Unsqueeze" => MarkingRule::Moves,
        "Split" => MarkingRule::Split,
        "Pad" => MarkingRule::Pad,
        "Gather" | "GatherElements" => MarkingRule::Gather,
        "Where" => MarkingRule::Where,
        "BatchNormalization" | "InstanceNormalization" | "LayerNormalization" => {
            MarkingRule::Normalization
        }
        "Add"
        | "ArgMax"
        | "Concat"
        | "CumSum"
        | "EmbedLayerNormalization"
        | "GlobalAveragePool"
        | "LeakyRelu"
        | "Mul"
        | "Sigmoid"
        | "Softmax" => MarkingRule::All,
        _ => return None,
    })
}

impl QuantizationPlan {
    /// What is quantised where some nodes, by their places, are left out.
    pub(super) fn of(
        subject: &FloatModel,
        scheme: &Scheme,
        is_kept: &impl Fn(usize) -> bool,
    ) -> QuantizationPlan {
        let (entries, biases) = (vec![], HashSet::new());
        let mut marks = Marks { subject, plan: QuantizationPlan::default(), entries, biases };
        for (place, node) in subject.nodes().iter().enumerate().filter(|(at, _)| !is_kept(*at)) {
            if scheme.block.is_some() {
                marks.blocks(place, node);
            } else if let Some(rule) = rule(node, subject.opset, scheme.is_float()) {
                marks.node(place, node, &rule);
            }
        }
        let mut plan = marks.plan;
        plan.entries = marks.entries.into_iter().flatten().collect();
        let marked = plan.entries.iter().enumerate().filter(|(_, entry)| !entry.is_bias());
        plan.marked = marked.map(|(place, entry)| (entry.value.clone(), place)).collect();
        plan
    }

    /// How a tensor is quantised that all get quantised, if it is marked.
    pub(super) fn entry(&self, value: &str) -> Option<&Entry> {
        self.entries.get(*self.marked.get(value)?)
    }
}

impl Entry {
    pub(super) fn is_bias(&self) -> bool {
        matches!(self.how, EntryKind::Bias { .. })
    }
}

/// A plan under construction.
struct Marks<'a> {
    subject: &'a FloatModel<'a>,
    plan: QuantizationPlan,
    /// Those of the plan, at the places that `marked` says; nothing where one was taken back.
    entries: Vec<Option<Entry>>,
    /// The values that are biases.
    biases: HashSet<String>,
}

impl Marks<'_> {
    /// Marks a tensor for all who take it; another way that it is quantised in already stays,
    /// unless this one overrules it.
    fn mark(&mut self, value: &str, how: EntryKind, place: usize, is_overruling: bool) {
        if !self.subject.is_float(value) {
            return;
        }
        let Some(found) = self.entry_mut(value) else {
            self.plan.marked.insert(value.to_owned(), self.entries.len());
            let (value, by) = (value.to_owned(), vec![place]);
            return self.entries.push(Some(Entry { value, how, only: None, by }));
        };
        found.by.push(place);
        if is_overruling {
            found.how = how;
        }
    }

    fn activation(&mut self, value: &str, place: usize) {
        self.mark(value, EntryKind::Activation, place, false);
    }

    /// Marks a value with a scale for each place of an axis, if it is an initializer that has it.
    fn weight(&mut self, value: &str, axis: usize, place: usize) {
        let Some(weight) = self.subject.weight(value) else {
            return self.activation(value, place);
        };
        let axis = (axis < weight.dims.len()).then_some(axis);
        self.mark(value, EntryKind::Weight { axis }, place, axis.is_some());
    }

    /// Marks a value with the scale of another one, or of that whose scale this one has.
    fn like(&mut self, value: &str, other: &str, place: usize) {
        let how = match self.entry_mut(other) {
            Some(Entry { how: EntryKind::Like(first), .. }) => EntryKind::Like(first.clone()),
            _ => EntryKind::Like(other.into()),
        };
        self.mark(value, how, place, true);
    }

    fn entry_mut(&mut self, value: &str) -> Option<&mut Entry> {
        self.entries.get_mut(*self.plan.marked.get(value)?)?.as_mut()
    }

    fn bias(&mut self, node: &NodeProto, beta: f32, place: usize) {
        let (Some(input), Some(weight), Some(bias)) =
            (node.input.first(), node.input.get(1), node.input.get(2))
        else {
            return;
        };
        if self.subject.weight(bias).is_none() {
            return;
        }
        let how = EntryKind::Bias { input: input.clone(), weight: weight.clone(), beta };
        let only = (!self.biases.insert(bias.clone())).then_some(place);
        self.entries.push(Some(Entry { value: bias.clone(), how, only, by: vec![place] }));
    }

    fn is_marked(&self, value: &str) -> bool {
        self.plan.marked.contains_key(value) || self.biases.contains(value)
    }

    fn node(&mut self, place: usize, node: &NodeProto, rule: &MarkingRule) {
        let nothing = String::new();
        let input = |at: usize| node.input.get(at).unwrap_or(&nothing);
        let output = node.output.first().unwrap_or(&nothing);
        match rule {
            MarkingRule::All => {
                for value in node.input.iter().chain(&node.output) {
                    self.activation(value, place);
                }
            }
            MarkingRule::Product => self.product(node, input(0), output, place),
            MarkingRule::MatMul => {
                for value in node.input.iter().chain(&node.output) {
                    self.weight(value, 1, place);
                }
            }
            MarkingRule::Bounds => self.bounds(input(0), output, place),
            MarkingRule::Moves if self.is_marked(input(0)) => self.like(output, input(0), place),
            MarkingRule::Moves => {}
            MarkingRule::Split => {
                self.activation(input(0), place);
                for output in &node.output {
                    self.like(output, input(0), place);
                }
            }
            MarkingRule::Pad => self.pad(node, input(0), output, place),
            MarkingRule::Gather => {
                let is_weight = self.subject.weight(input(0)).is_some();
                if is_weight {
                    self.activation(input(0), place);
                }
                if is_weight || self.is_marked(input(0)) {
                    self.like(output, input(0), place);
                }
            }
            MarkingRule::Where if self.is_marked(input(1)) && self.is_marked(input(2)) => {
                self.activation(output, place);
            }
            MarkingRule::Where => {}
            MarkingRule::Normalization => {
                self.activation(input(0), place);
                self.weight(input(1), 1, place);
                self.bias(node, 1.0, place);
                for output in &node.output {
                    self.activation(output, place);
                }
            }
        }
    }

    fn product(&mut self, node: &NodeProto, input: &str, output: &str, place: usize) {
        self.activation(input, place);
        self.activation(output, place);
        let is_first = node.op_type == "Conv" || int(node, "transB").is_some_and(|b| b > 0);
        if let Some(weight) = node.input.get(1) {
            self.weight(weight, usize::from(!is_first), place);
        }
        self.bias(node, beta(node), place);
    }

    fn pad(&mut self, node: &NodeProto, input: &str, output: &str, place: usize) {
        for value in &node.input {
            self.activation(value, place);
        }
        if self.subject.pads_within(node) {
            self.like(output, input, place);
        } else {
            self.activation(output, place);
        }
    }

    /// A Relu or Clip goes where only it takes what is marked.
    fn bounds(&mut self, input: &str, output: &str, place: usize) {
        if !self.is_marked(input) {
            return;
        }
        let is_known = |value: &str| self.subject.spans.contains_key(value);
        if self.subject.is_passed_on(input) && is_known(input) && is_known(output) {
            let upstream = self.plan.marked.remove(input);
            let upstream = upstream.and_then(|place| self.entries.get_mut(place)?.take());
            self.plan.renamed.push((input.into(), output.into()));
            self.plan.removed.insert(place);
            self.activation(output, place);
            if let (Some(made), Some(upstream)) = (self.entry_mut(output), upstream) {
                made.by.extend(upstream.by);
            }
        } else {
            self.activation(input, place);
            self.activation(output, place);
        }
    }

    /// Marks the weight of a product, for itself.
    fn blocks(&mut self, place: usize, node: &NodeProto) {
        let Some(name) = node.input.get(1).filter(|_| node.op_type == "MatMul") else { return };
        let Some(weight) = self.subject.weight(name) else { return };
        let is_matrix = match &*weight.dims {
            [leading @ .., _, _] => leading.iter().all(|size| *size == 1),
            _ => false,
        };
        if is_matrix {
            let (value, how) = (name.clone(), EntryKind::Blocks);
            self.entries.push(Some(Entry { value, how, only: Some(place), by: vec![place] }));
        }
    }
}

/// What a Gemm multiplies its bias by.
fn beta(node: &NodeProto) -> f32 {
    attribute(node, "beta").filter(|_| node.op_type == "Gemm").map_or(1.0, |beta| beta.f)
}
