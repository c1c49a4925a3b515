//! Operators of tract's that compute something else than ONNX says, put right (`docs/upstream.md`
//! says of each what is wrong). Some are here for their speed: `Cos`, `GridSample`, `Sin`,
//! `Softmax`, products and convolutions of integers, and norms, which are put together again where
//! our sums stand in the place of those that tract makes one of.
//!
//! - `table`: which they are: a row goes, and its file with it, once tract computes it rightly,
//!   which `tests/models/stock.rs` finds out
//! - `arithmetic`: of integers, and of numbers that tract simplifies; `functions`: of one number;
//!   `extremes`: of two
//! - `rows`: along axes; `reductions`: which of those a node takes
//! - `shapes`: for the shapes of inputs
//! - `places`: what INT64 data says of places and sizes; `control`: bodies and trees
//! - `apart`: what tract's optimiser must not move over; `grounded`: where it could; `products`:
//!   putting it there
//! - `attention`: `Attention` in all of its attributes
//! - `windows`: what slides over an input
//! - `recurrent`: `RNN`, `GRU` and `LSTM`, a whole layer in one operator

pub(crate) mod apart;
pub(crate) mod arithmetic;
pub(crate) mod attention;
pub(crate) mod control;
pub(crate) mod extremes;
pub(crate) mod functions;
pub(crate) mod grounded;
pub(crate) mod places;
pub(crate) mod products;
pub(crate) mod recurrent;
pub(crate) mod reductions;
pub(crate) mod rows;
pub(crate) mod shapes;
pub(crate) mod table;
pub(crate) mod windows;
