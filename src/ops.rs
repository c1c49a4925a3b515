//! Operators in tract: ours, and tract's own corrected.
//!
//! - `cast`: what `Cast` and `CastLike` are in tract
//! - `if_`, `expand`: tract's own, corrected
//! - `at_opset`: nodes of another opset than the model's; `measured` shapes that are numbers when the model runs
//! - `open_shapes`: shapes that a model leaves open
//! - `register`: which operators an `Onnx` builds by ours; `stock` taking the place of one of tract's

#![forbid(unsafe_code)]

pub(crate) mod at_opset;
pub(crate) mod cast;
pub(crate) mod expand;
mod if_;
mod measured;
pub(crate) mod open_shapes;
pub(crate) mod register;
mod stock;
