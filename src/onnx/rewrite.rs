//! `ModelProto` → a `ModelProto` that tract can load.
//!
//! tract's loader knows neither the exotic element types nor what they mean, so the model is rewritten before it gets
//! there: every tensor and type of an exotic kind becomes its carrier's, and every `Cast` node learns what its input
//! really is. For that, element types are followed through the graph and all its subgraphs.

use std::collections::HashMap;

use tract_onnx::pb::{GraphProto, ModelProto, TensorProto, ValueInfoProto};
use tract_onnx::prelude::TractResult;

use super::annotation::DOMAIN;
use super::functions::inline::{self, Calls};
use super::limits::{cast_empty_unsigned, forget_intricate_dimensions};
use super::node::{self, default_opset, refusal};
use super::scope::Place;
use super::size::Limits;
use super::tolerance::{Survey, Tolerance};
use super::walk::{Options, Rewriter};
use super::{declared_shapes, made, symbols};
use crate::cast::element_type::ElementType;
use crate::error::Error;
use crate::tensor::proto;

/// A rewritten model and what was learned on the way.
pub(crate) struct Rewritten {
    pub(crate) proto: ModelProto,
    /// What was found on the way; no problems.
    pub(crate) survey: Survey,
    /// The graph's outputs under their own names, in order.
    pub(crate) output_names: Vec<String>,
    /// Element types by name of input.
    pub(crate) inputs: HashMap<String, ElementType>,
    /// Element types of the outputs, where known.
    pub(crate) outputs: Vec<Option<ElementType>>,
    /// The main graph's values with a declared shape, where one may be needed.
    pub(crate) declared: Vec<ValueInfoProto>,
    /// How large it may be for tract to load.
    pub(crate) limits: Limits,
}

/// The casts of a model that need not be sound, as far as they can be made out, and what is wrong with it.
pub(crate) fn survey(mut proto: ModelProto, options: &Options) -> TractResult<Survey> {
    options.limits.check(&proto, options.folder)?;
    let opset = default_opset(&proto.opset_import).unwrap_or(1);
    let mut graph = take_graph(&mut proto)?;
    let whole = graph.clone();
    let mut tolerance = Tolerance::All(vec![]);
    let inlined = inline::inline(&mut graph, &proto.functions, opset, options.operators);
    let calls = tolerance.take(inlined.map_err(Into::into), false)?.unwrap_or_else(|| {
        graph = whole;
        Calls::default()
    });
    let mut rewriter = Rewriter::new(opset, calls, options, tolerance);
    let place = Place::main(&graph, opset);
    rewriter.graph(&mut graph, place, &[])?;
    Ok(rewriter.into_survey())
}

fn take_graph(proto: &mut ModelProto) -> Result<GraphProto, Error> {
    proto.graph.take().ok_or_else(|| Error::Model { problem: "holds no graph".into() })
}

/// Rewrites a model.
pub(crate) fn rewrite(mut proto: ModelProto, options: &Options) -> TractResult<Rewritten> {
    let limits = options.limits.check(&proto, options.folder)?;
    // Files older than IR version 3 import none.
    let opset = default_opset(&proto.opset_import).unwrap_or(1);
    let mut graph = take_graph(&mut proto)?;
    let output_names = graph.output.iter().map(|output| output.name.clone()).collect();
    let functions = std::mem::take(&mut proto.functions);
    refuse_own_domain(&graph)?;
    let mut calls = inline::inline(&mut graph, &functions, opset, options.operators)?;
    let read =
        |tensor: &TensorProto| proto::read_with(tensor, options.folder, options.resolver).ok();
    cast_empty_unsigned(&mut graph);
    let (mut values, mut plan) = symbols::forward::plan(&graph, &read)?;
    made::check(&graph, &limits)?;
    if symbols::data_shapes::expand_constants(&mut graph, &plan, &values) {
        (values, plan) = symbols::forward::plan(&graph, &read)?;
    }
    let leaves_open = declared_shapes::leave_open(&graph.input);
    let measured = symbols::data_shapes::measure_unused(&mut graph, &plan, &values, leaves_open);
    if !measured.is_empty() {
        (values, plan) = symbols::forward::plan(&graph, &read)?;
    }
    symbols::backward::mark(&mut plan, &mut values);
    symbols::emit::write(&mut graph, &plan, &mut values, &mut calls)?;
    let mut declared = declared_shapes::declared(&graph);
    declared.retain(|value| !measured.contains(&value.name));
    declared.iter_mut().for_each(forget_intricate_dimensions);
    // Half of what a rewrite needs.
    drop((values, plan));
    let mut rewriter = Rewriter::new(opset, calls, options, Tolerance::None);
    let place = Place::main(&graph, opset);
    let types = rewriter.graph(&mut graph, place, &[])?;
    proto.graph = Some(graph);
    let outputs = types.outputs.iter().map(|fact| fact.and_then(|fact| fact.ty)).collect();
    let (survey, inputs) = (rewriter.into_survey(), types.inputs);
    Ok(Rewritten { proto, survey, output_names, inputs, outputs, declared, limits })
}

/// Refuses a file that has nodes of the domain that this crate marks its own by.
fn refuse_own_domain(graph: &GraphProto) -> Result<(), Error> {
    for node in &graph.node {
        if node.domain == DOMAIN {
            return Err(refusal(node, format!("domain `{DOMAIN}` is this crate's own")));
        }
        node.attribute.iter().flat_map(node::subgraphs).try_for_each(refuse_own_domain)?;
    }
    Ok(())
}
