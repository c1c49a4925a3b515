//! What becomes of models: rewritten, loaded, optimised, run, written.

#[path = "../common/mod.rs"]
mod common;

mod allowed;
mod as_specified;
mod bit_cast;
mod blocks;
mod circles;
mod contrib;
mod convolutions;
mod declutter;
mod dimensions;
mod elementary;
mod errors;
mod faster;
mod findings;
mod functions;
mod golden;
mod half;
mod honoured;
mod int64;
mod interpreter;
mod known;
mod late;
mod layout;
mod limits;
mod many;
mod n_bits;
mod nnef;
mod node_vectors;
mod operands;
mod operators;
mod operators64;
mod optimiser;
mod plug_in;
mod public_items;
mod pulse;
mod quantizers;
mod ranges;
mod rewrite;
mod scans;
mod shapes;
mod statistics;
mod stock;
mod turns;
mod weight_sizes;
