//! Operators in tract: ours, and tract's own corrected (`docs/upstream.md` says of each what is wrong with tract's).
//!
//! - `cast`: what `Cast` and `CastLike` are in tract
//! - `quantize`: what `QuantizeLinear` and `DequantizeLinear` are
//! - `bit_cast`, `dynamic_quantize`: what their names say
//! - `n_bits`: products with weights of few bits; `small_weights`: those that stay so
//! - `stock`: taking the place of one of tract's; `hook`: doing so for some types only; `register`: which ones
//! - `arithmetic`, `bit_shift`, `power`, `remainder`: of two operands; `reduce`, `extremum`: along axes; `product`: `MatMul` and the like
//! - `slice`, `indices`, `one_hot`, `range`: what INT64 data says of places
//! - `scan`, `if_`, `expand`, `greater`, `is_nan`, `squeeze`, `tree_ensemble`: single operators
//! - `fixes`: what else tract computes wrongly
//! - `element_wise`: what such operators have in common; `integers`: elements of any integer type; `saved`: an operator's
//!   parameters in a file
//! - `at_opset`: nodes of another opset than the model's; `measured` shapes that are numbers when the model runs
//! - `operands`: those that tract reads without a look at their shape
//! - `open_shapes`: shapes that a model leaves open

#![forbid(unsafe_code)]

pub(crate) mod arithmetic;
pub(crate) mod at_opset;
pub(crate) mod bit_cast;
pub(crate) mod bit_shift;
pub(crate) mod cast;
pub(crate) mod dynamic_quantize;
pub(crate) mod element_wise;
pub(crate) mod expand;
pub(crate) mod extremum;
pub(crate) mod fixes;
pub(crate) mod greater;
pub(crate) mod hook;
pub(crate) mod if_;
pub(crate) mod indices;
pub(crate) mod integers;
pub(crate) mod is_nan;
pub(crate) mod measured;
pub(crate) mod n_bits;
pub(crate) mod one_hot;
pub(crate) mod open_shapes;
pub(crate) mod operands;
pub(crate) mod power;
pub(crate) mod product;
pub(crate) mod quantize;
pub(crate) mod range;
pub(crate) mod reduce;
pub(crate) mod register;
pub(crate) mod remainder;
pub(crate) mod saved;
pub(crate) mod scan;
pub(crate) mod slice;
pub(crate) mod small_weights;
pub(crate) mod squeeze;
pub(crate) mod stock;
pub(crate) mod tree_ensemble;
