//! What a user of tract holds.

#![forbid(unsafe_code)]

pub(crate) mod loader;
pub(crate) mod model_types;
pub(crate) mod nnef;
pub(crate) mod transform;
