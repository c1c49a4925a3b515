//! Operators between numbers and their codes.
//!
//! - `inference`: `QuantizeLinear` and `DequantizeLinear` as the loader builds them
//! - `op`: what the op is and computes; `typed` its `TypedOp`
//! - `table`: what stands between two of them
//! - `dynamic`: `DynamicQuantizeLinear`
//! - `n_bits`: products with weights of few bits, `MatMulNBits` and the like
//! - `small`: weights that a `DequantizeLinear` makes and that stay in few bits; `small_weights`:
//!   tract's format for them

pub(crate) mod dynamic;
pub(crate) mod inference;
pub(crate) mod n_bits;
pub(crate) mod op;
mod small;
pub(crate) mod small_weights;
pub(crate) mod table;
mod typed;
