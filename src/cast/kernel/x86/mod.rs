//! What AVX2 and AVX-512 add to the loops.
//!
//! `half`, `lookup`, `round_to_odd`, `rows`, `select` and `stream` stand beside the loops of these
//! names. `blocks` is what converts some elements at once unless one of them is out of its range:
//! with `bytes`, FLOATs to at most 16 bits, and with `words`, what has 64 bits on either side and
//! what becomes UINT32.

mod blocks;
mod bytes;
pub(super) mod half;
pub(super) mod lookup;
mod round_to_odd;
pub(super) mod rows;
pub(super) mod select;
pub(super) mod stream;
mod words;
