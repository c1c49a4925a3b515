//! Constants of UINT32 and UINT64 without elements, which tract takes for signed ones. Before: such
//! a constant; after: a cast of an INT64 constant without elements.

use onnx_cast_graph::{Graph, NewNode, NodeId, NodeView, Place, ValueId};
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::onnx::lowered::{DOMAIN, OperatorForm, PrivateCast};
use crate::passes::context::PassContext;

/// Makes readable the empty tensors of UINT32 and UINT64: they are cast from INT64.
pub(in crate::passes) fn cast_empty(
    graph: &mut Graph,
    context: &mut PassContext,
) -> TractResult<()> {
    for body in graph.all_bodies(graph.main()) {
        for value in graph.body(body).constants().to_vec() {
            if let Some(ty) = graph.constant(value).and_then(|tensor| empty_unsigned(tensor)) {
                initializer(graph, context, value, ty);
            }
        }
        for id in graph.nodes_of(body) {
            node(graph, context, id);
        }
    }
    Ok(())
}

fn initializer(graph: &mut Graph, context: &mut PassContext, value: ValueId, ty: ElementType) {
    let body = graph.value(value).body();
    let Some(tensor) = graph.take_constant(value) else { return };
    let name = format!("{DOMAIN}:{}", graph.value(value).name);
    let signed = graph.add_constant(body, signed(&tensor, name));
    let cast = graph.add(Place::First(body), NewNode::making("Cast", &[signed], value));
    context.lower(cast, OperatorForm::Cast(PrivateCast::own(None, ty)));
}

fn node(graph: &mut Graph, context: &mut PassContext, id: NodeId) {
    let constant = graph.node(id);
    if !constant.is("Constant") {
        return;
    }
    let [attribute] = &constant.attributes[..] else { return };
    let (Some(tensor), Some(output)) = (&attribute.t, constant.output(0)) else { return };
    let Some(ty) = empty_unsigned(tensor) else { return };
    let name = format!("{DOMAIN}:{}", graph.value(output).name);
    let (body, tensor) = (constant.body(), signed(tensor, name));
    let signed = graph.add_constant(body, tensor);
    let constant = graph.node_mut(id);
    constant.op_type = "Cast".into();
    constant.attributes.clear();
    graph.push_input(id, Some(signed));
    context.lower(id, OperatorForm::Cast(PrivateCast::own(None, ty)));
}

fn signed(tensor: &TensorProto, name: String) -> TensorProto {
    let data_type = ElementType::Int64 as i32;
    TensorProto { name, data_type, ..tensor.clone() }
}

fn empty_unsigned(tensor: &TensorProto) -> Option<ElementType> {
    let is_sound = tensor.dims.iter().all(|dim| *dim >= 0) && tensor.external_data.is_empty();
    let is_empty = is_sound && tensor.dims.contains(&0) && tensor.uint64_data.is_empty();
    let ty = ElementType::from_id(tensor.data_type).filter(|_| is_empty)?;
    matches!(ty, ElementType::Uint32 | ElementType::Uint64).then_some(ty)
}

#[cfg(test)]
mod tests;
