//! The operators of ONNX.
//!
//! - `schema`: what ONNX says of each operator and version
//! - `behaviour`: what each operator does with elements, so far as this crate must know it
//! - `foreign`: what tract builds beyond ONNX's
//! - `types`: the types of a node's outputs

pub(crate) mod behaviour;
pub(crate) mod foreign;
pub(crate) mod schema;
pub(crate) mod types;
