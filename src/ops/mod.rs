//! Operators in tract: ours, and tract's own corrected.
//!
//! - `host`: what any of them needs, and how they come into a loader
//! - `cast`: what `Cast`, `CastLike` and `BitCast` are in tract
//! - `quantize`: what `QuantizeLinear`, `DequantizeLinear` and products with weights of few bits are
//! - `fixes`: what tract computes wrongly, put right

#![forbid(unsafe_code)]

pub(crate) mod cast;
pub(crate) mod fixes;
pub(crate) mod host;
pub(crate) mod quantize;
