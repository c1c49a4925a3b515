//! What a user of tract holds.

#![forbid(unsafe_code)]

pub(crate) mod guard;
pub(crate) mod loaded;
pub(crate) mod loader;
pub mod model_proto;
pub(crate) mod model_types;
pub(crate) mod nnef;
mod nnef_operators;
pub(crate) mod transform;
