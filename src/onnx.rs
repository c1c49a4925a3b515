//! `ModelProto` → a `ModelProto` that tract can load. No operator of tract's is built here.
//!
//! - `rewrite`: the walk through the graphs
//! - `spec`: what a `Cast` node asks for, by its operator's version
//! - `annotation`: what the rewrite writes onto nodes for the builders of [`ops`](crate::ops)
//! - `functions`: model-local functions, put in place of their calls
//! - `order`: do the names in a graph fit together, and in which order are its nodes walked
//! - `operators`: which types an operator's outputs have, and whether it only moves data
//! - `declared_types`: types as declared against types as made; `declared_shapes` the same for shapes
//! - `flow`: what values are made of, to keep INT64 apart from symbolic dimensions
//! - `limits`: what tract cannot take as it stands

pub(crate) mod annotation;
pub(crate) mod declared_shapes;
mod declared_types;
mod flow;
pub(crate) mod functions;
mod limits;
mod operators;
mod order;
pub(crate) mod rewrite;
pub(crate) mod spec;
