//! Constants and inputs as tract holds them. Before: tensors and declared inputs of any of ONNX's
//! types; after: those whose type tract does not have, or which its loader reads wrongly, are
//! carriers ([`ElementType::datum_type`]).

use onnx_cast_graph::{Graph, NodeId, ValueId};
use tract_onnx::pb::TensorProto;
use tract_onnx::prelude::TractResult;

use crate::cast::element_type::ElementType;
use crate::onnx::declared_shapes::element_type;
use crate::passes::context::{PassContext, PassOptions};
use crate::passes::facts::value_type::{is_tensor, set_carrier};
use crate::tensor::proto;

/// Makes every constant, every tensor of an attribute and every input of a body one that tract
/// reads right.
pub(in crate::passes) fn carry(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let main = graph.body(graph.main());
    for value in main.inputs() {
        let input = graph.value(*value);
        is_tensor(input.declared.as_ref(), "input", &input.name, &main.path)?;
    }
    for body in graph.all_bodies(graph.main()) {
        for value in graph.body(body).inputs().to_vec() {
            input(graph, context, value);
        }
        for value in graph.body(body).constants().to_vec() {
            let Some(held) = graph.constant_mut(value) else { continue };
            let carried = tensor(held, context.options);
            context.take(carried, false)?;
            let ty = context.facts.ty(value).filter(|ty| ty.is_exotic());
            let declared = &mut graph.value_mut(value).declared;
            if let (Some(ty), Some(_)) = (ty, &declared) {
                set_carrier(declared, ty);
            }
        }
        for id in graph.nodes_of(body) {
            let carried = attributes(graph, context.options, id);
            context.take(carried, false)?;
        }
    }
    Ok(())
}

fn input(graph: &mut Graph, context: &PassContext, value: ValueId) {
    let declared = element_type(graph.value(value).declared.as_ref());
    // A body's inputs need no types in ONNX, but they do in tract.
    let is_needed = |ty: &ElementType| ty.is_exotic() || declared.is_none();
    if let Some(ty) = context.facts.ty(value).filter(is_needed) {
        set_carrier(&mut graph.value_mut(value).declared, ty);
    }
}

fn tensor(tensor: &mut TensorProto, options: &PassOptions) -> TractResult<()> {
    let ty = proto::check(tensor, options.folder)?;
    proto::bound_external_data(tensor);
    if ty.is_exotic() || proto::is_misread_by_tract(tensor, ty) {
        let (_, value) = proto::read_with(tensor, options.folder, options.resolver)?;
        *tensor = proto::as_carrier(&tensor.name, &value)?;
    }
    Ok(())
}

fn attributes(graph: &mut Graph, options: &PassOptions, id: NodeId) -> TractResult<()> {
    let label = graph.node(id).shared_label().clone();
    for attribute in graph.node_mut(id).attributes.iter_mut() {
        for held in attribute.t.iter_mut().chain(&mut attribute.tensors) {
            if held.name.is_empty() {
                held.name = format!("{label}.{}", attribute.name);
            }
            tensor(held, options)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
