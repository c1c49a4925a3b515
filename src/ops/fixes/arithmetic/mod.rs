//! Operators that compute on elements.
//!
//! - `binary`, `bit_shift`, `power`, `quotient` (by a `reciprocal` where that is as good),
//!   `remainder`: of two operands
//! - `factors`: which products tract makes others
//! - `reduce`, `extremum`, `sum`: along axes; `product`: `MatMul` and the like
//! - `einsum`, `greater`, `is_nan`: single operators

pub(crate) mod binary;
pub(crate) mod bit_shift;
pub(crate) mod einsum;
pub(crate) mod extremum;
pub(crate) mod factors;
pub(crate) mod greater;
pub(crate) mod is_nan;
pub(crate) mod power;
pub(crate) mod product;
pub(crate) mod quotient;
pub(crate) mod reciprocal;
pub(crate) mod reduce;
pub(crate) mod remainder;
pub(crate) mod sum;
