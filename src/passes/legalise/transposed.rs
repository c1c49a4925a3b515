//! `ConvTranspose` with `auto_pad`.
//!
//! tract refuses a kernel that is not longer than its stride, and appends `output_padding` to an
//! output that is as long as it should be without (tract-core, `ops/cnn/padding.rs`,
//! `same_for_deconv`). ONNX cuts off what a kernel is longer than its stride, and where there is
//! nothing to cut off, ONNX's shape inference and ONNX Runtime add nothing either.

use onnx_cast_graph::{Graph, NodeId, NodeView, attribute, ints_attribute};
use tract_onnx::pb::AttributeProto;

use crate::passes::facts::value_type::dims;

/// Writes down the `pads` that `auto_pad` stands for.
pub(super) fn pads_of_auto_pad(graph: &mut Graph, id: NodeId) {
    let node = graph.node(id);
    let auto_pad = attribute(node, "auto_pad").map(|given| given.s.as_slice());
    let is_upper = match auto_pad {
        Some(b"SAME_UPPER") => true,
        Some(b"SAME_LOWER") => false,
        _ => return,
    };
    if !node.is("ConvTranspose") || attribute(node, "output_shape").is_some() {
        return;
    }
    let Some(cut) = cut(graph, id) else { return };
    let halves = |cut: &i64| {
        let (less, cut) = ((*cut).max(0) / 2, (*cut).max(0));
        if is_upper { (less, cut - less) } else { (cut - less, less) }
    };
    let (before, after): (Vec<i64>, Vec<i64>) = cut.iter().map(halves).unzip();
    let attributes = &mut graph.node_mut(id).attributes;
    attributes.retain(|given| !["auto_pad", "pads"].contains(&given.name.as_str()));
    attributes.push(ints_attribute("pads", [before, after].concat()));
}

/// By how much the output is longer than its strides, along each axis; `None` where nobody tells
/// the kernel's size.
fn cut(graph: &Graph, id: NodeId) -> Option<Vec<i64>> {
    let node = graph.node(id);
    let kernel = match attribute(node, "kernel_shape") {
        Some(given) => given.ints.clone(),
        None => dims(graph, node.input(1)?)?.into_iter().skip(2).collect::<Option<_>>()?,
    };
    let numbers = |name: &str, default: i64| {
        let given = |given: &AttributeProto| given.ints.clone();
        attribute(node, name).map_or_else(|| vec![default; kernel.len()], given)
    };
    let more = numbers("strides", 1).into_iter().zip(numbers("output_padding", 0));
    let steps = kernel.iter().zip(numbers("dilations", 1)).zip(more);
    let cut = steps.map(|((kernel, dilation), (stride, more))| {
        let field = kernel.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        field.checked_add(more)?.checked_sub(stride)
    });
    let cut: Vec<i64> = cut.collect::<Option<_>>()?;
    (cut.len() == kernel.len()).then_some(cut)
}
