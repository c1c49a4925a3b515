//! `Cast` and `CastLike` nodes, as they are told of and read.

use std::fmt;
use std::sync::Arc;

use onnx_cast_graph::{Graph, Node, NodeId, NodeView, ValueId, int};

use crate::cast::element_type::ElementType;
use crate::cast::rules::{RoundMode, Rules};
use crate::error::Error;
use crate::onnx::cast_spec::{self, CastSpec, Operator};
use crate::onnx::lowered::PrivateCast;
use crate::onnx::quantizers::{QUANTIZE, QuantizerNode};
use crate::tensor::conversion::Conversion;

/// A `Cast` or `CastLike` node of a model, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastNode {
    /// The node's name, or its output where it has none; in a model-local function, with the call's
    /// name in front.
    pub node: String,
    /// The value that it casts.
    pub input: String,
    /// The value that it makes.
    pub output: String,
    /// The input's element type, where it is known before tract analyses the model.
    pub from: Option<ElementType>,
    /// The target type, where it is known before tract analyses the model.
    pub to: Option<ElementType>,
    /// The operator's version.
    pub version: i64,
    /// The attribute `saturate`, if the node has it.
    pub saturate: Option<i64>,
    /// The attribute `round_mode`, if the node has it.
    pub round_mode: Option<RoundMode>,
    /// The name of the graph that the node is in; for a subgraph, the path to it, with
    /// `call.Function` for each function.
    pub graph: Arc<str>,
    /// Whether the input is made of constants alone.
    pub is_constant: bool,
    /// What becomes of the node.
    pub fate: Fate,
    /// Whether the model has a cast here. Only an audit sees what is none.
    pub kind: CastKind,
}

/// What of a model casts values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastKind {
    /// A `Cast` or `CastLike`.
    Cast(Operator),
    /// An operator of this name whose FLOAT result is rounded to half precision
    /// ([`Survey::widened`](crate::survey::Survey::widened)).
    Rounding(String),
    /// A `QuantizeLinear`: a cast with a scale.
    Quantizer,
}

/// What becomes of a `Cast` node in an optimised model, as far as the node itself tells: tract's
/// optimiser may still join it with another, or a matrix product take it into its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It changes nothing and is removed.
    NoOp,
    /// Its input is constant, so it is computed when the model is loaded.
    Folded,
    /// One of this crate's kernels runs it.
    Kernel,
    /// The node is wrong, so the model is not run.
    Refused,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fate::NoOp => "no-op",
            Fate::Folded => "folded",
            Fate::Kernel => "our kernel",
            Fate::Refused => "refused",
        })
    }
}

impl CastNode {
    /// ONNX's name of the operator.
    pub fn op_type(&self) -> &str {
        match &self.kind {
            CastKind::Cast(operator) => operator.name(),
            CastKind::Rounding(operator) => operator,
            CastKind::Quantizer => QUANTIZE,
        }
    }

    /// The rules for the conversion, absent attributes at their defaults.
    pub fn rules(&self) -> Rules {
        cast_spec::rules(self.saturate, self.round_mode)
    }

    /// The rounding to `to` of what a node computes in FLOAT, as a value of this name.
    pub(in crate::passes) fn rounding(
        node: &Node,
        value: &str,
        to: ElementType,
        is_constant: bool,
    ) -> CastNode {
        CastNode {
            node: node.label().into(),
            input: value.into(),
            output: value.into(),
            from: Some(ElementType::Float),
            to: Some(to),
            version: Operator::Cast.version(node.opset).unwrap_or(1),
            saturate: None,
            round_mode: None,
            graph: node.path.clone(),
            is_constant,
            fate: Fate::Kernel,
            kind: CastKind::Rounding(node.op_type.clone()),
        }
    }

    /// What a `QuantizeLinear` is as a cast.
    pub(super) fn quantizer(graph: &Graph, id: NodeId, quantizer: &QuantizerNode) -> CastNode {
        let node = graph.node(id);
        CastNode {
            node: quantizer.node.clone(),
            input: name(graph, node.input(0)),
            output: name(graph, node.output(0)),
            from: quantizer.x,
            to: quantizer.y,
            version: quantizer.version,
            saturate: None,
            round_mode: None,
            graph: quantizer.graph.clone(),
            is_constant: quantizer.is_constant,
            fate: if quantizer.is_constant { Fate::Folded } else { Fate::Kernel },
            kind: CastKind::Quantizer,
        }
    }
}

/// Reads a `Cast` or `CastLike` node. `inputs` are its inputs' types, where known; `is_constant`
/// tells whether they are made of constants alone. Fails when the node asks for something that its
/// operator's version does not have.
pub(in crate::passes) fn read(
    graph: &Graph,
    node: &Node,
    inputs: &[Option<ElementType>],
    is_constant: bool,
) -> Result<(CastNode, PrivateCast), Error> {
    let spec = CastSpec::of(node, node.opset)?;
    let from = inputs.first().copied().flatten();
    let like = inputs.get(1).copied().flatten();
    if let Some(from) = from {
        spec.check_type(from, "input")?;
    }
    if let Some(like) = like {
        spec.check_type(like, "second input")?;
    }
    let to = spec.to.or(like);
    let is_identity = from
        .zip(to)
        .is_some_and(|(from, to)| Conversion::new(from, to, spec.rules()).is_identity());
    let cast = CastNode {
        node: node.label().into(),
        input: name(graph, node.input(0)),
        output: name(graph, node.output(0)),
        from,
        to,
        version: spec.version,
        saturate: spec.saturate,
        round_mode: spec.round_mode,
        graph: node.path.clone(),
        is_constant,
        fate: match (is_identity, is_constant) {
            (true, _) => Fate::NoOp,
            (_, true) => Fate::Folded,
            _ => Fate::Kernel,
        },
        kind: CastKind::Cast(spec.operator),
    };
    let private = PrivateCast {
        from: from.filter(|ty| ty.is_exotic()),
        // A native type is left to tract, which knows it when the graph is typed.
        to: spec.to.or(like.filter(|ty| ty.is_exotic())),
        rules: spec.rules(),
        opset: spec.opset,
        resolves_symbols: false,
    };
    Ok((cast, private))
}

/// What can be told of a node that is wrong.
pub(in crate::passes) fn unsound(
    graph: &Graph,
    node: &Node,
    operator: Operator,
    inputs: &[Option<ElementType>],
) -> CastNode {
    CastNode {
        node: node.label().into(),
        input: name(graph, node.input(0)),
        output: name(graph, node.output(0)),
        from: inputs.first().copied().flatten(),
        to: match operator {
            Operator::Cast => named_type(node, "to"),
            Operator::CastLike => inputs.get(1).copied().flatten(),
        },
        version: operator.version(node.opset).unwrap_or(1),
        saturate: int(node, "saturate"),
        round_mode: None,
        graph: node.path.clone(),
        is_constant: false,
        fate: Fate::Refused,
        kind: CastKind::Cast(operator),
    }
}

fn name(graph: &Graph, value: Option<ValueId>) -> String {
    value.map_or(String::new(), |value| graph.value(value).name.to_string())
}

/// The type that a node's attribute names, as in `to`.
fn named_type(node: &Node, attribute: &str) -> Option<ElementType> {
    int(node, attribute).and_then(|id| i32::try_from(id).ok()).and_then(ElementType::from_id)
}
