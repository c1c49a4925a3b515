//! How far tensors are apart, whatever their element types.
//!
//! - `pairing`: which outputs belong together; `metrics`: of a pair of tensors; `scores`: of two as
//!   distributions; `weight`: of a pair of weights
//! - `tolerance`: what they are held against; `reach`: what a type can hold; `range`: of a cast's
//!   inputs
//! - `exact`, `value`: an element as it is, and as it is written; `number`: a number in a report
//! - `elements`: some at a time, of a file too; `reals`: many as numbers; `lanes`: many added up

pub(crate) mod elements;
pub(crate) mod exact;
pub(crate) mod lanes;
pub(crate) mod metrics;
pub(crate) mod number;
pub(crate) mod pairing;
pub(crate) mod range;
pub(crate) mod reach;
pub(crate) mod reals;
pub(crate) mod scores;
pub(crate) mod tolerance;
pub(crate) mod value;
pub(crate) mod weight;
