//! The op that is left of a `QuantizeLinear` or `DequantizeLinear` in a typed model.
//!
//! - `inference`: nodes as the loader builds them
//! - `op`: what the op is and computes; `typed` what tract asks of it

pub(crate) mod inference;
pub(crate) mod op;
mod typed;
