//! What AVX2 and AVX-512 add to the loops.

mod blocks;
mod bytes;
pub(super) mod half;
pub(super) mod lookup;
mod round_to_odd;
pub(super) mod rows;
pub(super) mod select;
pub(super) mod stream;
mod words;
