//! Which inputs of a node decide what is built of it, by their values.

use onnx_cast_graph::{Graph, NodeId};

use crate::interpreter::value::TypedTensor;
use crate::ops::host::operands::BROADCASTING;

/// How many elements an input may have that decides what is built: sizes, axes, scales.
const DECIDING: usize = 64;

/// The operators all of whose small inputs decide what is built, the first one too.
const DECIDED_BY_ALL: &[&str] = &[
    "BlackmanWindow",
    "ConstantOfShape",
    "HammingWindow",
    "HannWindow",
    "MelWeightMatrix",
    "RandomNormal",
    "RandomUniform",
    "Range",
];

/// The operators whose weights decide what is built, however large they are.
const DECIDED_BY_WEIGHTS: &[&str] = &["MatMulBnb4", "MatMulNBits"];

/// The operators beside those of [`BROADCASTING`] that compute on whatever is there, of which no
/// input decides what is built.
const DECIDED_BY_NONE: &[&str] = &[
    "Concat",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gemm",
    "MatMul",
    "ScatterElements",
    "ScatterND",
];

/// Whether an input's value decides what is built.
pub(super) fn decides(
    graph: &Graph,
    id: NodeId,
    inputs: &[Option<TypedTensor>],
    place: usize,
) -> bool {
    let node = graph.node(id);
    let Some(Some(typed)) = inputs.get(place) else { return false };
    let has = |names: &[&str]| names.contains(&node.op_type.as_str());
    // The limits of a Clip are built into it.
    let computes = has(DECIDED_BY_NONE) || has(BROADCASTING) && node.op_type != "Clip";
    let is_operand = place > 0 && !computes || has(DECIDED_BY_ALL);
    is_operand && (typed.tensor.len() <= DECIDING || has(DECIDED_BY_WEIGHTS))
}
