//! What is known of values: `fact` holds it, `types` infers it and keeps what it has read of nodes
//! (`meaning`), `subgraphs` says what nodes feed their bodies, `value_type` reads what a model
//! declares, `carriers` are values that only move.

#![forbid(unsafe_code)]

pub(crate) mod carriers;
pub(crate) mod fact;
pub(crate) mod meaning;
pub(crate) mod subgraphs;
pub(super) mod types;
pub(crate) mod value_type;
