//! Refuses nodes that ask for what nothing here computes. Before: any node; after: what the table
//! of what is honoured has, and the defaults that tract has otherwise are written down.

use onnx_cast_graph::{Graph, NodeView, ValueId, tensor_type};
use tract_onnx::pb::type_proto::Tensor;
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use crate::cast::element_type::ElementType;
use crate::onnx::operators::honoured::{self, DeclaredValue};

/// Checks the nodes of all bodies. Its error is that of the first node that is refused.
pub(super) fn check(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    for id in graph.all_nodes(graph.main()) {
        // Exporters name the statistics that a batch leaves, whether they are used or not.
        if graph.node(id).is("BatchNormalization") {
            graph.drop_unused_outputs(id);
        }
        let node = graph.node(id);
        let given = |place: usize| given(graph, node.input(place)?);
        let checked = honoured::check(node, given, context.options.registered);
        if let Some(defaults) = context.take(checked.map_err(Into::into), false)? {
            graph.node_mut(id).attributes.extend(defaults);
        }
    }
    Ok(())
}

/// What the file says of a value.
pub(super) fn given(graph: &Graph, value: ValueId) -> Option<DeclaredValue> {
    if let Some(tensor) = graph.constant(value) {
        let ty = ElementType::from_id(tensor.data_type);
        return Some(DeclaredValue { ty, rank: Some(tensor.dims.len()) });
    }
    let Tensor { elem_type, shape } = tensor_type(graph.value(value).declared.as_ref())?;
    let rank = shape.as_ref().map(|shape| shape.dim.len());
    Some(DeclaredValue { ty: ElementType::from_id(*elem_type), rank })
}
