//! Operators that run a body, or follow a tree.

pub(crate) mod branches;
pub(crate) mod scan;
pub(crate) mod tree_ensemble;
