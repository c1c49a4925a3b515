//! Operators in tract: ours, and tract's own corrected.

pub(crate) mod at_opset;
pub(crate) mod cast;
pub(crate) mod expand;
pub(crate) mod greater;
pub(crate) mod if_;
pub(crate) mod measured;
pub(crate) mod open_shapes;
pub(crate) mod register;
