//! A model made one that tract can load: a list of passes over its graph.
//!
//! A pass is a function, and related ones share a file or folder, whose header says what it makes
//! of what and whose tests show that on small models (`testing`); a new one is that and a row of
//! the list. What builders are to know of a node is a
//! [`OperatorForm`](crate::onnx::lowered::OperatorForm). All share a [`PassContext`] of options,
//! limits, what analyses have found out, and diagnostics. In tests and debug builds the graph is
//! verified after each pass. `ONNX_CAST_TRACE=1` in the environment has each pass say what it has
//! changed, `ONNX_CAST_TRACE=2` every edit.
//!
//! [`load`] runs the list and stops at the first thing that is wrong; [`survey`] is the same list
//! with diagnostics collected.

#![forbid(unsafe_code)]

pub(crate) mod casts;
mod context;
mod data_shapes;
mod decompose;
pub(crate) mod diagnostics;
pub(crate) mod facts;
pub(crate) mod findings;
pub(crate) mod half_in_float;
mod honoured;
mod inline;
mod legalise;
mod symbols;
#[cfg(test)]
pub(crate) mod testing;
mod tied;
pub(crate) mod weight_sizes;

use std::env;

use onnx_cast_graph::{At, Graph, Misnamed};
use tract_onnx::pb::{ModelProto, ValueInfoProto};
use tract_onnx::prelude::TractResult;

pub(crate) use context::{PassContext, PassOptions};
use diagnostics::{Diagnostics, Survey};

use crate::cast::element_type::ElementType;
use crate::error::{self, Cause, Error};
use crate::onnx::limits::Limits;
use crate::onnx::sparse;

/// An edit or an analysis of the whole graph.
type Pass = fn(&mut Graph, &mut PassContext) -> TractResult<()>;

/// The passes in their order, each with the reason for its place.
const PASSES: &[(&str, Pass)] = &[
    // First of all: what follows knows operators, not calls.
    ("inline", inline::inline),
    // While nodes are the file's: what follows trusts that nothing of them is ignored.
    ("honoured", honoured::check),
    // Before anything asks whether an attribute is there.
    ("lists", legalise::lists::shorten),
    // Before what looks at sizes: the nodes that stand for one compute with them.
    ("compose", decompose::compose),
    // Before constants are read: tract reads these as signed.
    ("unsigned", legalise::unsigned::cast_empty),
    // Before symbols: a size that can be one number only is none.
    ("weight sizes", weight_sizes::declare),
    // Before symbols, which look at what decides on shapes: data that does becomes the operand of
    // an Expand.
    ("data shapes", data_shapes::rewrite),
    // Before types: casts of dimensions to numbers are nodes whose types are then inferred as those
    // of others.
    ("symbols", symbols::separate),
    // Before types are told: what operators of ONNX Runtime stand for has types, they themselves
    // have none here.
    ("decompose", decompose::decompose),
    // Pure analysis, on which all that follows relies.
    ("types", facts::types::infer),
    // While types are the model's, and nodes the file's.
    ("casts", casts::lower),
    // While what casts take is what the file says.
    ("findings", findings::find),
    // Before values become carriers, so that what computes wide takes FLOAT.
    ("half in float", half_in_float::wide::widen),
    // While constants are the file's, and what is left of half precision is in FLOAT.
    ("scanned", legalise::scanned::take_out),
    // After all that reads constants by their types: from here on tensors are what tract holds.
    ("tensors", legalise::tensors::carry),
    // What is left that tract's loader mishandles.
    ("legalise", legalise::legalise),
    // When nodes are those that tract builds.
    ("alike", legalise::alike::merge),
    // Likewise.
    ("tied", tied::tie),
    // Last: outputs get nodes of their own, which nothing before may take for users.
    ("outputs", legalise::outputs::prepare),
    // Names are given when all nodes are there.
    ("names", legalise::name_nodes_apart),
    // In the order of computation, which is that of the rows of an audit.
    ("probes", casts::number),
];

/// A model for tract's loader, and what was learned on the way.
pub(crate) struct LoweredModel {
    pub(crate) proto: ModelProto,
    /// What was found; no problems.
    pub(crate) survey: Survey,
    /// The graph's inputs under their names, with their types.
    pub(crate) inputs: Vec<(String, ElementType)>,
    /// The graph's outputs under their own names, in order, with their types where known.
    pub(crate) outputs: Vec<(String, Option<ElementType>)>,
    /// The main graph's values with a declared shape, where one may be needed.
    pub(crate) declared: Vec<ValueInfoProto>,
    /// The symbols that are numbers now, by their names.
    pub(crate) sizes: Vec<(String, i64)>,
    /// How large it may be for tract to load.
    pub(crate) limits: Limits,
}

