//! Operators of tract's that compute something else than ONNX says, put right (`docs/upstream.md` says of each what is wrong).
//!
//! - `apart`: what tract's optimiser must not move over; `grounded`: where it could; `products`: putting it there
//! - `attention`: `Attention` in all of its attributes
//! - `recurrent`: `RNN`, `GRU` and `LSTM`, a whole layer in one operator
//! - `functions`: of one number; `extremes`: of two; `rows`: along axes; `shapes`: for the shapes of inputs

pub(crate) mod apart;
pub(crate) mod attention;
pub(crate) mod extremes;
pub(crate) mod functions;
pub(crate) mod grounded;
pub(crate) mod products;
pub(crate) mod recurrent;
pub(crate) mod rows;
pub(crate) mod shapes;
