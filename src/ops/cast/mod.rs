//! The op that is left of a `Cast` or `CastLike` in a typed model.
//!
//! - `inference`: nodes as the loader builds them
//! - `op`: what the op is and computes; `typed` what tract asks of it
//! - `simplify`: what declutter does: no-ops, constants, casts of casts, less to cast
//! - `round`: to half precision and back in one pass
//! - `bit_cast`: the same of `BitCast`
//! - `fuse`: casts that a matrix product takes into its store

pub(crate) mod bit_cast;
mod fuse;
pub(crate) mod inference;
pub(crate) mod op;
mod round;
mod simplify;
mod typed;
