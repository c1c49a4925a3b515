//! tract's tensors, holding ONNX elements.
//!
//! - `carrier`: which tensor holds which element type, and its values
//! - `code_table`: bytes looked up; `conversion`: casting whole tensors
//! - `quantization`: the same with scales and zero points
//! - `output`: tensors written by kernels; `memory` what is kept of them; `parallel` the threads
//!   that tract has
//! - `late`: matrices that are not in memory until they are asked for; `dequantized`: those of
//!   codes
//! - `rounding`: rounded in place
//! - `numbers`: the exact values of elements
//! - `core_cast`: where tract's own cast gives the same bits
//! - `proto`: `TensorProto`, read and written
//! - `symbolic`: symbolic dimensions as numbers
//! - `typed`: a tensor with its element type

pub(crate) mod carrier;
pub(crate) mod code_table;
pub(crate) mod conversion;
pub(crate) mod core_cast;
mod dequantized;
pub(crate) mod late;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod output;
mod parallel;
pub mod proto;
pub(crate) mod quantization;
pub(crate) mod rounding;
pub(crate) mod symbolic;
pub(crate) mod typed;
