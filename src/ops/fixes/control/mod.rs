//! Operators that run a body, follow a tree, or draw.

pub(crate) mod branches;
pub(crate) mod classes;
pub(crate) mod features;
pub(crate) mod random;
pub(crate) mod scan;
pub(crate) mod tree_ensemble;
