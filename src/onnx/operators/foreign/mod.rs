//! Operators beyond ONNX's that tract builds by their names, whatever their domain: the types of
//! their outputs, as ONNX Runtime's `docs/ContribOperators.md` has them.

use crate::cast::element_type::ElementType;
use crate::onnx::node::NodeView;

/// The type of an output.
#[derive(Debug, Clone, Copy)]
enum ForeignOutput {
    /// That of the first input.
    Same,
    Float,
}

use ForeignOutput::{Float, Same};

/// Sorted by name.
const CONTRIB: &[(&str, &[ForeignOutput])] = &[
    ("BiasGelu", &[Same]),
    ("FastGelu", &[Same]),
    ("Gelu", &[Same]),
    ("GridSample", &[Same]),
    ("GroupQueryAttention", &[Same, Same, Same]),
    ("MatMulBnb4", &[Same]),
    ("MatMulNBits", &[Same]),
    ("MultiHeadAttention", &[Same, Same, Same]),
    ("Pad", &[Same]),
    ("QuickGelu", &[Same]),
    ("RotaryEmbedding", &[Same]),
    ("SimplifiedLayerNormalization", &[Same, Float]),
    ("SkipLayerNormalization", &[Same, Float, Float, Same]),
    ("SkipSimplifiedLayerNormalization", &[Same, Float, Float, Same]),
    ("Trilu", &[Same]),
];

fn outputs(node: &(impl NodeView + ?Sized)) -> Option<&'static [ForeignOutput]> {
    let found = CONTRIB.binary_search_by(|(name, _)| (*name).cmp(node.op_type())).ok()?;
    CONTRIB.get(found).map(|(_, outputs)| *outputs)
}

/// Whether the types of a node's outputs are known.
pub(crate) fn is_known(node: &(impl NodeView + ?Sized)) -> bool {
    outputs(node).is_some()
}

/// Whether a node takes values of a floating-point type, the same one wherever it takes any; its
/// outputs are then of that type or FLOAT, as [`output_types`] says.
pub(crate) fn takes(node: &(impl NodeView + ?Sized), ty: ElementType) -> bool {
    let has_bfloat16 = !matches!(
        node.op_type(),
        "Gelu"
            | "GridSample"
            | "MultiHeadAttention"
            | "Pad"
            | "SkipLayerNormalization"
            | "SkipSimplifiedLayerNormalization"
            | "Trilu"
    );
    let is_taken = match ty {
        ElementType::Float | ElementType::Float16 => true,
        ElementType::BFloat16 => has_bfloat16,
        _ => false,
    };
    is_taken && is_known(node) && node.domain() == "com.microsoft"
}

/// The types of a node's outputs, given those of its inputs; `None` where they are not known.
pub(crate) fn output_types(
    node: &(impl NodeView + ?Sized),
    inputs: &[Option<ElementType>],
) -> Vec<Option<ElementType>> {
    let ty = |place: usize| match outputs(node)?.get(place)? {
        Same => inputs.first().copied().flatten(),
        Float => Some(ElementType::Float),
    };
    (0..node.output_places()).map(ty).collect()
}

#[cfg(test)]
mod tests;
