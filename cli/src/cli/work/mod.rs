//! Models at work in a worker's process: opening and running them, counting what their casts do,
//! and comparing weights. Nothing here knows what the user is shown.
//!
//! - `model`: a model between its file and its outputs; `engine`: by a `plan` or node by node
//! - `probed`: with probes behind its casts; `watched`: while casts are counted
//! - `spelt`: with products of codes written out; `codes`: how codes are named, and what moves them
//! - `half`: whether it is of half precision
//! - `weights`: what became of its weights; `operators`: what overflows; `main_graph`: who makes
//!   what
//! - `adapt_inputs`, `both`: two models on the same inputs; `deadline`: how long loading may take;
//!   `need`: how much memory

pub(crate) mod adapt_inputs;
pub(crate) mod both;
pub(crate) mod codes;
pub(crate) mod deadline;
pub(crate) mod engine;
pub(crate) mod half;
pub(crate) mod main_graph;
pub(crate) mod model;
pub(crate) mod need;
mod operators;
mod plan;
pub(crate) mod probed;
pub(crate) mod spelt;
pub(crate) mod watched;
pub(crate) mod weights;
