//! tract's tensors, holding ONNX elements.
//!
//! - `carrier`: which tensor holds which element type, and its values
//! - `conversion`: casting whole tensors
//! - `core_cast`: where tract's own cast gives the same bits
//! - `proto`: `TensorProto`, read and written
//! - `pool`: where outputs live
//! - `symbolic`: symbolic dimensions as numbers
//! - `parallel`: large casts on the threads that tract has

pub(crate) mod carrier;
pub(crate) mod conversion;
pub(crate) mod core_cast;
pub(crate) mod parallel;
pub(crate) mod pool;
mod pool_strings;
pub mod proto;
pub(crate) mod symbolic;
