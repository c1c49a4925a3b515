//! A part of a model, or of a pair of models, that can be run and written.

use std::collections::HashSet;
use std::path::Path;

use onnx_cast_graph::{Graph, all_graphs, is_default_domain};
use tract_onnx::pb::tensor_proto::DataLocation;
use tract_onnx::pb::{GraphProto, ModelProto, TensorProto};
use tract_onnx::prelude::*;

use super::side::nodes_in;
use super::values::{read, type_of};
use crate::cli::tensor::NamedTensor;

/// A part of a model, or of a pair of models.
#[derive(Clone)]
pub(super) struct Part {
    /// The part of the model; of a pair that of the converted one.
    pub(super) model: ModelProto,
    /// The part of the reference.
    pub(super) reference: Option<ModelProto>,
    /// What the model takes, in its order.
    pub(super) inputs: Vec<NamedTensor>,
    /// What is right, in the model's types; nothing where that is not known.
    pub(super) outputs: Vec<NamedTensor>,
    /// What it has that the whole has not, in words.
    pub(super) added: String,
}

impl Part {
    /// How many nodes the model has.
    pub(super) fn nodes(&self) -> usize {
        nodes_in(&self.model)
    }

    /// How many of them are in no body.
    pub(super) fn outer_nodes(&self) -> usize {
        self.model.graph.as_ref().map_or(0, |graph| graph.node.len())
    }
}

/// The file of a part. External data is moved in, and what nothing needs left out.
/// Fails when external data cannot be read.
pub(super) fn exported(part: Graph, folder: Option<&Path>) -> TractResult<ModelProto> {
    let mut model = part.export(|_, _| {});
    if let Some(graph) = &mut model.graph {
        for_tensors(graph, &mut |tensor| hold(tensor, folder))?;
        graph.name = "part".into();
        graph.value_info.clear();
    }
    // Before version 4 an initializer has to be an input as well.
    model.ir_version = model.ir_version.max(4);
    let graphs: Vec<&GraphProto> = model.graph.iter().flat_map(all_graphs).collect();
    let called = |domain: &str, name: &str| {
        let mut nodes = graphs.iter().flat_map(|graph| &graph.node);
        nodes.any(|node| node.domain == domain && node.op_type == name)
    };
    // A function may call another one.
    let is_called =
        model.functions.iter().any(|function| called(function.domain(), function.name()));
    let is_used = |domain: &str| {
        let mut nodes = graphs.iter().flat_map(|graph| &graph.node);
        is_called || is_default_domain(domain) || nodes.any(|node| node.domain == domain)
    };
    let used: Vec<bool> = model.opset_import.iter().map(|import| is_used(&import.domain)).collect();
    let mut used = used.into_iter();
    model.opset_import.retain(|_| used.next().unwrap_or(true));
    if !is_called {
        model.functions.clear();
    }
    Ok(model)
}

/// Has a tensor hold its data itself.
fn hold(tensor: &mut TensorProto, folder: Option<&Path>) -> TractResult<()> {
    if tensor.data_location == Some(DataLocation::External as i32) {
        *tensor = read(tensor, folder)?.to_proto()?;
    }
    tensor.doc_string.clear();
    Ok(())
}

/// Does something with each tensor of a graph and of those in it.
pub(super) fn for_tensors(
    graph: &mut GraphProto,
    act: &mut dyn FnMut(&mut TensorProto) -> TractResult<()>,
) -> TractResult<()> {
    for_graphs(graph, &mut |graph| {
        graph.initializer.iter_mut().try_for_each(&mut *act)?;
        let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
        let mut tensors = attributes.flat_map(|held| held.t.iter_mut().chain(&mut held.tensors));
        tensors.try_for_each(&mut *act)
    })
}

/// Does something with a graph and those in it.
pub(super) fn for_graphs(
    graph: &mut GraphProto,
    act: &mut dyn FnMut(&mut GraphProto) -> TractResult<()>,
) -> TractResult<()> {
    act(graph)?;
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    let mut inner = attributes.flat_map(|held| held.g.iter_mut().chain(&mut held.graphs));
    inner.try_for_each(|inner| for_graphs(inner, act))
}

/// Has a model declare what it returns as these tensors are.
pub(super) fn declare_outputs(model: &mut ModelProto, outputs: &[NamedTensor]) {
    let held = model.graph.iter_mut().flat_map(|graph| &mut graph.output);
    held.zip(outputs).for_each(|(info, output)| info.r#type = Some(type_of(output)));
}

/// Leaves out the initializers that nothing needs.
pub(super) fn drop_unused(model: &mut ModelProto) {
    let used = used(model);
    if let Some(graph) = &mut model.graph {
        graph.initializer.retain(|held| used.contains(&held.name));
    }
}

/// What nodes take and graphs return.
pub(super) fn used(model: &ModelProto) -> HashSet<String> {
    let graphs = model.graph.iter().flat_map(all_graphs);
    let of = |graph: &GraphProto| {
        let taken = graph.node.iter().flat_map(|node| node.input.iter().cloned());
        let returned = graph.output.iter().map(|output| output.name.clone());
        taken.chain(returned).collect::<Vec<String>>()
    };
    graphs.flat_map(of).collect()
}
