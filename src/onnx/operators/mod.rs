//! The operators of ONNX.
//!
//! - `schema`: what ONNX says of each operator and version
//! - `attributes`: what attributes each operator and version has
//! - `behaviour`: what each operator does with elements, so far as this crate must know it
//! - `foreign`: what tract builds beyond ONNX's
//! - `honoured`: what is computed of each operator, and the check that a node asks for nothing else
//! - `alone`: which operators run node by node and in no plan
//! - `registered`: what a loader builds, and whose it is
//! - `types`: the types of a node's outputs

pub(crate) mod alone;
pub(crate) mod attributes;
pub(crate) mod behaviour;
pub(crate) mod foreign;
pub(crate) mod honoured;
pub(crate) mod registered;
pub(crate) mod schema;
pub(crate) mod types;
