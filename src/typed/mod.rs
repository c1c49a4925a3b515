//! A model's graph with its functions as bodies, and the element types of all values by ONNX's
//! schemas alone: what is mended and converted, where no tract is asked.
//!
//! - `functions`: read into the graph and put back
//! - `inference`: the walk that tells types, and whoever looks on
//! - `sequences`: the types of what they hold

#![forbid(unsafe_code)]

pub(crate) mod functions;
pub(crate) mod inference;
pub(crate) mod sequences;
