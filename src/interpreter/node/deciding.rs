//! Which inputs of a node decide what is built of it, by their values.

use onnx_cast_graph::{Graph, NodeId, NodeView};

use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;
use crate::ops::host::operands::BROADCASTING;
use crate::ops::quantize::n_bits::{BNB4, N_BITS, may_be_input};

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

/// For each input of a node whether its value decides what is built; `keeps_small` says whether
/// weights are rounded to formats of tract's.
pub(super) fn deciding(
    graph: &Graph,
    id: NodeId,
    inputs: &[Option<TypedTensor>],
    keeps_small: bool,
) -> Vec<bool> {
    let is_small = |place| keeps_small && graph.node(id).op_type == N_BITS && place > 0;
    let places = 0..inputs.len();
    places.map(|place| is_small(place) || decides(graph, id, inputs, place)).collect()
}

/// Whether an input's value decides what is built.
fn decides(graph: &Graph, id: NodeId, inputs: &[Option<TypedTensor>], place: usize) -> bool {
    let node = graph.node(id);
    let Some(Some(typed)) = inputs.get(place) else { return false };
    let has = |names: &[&str]| names.contains(&node.op_type.as_str());
    // The limits of a Clip are built into it.
    let computes = has(DECIDED_BY_NONE) || has(BROADCASTING) && node.op_type != "Clip";
    let is_operand = place > 0 && !computes || has(DECIDED_BY_ALL);
    is_operand && (typed.tensor.len() <= DECIDING || is_decided_by_weights(node, inputs))
}

/// Whether the weights of a node decide what is built, however large they are.
fn is_decided_by_weights(node: &impl NodeView, inputs: &[Option<TypedTensor>]) -> bool {
    let input = |place: usize| inputs.get(place).and_then(Option::as_ref);
    match node.op_type() {
        BNB4 => true,
        N_BITS => {
            let has_codes = input(3).is_none_or(|zeros| zeros.ty == ElementType::Uint8);
            let is_ordered = input(4).is_some();
            let may_come_in = input(2).is_some_and(|scales| may_be_input(&scales.tensor));
            is_ordered || !has_codes || !may_come_in
        }
        _ => false,
    }
}