/// Lowers a model, or stops at the first thing that is wrong with it.
pub(crate) fn load(proto: ModelProto, options: &PassOptions) -> TractResult<LoweredModel> {
    let (mut graph, mut context) = import_sound(proto, options)?;
    let limits = context.limits;
    let output_names: Vec<String> = main_outputs(&graph);
    run(&mut graph, &mut context)?;
    let inputs = graph.body(graph.main()).inputs().iter();
    let known = inputs.filter(|value| !graph.value(**value).is_constant());
    let typed = known.filter_map(|value| {
        Some((graph.value(*value).name.to_string(), context.facts.ty(*value)?))
    });
    let inputs = typed.collect();
    let outputs = output_names.into_iter().zip(std::mem::take(&mut context.output_types)).collect();
    let declared = std::mem::take(&mut context.declared);
    let sizes = std::mem::take(&mut context.sizes);
    let lowered = std::mem::take(&mut context.lowered);
    let survey = context.into_survey();
    let proto = graph.export(|id, node| {
        if let Some(lowered) = lowered.get(id) {
            lowered.write(node);
        }
    });
    Ok(LoweredModel { proto, survey, inputs, outputs, declared, sizes, limits })
}

/// A sound model's graph, with functions in the place of their calls and nothing else changed.
pub(crate) fn inlined(proto: ModelProto, options: &PassOptions) -> TractResult<Graph> {
    let (mut graph, mut context) = import_sound(proto, options)?;
    inline::inline(&mut graph, &mut context)?;
    Ok(graph)
}

/// Imports a model that has to be sound, or stops at the first name that is not.
fn import_sound<'a>(
    mut proto: ModelProto,
    options: &'a PassOptions,
) -> TractResult<(Graph, PassContext<'a>)> {
    let limits = options.limits.check(&proto, options.folder)?;
    sparse::densify(&mut proto, &limits)?;
    let (graph, misnamed) = import(proto)?;
    match misnamed.into_iter().next() {
        Some(first) => Err(error_of(first))?,
        None => Ok((graph, PassContext::new(options, limits, Diagnostics::Stop))),
    }
}

/// What can be told of a model that need not be sound, and everything that is wrong with it.
pub(crate) fn survey(mut proto: ModelProto, options: &PassOptions) -> TractResult<Survey> {
    let limits = options.limits.check(&proto, options.folder)?;
    sparse::densify(&mut proto, &limits)?;
    let (mut graph, misnamed) = import(proto)?;
    let mut context = PassContext::new(options, limits, Diagnostics::Collect(vec![]));
    for problem in misnamed {
        context.take(Err::<(), _>(error_of(problem).into()), false)?;
    }
    run(&mut graph, &mut context)?;
    Ok(context.into_survey())
}

pub(crate) fn import(proto: ModelProto) -> Result<(Graph, Vec<Misnamed>), Error> {
    let imported = Graph::import(proto, &step);
    imported.ok_or_else(|| Cause::Model { problem: "holds no graph".into() }.into())
}

/// A step of a path: where in a graph another one is; the main graph's own name has no part.
pub(crate) fn step(node: &str, part: &str) -> String {
    if part.is_empty() {
        return error::name(node).into_owned();
    }
    format!("{}.{}", error::name(node), error::name(part))
}

/// What is wrong with names, as an error.
pub(crate) fn error_of(problem: Misnamed) -> Error {
    match problem.at {
        At::Graph(graph) => Error::graph(graph, problem.text),
        At::Node(node, op) => Error::of_node(node, op, problem.text),
    }
}

fn main_outputs(graph: &Graph) -> Vec<String> {
    let outputs = graph.body(graph.main()).outputs().iter();
    outputs.map(|output| output.declared.name.clone()).collect()
}

/// Runs the passes. One that fails where diagnostics are collected leaves the graph as far as it
/// has come.
fn run(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let trace = env::var("ONNX_CAST_TRACE").unwrap_or_default();
    if trace == "2" {
        graph.trace_lines();
    }
    graph.take_changes();
    for (name, pass) in PASSES {
        let is_planned = context.size_plan.is_some();
        let passed = pass(graph, context);
        context.take(passed, false)?;
        let changes = graph.take_changes();
        if is_planned && !changes.is_empty() {
            context.size_plan = None;
        }
        if !trace.is_empty() && !changes.is_empty() {
            eprintln!("pass {name}: {changes}");
        }
        if cfg!(debug_assertions)
            && context.is_sound()
            && let Err(fault) = graph.verify()
        {
            let problem = format!("is no graph after the pass `{name}`: {fault}");
            Err(Error::from(Cause::Model { problem }))?;
        }
    }
    Ok(())
}
