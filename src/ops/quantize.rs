//! The op that is left of a `QuantizeLinear` or `DequantizeLinear` in a typed model.
//!
//! - `inference`: nodes as the loader builds them
//! - `table`: what stands between two of them
//! - `op`: what the op is and computes; `typed` what tract asks of it

pub(crate) mod inference;
pub(crate) mod op;
pub(crate) mod table;
mod typed;
