//! Operators in tract: ours, and tract's own corrected.
//!
//! - `host`: what any of them needs, and how they come into a loader
//! - `cast`: what `Cast`, `CastLike` and `BitCast` are in tract; what a node asks for is read in
//!   `onnx/cast_spec`
//! - `quantize`: what `QuantizeLinear`, `DequantizeLinear` and products with weights of few bits
//!   are
//! - `weights`: what constant operands of products are that stay in few bits
//! - `fixes`: what tract computes wrongly, put right; what its loader mishandles in a graph is a
//!   rewrite of `passes/legalise`

#![forbid(unsafe_code)]

pub(crate) mod cast;
pub(crate) mod fixes;
pub(crate) mod host;
pub(crate) mod quantize;
pub(crate) mod weights;
