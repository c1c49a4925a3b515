//! Random graphs whose every value is known, each written in several ways, through tract as it is
//! released with the plug-in: what comes out is what the model says, or the model is refused.
//!
//! A few thousand run with the other tests. `make graphs GRAPHS=20000 SEED=1` runs others;
//! environment variables:
//!
//! * `GRAPHS`: how many; `SEED`: the first one's seed, the others' follow;
//! * `GRAPHS_NODES=1`: they run node by node, not by a plan;
//! * `GRAPHS_INTO`: a folder for the smallest models that fail; with `GRAPHS_ALL=1`, for every
//!   model;
//! * `GRAPHS_REASONS`: how many reasons of refusals to list; `GRAPHS_REFUSED`: a part of a reason,
//!   to see the smallest models that are refused for it; `GRAPHS_KNOWN=1` shows the smallest models
//!   of each kind that is known to be wrong.

#[path = "../common/mod.rs"]
mod common;

mod build;
mod choices;
mod elementwise;
mod eval;
mod form;
mod graph;
mod known;
mod minimise;
mod moves;
mod random;
mod reduce;
mod run;
mod survey;
mod tensor;

#[test]
fn what_a_model_says_is_what_comes_out() {
    survey::survey();
}
