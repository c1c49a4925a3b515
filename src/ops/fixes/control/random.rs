//! `RandomNormal`, `RandomUniform` and those that take another value's shape.
//!
//! tract tells the latter by the name of the node, where it means that of the operator (tract-onnx,
//! `ops/random.rs`).

use anyhow::Context;
use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;

use crate::ops::host::stock::{Built, stock};

/// Builds tract's own, of a node by the name of its operator.
pub(crate) fn build(context: &ParsingContext, node: &NodeProto) -> Built {
    let build = stock(&node.op_type).with_context(|| format!("tract has no {}", node.op_type))?;
    build(context, &NodeProto { name: node.op_type.clone(), ..node.clone() })
}
