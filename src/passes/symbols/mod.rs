//! Symbols only on the way to a shape.
//!
//! tract holds what `Shape` and `Size` make as symbolic dimensions, which it needs to know shapes
//! before a model runs, but with which it computes in 32 bits, or not at all. So the graph is read
//! twice: forwards, for the values that tract can compute symbolically and exactly (`forward`), and
//! backwards, for what they are needed as (`backward`): as symbols where an input decides on a
//! shape, as 64-bit numbers anywhere else. Before: `y = f(Shape(x))`; after: dimensions are made
//! numbers where they are needed as such, and nodes that are needed as both are there twice
//! (`emit`).
//!
//! - `bounds`: between which numbers a value lies, since constants must fit the 32 bits that tract
//!   gives them among symbols
//! - `plan`: what is found out about values and nodes

mod backward;
pub(in crate::passes) mod bounds;
mod emit;
pub(in crate::passes) mod forward;
pub(in crate::passes) mod plan;

use onnx_cast_graph::Graph;
use tract_onnx::prelude::TractResult;

use super::context::PassContext;
use super::data_shapes;

/// Makes numbers of symbols where numbers are needed.
/// Fails when a constant shape is beyond what tract has for it.
pub(super) fn separate(graph: &mut Graph, context: &mut PassContext) -> TractResult<()> {
    let mut plan = match context.size_plan.take() {
        Some(plan) => plan,
        None => forward::plan(graph, context)?,
    };
    backward::mark(graph, &mut plan);
    emit::write(graph, context, &mut plan);
    context.declared = data_shapes::declared(graph, context);
    Ok(())
}

#[cfg(test)]
mod tests;
