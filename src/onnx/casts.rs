//! `Cast` and `CastLike` nodes: what is told of them, and the private form in which tract's loader gets them.

use std::fmt;
use std::sync::Arc;

use tract_onnx::pb::NodeProto;

use super::annotation::PrivateCast;
use super::node::{int, node_name};
use super::quantizers::{QUANTIZE, QuantizerNode};
use super::spec::{self, CastSpec, Operator};
use crate::cast::element_type::ElementType;
use crate::cast::rules::{RoundMode, Rules};
use crate::error::Error;
use crate::tensor::conversion::Conversion;

/// A `Cast` or `CastLike` node of a model, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastNode {
    /// The node's name, or its output where it has none; in a model-local function, with the call's name in front.
    pub node: String,
    /// Which of the two operators.
    pub operator: Operator,
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
    /// The name of the graph that the node is in; for a subgraph, the path to it, with `call.Function` for each function.
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
    Cast,
    /// An operator of this name whose FLOAT result is rounded to half precision ([`Survey::widened`](crate::Survey)).
    Rounding(String),
    /// A `QuantizeLinear`: a cast with a scale.
    Quantizer,
}

/// What becomes of a `Cast` node in an optimised model, as far as the node itself tells: tract's optimiser may still join it
/// with another, or a matrix product take it into its store.
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
            CastKind::Cast => self.operator.name(),
            CastKind::Rounding(operator) => operator,
            CastKind::Quantizer => QUANTIZE,
        }
    }

    /// The rules for the conversion, absent attributes at their defaults.
    pub fn rules(&self) -> Rules {
        spec::rules(self.saturate, self.round_mode)
    }

    /// The rounding of a result `value` of a node that computes in FLOAT.
    pub(super) fn rounding(
        node: &NodeProto,
        value: &str,
        to: ElementType,
        opset: i64,
        graph: Arc<str>,
        is_constant: bool,
    ) -> CastNode {
        CastNode {
            node: node_name(node),
            operator: Operator::Cast,
            input: value.into(),
            output: value.into(),
            from: Some(ElementType::Float),
            to: Some(to),
            version: Operator::Cast.version(opset).unwrap_or(1),
            saturate: None,
            round_mode: None,
            graph,
            is_constant,
            fate: Fate::Kernel,
            kind: CastKind::Rounding(node.op_type.clone()),
        }
    }

    /// What a `QuantizeLinear` is as a cast.
    pub(super) fn quantizer(node: &NodeProto, quantizer: &QuantizerNode) -> CastNode {
        let value = |names: &[String]| names.first().cloned().unwrap_or_default();
        CastNode {
            node: quantizer.node.clone(),
            operator: Operator::Cast,
            input: value(&node.input),
            output: value(&node.output),
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

    /// What can be told of a node that is wrong.
    pub(super) fn unsound(
        node: &NodeProto,
        operator: Operator,
        opset: i64,
        graph: Arc<str>,
        inputs: &[Option<ElementType>],
    ) -> CastNode {
        let value = |names: &[String]| names.first().cloned().unwrap_or_default();
        let to = int(node, "to").and_then(|id| i32::try_from(id).ok());
        CastNode {
            node: node_name(node),
            operator,
            input: value(&node.input),
            output: value(&node.output),
            from: inputs.first().copied().flatten(),
            to: match operator {
                Operator::Cast => to.and_then(ElementType::from_id),
                Operator::CastLike => inputs.get(1).copied().flatten(),
            },
            version: operator.version(opset).unwrap_or(1),
            saturate: int(node, "saturate"),
            round_mode: None,
            graph,
            is_constant: false,
            fate: Fate::Refused,
            kind: CastKind::Cast,
        }
    }
}

/// Gives a `Cast` or `CastLike` node of the graph at the path `graph` its private form. `inputs` are its inputs' types,
/// where known; `is_constant` tells whether they are made of constants alone.
///
/// # Errors
///
/// When the node asks for something that its operator's version does not have.
pub(super) fn make_private(
    node: &mut NodeProto,
    opset: i64,
    graph: Arc<str>,
    inputs: &[Option<ElementType>],
    is_constant: bool,
) -> Result<CastNode, Error> {
    let spec = CastSpec::parse(node, opset)?;
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
    let value = |names: &[String]| names.first().cloned().unwrap_or_default();
    let cast = CastNode {
        node: node_name(node),
        operator: spec.operator,
        input: value(&node.input),
        output: value(&node.output),
        from,
        to,
        version: spec.version,
        saturate: spec.saturate,
        round_mode: spec.round_mode,
        graph,
        is_constant,
        fate: match (is_identity, is_constant) {
            (true, _) => Fate::NoOp,
            (_, true) => Fate::Folded,
            _ => Fate::Kernel,
        },
        kind: CastKind::Cast,
    };
    PrivateCast {
        from: from.filter(|ty| ty.is_exotic()),
        // A native type is left to tract, which knows it when the graph is typed.
        to: spec.to.or(like.filter(|ty| ty.is_exotic())),
        rules: spec.rules(),
        opset: spec.opset,
        resolves_symbols: false,
    }
    .write(node);
    Ok(cast)
}
