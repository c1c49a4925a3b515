//! Operators that run a body (`branches` of `If`, `scan` and its `last_state`), follow trees
//! (`tree_ensemble`, `features` and `classes` of them), or draw (`random`).

pub(crate) mod branches;
pub(crate) mod classes;
pub(crate) mod features;
pub(crate) mod last_state;
pub(crate) mod random;
pub(crate) mod scan;
pub(crate) mod tree_ensemble;
