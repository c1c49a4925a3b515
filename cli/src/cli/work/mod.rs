//! Models at work in a worker's process: opening and running them, counting what their casts do,
//! and comparing weights. Nothing here knows what the user is shown.

pub(crate) mod adapt_inputs;
pub(crate) mod both;
pub(crate) mod deadline;
pub(crate) mod engine;
pub(crate) mod half;
pub(crate) mod main_graph;
pub(crate) mod model;
mod operators;
mod plan;
pub(crate) mod probed;
pub(crate) mod spelt;
pub(crate) mod watched;
pub(crate) mod weights;
