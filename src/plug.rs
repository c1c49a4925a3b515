//! What a user of tract holds.

pub(crate) mod loader;
pub(crate) mod model_types;
pub(crate) mod nnef;
pub(crate) mod transform;
