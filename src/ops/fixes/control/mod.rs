//! Operators that run a body (`branches` of `If`, `scan`), follow trees (`tree_ensemble`,
//! `features` and `classes` of them), or draw (`random`).

pub(crate) mod branches;
pub(crate) mod classes;
pub(crate) mod features;
pub(crate) mod random;
pub(crate) mod scan;
pub(crate) mod tree_ensemble;
