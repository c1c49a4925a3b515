//! Operators of tract's that compute something else than ONNX says, put right (`docs/upstream.md` says of each what is wrong).
//!
//! - `apart`: what tract's optimiser must not move over; `grounded`: where it could; `products`: putting it there
//! - `recurrent`: `RNN`, `GRU` and `LSTM`, a whole layer in one operator

pub(crate) mod apart;
pub(crate) mod grounded;
pub(crate) mod products;
pub(crate) mod recurrent;
