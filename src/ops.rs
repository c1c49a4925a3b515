//! Operators in tract: ours, and tract's own corrected.

pub(crate) mod arithmetic;
pub(crate) mod at_opset;
pub(crate) mod cast;
pub(crate) mod expand;
pub(crate) mod extremum;
pub(crate) mod hook;
pub(crate) mod if_;
pub(crate) mod indices;
pub(crate) mod integers;
pub(crate) mod one_hot;
pub(crate) mod open_shapes;
pub(crate) mod power;
pub(crate) mod product;
pub(crate) mod range;
pub(crate) mod reduce;
pub(crate) mod register;
pub(crate) mod remainder;
pub(crate) mod saved;
pub(crate) mod scan;
pub(crate) mod slice;
pub(crate) mod stock;
pub(crate) mod tree_ensemble;
