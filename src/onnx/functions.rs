//! Model-local functions.

pub(crate) mod fields;
mod function;
pub(super) mod inline;
