//! What a cast is: element types, what their bits mean, and the conversions between them.
//!
//! Nothing here knows tract, tensors or ONNX files, so that these files are also a build unit of
//! their own (`tests/alone`) whose tests compile in seconds.
//!
//! - `element_type`: the list of types; `format` what the floating-point formats are; `rules` the
//!   attributes
//! - `value`: the exact value of an element; `reach` what the elements of a type can be
//! - `scalar`: the definition of every numeric conversion, one element at a time
//! - `decimal`: the numbers that strings spell; `text` strings read and spelled
//! - `quantize`: casts with a scale
//! - `algebra`: which conversions keep every value, and which two are one
//! - `kernel`: the loops, which equal the definition
//! - `squares`: bytes of matrices, turned by words

pub(crate) mod algebra;
pub(crate) mod decimal;
pub(crate) mod element_type;
pub mod format;
pub(crate) mod kernel;
pub(crate) mod quantize;
pub(crate) mod reach;
pub(crate) mod rules;
pub(crate) mod scalar;
pub(crate) mod squares;
pub(crate) mod text;
pub(crate) mod value;
