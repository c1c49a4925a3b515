//! What AVX2 and AVX-512 add to the loops.

pub(super) mod half;
pub(super) mod lookup;
mod round_to_odd;
pub(super) mod stream;
