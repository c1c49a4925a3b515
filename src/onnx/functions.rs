//! Model-local functions.

pub(crate) mod fields;
pub(super) mod inline;
