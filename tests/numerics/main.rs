//! What a cast makes of elements: against exact vectors, against the scalar form, against what ONNX
//! allows.

#[path = "../common/mod.rs"]
mod common;

mod algebra;
mod core_cast;
mod exhaustive;
mod limits;
mod matrix;
mod quantizers;
mod vectors;
