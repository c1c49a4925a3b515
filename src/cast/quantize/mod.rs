//! `QuantizeLinear` and `DequantizeLinear`: casts with a scale.
//!
//! - `operator`: which types meet in one of them, and how
//! - `scalar`: the definition of both, one element at a time
//! - `layout`: which scale an element has
//! - `parameters`: scales and zero points as the loops read them
//! - `step`: what is computed of an element, its scale and its zero point
//! - `kernel`: the loops, which equal the definition

pub(crate) mod kernel;
pub(crate) mod layout;
pub(crate) mod operator;
pub(crate) mod parameters;
pub(crate) mod scalar;
mod step;

#[cfg(test)]
mod tests;
