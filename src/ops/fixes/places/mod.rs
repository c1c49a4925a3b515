//! Operators that choose elements by their places, or make a shape of data: `expand`, `gathered`
//! (`Gather`, `GatherElements`, `ScatterElements`), `grid_sample`, `indices` (`GatherND`,
//! `ScatterND`), `one_hot`, `pad`, `range`, `slice`, `split`, `squeeze`, `suppression`
//! (`NonMaxSuppression`), `tile`, `top` (`TopK`).

pub(crate) mod expand;
pub(crate) mod gathered;
pub(crate) mod grid_sample;
pub(crate) mod indices;
pub(crate) mod one_hot;
pub(crate) mod pad;
pub(crate) mod range;
pub(crate) mod slice;
pub(crate) mod split;
pub(crate) mod squeeze;
pub(crate) mod suppression;
pub(crate) mod tile;
pub(crate) mod top;
