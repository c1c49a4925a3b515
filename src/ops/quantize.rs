//! The op that is left of a `QuantizeLinear` or `DequantizeLinear` in a typed model.
//!
//! - `inference`: nodes as the loader builds them
//! - `table`: what stands between two of them; `small`: weights that stay in few bits
//! - `op`: what the op is and computes; `typed` what tract asks of it

pub(crate) mod inference;
pub(crate) mod op;
mod small;
pub(crate) mod table;
mod typed;
