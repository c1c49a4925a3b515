//! Single operators whose results are known, alone, among movers and in chains, through tract as it
//! is released with the plug-in: what comes out is right, or the model is refused by a line that
//! names a node. The oracles are plain Rust, in DOUBLE where numbers are rounded, and share nothing
//! with tract.
//!
//! - `table`: which operators, and in which versions and types ONNX has them
//! - `functions`, `operands`, `sums`, `products`, `windows`, `samples`, `layers`, `movers`,
//!   `places`: how to draw a node, and what it makes of its inputs
//! - `answer`: a result and how far off it may be; `data`, `draw`, `case`: a case in the making;
//!   `survey`: many of them
//!
//! A few thousand run with the other tests. `make operators N=50000 SEED=1` runs others;
//! environment variables:
//!
//! * `OPERATORS`: how many; `SEED`: the first one's seed, the others' follow; `OPERATOR`: this one
//!   only;
//! * `OPERATORS_INTO`: a folder for the models that fail;
//! * `OPERATORS_TABLE`: a file for how many were right and refused, by operator, and why.

#[path = "../common/mod.rs"]
mod common;

#[path = "../graphs/elementwise.rs"]
mod elementwise;
#[path = "../graphs/eval.rs"]
mod eval;
#[path = "../graphs/form.rs"]
#[allow(dead_code, reason = "one form is not made here")]
mod form;
#[path = "../graphs/graph.rs"]
#[allow(dead_code, reason = "graphs are not made smaller here")]
mod graph;
#[path = "../graphs/moves.rs"]
mod moves;
#[path = "../graphs/random.rs"]
mod random;
#[path = "../graphs/reduce.rs"]
mod reduce;
#[path = "../graphs/tensor.rs"]
#[allow(dead_code, reason = "results here are compared otherwise")]
mod tensor;

mod answer;
mod case;
mod data;
mod draw;
mod functions;
mod layers;
mod movers;
mod operands;
mod places;
mod products;
mod samples;
mod sums;
mod survey;
mod table;
mod windows;

#[test]
fn what_an_operator_says_is_what_comes_out() {
    survey::survey();
}
