//! Symbols only on the way to a shape.
//!
//! tract holds what `Shape` and `Size` make as symbolic dimensions, which it needs to know shapes before a model runs, but
//! with which it computes in 32 bits, or not at all. So before anything else is rewritten, each graph is read twice: forwards,
//! for the values that tract can compute symbolically and exactly (`forward`), and backwards, for what they are needed as
//! (`backward`): as symbols where an input decides on a shape, as 64-bit numbers anywhere else. Then dimensions are made
//! numbers where they are needed as such, and nodes that are needed as both are there twice (`emit`).
//!
//! - `bounds`: between which numbers a value lies, since constants must fit the 32 bits that tract gives them among symbols
//! - `data_shapes`: shapes that are only known when the model runs
//! - `plan`: what is found out about values, nodes and graphs

pub(super) mod backward;
pub(super) mod bounds;
pub(super) mod data_shapes;
pub(super) mod emit;
pub(super) mod forward;
pub(super) mod plan;
