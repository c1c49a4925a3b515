//! What became of a weight.
//!
//! - `change`: of its values one by one, by the `grid` that they are rounded to, counted in
//!   `outcomes`; `most`: of most of them while they are read
//! - `alike`: of all of them alike
//! - `steps`: how far the scales of codes put values off; `ends`: what lies beyond the least and
//!   the greatest code
//! - `nearest`: codes that are the nearest ones; `compensated`: those that make up for one
//!   another's errors

pub(crate) mod alike;
pub(crate) mod change;
pub(crate) mod compensated;
pub(crate) mod ends;
mod grid;
mod most;
pub(crate) mod nearest;
mod outcomes;
pub(crate) mod steps;
